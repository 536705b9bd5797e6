"""Tables of the tests of one model: every number beside its null controls and by predicted class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.sources import (
    CONTROLS,
    UndefinedReasons,
    is_control,
    mean_beside,
    mean_of,
    parts,
    shown,
    speaks,
    with_control,
)
from attn_faithful.reports.tables.table import Table

_FEW = 4  # classes that stand as columns

Metrics = Mapping[str, MetricFacts]


def tables_of_tests(
    records: Sequence[ScoreRecord], metrics: Metrics, label_names: Sequence[str], title: str = ""
) -> list[Table]:
    """One table a test.

    Args:
        records: of one model, or their means over seeds.
        metrics: what their metrics are, by name.
        label_names: of the classes.
        title: what was tested.
    """
    tables = []
    for test in dict.fromkeys(record.test for record in records if record.test is not None):
        of_test = [record for record in records if record.test == test]
        sites = list(dict.fromkeys(record.site for record in of_test))
        if len(sites) > 1:
            tables.append(_table_by_site(of_test, metrics, sites, title))
        else:
            tables.append(_table(of_test, metrics, label_names, title))
    return tables


def _table_by_site(records: Sequence[ScoreRecord], metrics: Metrics, sites: Sequence[str], title: str) -> Table:
    """One row a metric and source, one column a site."""
    by_place = {(r.metric, r.source, r.site): r for r in records if r.group == ALL and metrics[r.metric].shown}
    rows = []
    for metric, source in dict.fromkeys((metric, source) for metric, source, _ in by_place):
        at_sites = [by_place.get((metric, source, site)) for site in sites]
        counts = sorted({record.n for record in at_sites if record is not None})
        n = "-".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        facts = metrics[metric]
        rows.append([facts.title, shown(source), *map(mean_of, at_sites), n, speaks(source, facts)])
    used = [metrics[metric] for metric in dict.fromkeys(metric for metric, _, _ in by_place)]
    notes = _meanings(used)
    notes.append(
        "Means over texts, of each first over its slots; random, uniform: the same with such attention in the model's "
        "place; faithful: which direction speaks for faithful attention. Intervals and classes: summary.json."
    )
    head = ["metric", "source", *sites, "n", "faithful"]
    return Table(f"{_lead(title, used[0])}, by site", head, rows, notes, used[0].test, named=2)


def _table(records: Sequence[ScoreRecord], metrics: Metrics, label_names: Sequence[str], title: str) -> Table:
    """One row a metric and source, with the classes and controls beside."""
    by_place = {(r.metric, r.source, r.group): r for r in records}
    classes = list(label_names) if len(label_names) <= _FEW else []
    controls = [control for control in CONTROLS if any(control in parts(record.source) for record in records)]
    rows, reasons = [], UndefinedReasons()
    for (metric, source, group), record in by_place.items():
        if group != ALL or is_control(source) or not metrics[metric].shown:
            continue
        row = [metrics[metric].title, shown(source), _spread(record), interval(record.low, record.high)]
        row += [mean_of(by_place.get((metric, source, name))) for name in classes]
        for control in controls:
            beside = with_control(source, control)
            # where attention has no part in the source, no control has
            has_control = beside != source
            row.append(mean_beside(by_place.get((metric, beside, ALL)), record.n) if has_control else "-")
        rows.append([*row, str(record.n), str(record.n_undefined), speaks(source, metrics[metric])])
        reasons.add(record.reasons)
    bracketed = [f"({control})" for control in controls]
    head = ["metric", "source", "All", "95%", *classes, *bracketed, "n", "undefined", "faithful"]
    used = [metrics[metric] for metric in dict.fromkeys(record.metric for record in records) if metrics[metric].shown]
    notes = [*_meanings(used), _how_to_read(bracketed), *reasons.notes]
    return Table(_lead(title, used[0]), head, rows, notes, used[0].test)


def _spread(record: ScoreRecord) -> str:
    """Mean and standard deviation over texts."""
    return f"{number(record.mean)} ±{number(record.std)}" if record.n else "-"


def _meanings(metrics: Sequence[MetricFacts]) -> list[str]:
    return [f"{facts.title}: {facts.meaning}." for facts in metrics]


def _how_to_read(controls: Sequence[str]) -> str:
    beside = ""
    if controls:
        named = ", ".join(controls)
        beside = f"{named}: the same with such attention in the model's place, and its n where it is another; "
    return (
        f"±: standard deviation over texts; []: 95% bootstrap interval of the mean; {beside}faithful: which "
        "direction speaks for faithful attention, of numbers that are about the model's attention."
    )


def _lead(title: str, first: MetricFacts) -> str:
    named = f"{title}, " if title else ""
    return f"{named}{first.test}: {first.paper}"
