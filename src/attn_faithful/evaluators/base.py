"""What a test is given and what it gives back, and the metric table: every number with its range and meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attn_faithful._registry import Registry
from attn_faithful._seeds import seed_for
from attn_faithful.models.protocol import Encoded
from attn_faithful.schema import columns


@dataclass(frozen=True)
class MetricSpec:
    """One number of a test, as data.

    Attributes:
        name: in columns, tables and on the command line.
        title: in a table's head.
        meaning: one sentence for a person.
        low, high: its range.
        direction: "lower" or "higher" for which of two values speaks for faithful attention; None where neither does.
        unit: "nats", "probability", "" ...
        shown: whether its mean says enough to stand in a table.
    """

    name: str
    title: str
    meaning: str
    low: float
    high: float
    direction: str | None = None
    unit: str = ""
    shown: bool = True


@dataclass(frozen=True)
class Block:
    """Examples that were encoded together, as a test sees them.

    Attributes:
        example: ids, one an example.
        keys: what random choices are keyed by, one an example: the same text has the same key in any data set.
        seed: of all random choices.
        site: where in the model the attention is.
        encoded: what the model did there; under a control with another attention and the logits that follow from it.
        sources: name -> importance of each token (B, T), float64, NaN where nothing is content.
        attention: what `encoded` holds: "attention" for the model's own, or the name of a control.
        without: ``without(keep (B, K, T) bool) -> logits (B, K, C)``: the items outside ``keep`` deleted from the text
            and the model run again; None where the model cannot.
        labels: gold classes, -1 where unknown, one an example; None where there is no single one.
        label: of a multi-label model, the name of the one label that is asked; `encoded` is then that label's, see
            `models.label_view`.
        rationale: what people marked as the reason, (B, T) bool; None where the data says nothing.
    """

    example: Sequence[str]
    keys: Sequence[str]
    seed: int
    site: str
    encoded: Encoded
    sources: Mapping[str, Tensor] = field(default_factory=dict)
    attention: str = "attention"
    without: Callable[[Tensor], Tensor] | None = None
    labels: Sequence[int] | None = None
    rationale: Tensor | None = None
    label: str | None = None

    def __len__(self) -> int:
        return len(self.example)

    @property
    def items(self) -> Tensor:
        """What a test may move and rank, bool (B, S, T): allowed content."""
        return self.encoded.allowed & self.encoded.content[:, None]

    def importance(self, name: str) -> Tensor:
        """Importance of each item (B, T) by a source; of "attention" its weight over all slots."""
        values = self.encoded.over_items if name == "attention" else self.sources[name]
        return values.to(self.encoded.content.device)

    def over_slots(self, values: Tensor, without: float = math.nan) -> Tensor:
        """The mean of values (B, ..., S) over an example's slots that hold an item; ``without`` where none does."""
        held = self.items.any(-1)  # (B, S)
        held = held.view(len(held), *[1] * (values.dim() - 2), held.shape[1])
        kept = torch.where(held, values, torch.zeros_like(values))  # an empty slot's value may be NaN
        count = held.sum(-1)
        return torch.where(count > 0, kept.sum(-1) / count.clamp(min=1), without)

    def generator(self, row: int, *purpose: object) -> torch.Generator:
        """A generator for one example and purpose, on the CPU, whatever the batch and the order."""
        return torch.Generator().manual_seed(seed_for(self.seed, self.keys[row], *purpose))


def sources_of(settings: Any) -> list[str]:
    """The sources that the rankings of a test's settings need; attention is there already."""
    return [name for name in settings.rankings if name != "attention"]


class ScoreRows:
    """What a test found: rows of the tables "scores" and "variants", as columns."""

    def __init__(self) -> None:
        self.scores: dict[str, list[Any]] = {name: [] for name in columns("scores")}
        self.variants: dict[str, list[Any]] = {name: [] for name in columns("variants")}

    def score(
        self,
        block: Block,
        row: int,
        metric: str,
        value: float,
        reason: str | None = None,
        source: str | None = None,
        slot: int = 0,
    ) -> None:
        """Add one number of one example; a reason goes with NaN and with nothing else."""
        value = float(value)
        entry = {
            "example": block.example[row],
            "site": block.site,
            "slot": slot,
            "source": source or block.attention,
            "label": block.label,
            "metric": metric,
            "value": value,
            "reason": (reason or "undefined") if math.isnan(value) else None,
        }
        for name, values in self.scores.items():
            values.append(entry[name])

    def variant(self, block: Block, row: int, test: str, variant: str, slot: int = 0, **found: Any) -> None:
        """Add one alternative of one example; what was not found is None."""
        entry = {
            "example": block.example[row],
            "site": block.site,
            "slot": slot,
            "test": test,
            "variant": variant,
            "label": block.label,
            **found,
        }
        for name, values in self.variants.items():
            values.append(entry.get(name))

    def handed(self, copies: Mapping[str, Sequence[str]]) -> ScoreRows:
        """The same of all examples that say the same.

        Args:
            copies: example -> the examples in whose name its rows shall stand; none for rows that nobody asked for.
        """
        if all(list(own) == [example] for example, own in copies.items()):
            return self
        found = ScoreRows()
        for mine, theirs in ((found.scores, self.scores), (found.variants, self.variants)):
            named = [(i, own) for i, example in enumerate(theirs["example"]) for own in copies[example]]
            for name, values in mine.items():
                values.extend(theirs[name][i] for i, _ in named)
            mine["example"] = [own for _, own in named]
        return found

    def extend(self, other: ScoreRows) -> None:
        """Add the rows of another."""
        for mine, theirs in ((self.scores, other.scores), (self.variants, other.variants)):
            for name, values in mine.items():
                values.extend(theirs[name])

    def drop(self, metrics: Collection[str]) -> None:
        """Take out the scores of some metrics."""
        kept = [i for i, metric in enumerate(self.scores["metric"]) if metric not in metrics]
        self.scores = {name: [values[i] for i in kept] for name, values in self.scores.items()}


@dataclass(frozen=True)
class Evaluator:
    """One faithfulness test.

    Attributes:
        name: for ``--tests`` and the column "test".
        paper: where it comes from, with the section.
        metrics: its rows of the metric table.
        run: of a test of one model, ``run(block, settings) -> ScoreRows``.
        settings: its settings, a dataclass that recipes are checked against.
        sources: ``sources(settings)`` names the sources of importance that it needs.
        facts: ``facts(columns)`` says what the scores of a data set say together, where that is more than means and
            shares: columns are (site, source, metric) -> values and reasons, an example each.
        marked: whether it says anything only of data in which people marked their reasons; others do not see them.
        labelled: whether it reads the gold classes; others do not see them.
        controlled: whether it is run on null controls in attention's place too.
        by_label: the metrics that are about the decision, of which a multi-label model is asked label by label.
        of_label: of these tests, ``of_label(block, settings) -> ScoreRows`` says them; the block is that of one label.
        twin: whether it compares a model with its twin, on outputs of a whole split, and is not run by the block.
    """

    name: str
    paper: str
    metrics: Sequence[MetricSpec]
    run: Callable[..., Any]
    settings: Any = None
    sources: Callable[[Any], Sequence[str]] = lambda settings: ()
    facts: Callable[[Mapping[Any, Any]], list[dict[str, Any]]] | None = None
    marked: bool = False
    labelled: bool = False
    controlled: bool = True
    by_label: Sequence[MetricSpec] = ()
    of_label: Callable[..., Any] | None = None
    twin: bool = False


EVALUATORS: Registry[Evaluator] = Registry("test")


def metric_table() -> list[MetricSpec]:
    """Every registered metric, in order of registration."""
    return [metric for name in EVALUATORS for metric in EVALUATORS[name].metrics]
