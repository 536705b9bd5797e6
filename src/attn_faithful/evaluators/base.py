"""Tests: what a test is given (`Block`), and its paper, settings and metrics (`Evaluator`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful._registry import Registry
from attn_faithful._seeds import seed_for
from attn_faithful.evaluators.in_distribution import InDistribution
from attn_faithful.evaluators.rereading import Rereading
from attn_faithful.models.protocol import Encoded
from attn_faithful.records.facts import Fact

# the rankings that are compared by default
RANKED = (
    "attention",
    "attention_gradient",
    "attention_x_gradient",
    "signed_input_x_gradient",
    "signed_leave_one_out",
)
CELLS = 2**22  # attention weights of alternatives that are decoded together


@dataclass(frozen=True)
class MetricSpec:
    """One number of a test, as data: a share or a probability unless its range says otherwise.

    Attributes:
        name: in columns, in tables and on the command line.
        title: in the head of a table.
        meaning: one sentence for a person.
        low, high: its range.
        direction: "lower" or "higher" for which of two values speaks for faithful attention; None where neither does.
        unit: "nats", "probability" or "".
        shown: whether its mean stands in tables.
    """

    name: str
    title: str
    meaning: str
    low: float = 0.0
    high: float = 1.0
    direction: str | None = None
    unit: str = ""
    shown: bool = True


@dataclass(frozen=True)
class Block:
    """Examples that were encoded together, as a test sees them.

    Attributes:
        example: ids, one an example.
        keys: one an example; random choices depend on it. The same text has the same key in any data set.
        seed: of all random choices.
        site: where in the model the attention is.
        encoded: what the model did there; under a control with the control's attention and the logits under it.
        sources: name -> importance of each token (B, T), float64, NaN where nothing is content.
        attention: whose attention `encoded` has: "attention" for the model's own, or the name of a control.
        without: ``without(keep (B, K, T) bool) -> logits (B, K, C)``: the items outside ``keep`` are deleted from the
            text and the model is run again; None where the model cannot.
        masked: the same with the tokenizer's mask token in the place of every token of these items; None where there is
            no such token, or the model reads no ids.
        masking: how the model was trained with masks, see `config.masking`; None where it was not.
        in_distribution: how unusual erased texts are to the model; None where nobody asks.
        labels: gold classes, -1 where unknown, one an example; None where an example has several.
        label: of a multi-label model, the name of the one label that is judged; `encoded` is then that label's, see
            `models.label_view`.
        marked: the items with the marks that the test needs, such as the rationale, (B, T) bool; None where the data
            has none.
        reads_alone: whether the model reads each token alone, so that what is left of a text keeps its states.
        rereading: reads the texts again, as they are or altered; None where nothing but `encoded` is known.
        memory: what a test found that is the same under every control and for every label.
    """

    example: Sequence[str]
    keys: Sequence[str]
    seed: int
    site: str
    encoded: Encoded
    sources: Mapping[str, Tensor] = field(default_factory=dict)
    attention: str = "attention"
    without: Callable[[Tensor], Tensor] | None = None
    masked: Callable[[Tensor], Tensor] | None = None
    masking: str | None = None
    in_distribution: InDistribution | None = None
    labels: Sequence[int] | None = None
    marked: Tensor | None = None
    label: str | None = None
    reads_alone: bool = False
    rereading: Rereading | None = None
    memory: dict[Any, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.example)

    @property
    def items(self) -> Tensor:
        """Items that a test may move and rank, bool (B, S, T): content that attention may reach."""
        return self.encoded.allowed & self.encoded.content[:, None]

    @property
    def is_control(self) -> bool:
        """Whether a control stands in the place of the model's attention."""
        return self.attention != "attention"

    @property
    def chunk_size(self) -> int:
        """How many alternatives to the attention of each example are decoded together."""
        return max(1, CELLS // max(1, self.encoded.attention.numel()))

    def importance(self, name: str) -> Tensor:
        """Importance of each item (B, T) by a source; by "attention" its weight over all slots."""
        values = self.encoded.over_items if name == "attention" else self.sources[name]
        return values.to(self.encoded.content.device)

    def over_slots(self, values: Tensor, empty: float = math.nan) -> Tensor:
        """The mean of values (B, ..., S) over an example's slots that hold an item; ``empty`` where none does."""
        has_item = self.items.any(-1)  # (B, S)
        axes = [1] * (values.dim() - 2)
        has_item = has_item.view(len(has_item), *axes, has_item.shape[1])
        # an empty slot's value may be NaN
        counted = torch.where(has_item, values, torch.zeros_like(values))
        count = has_item.sum(-1)
        return torch.where(count > 0, counted.sum(-1) / count.clamp(min=1), empty)

    def generator(self, row: int, *purpose: object) -> torch.Generator:
        """A generator for one example and purpose, on the CPU, whatever the batch and the order."""
        return torch.Generator().manual_seed(seed_for(self.seed, self.keys[row], *purpose))


def sources_of(settings: Any) -> list[str]:
    """The sources that the rankings of a test's settings need; attention is there already."""
    return [name for name in settings.rankings if name != "attention"]


def check_rankings(rankings: Sequence[str]) -> None:
    """Raise unless rankings are named, each once."""
    if not rankings or len(set(rankings)) != len(rankings):
        raise InputError(f"rankings must name different sources of importance, but is {rankings}.")


def no_sources(settings: Any) -> list[str]:
    """The sources of a test that needs none."""
    return []


@dataclass(frozen=True)
class PublishedTest:
    """A test as its paper describes it.

    Attributes:
        name: for ``--tests`` and the column "test".
        paper: where it comes from, with the section.
        metrics: its rows of the metric table.
    """

    name: str
    paper: str
    metrics: Sequence[MetricSpec]


@dataclass(frozen=True)
class LabelTest:
    """The part of a test that is about the decision: multi-label models are judged label by label.

    Attributes:
        metrics: those of the test that are about the decision.
        run: ``run(block, settings) -> ScoreRows``; the block is that of one label.
    """

    metrics: Sequence[MetricSpec]
    run: Callable[[Block, Any], Any]


@dataclass(frozen=True, kw_only=True)
class Evaluator(PublishedTest):
    """A faithfulness test that is run on one block of examples after another.

    Attributes:
        run: ``run(block, settings) -> ScoreRows``.
        settings: its settings, a dataclass that recipes are checked against.
        sources: ``sources(settings)`` names the sources of importance that it needs.
        facts: ``facts(columns)`` gives results over a whole data set beside means and shares: columns are (site,
            source, metric) -> values and reasons, one an example. None where there are none.
        needs_marks: kind of marks without which it is not defined, "rationale" or "impermissible"; None for none. Other
            tests do not see them.
        needs_labels: whether it reads the gold classes; other tests do not see them.
        under_controls: whether it is also run with null controls in the place of attention.
        by_label: the part for which multi-label models are judged label by label; None where there is none.
        by_default: whether it runs where no test is named.
    """

    run: Callable[[Block, Any], Any]
    settings: type[Any]
    sources: Callable[[Any], Sequence[str]] = no_sources
    facts: Callable[[Mapping[Any, Any]], list[Fact]] | None = None
    needs_marks: str | None = None
    needs_labels: bool = False
    under_controls: bool = True
    by_label: LabelTest | None = None
    by_default: bool = True


EVALUATORS: Registry[Evaluator] = Registry("test")
