"""From finished runs to the groups that tables show: means over seeds, intervals, the spread between bases."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.functional.attefa import bootstrap_attefa
from attn_faithful.records.facts import Fact
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.divergences import jsd_of_lists, tvd
from attn_faithful.reports.groups import BasePairs, Group, OverSeeds, Performance, TwinGroup, TwinOfSeed
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_differences import comparable, tails, told_apart

FOLDER = "folder"  # the axis that tells runs apart which nothing else does
_PERFORMANCE = ("accuracy", "f1", "roc_auc")
_STAGES = ("train", "twin")


def aggregate(runs: Sequence[Run]) -> list[Group]:
    """One group of those runs that differ in nothing but the seed."""
    return [_group(axes, members) for axes, members in _groups(runs)]


def _groups(runs: Sequence[Run]) -> list[tuple[dict[str, str], list[Run]]]:
    """Axes and runs that differ in nothing but seeds. Where a seed stands twice, the folder's name is an axis too."""
    by_axes: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for axes, run in zip(told_apart([run.info for run in runs]), runs, strict=True):
        by_axes[tuple(axes.items())].append(run)
    groups: list[tuple[dict[str, str], list[Run]]] = []
    for key, members in by_axes.items():
        if len({run.seed for run in members}) == len(members):
            groups.append((dict(key), members))
            continue
        for name, run in zip(_folder_names(members), members, strict=True):
            groups.append(({**dict(key), FOLDER: name}, [run]))
    return groups


def _folder_names(runs: Sequence[Run]) -> list[str]:
    names = [run.path.name for run in runs]
    if len(set(names)) == len(names):
        return names
    return tails([str(run.path) for run in runs])


def _group(axes: dict[str, str], runs: list[Run]) -> Group:
    runs = sorted(runs, key=lambda run: run.seed)
    first, summaries = runs[0].info, [run.summary for run in runs]
    metrics: dict[str, MetricFacts] = {}
    for summary in summaries:
        metrics |= summary.metrics
    performance = {name: OverSeeds.of([summary.base.get(name) for summary in summaries]) for name in _PERFORMANCE}
    masses = [summary.informative_mass for summary in summaries]
    return Group(
        axes,
        runs,
        named=first.axes,
        comparable=comparable(first),
        base=Performance(**performance),
        twins=_twins(runs),
        base_pairs=_base_pairs(runs),
        informative_mass=OverSeeds.of([mass for mass in masses if mass is not None]),
        tests=_tests(runs),
        metrics=metrics,
        facts=_facts(runs),
        controls=_controls(runs),
        data=first.data,
        select_on=[stage for stage in _STAGES if _chosen_on_test(runs[0].recipe.get(stage))],
    )


def _chosen_on_test(settings: Mapping[str, Any] | None) -> bool:
    return settings is not None and settings["select_on"] == "test"


def _controls(runs: Sequence[Run]) -> dict[str, OverSeeds]:
    by_name: dict[str, list[float | None]] = defaultdict(list)
    for run in runs:
        for name, performance in run.summary.controls.items():
            by_name[name].append(performance["f1"])
    return {name: OverSeeds.of(by_name[name]) for name in sorted(by_name)}


def _tests(runs: Sequence[Run]) -> list[ScoreRecord]:
    """The records of the tests, each value the mean over seeds, with ``std_seeds`` and ``n`` over all of them."""
    by_place: dict[tuple[Any, ...], list[ScoreRecord]] = defaultdict(list)
    for run in runs:
        for record in run.records:
            by_place[(record.test, *record.place)].append(record)
    return [_over_seeds(records) for records in by_place.values()]


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
    return [replace(fact, source=f"{fact.source}, seed {run.seed}") for run in runs for fact in run.summary.facts]


# twins


@dataclass
class _TwinColumns:
    """What the table of variants holds of the twins of one kind, an array a twin."""

    by_seed: list[TwinOfSeed] = field(default_factory=list)
    tvd: list[np.ndarray] = field(default_factory=list)
    jsd: list[np.ndarray] = field(default_factory=list)
    examples: list[np.ndarray] = field(default_factory=list)


def _twins(runs: Sequence[Run]) -> dict[str, TwinGroup]:
    by_variant: dict[str, _TwinColumns] = defaultdict(_TwinColumns)
    for run in runs:
        if not run.summary.twins:
            continue
        table = run.read("variants", ["example", "variant", "output_tvd", "attention_jsd"])
        examples, names = (np.asarray(table.column(name).to_pylist()) for name in ("example", "variant"))
        tvds, jsds = (_numbers(table.column(name)) for name in ("output_tvd", "attention_jsd"))
        for name, twin in run.summary.twins.items():
            columns = by_variant[twin.variant]
            columns.by_seed.append(TwinOfSeed.of(twin, run.seed))
            columns.tvd.append(tvds[names == name])
            columns.jsd.append(jsds[names == name])
            columns.examples.append(examples[names == name])
    return {variant: _twin_group(variant, columns) for variant, columns in by_variant.items()}


def _twin_group(variant: str, columns: _TwinColumns) -> TwinGroup:
    low, high = bootstrap_attefa(columns.tvd, columns.jsd, examples_by_seed=columns.examples)
    return TwinGroup(
        variant,
        columns.by_seed,
        low,
        high,
        n_examples=int(np.isfinite(columns.jsd[0]).sum()),
        n_undefined_examples=int(np.isnan(columns.jsd[0]).sum()),
    )


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(column.to_pylist(), dtype=float)


def _base_pairs(runs: Sequence[Run]) -> BasePairs:
    """Of every pair of bases that were trained on the same data with different seeds."""
    trained = all(run.info.recipe is not None for run in runs)  # seeds of an evaluation are of one model
    if not trained or len(runs) < 2 or len({run.info.data.fingerprint for run in runs}) > 1:
        return BasePairs()
    attention = [_attention(run) for run in runs]
    pairs = []
    for a, b in itertools.combinations(range(len(runs)), 2):
        if runs[a].ids != runs[b].ids:
            raise InputError("Two runs of one data set hold different examples; remove the older run folder.")
        changed = tvd(runs[a].probabilities, runs[b].probabilities, runs[0].multi_label)
        moved = jsd_of_lists(attention[a], attention[b])
        both = np.isfinite(changed) & np.isfinite(moved)
        pairs.append((_mean(changed[both]), _mean(moved[both])))
    return BasePairs(pairs)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _attention(run: Run) -> list[list[float]]:
    """The attention of each text at the first site, that of the tokens."""
    table = run.read("tokens", ["site", "attention"])
    sites, attention = table.column("site").to_pylist(), table.column("attention").to_pylist()
    return [weights for site, weights in zip(sites, attention, strict=True) if site == sites[0]]
