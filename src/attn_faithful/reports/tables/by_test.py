"""Tables of the tests of one model: every number beside its null controls and by predicted class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_faithful.records.scores import ALL, MetricFacts, ScoreRecord
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.sources import (
    UndefinedReasons,
    controls_in,
    is_control,
    mean_beside,
    mean_of,
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
    known = [record for record in records if record.test is not None]
    for of_test in by_key(known, lambda record: record.test).values():
        sites = list(by_key(of_test, lambda record: record.site))
        if len(sites) > 1:
            tables.append(_table_by_site(of_test, metrics, sites, title))
        else:
            tables.append(_table(of_test, metrics, label_names, title))
    return tables


def _table_by_site(records: Sequence[ScoreRecord], metrics: Metrics, sites: Sequence[str], title: str) -> Table:
    """One row a metric and source, one column a site."""
    over_all = [record for record in records if record.group == ALL and metrics[record.metric].shown]
    by_number = by_key(over_all, lambda record: (record.metric, record.source))
    rows = []
    for (metric, source), same in by_number.items():
        by_site = {record.site: record for record in same}
        means = [mean_of(by_site.get(site)) for site in sites]
        facts = metrics[metric]
        rows.append([facts.title, shown(source), *means, _range_of_n(same), speaks(source, facts)])
    used = _used(over_all, metrics)
    notes = _meanings(used)
    notes.append(
        "Means over texts, of each first over its slots; random, uniform: the same with such attention in the model's "
        "place; faithful: which direction speaks for faithful attention. Intervals and classes: summary.json."
    )
    head = ["metric", "source", *sites, "n", "faithful"]
    return Table(f"{_lead(title, used[0])}, by site", head, rows, notes, used[0].test, named=2)


def _range_of_n(records: Sequence[ScoreRecord]) -> str:
    """How many texts the records are over, of several numbers the smallest and the largest."""
    counts = [record.n for record in records]
    least, most = min(counts), max(counts)
    if least == most:
        return f"{least}"
    return f"{least}-{most}"


def _used(records: Sequence[ScoreRecord], metrics: Metrics) -> list[MetricFacts]:
    """The metrics of some records that tables show."""
    names = dict.fromkeys(record.metric for record in records)
    return [metrics[name] for name in names if metrics[name].shown]


def _table(records: Sequence[ScoreRecord], metrics: Metrics, label_names: Sequence[str], title: str) -> Table:
    """One row a metric and source, with the classes and controls beside."""
    by_place = {(record.metric, record.source, record.group): record for record in records}
    classes = list(label_names) if len(label_names) <= _FEW else []
    controls = controls_in([record.source for record in records])
    rows, reasons = [], UndefinedReasons()
    for record in records:
        metric, source = metrics[record.metric], record.source
        if record.group != ALL or is_control(source) or not metric.shown:
            continue
        row = [metric.title, shown(source), _spread(record), interval(record.low, record.high)]
        for name in classes:
            of_class = by_place.get((record.metric, source, name))
            row.append(mean_of(of_class))
        for control in controls:
            beside, other = with_control(source, control), None
            if beside != source:  # where attention has no part in the source, no control has
                other = by_place.get((record.metric, beside, ALL))
            row.append(mean_beside(other, record.n))
        rows.append([*row, str(record.n), str(record.n_undefined), speaks(source, metric)])
        reasons.add(record.reasons)
    bracketed = [f"({control})" for control in controls]
    head = ["metric", "source", "All", "95%", *classes, *bracketed, "n", "undefined", "faithful"]
    used = _used(records, metrics)
    notes = [*_meanings(used), _how_to_read(bracketed), *reasons.notes]
    first = ("All", "95%", "n", "undefined", *bracketed)
    return Table(_lead(title, used[0]), head, rows, notes, used[0].test, first=first)


def _spread(record: ScoreRecord) -> str:
    """Mean and standard deviation over texts."""
    if not record.n:
        return "-"
    return f"{number(record.mean)} ±{number(record.std)}"


def _meanings(metrics: Sequence[MetricFacts]) -> list[str]:
    return [f"{facts.title}: {facts.meaning}." for facts in metrics]


def _how_to_read(controls: Sequence[str]) -> str:
    beside = ""
    if controls:
        named = ", ".join(controls)
        such = "such attention in the model's place, or such a ranking"
        beside = f"{named}: the same with {such}, and its n where it is another; "
    return (
        f"±: standard deviation over texts; []: 95% bootstrap interval of the mean; {beside}faithful: which "
        "direction speaks for faithful attention, of numbers that are about the model's attention."
    )


def _lead(title: str, first: MetricFacts) -> str:
    lead = f"{first.test}: {first.paper}"
    if title:
        return f"{title}, {lead}"
    return lead
