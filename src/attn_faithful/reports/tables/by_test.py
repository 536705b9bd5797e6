"""Tables of the tests of one model: every number beside its null controls and by predicted class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.tables.table import Table, number

ALL = "all"
CONTROLS = ("random", "uniform")
_FEW = 4  # classes that stand as columns

Record = Mapping[str, Any]


def tables_of_tests(
    records: Sequence[Record], metrics: Mapping[str, Record], label_names: Sequence[str], title: str = ""
) -> list[Table]:
    """One table a test.

    Args:
        records: of `experiments.scoring.score_records`, or their means over seeds (with ``std_seeds``).
        metrics: name -> title, meaning, direction, test, paper.
        label_names: of the classes.
        title: what was tested.
    """
    tests = list(dict.fromkeys(r["test"] for r in records if r["test"] is not None))
    found = []
    for test in tests:
        own = [r for r in records if r["test"] == test]
        sites = list(dict.fromkeys(r["site"] for r in own))
        found.append(
            _table_by_site(own, metrics, sites, title) if len(sites) > 1 else _table(own, metrics, label_names, title)
        )
    return found


def _table_by_site(records: Sequence[Record], metrics: Mapping[str, Record], sites: Sequence[str], title: str) -> Table:
    """One row a metric and source, one column a site."""
    found = {(r["metric"], r["source"], r["site"]): r for r in records if r["class"] == ALL}
    rows = []
    for metric, source in dict.fromkeys((metric, source) for metric, source, _ in found if metrics[metric]["shown"]):
        of = [found.get((metric, source, site)) for site in sites]
        counts = sorted({r["n"] for r in of if r is not None})
        rows.append(
            [
                metrics[metric]["title"],
                source.replace("~", " ~ "),
                *map(_mean, of),
                "-".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))),
                speaks(source, metrics[metric]),
            ]
        )
    used = dict.fromkeys(metric for metric, _, _ in found if metrics[metric]["shown"])
    notes = [f"{metrics[m]['title']}: {metrics[m]['meaning']}." for m in used]
    notes.append(
        "Means over texts, of each first over its slots; random, uniform: the same with such attention in the model's "
        "place; faithful: which direction speaks for faithful attention. Intervals and classes: summary.json."
    )
    first = metrics[next(iter(used))]
    lead = f"{title + ', ' if title else ''}{first['test']}: {first['paper']}"
    head = ["metric", "source", *sites, "n", "faithful"]
    return Table(f"{lead}, by site", head, rows, notes, first["test"], named=2)


def _table(records: Sequence[Record], metrics: Mapping[str, Record], label_names: Sequence[str], title: str) -> Table:
    found = {(r["metric"], r["source"], r["class"]): r for r in records}
    classes = list(label_names) if len(label_names) <= _FEW else []
    rows, reasons = [], {}
    for metric, source, name in found:
        if name != ALL or is_control(source) or not metrics[metric]["shown"]:
            continue
        record = found[metric, source, ALL]
        rows.append(
            [
                metrics[metric]["title"],
                source.replace("~", " ~ "),
                spread_over_examples(record),
                interval(record),
                *(_mean(found.get((metric, source, c))) for c in classes),
                *(_beside(found, metric, source, control) for control in CONTROLS),
                str(record["n"]),
                str(record["n_undefined"]),
                speaks(source, metrics[metric]),
            ]
        )
        reasons |= {reason: max(n, reasons.get(reason, 0)) for reason, n in record["reasons"].items()}
    head = ["metric", "source", "All", "95%", *classes, *(f"({c})" for c in CONTROLS), "n", "undefined", "faithful"]
    there = {control for _, source, _ in found for control in CONTROLS if control in _parts(source)}
    empty = {i for i, name in enumerate(head) if name.startswith("(") and name[1:-1] not in there}
    head, *rows = ([x for i, x in enumerate(row) if i not in empty] for row in (head, *rows))
    used = dict.fromkeys(metric for metric, _, _ in found if metrics[metric]["shown"])
    notes = [f"{metrics[m]['title']}: {metrics[m]['meaning']}." for m in used]
    controls = ", ".join(name for name in head if name.startswith("("))
    beside_it = f"{controls}: the same with such attention in the model's place, and its n where it is another; "
    beside_it = beside_it if controls else ""
    notes.append(
        f"±: standard deviation over texts; []: 95% bootstrap interval of the mean; {beside_it}faithful: which "
        "direction speaks for faithful attention, of numbers that are about the model's attention."
    )
    if reasons:
        notes.append("Undefined, left out of the means: " + ", ".join(f"{r} ({n})" for r, n in reasons.items()) + ".")
    first = metrics[next(iter(used))]
    return Table(f"{title + ', ' if title else ''}{first['test']}: {first['paper']}", head, rows, notes, first["test"])


def is_control(source: str) -> bool:
    """Whether a control stands in the source."""
    return any(control in _parts(source) for control in CONTROLS)


def speaks(source: str, about: Record) -> str:
    """Which direction of a number speaks for faithful attention; a dash where neither does.

    Only numbers of the model's own attention, or of a twin, have a direction: those of a control, of a random ranking,
    of another importance or of the smallest set say nothing of attention.

    Args:
        source: of the number.
        about: its metric: direction, test.

    Example:
        >>> speaks("attention", {"direction": "lower", "test": "flips"})
        'down'
        >>> speaks("random_ranking", {"direction": "lower", "test": "flips"})
        '-'
    """
    parts = _parts(source)
    random = any(part.startswith(CONTROLS) for part in parts)
    if about["test"] == "attefa" or ("attention" in parts and not random):
        return arrow(about["direction"])
    return "-"


def _parts(source: str) -> list[str]:
    """The sources that stand in the name of a comparison, such as "a-b~c"."""
    return source.replace("~", "-").split("-")


def _beside(found: Mapping[tuple[str, str, str], Record], metric: str, source: str, control: str) -> str:
    """The same with a control in attention's place, with its n where that is another; a dash where attention has no
    part in it."""
    other = with_control(source, control)
    if other == source:
        return "-"
    own, beside = found[metric, source, ALL], found.get((metric, other, ALL))
    return mean_beside(beside, own["n"])


def mean_beside(record: Record | None, n: int) -> str:
    """A mean that stands beside one over n texts, with its own n where that is another; a dash without a text."""
    shown = _mean(record)
    if record is None or shown == "-" or record["n"] == n:
        return shown
    return f"{shown} ({record['n']})"


def with_control(source: str, control: str) -> str:
    """The source with a control in attention's place."""
    return source.replace("attention", control)


def spread_over_examples(record: Record) -> str:
    """Mean and standard deviation over examples."""
    return f"{number(record['mean'])} ±{number(record['std'])}" if record["n"] else "-"


def interval(record: Record) -> str:
    """The interval of the mean."""
    if record["low"] is None or record["low"] != record["low"]:
        return "-"
    return f"[{number(record['low'])}, {number(record['high'])}]"


def arrow(direction: str | None) -> str:
    """Which direction speaks for faithful attention."""
    return {"higher": "up", "lower": "down"}.get(direction or "", "-")


def _mean(record: Record | None) -> str:
    return "-" if record is None or not record["n"] else number(record["mean"])
