"""Table of the controls of Wiegreffe and Pinter (2019), which stand beside the base: their tables 2 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.reports.groups import Group, Performance, axes_of
from attn_faithful.reports.tables.models import spread
from attn_faithful.reports.tables.table import Table

_BASE = "(base)"
# kind of control, without a twin's variant -> what it is
_NOTES = {
    "uniform": "the base's kind of model with every token weighing the same.",
    "mlp": "an MLP with attention of its own.",
    "imposed_uniform": "an MLP with every token weighing the same.",
    "imposed": "an MLP under the base's attention.",
    "imposed_twin": "an MLP under a twin's attention, a row a kind of twin.",
}


def controls_table(groups: Sequence[Group]) -> Table | None:
    """How well base and controls predict, a row each; None where no group has a control."""
    axes = axes_of(groups)
    rows = []
    kinds: set[str] = set()
    for group in groups:
        for kind, performance in _performances(group):
            numbers = map(spread, (performance.accuracy, performance.f1, performance.roc_auc))
            rows.append([*group.labels(axes), kind, *numbers, str(_trainings(performance))])
            kinds.add(kind.partition(" ")[0])
    if not rows:
        return None
    notes = [f"{kind}: {note}" for kind, note in _NOTES.items() if kind in kinds]
    head = [*axes, "control", "Accuracy", "F1", "ROC-AUC", "Trainings"]
    return Table("Controls of Wiegreffe and Pinter on the test split", head, rows, notes, "wiegreffe_pinter")


def _performances(group: Group) -> Iterator[tuple[str, Performance]]:
    """Base and controls of a group that has any."""
    if group.controls:
        yield _BASE, group.base
    yield from group.controls.items()


def _trainings(performance: Performance) -> int:
    """How many models were trained."""
    return performance.accuracy.n + performance.accuracy.n_undefined
