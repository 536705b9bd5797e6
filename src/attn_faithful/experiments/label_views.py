"""The labels of a multi-label model, each asked by itself: tests about the decision need one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor

from attn_faithful.attributions.base import Attribution, Request, attribute
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest
from attn_faithful.evaluators.erasure_operators import Erase
from attn_faithful.evaluators.rereading import Rereading
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.evaluation_settings import EvaluationSettings, computed
from attn_faithful.models.label_view import Remembered, label_view, no_and_yes


@dataclass
class LabelSources:
    """Importance by label, for the tests that ask each label, and what one label's leaves for the others.

    Attributes:
        by_label: label -> source -> its importance; of the sources that no site changes.
        memory: see `Request`.
    """

    by_label: dict[int, dict[str, Attribution]] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)

    def of(self, label: int, names: Sequence[str], request: Request, at_a_site: Sequence[str]) -> dict[str, Tensor]:
        """Importance for the side of one half on which a label lies."""
        label_request = replace(request, target=None, label=label, memory=self.memory)
        known = self.by_label.setdefault(label, {})
        values = {}
        for name in names:
            attribution = known.get(name)
            if attribution is None:
                attribution = attribute(name, label_request)
            if name not in at_a_site:
                known[name] = attribution
            values[name] = attribution.values  # (B, T)
        return values


def asks_labels(test: str, block: Block) -> bool:
    """Whether a test asks the labels of a block one by one."""
    return block.encoded.multi_label and EVALUATORS[test].by_label is not None


def sources_by_label(settings: EvaluationSettings, tests: Sequence[str]) -> list[str]:
    """The sources that tests which ask each label need."""
    asking = [test for test in tests if EVALUATORS[test].by_label is not None]
    return computed(settings.sources_of(asking))


def ask_labels(
    evaluator: Evaluator, block: Block, settings: Any, names: Sequence[str], sources: Sequence[dict[str, Tensor]]
) -> ScoreRows:
    """What a test says of a multi-label model: of all labels together where it can, else label by label.

    Args:
        evaluator: of which each label can be asked.
        block: of all labels.
        settings: the test's.
        names: of the labels.
        sources: of each label, importance in the place of the block's.
    """
    by_label: LabelTest = evaluator.by_label
    label_metrics = {metric.name for metric in by_label.metrics}
    rows = ScoreRows()
    if any(metric.name not in label_metrics for metric in evaluator.metrics):
        rows.extend(evaluator.run(block, settings).without_metrics(label_metrics))
    decode = Remembered(block.encoded.decode)
    for label, name in enumerate(names):
        label_block = replace(
            block,
            encoded=label_view(block.encoded, label, decode),
            label=name,
            labels=None,
            sources={**block.sources, **sources[label]},
            without=_of_label(block.without, label),
            masked=_of_label(block.masked, label),
            rereading=_answering(block.rereading, label),
        )
        rows.extend(by_label.run(label_block, settings))
    return rows


def _answering(rereading: Rereading | None, label: int) -> Rereading | None:
    """The texts again, for the answers to one label."""
    if rereading is None:
        return None
    return replace(rereading, answers=partial(no_and_yes, label=label))


def _of_label(of_all_labels: Erase | None, label: int) -> Erase | None:
    """What erases items of a block, giving the logits of one label."""
    if of_all_labels is None:
        return None

    def erase(keep: Tensor) -> Tensor:
        return no_and_yes(of_all_labels(keep), label)  # (B, K, 2)

    return erase
