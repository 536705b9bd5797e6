"""ROAR over seeds, for tables and figures: performance at each share of masked tokens, and the area between curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attn_faithful.functional.roar import racu, seed_interval
from attn_faithful.records.roar import ALL, PLAIN, RANDOM, RECURSIVE, RoarPoint
from attn_faithful.reports.groups import SeedRuns

METRICS = ("accuracy", "roc_auc", "f1")
MODES = {PLAIN: "ROAR", RECURSIVE: "recursive ROAR"}

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SeedMean:
    """Numbers of several seeds with the interval of their mean.

    Attributes:
        values: (seeds,), NaN where undefined.
        mean: NaN where all are.
        low, high: the 95% interval by Student's t; NaN for fewer than two.
    """

    values: Array
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> SeedMean:
        known = values[~np.isnan(values)]
        mean = float(known.mean()) if len(known) else math.nan
        low, high = seed_interval(known.tolist())
        return cls(values, mean, low, high)


@dataclass(frozen=True)
class RoarCurve:
    """How well models predict that were trained on texts masked along one source.

    Attributes:
        source: of importance; `RANDOM` for masks by chance.
        mode: `PLAIN` or `RECURSIVE`.
        shares: (K,), of the tokens that are masked, the last one 1.
        by_metric: metric -> (seeds, K), NaN where no model was trained.
        random: the same of masks by chance.
    """

    source: str
    mode: str
    shares: Sequence[float]
    by_metric: Mapping[str, Array]
    random: Mapping[str, Array]

    def at(self, metric: str) -> list[SeedMean]:
        """A metric at each share."""
        return [SeedMean.of(column) for column in self.by_metric[metric].T]

    def is_costless(self, metric: str) -> bool:
        """Whether for a seed masks along this source cost no performance, up to all tokens."""
        lost = self.by_metric[metric] - self.by_metric[metric][:, -1:]  # (seeds, K)
        return bool((np.trapezoid(lost, self.shares, axis=1) <= 0).any())

    def racu(self, metric: str) -> SeedMean:
        """The area between this curve and that of random masks, each seed with its own, see `functional.roar.racu`."""
        values = []
        for own, random in zip(self.by_metric[metric], self.random[metric], strict=True):
            values.append(racu(self.shares, random, own))
        return SeedMean.of(np.asarray(values))


@dataclass(frozen=True)
class RoarGrid:
    """The curves of one model over one grid of shares.

    Attributes:
        name: of the grid.
        curves: that of random masks first, of each source the plain one before the recursive one.
        n_undefined: source -> texts without a defined importance, the most of any model.
        n: test texts of each model.
    """

    name: str
    curves: Sequence[RoarCurve]
    n_undefined: Mapping[str, int]
    n: int


def roar_grids(group: SeedRuns) -> list[RoarGrid]:
    """The curves of a model over its seeds, one entry a grid of shares; empty where there are none.

    Args:
        group: runs that differ in nothing but the seed.
    """
    names = sorted({name for run in group.runs for name in run.roar})
    return [_grid(name, [run.roar.get(name, []) for run in group.runs]) for name in names]


def _grid(name: str, by_seed: Sequence[Sequence[RoarPoint]]) -> RoarGrid:
    every = [point for points in by_seed for point in points]
    shares = sorted({point.share for point in every} | {1.0})
    sources = dict.fromkeys([RANDOM, *(point.source for point in every)])
    sources.pop(ALL, None)
    random = _values(by_seed, RANDOM, PLAIN, shares)
    curves = []
    n_undefined = {}
    for source in sources:
        of_source = [point for point in every if point.source == source]
        n_undefined[source] = max((point.n_undefined for point in of_source), default=0)
        for mode in MODES:
            if any(point.mode == mode for point in of_source):
                curves.append(RoarCurve(source, mode, shares, _values(by_seed, source, mode, shares), random))
    return RoarGrid(name, curves, n_undefined, every[0].n)


def _values(
    by_seed: Sequence[Sequence[RoarPoint]], source: str, mode: str, shares: Sequence[float]
) -> dict[str, Array]:
    """Each metric (seeds, K) of a curve.

    At the first share a recursive curve has the model of the plain one, and at the last every curve has the one model
    of texts that are masked altogether.
    """
    values = {metric: np.full((len(by_seed), len(shares)), math.nan) for metric in METRICS}
    for seed, points in enumerate(by_seed):
        for point in points:
            is_last = point.source == ALL
            is_own = point.source == source and point.mode == mode
            is_first = point.source == source and point.share == shares[0]
            if is_last or is_own or is_first:
                for metric in METRICS:
                    values[metric][seed, shares.index(point.share)] = point.metrics.get(metric, math.nan)
    return values


def roar_records(group: SeedRuns) -> list[dict[str, Any]]:
    """Each curve with its area by each metric as plain values, as `attn_faithful.run_recipe` returns them.

    Args:
        group: runs that differ in nothing but the seed.
    """
    records = []
    for grid in roar_grids(group):
        for curve in grid.curves:
            areas = {metric: curve.racu(metric) for metric in METRICS}
            records.append(
                {
                    "grid": grid.name,
                    "source": curve.source,
                    "mode": curve.mode,
                    "shares": list(curve.shares),
                    "performance": {metric: values.tolist() for metric, values in curve.by_metric.items()},
                    "racu": {metric: _as_record(area) for metric, area in areas.items()},
                }
            )
    return records


def _as_record(number: SeedMean) -> dict[str, Any]:
    return {"by_seed": number.values.tolist(), "mean": number.mean, "low": number.low, "high": number.high}
