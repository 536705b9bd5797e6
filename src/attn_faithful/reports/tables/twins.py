"""Tables of twins: AtteFa, twins under a limit of TVD, and every twin by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.reports.answer.verdict import TWIN_LINE
from attn_faithful.reports.groups import Group, TwinGroup, TwinOfSeed, axes_of
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.models import select_notes, spread
from attn_faithful.reports.tables.table import Table


def twins_of(groups: Sequence[Group], constrained: bool | None = None) -> Iterator[tuple[Group, TwinGroup]]:
    """The kinds of twins of each group.

    Args:
        groups: the models.
        constrained: whether they were trained under a limit of TVD; None for all.
    """
    for group in groups:
        for twins in group.twins.values():
            if constrained is None or twins.constrained == constrained:
                yield group, twins


def collapsed(twins: TwinGroup) -> str:
    """How many of a variant's twins collapsed, and whether a base is so nearly constant that this says nothing."""
    count = f"{twins.collapsed} of {len(twins.by_seed)}"
    if base_constant(twins):
        count += " (base constant)"
    return count


def base_constant(twins: TwinGroup) -> bool:
    """Whether a base of a variant's twins predicts so nearly the same for every text that its twins say nothing."""
    return any(twin.constant_tvd < TWIN_LINE for twin in twins.by_seed)


def attefa_table(groups: Sequence[Group], title: str = "AtteFa") -> Table | None:
    """Base, twin, distances and AtteFa of every group and variant; None where nothing has a twin."""
    axes = axes_of(groups)
    rows = []
    for group, twins in twins_of(groups, constrained=False):
        rows.append([*group.labels(axes), *_attefa_cells(group, twins)])
    if not rows:
        return None
    head = [*axes, "twin", "Base F1", "Twin F1", "TVD", "const. TVD", "JSD", "AtteFa", "95%", "Collapsed", "N"]
    notes = _attefa_notes(groups) + select_notes(groups)
    return Table(title, head, rows, notes, "attefa", first=("AtteFa", "95%", "Collapsed", "N"))


def _attefa_cells(group: Group, twins: TwinGroup) -> list[str]:
    n = f"{twins.n_examples}"
    if twins.n_undefined_examples:
        n += f" (+{twins.n_undefined_examples})"
    return [
        twins.variant,
        spread(group.base.f1),
        spread(twins.f1),
        spread(twins.tvd),
        number(twins.constant_tvd.mean),
        spread(twins.jsd),
        spread(twins.attefa),
        interval(twins.low, twins.high),
        collapsed(twins),
        n,
    ]


def _attefa_notes(groups: Sequence[Group]) -> list[str]:
    every = [twins for _, twins in twins_of(groups)]
    seeds = max(len(twins.by_seed) for twins in every)
    over = ""
    if seeds > 1:
        over = f"±: standard deviation over {seeds} seeds. "
    notes = [
        "TVD: mean distance of class probabilities between twin and base (0 to 1); JSD: of their attention (nats, up "
        "to 0.693). AtteFa = TVD / (JSD / ln 2), at most 1: near 0, another attention gives the same predictions.",
        "const. TVD: of the best constant prediction. A twin within 10% of it counts as collapsed: it gave up "
        "predicting, and its AtteFa says that no other attention was found that keeps the predictions.",
        f"{over}[]: 95% bootstrap interval over test examples, drawn once for all seeds. (+k): k examples without a "
        "content token, left out.",
    ]
    if any(map(base_constant, every)):
        notes.append(
            f"(base constant): the best constant prediction lies within {TWIN_LINE:g} of the base, which predicts "
            "nearly the same for every text: its twins say nothing."
        )
    return notes


def constrained_table(groups: Sequence[Group]) -> Table | None:
    """The largest JSD at a limited TVD, with the TVD that was reached; None without constrained twins."""
    axes = axes_of(groups)
    rows, notes = [], []
    for group, twins in twins_of(groups, constrained=True):
        limit = twins.variant.removeprefix("constrained-")
        numbers = map(spread, (twins.f1, twins.tvd, twins.jsd, twins.jsd_at_tvd))
        rows.append([*group.labels(axes), limit, *numbers, collapsed(twins)])
        for twin in twins.by_seed:
            if twin.reason:
                notes.append(f"{group.title}, {limit}: {twin.reason}")
    if not rows:
        return None
    head = [*axes, "max TVD", "Twin F1", "TVD on test", "JSD", "JSD at TVD", "Collapsed"]
    title = "Constrained twins: the largest JSD found at a limited TVD"
    return Table(title, head, rows, notes, "constrained_twins", first=("JSD at TVD", "TVD on test", "Collapsed"))


def seeds_table(groups: Sequence[Group]) -> Table | None:
    """Every twin by itself: the tables of the paper's appendix; None without twins."""
    axes = axes_of(groups)
    rows = []
    for group, twins in twins_of(groups):
        names = [*group.labels(axes), twins.variant]
        for twin in twins.by_seed:
            rows.append([*names, *_twin_cells(twin)])
    if not rows:
        return None
    head = [*axes, "twin", "Base seed", "Twin seed", "Epoch", "F1", "TVD", "JSD", "AtteFa", "Collapsed"]
    return Table("Twins by seed", head, rows, name="twins_by_seed")


def _twin_cells(twin: TwinOfSeed) -> list[str]:
    names = [str(twin.base_seed), str(twin.seed), str(twin.epoch)]
    numbers = map(number, (twin.f1, twin.tvd, twin.jsd, twin.attefa))
    return [*names, *numbers, "yes" if twin.collapsed else "no"]
