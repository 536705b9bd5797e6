"""The short table of a run: one row a test, its number with interval and n, and beside it what chance gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.reports.answer.sentences import best_set, twins_of
from attn_faithful.reports.answer.verdict import ENOUGH, constant_base, few
from attn_faithful.reports.examples import first_source, sites_of
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores, same_texts
from attn_faithful.reports.tables.table import Table, number

# test -> its metric, and the sources that stand beside it
_OF_ATTENTION = {
    "permutation": ("attention_permutation", ("random", "uniform")),
    "adversarial": ("adversarial_attention", ("random", "uniform")),
    "erasure": ("comprehensiveness", ("random", "uniform")),
    "entropy": ("importance_entropy", ("saliency", "random")),
    "plausibility": ("plausibility", ("random", "uniform")),
}
_TITLES = {
    "attention_permutation": "median TVD",
    "adversarial_attention": "eps-max JSD",
    "comprehensiveness": "comprehensiveness",
    "importance_entropy": "entropy",
    "plausibility": "AUPRC",
}


@dataclass(frozen=True)
class Headline:
    """The number of one test.

    Attributes:
        test, number: names.
        record: of the summary: mean, low, high, n.
        beside: what stands beside it, in words; "" for nothing.
    """

    test: str
    number: str
    record: Mapping[str, Any]
    beside: str


@dataclass(frozen=True)
class Group:
    """The runs of one model over seeds.

    Attributes:
        axes: label by axis, as other tables have them.
        runs: one a seed.
    """

    axes: Mapping[str, str]
    runs: Sequence[Run]

    @classmethod
    def of(cls, record: Mapping[str, Any], run_of: Callable[[str], Run] = Run) -> Group:
        """That of a record of `aggregate.aggregate`."""
        return cls(record["axes"], [run_of(path) for path in record["runs"]])

    @classmethod
    def of_run(cls, run: Run) -> Group:
        """That of one run alone."""
        return cls(run.axes, [run])


def headline_table(groups: Sequence[Group], twins: bool = True) -> Table | None:
    """One row a test, site and group of runs; None where no test was run.

    Args:
        groups: the numbers are those of each one's first run.
        twins: whether AtteFa has a row, where it has no table of its own.
    """
    axes = list(dict.fromkeys(axis for group in groups for axis in group.axes))
    several = any(len(sites_of(group.runs[0])) > 1 for group in groups)
    rows = []
    for group in groups:
        for site in sites_of(group.runs[0]) or [None]:
            for found in headlines(Scores([group.runs[0]], site)):
                if found.test == "attefa" and not twins:
                    continue
                names = [group.axes.get(axis, "-") for axis in axes] if len(groups) > 1 else []
                rows.append([*names, *([site or "-"] if several else []), *_row(found)])
    if not rows:
        return None
    head = [*(axes if len(groups) > 1 else []), *(["site"] if several else []), "test", "number"]
    notes = ["[]: 95% bootstrap interval over texts. Beside it: the same number of what is named, over the same texts."]
    if any(few(len(group.runs[0].examples)) for group in groups):
        notes.append(f"(few): few texts, below {ENOUGH}.")
    if any(len(group.runs) > 1 for group in groups):
        notes.append("Of several seeds the first.")
    return Table("The tests in short", [*head, "Value", "95%", "N", "Beside it"], rows, notes, "headlines")


def _row(found: Headline) -> list[str]:
    record = found.record
    n = record["n"]
    interval = "-"
    if n > 1 and record["low"] is not None and record["low"] == record["low"]:
        interval = f"[{number(record['low'])}, {number(record['high'])}]"
    mark = " (few)" if few(n) else ""
    return [found.test, found.number, number(record["mean"]), interval, f"{n:,}{mark}", found.beside or "-"]


def headlines(scores: Scores) -> Iterator[Headline]:
    """The number of each test that ran at a site."""
    source = first_source(scores.run, scores.site)
    if source is not None and (record := scores.record("attention_correlation", f"attention~{source}")) is not None:
        pair = f"attention~{source}"
        others = [(f"random~{source}", "random"), (f"uniform~{source}", "uniform")]
        beside = _beside(scores, "attention_correlation", pair, others)
        yield Headline("correlation", f"tau with {title_of(source)}", record, beside)
    for test, (metric, sources) in _OF_ATTENTION.items():
        record = scores.record(metric)
        if record is not None:
            named = [(name, title_of(name) if name == "saliency" else name) for name in sources]
            yield Headline(test, _TITLES[metric], record, _beside(scores, metric, "attention", named))
    record = scores.record("decision_flip")
    if record is not None:
        best = best_set(scores)
        others = [("random_ranking", "random"), *([] if best is None else [(best, best.replace("_", " "))])]
        yield Headline("flips", "fraction removed", record, _beside(scores, "decision_flip", "attention", others))
    for twin in twins_of(scores)[:1]:
        mark = " (collapsed)" if twin["collapsed"]["value"] else ""
        mark = " (base constant)" if constant_base(twin) else mark
        ratio = {**twin["attefa"], "mean": twin["attefa"]["value"]}
        constant = (twin.get("constant_tvd") or {}).get("value")
        yield Headline("attefa", f"AtteFa{mark}", ratio, f"TVD of a constant {number(constant)}" if constant else "")


def _beside(scores: Scores, metric: str, source: str, others: Sequence[tuple[str, str]]) -> str:
    """The same number of other sources, over the texts where both are defined; their n where these are not all."""
    values = scores.values(metric, source)
    n = int(np.isfinite(values).sum())
    parts = []
    for other, name in others:
        both = same_texts(values, scores.values(metric, other))
        if both.n == n and n:
            parts.append(f"{name} {number(both.second)}")
        elif both.n:
            parts.append(f"{name} {number(both.second)} for {number(both.first)} (n {both.n:,})")
    return ", ".join(parts)
