"""Table of the controls of Wiegreffe and Pinter (2019), which stand beside the base: their tables 2 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.reports.control_differences import BASE, F1Difference
from attn_faithful.reports.groups import Group, Performance, axes_of
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.models import spread
from attn_faithful.reports.tables.table import Table

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
            difference = _difference_cells(group.control_differences.get(kind))
            rows.append([*group.labels(axes), kind, *numbers, *difference, str(_trainings(performance))])
            kinds.add(kind.partition(" ")[0])
    if not rows:
        return None
    notes = [f"{kind}: {note}" for kind, note in _NOTES.items() if kind in kinds]
    notes.append(
        'F1 difference: less the F1 of what stands under "Compared with"; []: 95% bootstrap interval over texts, drawn '
        "once for all models of all seeds."
    )
    head = [*axes, "control", "Accuracy", "F1", "ROC-AUC", "Compared with", "F1 difference", "95%", "Trainings"]
    first = ("F1", "Compared with", "F1 difference", "95%")
    title = "Controls of Wiegreffe and Pinter on the test split"
    return Table(title, head, rows, notes, "wiegreffe_pinter", first=first)


def _difference_cells(difference: F1Difference | None) -> list[str]:
    if difference is None:
        return ["-", "-", "-"]
    return [difference.reference, number(difference.value), interval(difference.low, difference.high)]


def _performances(group: Group) -> Iterator[tuple[str, Performance]]:
    """Base and controls of a group that has any."""
    if group.controls:
        yield BASE, group.base
    yield from group.controls.items()


def _trainings(performance: Performance) -> int:
    """How many models were trained."""
    return performance.accuracy.n + performance.accuracy.n_undefined
