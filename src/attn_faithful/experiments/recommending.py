"""Which source of importance may be shown, from the scores of every text: the rule, and what speaks for each source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_faithful.evaluators.erasure_operators import OPERATORS
from attn_faithful.experiments.collecting import Key, Parts, ScoreColumns, keys_of
from attn_faithful.functional.summaries import holm, paired, summarize, wilson
from attn_faithful.records.recommendation import (
    CHANCE,
    CONTROLS,
    ORDER,
    POLARITY,
    STABILITY,
    UNMEASURED,
    Criterion,
    RankedSource,
    Recommendation,
)

REMOVAL, DELETION, MASKS = "naopc_removal", "naopc", "naopc_mask"  # the metrics that sources are ranked by
# operator -> the metric of how many erased texts are unusual to the model
_OUTSIDE = {operator.name: operator.outside.name for operator in OPERATORS.values()}
_EXACT_SET = "smallest_set"  # a source that test flips has where the read-out is affine, and what it finds exact
GIVEN = "given"  # importance of a file, which nothing tells of an altered text

# what a source has to pass; conventions, stated for readers in docs/reading.md
ORDER_LINE = 0.75  # NAOPC
POLARITY_LINE = 0.25  # share of the texts
STABILITY_LINE = 0.5  # tau-b
SIGNIFICANT = 0.05
OUTSIDE_LINE = 0.1  # share of the erased texts that are unusual to the model, twice what chance gives
ENOUGH = 30  # texts
LINES = {
    "order": ORDER_LINE,
    "polarity": POLARITY_LINE,
    "stability": STABILITY_LINE,
    "outside": OUTSIDE_LINE,
    "texts": float(ENOUGH),
}

_POLARITY = ("polarity_violation", "polarity_violation_removal")  # by removal where nothing can be deleted
_EQUAL = 2  # decimals in which numbers are compared, before the next one decides


@dataclass(frozen=True)
class _Site:
    """One site where orders of items were compared.

    Attributes:
        name: of the site.
        measure: the metric that orders are compared by.
        keys: of the scores there.
        columns: those that count.
        outside: "delete" and "mask" -> share of the erased texts that are unusual to the model, where it is known.
    """

    name: str
    measure: str
    keys: Sequence[Key]
    columns: ScoreColumns
    outside: Mapping[str, float]

    @property
    def sources(self) -> list[str]:
        """Those that have a number, in the order in which they were tested."""
        return [key.source for key in self.keys if key.metric == self.measure]

    def values(self, source: str, *metrics: str) -> np.ndarray | None:
        """The first of some metrics that a source has, of every text (n,), NaN where undefined; None without any."""
        for metric in metrics:
            key = Key(self.name, source, metric)
            if key in self.keys:
                return self.columns.values(key)
        return None


def recommendations(parts: Callable[[], Parts], examples: Sequence[str]) -> list[Recommendation]:
    """What may be shown at each site where orders of items were compared.

    Sources are ranked by NAOPC, see `_measure`; where two agree in it to two decimals by the share of texts that they
    flip with the fewest items, then by polarity, then by stability, then by the order in which they were tested. The
    first that passes every line is recommended: the interval of its NAOPC above `ORDER_LINE`, its paired difference
    from random orders above 0 (Wilcoxon, Holm), and where they were measured the interval of its polarity violation
    below `POLARITY_LINE` and that of its stability above `STABILITY_LINE`. Below `ENOUGH` texts nothing is.

    Args:
        parts: of the table "scores", as often as it is called.
        examples: every example of the split.
    """
    keys = keys_of(parts())
    found = []
    for name in dict.fromkeys(key.site for key in keys):
        site = _site(name, [key for key in keys if key.site == name], parts, examples)
        if site is not None:
            found.append(_recommendation(site))
    return found


def _site(name: str, keys: Sequence[Key], parts: Callable[[], Parts], examples: Sequence[str]) -> _Site | None:
    """The scores of a site, with the columns that count; None where no orders were compared."""
    metrics = {key.metric for key in keys}
    if not metrics & {REMOVAL, DELETION, MASKS}:
        return None
    counted = (REMOVAL, DELETION, MASKS, *_OUTSIDE.values(), "flip_optimal", *_POLARITY, "stability_tau")
    of_counted = [key for key in keys if key.metric in counted]
    columns = ScoreColumns(of_counted, examples)
    for part in parts():
        columns.add(part)
    outside = _outside(of_counted, columns)
    return _Site(name, _measure(keys, outside), of_counted, columns, outside)


def _outside(keys: Sequence[Key], columns: ScoreColumns) -> dict[str, float]:
    """The share of the erased texts of all rankings but controls that are unusual to the model, by operator."""
    outside = {}
    for operator, metric in _OUTSIDE.items():
        of_rankings = [key for key in keys if key.metric == metric and key.source not in CONTROLS]
        shares = [_mean(columns.values(key)) for key in of_rankings]
        if shares and not math.isnan(shares[0]):
            outside[operator] = float(np.nanmean(shares))
    return outside


def _measure(keys: Sequence[Key], outside: Mapping[str, float]) -> str:
    """The metric that orders are compared by, of those that were measured.

    Removal from the attention where it is exact, or alone; else masks where their texts are in distribution and
    shortened ones are not; else deletion.
    """
    metrics = {key.metric for key in keys}
    sources = {key.source for key in keys}
    if REMOVAL in metrics and (_EXACT_SET in sources or not {DELETION, MASKS} & metrics):
        return REMOVAL
    if MASKS in metrics and (DELETION not in metrics or _prefers_masks(outside)):
        return MASKS
    return DELETION


def _prefers_masks(outside: Mapping[str, float]) -> bool:
    """Whether masked texts are in distribution and shortened ones are not."""
    masked, deleted = outside.get("mask", math.nan), outside.get("delete", math.nan)
    return masked <= OUTSIDE_LINE < deleted


def _recommendation(site: _Site) -> Recommendation:
    random_order = _random_order(site)
    ranked = [_source(site, name, random_order) for name in site.sources]
    candidates = [source for source in ranked if not source.is_control]
    controls = [source for source in ranked if source.is_control]
    candidates.sort(key=_place)
    candidates = _tested(site, candidates, random_order)
    shown = None
    n = candidates[0].naopc.n if candidates else 0
    if n >= ENOUGH:
        passing = [source.source for source in candidates if not source.fails]
        shown = passing[0] if passing else None
    return Recommendation(site.name, site.measure, shown, n, [*candidates, *controls], LINES, site.outside)


def _random_order(site: _Site) -> np.ndarray | None:
    """NAOPC of random orders (n,); None where none were drawn."""
    for name in CONTROLS:
        values = site.values(name, site.measure)
        if values is not None:
            return values
    return None


def _source(site: _Site, name: str, random_order: np.ndarray | None) -> RankedSource:
    """What speaks for a source, without the tests."""
    naopc = site.values(name, site.measure)
    above = math.nan
    if random_order is not None and name not in CONTROLS:
        above = _mean(naopc - random_order)
    return RankedSource(
        source=name,
        naopc=_criterion(naopc),
        optimal=_share(site.values(name, "flip_optimal")),
        polarity=_share(site.values(name, *_POLARITY)),
        stability=_criterion(site.values(name, "stability_tau")),
        above_random=above,
    )


def _place(source: RankedSource) -> tuple[float, ...]:
    """What sources are sorted by: the best first, what is undefined last."""
    numbers = (-source.naopc.mean, -source.optimal.mean, source.polarity.mean, -source.stability.mean)
    return tuple(math.inf if math.isnan(number) else round(number, _EQUAL) for number in numbers)


def _tested(site: _Site, candidates: Sequence[RankedSource], random_order: np.ndarray | None) -> list[RankedSource]:
    """The sources with the p-values of all paired tests, and with what they fail by."""
    columns = [site.values(source.source, site.measure) for source in candidates]
    against_random = [math.nan] * len(candidates)
    if random_order is not None:
        against_random = [_p(column - random_order) for column in columns]
    # the best one is not compared with itself
    against_best = [_p(columns[0] - column) for column in columns[1:]]
    corrected = holm([*against_random, *against_best])
    p_random, p_best = corrected[: len(candidates)], [math.nan, *corrected[len(candidates) :]]
    tested = []
    for source, of_random, of_best in zip(candidates, p_random, p_best, strict=True):
        with_tests = replace(source, p_random=of_random, p_best=of_best)
        tested.append(replace(with_tests, fails=_fails(with_tests, candidates)))
    return tested


def _fails(source: RankedSource, candidates: Sequence[RankedSource]) -> tuple[str, ...]:
    """The lines that a source does not pass; what was measured of no source forbids nothing."""
    fails = []
    if not source.naopc.low > ORDER_LINE:
        fails.append(ORDER)
    is_chance = not (source.above_random > 0 and source.p_random < SIGNIFICANT)
    if not math.isnan(source.above_random) and is_chance:
        fails.append(CHANCE)
    if source.polarity.high >= POLARITY_LINE:
        fails.append(POLARITY)
    if source.stability.low <= STABILITY_LINE:
        fails.append(STABILITY)
    polarity_is_known = any(each.polarity.n for each in candidates)
    stability_is_known = any(each.stability.n for each in candidates)
    lacks_polarity = polarity_is_known and not source.polarity.n
    lacks_stability = stability_is_known and not source.stability.n and source.source != GIVEN
    if lacks_polarity or lacks_stability:
        fails.append(UNMEASURED)
    return tuple(fails)


def _criterion(values: np.ndarray | None) -> Criterion:
    """Mean and bootstrap interval of a number (n,)."""
    if values is None:
        return Criterion()
    (summary,) = summarize(values[:, None])
    return Criterion(summary.mean, summary.low, summary.high, summary.n)


def _share(flags: np.ndarray | None) -> Criterion:
    """A share of texts with Wilson's interval, which a share of 0 has too; of labels asked one by one a mean share."""
    if flags is None:
        return Criterion()
    n = int((~np.isnan(flags)).sum())
    share = _mean(flags)
    low, high = wilson(share, n)
    return Criterion(share, low, high, n)


def _mean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _p(differences: np.ndarray) -> float:
    (test,) = paired(differences[:, None])
    return test.p
