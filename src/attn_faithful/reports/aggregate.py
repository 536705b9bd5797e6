"""From finished runs to the groups that tables show: means over seeds, intervals, the spread between bases."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.functional.attefa import bootstrap_attefa
from attn_faithful.functional.resampling import bootstrap_mean
from attn_faithful.records.facts import Fact
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.control_differences import f1_differences
from attn_faithful.reports.data_labels import tails
from attn_faithful.reports.divergences import jsd_of_lists, tvd
from attn_faithful.reports.groups import BasePairs, Group, OverSeeds, Performance, TwinGroup, TwinOfSeed
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_differences import comparable, told_apart

FOLDER = "folder"  # the axis that tells runs apart which nothing else does
_STAGES = ("train", "twin")


def aggregate(runs: Sequence[Run]) -> list[Group]:
    """One group of those runs that differ in nothing but the seed."""
    return [_group(axes, members) for axes, members in _members(runs)]


def _members(runs: Sequence[Run]) -> Iterator[tuple[dict[str, str], list[Run]]]:
    """Axes and runs that differ in nothing but seeds. Where a seed stands twice, the folder's name is an axis too."""
    axes = told_apart([run.info for run in runs])
    by_axes = by_key(range(len(runs)), lambda i: tuple(axes[i].items()))
    for places in by_axes.values():
        members = [runs[i] for i in places]
        seeds = {run.seed for run in members}
        if len(seeds) == len(members):
            yield axes[places[0]], members
            continue
        for i, folder in zip(places, _folder_names(members), strict=True):
            yield {**axes[i], FOLDER: folder}, [runs[i]]


def _folder_names(runs: Sequence[Run]) -> list[str]:
    names = [run.path.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return tails([str(run.path) for run in runs])


def _group(axes: dict[str, str], runs: list[Run]) -> Group:
    runs = sorted(runs, key=lambda run: run.seed)
    first = runs[0].info
    metrics: dict[str, MetricFacts] = {}
    planted_masses: list[float] = []
    for run in runs:
        metrics |= run.metrics
        if run.summary.informative_mass is not None:
            planted_masses.append(run.summary.informative_mass)
    return Group(
        axes,
        runs,
        named=first.axes,
        comparable=comparable(first),
        base=_performance([run.summary.base for run in runs]),
        twins=_twins(runs),
        base_pairs=_base_pairs(runs),
        informative_mass=OverSeeds.of(planted_masses),
        tests=_tests(runs),
        metrics=metrics,
        facts=_facts(runs),
        controls=_controls(runs),
        control_differences=f1_differences(runs),
        data=first.data,
        select_on=_chosen_on_test(runs[0].recipe),
    )


def _chosen_on_test(recipe: Mapping[str, Any]) -> list[str]:
    """The stages of a recipe whose epoch is chosen on test data."""
    stages = []
    for stage in _STAGES:
        settings = recipe.get(stage)
        if settings is not None and settings["select_on"] == "test":
            stages.append(stage)
    return stages


def _performance(metrics: Sequence[Mapping[str, Any]]) -> Performance:
    """Over models, of whose metrics there is a mapping each."""
    numbers = {}
    for name in ("accuracy", "f1", "roc_auc"):
        numbers[name] = OverSeeds.of([of_model.get(name) for of_model in metrics])
    return Performance(**numbers)


def _controls(runs: Sequence[Run]) -> dict[str, Performance]:
    """How well each kind of control predicts, in the order of training."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        for control in run.summary.controls.values():
            by_kind.setdefault(control.kind, []).append(control.metrics)
    return {kind: _performance(metrics) for kind, metrics in by_kind.items()}


def _tests(runs: Sequence[Run]) -> list[ScoreRecord]:
    """The records of the tests, each value the mean over seeds, with ``std_seeds`` and ``n`` over all of them."""
    records = itertools.chain.from_iterable(run.records for run in runs)
    by_place = by_key(records, lambda record: (record.test, record.place))
    return [_over_seeds(same) for same in by_place.values()]


def _over_seeds(records: Sequence[ScoreRecord]) -> ScoreRecord:
    reasons: Counter[str] = Counter()
    for record in records:
        reasons.update(record.reasons)
    mean = OverSeeds.of([record.mean for record in records])
    return replace(
        records[0],
        mean=mean.mean,
        std=OverSeeds.of([record.std for record in records]).mean,
        low=OverSeeds.of([record.low for record in records]).mean,
        high=OverSeeds.of([record.high for record in records]).mean,
        n=sum(record.n for record in records),
        n_undefined=sum(record.n_undefined for record in records),
        reasons=dict(reasons),
        std_seeds=mean.std,
        n_seeds=mean.n,
    )


def _facts(runs: Sequence[Run]) -> list[Fact]:
    """What tests say beside means, with the seed behind the source where there are several."""
    if len(runs) == 1:
        return list(runs[0].summary.facts)
    facts: list[Fact] = []
    for run in runs:
        for fact in run.summary.facts:
            facts.append(replace(fact, source=f"{fact.source}, seed {run.seed}"))
    return facts


# twins


@dataclass
class _TwinColumns:
    """What the tables of variants hold of the twins of one kind, an array a twin."""

    by_seed: list[TwinOfSeed] = field(default_factory=list)
    tvd: list[np.ndarray] = field(default_factory=list)
    jsd: list[np.ndarray] = field(default_factory=list)
    examples: list[np.ndarray] = field(default_factory=list)

    def group(self, variant: str) -> TwinGroup:
        low, high = bootstrap_attefa(self.tvd, self.jsd, examples_by_seed=self.examples)
        first = self.jsd[0]  # (B,)
        defined = int(np.isfinite(first).sum())
        undefined = int(np.isnan(first).sum())
        return TwinGroup(variant, self.by_seed, low, high, defined, undefined)


def _twins(runs: Sequence[Run]) -> dict[str, TwinGroup]:
    """The twins by kind."""
    by_variant: dict[str, _TwinColumns] = {}
    for run in runs:
        if not run.summary.twins:
            continue
        table = run.read("variants", ["example", "variant", "output_tvd", "attention_jsd"])
        examples = np.asarray(table.column("example").to_pylist())
        names = np.asarray(table.column("variant").to_pylist())
        tvds, jsds = _numbers(table, "output_tvd"), _numbers(table, "attention_jsd")
        for name, twin in run.summary.twins.items():
            rows = names == name
            columns = by_variant.setdefault(twin.variant, _TwinColumns())
            columns.by_seed.append(TwinOfSeed.of(twin, run.seed))
            columns.tvd.append(tvds[rows])
            columns.jsd.append(jsds[rows])
            columns.examples.append(examples[rows])
    return {variant: columns.group(variant) for variant, columns in by_variant.items()}


def _numbers(table: Any, column: str) -> np.ndarray:
    return np.asarray(table.column(column).to_pylist(), dtype=float)


def _base_pairs(runs: Sequence[Run]) -> BasePairs:
    """Of every pair of bases that were trained on the same data with different seeds."""
    trained = all(run.info.recipe is not None for run in runs)  # seeds of an evaluation are of one model
    data_sets = {run.info.data.fingerprint for run in runs}
    if not trained or len(runs) < 2 or len(data_sets) > 1:
        return BasePairs()
    bases = [(run, _attention(run)) for run in runs]
    tvds, jsds = [], []
    for a, b in itertools.combinations(bases, 2):
        changed, moved = _distances(*a, *b)
        tvds.append(changed)
        jsds.append(moved)
    defined = np.isfinite(tvds).any(0)  # (B,)
    return BasePairs(
        pairs=[(_mean(changed), _mean(moved)) for changed, moved in zip(tvds, jsds, strict=True)],
        tvd_interval=bootstrap_mean(tvds),
        jsd_interval=bootstrap_mean(jsds),
        n_examples=int(defined.sum()),
    )


def _distances(
    a: Run, attention_of_a: list[list[float]], b: Run, attention_of_b: list[list[float]]
) -> tuple[np.ndarray, np.ndarray]:
    """TVD of two bases' predictions and JSD of their attention on each text (B,), NaN where either is undefined."""
    if a.ids != b.ids:
        raise InputError("Two runs of one data set hold different examples; remove the older run folder.")
    changed = tvd(a.probabilities, b.probabilities, a.multi_label)  # (B,)
    moved = jsd_of_lists(attention_of_a, attention_of_b)  # (B,)
    both = np.isfinite(changed) & np.isfinite(moved)
    return np.where(both, changed, math.nan), np.where(both, moved, math.nan)


def _mean(values: np.ndarray) -> float:
    """Over those that are defined."""
    defined = values[np.isfinite(values)]
    if not len(defined):
        return math.nan
    return float(defined.mean())


def _attention(run: Run) -> list[list[float]]:
    """The attention of each text at the first site, that of the tokens."""
    table = run.read("tokens", ["site", "attention"])
    sites = table.column("site").to_pylist()
    attention = []
    for site, weights in zip(sites, table.column("attention").to_pylist(), strict=True):
        if site == sites[0]:
            attention.append(weights)
    return attention
