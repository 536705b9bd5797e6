"""AtteFa over a data set, the constant twin that it is read against, and bootstrap intervals.

Arrays of per-example values in, numbers out, all in float64, without torch. TVD is over the full class distribution
(0 to 1), which equals the sTVD of the paper; JSD is in nats (0 to ln 2). NaN marks an undefined example, which is left
out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_faithful._checks import InputError
from attn_faithful.functional.reasons import NEVER_MOVED, NO_EXAMPLE, UNDEFINED_DIVERGENCE, Reasons, first_reasons
from attn_faithful.functional.resampling import percentiles, resampled_means

Array = NDArray[np.float64]

LN2 = math.log(2.0)

# JSD grows with the square of the change: this is a relative change of 3e-6 in every weight, the rounding of two
# float32 forward passes. Dividing by less would turn noise into an AtteFa of 1.
STILL_JSD = 1e-12


@dataclass(frozen=True)
class AtteFa:
    """AtteFa of one twin and what it is made of; ``reason`` says why ``attefa`` is NaN and is None otherwise."""

    attefa: float
    tvd: float
    jsd: float
    s_jsd: float
    n: int
    n_undefined: int
    reason: str | None


def _columns(tvd: ArrayLike, jsd: ArrayLike) -> tuple[Array, Array]:
    tvd = np.asarray(tvd, dtype=np.float64)
    jsd = np.asarray(jsd, dtype=np.float64)
    if tvd.ndim != 1 or tvd.shape != jsd.shape:
        raise InputError(
            f"Expected `tvd` and `jsd` of one shape (B,), but got {tvd.shape} and {jsd.shape}; "
            "they must hold one value an example."
        )
    _check_range("tvd", tvd, 1.0)
    _check_range("jsd", jsd, LN2)
    return tvd, jsd


def _check_range(name: str, values: Array, top: float) -> None:
    outside = np.flatnonzero((values < -1e-6) | (values > top + 1e-6))
    if outside.size:
        raise InputError(
            f"Expected `{name}` in 0 to {top:.6g}, but got {values[outside[0]]:.6g} in example {outside[0]}; "
            "pass half the L1 distance as TVD and the divergence in nats as JSD."
        )


def attefa(tvd: ArrayLike, jsd: ArrayLike) -> AtteFa:
    r"""How faithful attention is, from the divergences of an adversarially trained twin.

    ``min(mean TVD / (mean JSD / ln 2), 1)``: means over the data set first, then the ratio. Examples in which either
    value is NaN are left out of both means.

    Args:
        tvd: (B,), distance of the twin's class probabilities to the base's, 0 to 1.
        jsd: (B,), divergence of the twin's attention from the base's, nats.

    Returns:
        :class:`AtteFa`; ``attefa`` from 0 (attention can move freely) to 1 (it cannot move without changing the
        prediction); higher is more faithful. NaN, with the reason, if no example is defined, or if the twin's
        attention never moved (mean JSD at most 1e-12), whatever the TVD: such a twin tests nothing.

    Raises:
        InputError: other shapes, or values outside their range.

    Reference:
        Amini and Kosseim, section 3.3, equation 7.

    Example:
        >>> result = attefa([0.1, 0.3, float("nan")], [0.5, 0.3, 0.2])
        >>> print(f"{result.attefa:.6f} {result.tvd:.1f} {result.s_jsd:.6f} {result.n} {result.n_undefined}")
        0.346574 0.2 0.577078 2 1
    """
    tvd, jsd = _columns(tvd, jsd)
    defined = ~(np.isnan(tvd) | np.isnan(jsd))
    n = int(defined.sum())
    n_undefined = len(defined) - n
    if n == 0:
        return AtteFa(math.nan, math.nan, math.nan, math.nan, 0, n_undefined, NO_EXAMPLE)
    mean_tvd = float(tvd[defined].mean())
    mean_jsd = float(jsd[defined].mean())
    ratio = float(_ratio(np.array(mean_tvd), np.array(mean_jsd)))
    return AtteFa(
        attefa=ratio,
        tvd=mean_tvd,
        jsd=mean_jsd,
        s_jsd=mean_jsd / LN2,
        n=n,
        n_undefined=n_undefined,
        reason=NEVER_MOVED if math.isnan(ratio) else None,
    )


def attefa_per_example(tvd: ArrayLike, jsd: ArrayLike) -> tuple[Array, Reasons]:
    r"""The ratio of every single example: ``min(TVD / (JSD / ln 2), 1)``; its mean is not the data set's AtteFa.

    Args:
        tvd: (B,), 0 to 1.
        jsd: (B,), nats.

    Returns:
        values (B,), 0 to 1 or NaN, and for each example the reason why it is NaN, or None.

    Raises:
        InputError: other shapes, or values outside their range.

    Reference:
        Amini and Kosseim, section 3.3, equation 7, for one example.

    Example:
        >>> values, reasons = attefa_per_example([0.5, 0.1], [LN2, 0.0])
        >>> values.tolist(), reasons
        ([0.5, nan], [None, 'twin attention never moved'])
    """
    tvd, jsd = _columns(tvd, jsd)
    values = _ratio(tvd, jsd)
    undefined = np.isnan(tvd) | np.isnan(jsd)
    return values, first_reasons({UNDEFINED_DIVERGENCE: undefined, NEVER_MOVED: np.isnan(values)})


def _ratio(tvd: Array, jsd: Array) -> Array:
    """``min(TVD / (JSD / ln 2), 1)``, NaN where the attention did not move."""
    moved = jsd > STILL_JSD
    scaled_jsd = np.where(moved, jsd, 1.0) / LN2
    ratio = np.maximum(tvd, 0.0) / scaled_jsd
    return np.where(moved, np.minimum(ratio, 1.0), np.nan)


def _probabilities(probabilities: ArrayLike, letters: str) -> Array:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or 0 in p.shape:
        raise InputError(f"Expected `probabilities` of shape ({letters}) with at least one example, but got {p.shape}.")
    legal = (p >= 0) & (p <= 1 + 1e-3)
    wrong_rows = np.flatnonzero(~legal.all(-1))
    if wrong_rows.size:
        row = wrong_rows[0]
        raise InputError(f"Expected probabilities between 0 and 1, but row {row} holds {p[row].tolist()}.")
    return p


def constant_twin(probabilities: ArrayLike) -> tuple[Array, float]:
    r"""The one distribution nearest to all predictions: where a twin ends that gives up on its inputs.

    ``argmin_q (1 / B) sum_i TVD(p_i, q)`` over the simplex. The objective is a sum over classes of convex functions
    whose slope at ``q_c`` is the share of examples below ``q_c``, so at the optimum every ``q_c`` is the quantile of
    its column at one common level: the level at which they sum to 1. Exact; for two classes it is the median. Where
    a level leaves a range of quantiles, all that sum to 1 are optimal, and the linear interpolation is returned.

    Args:
        probabilities: (B, C), the base's class probabilities.

    Returns:
        q (C,), a distribution, and the mean TVD to it (0 to 1).

    Raises:
        InputError: no example, or rows that are not distributions.

    Reference:
        The yardstick for the paper's rows with F1 = 0 (Amini and Kosseim, table 3).

    Example:
        >>> q, distance = constant_twin([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9]])
        >>> q.round(4).tolist(), round(distance, 4)
        ([0.6, 0.4], 0.2667)
    """
    p = _probabilities(probabilities, "B, C")
    wrong_rows = np.flatnonzero(np.abs(p.sum(-1) - 1) > 1e-3)
    if wrong_rows.size:
        row = wrong_rows[0]
        raise InputError(
            f"Expected class probabilities that sum to 1, but row {row} sums to {p[row].sum():.6g}; "
            "use multilabel_constant_twin for independent labels."
        )
    quantiles = np.sort(p, axis=0)  # (B, C), each column ascending
    sums = quantiles.sum(-1)
    # the two levels between which the quantiles sum to 1
    place = np.searchsorted(sums, 1.0)
    upper = int(np.clip(place, 0, len(p) - 1))
    lower = max(upper - 1, 0)
    gap = sums[upper] - sums[lower]
    share = 1.0
    if gap > 0:
        share = float(np.clip((1.0 - sums[lower]) / gap, 0.0, 1.0))
    q: Array = (1 - share) * quantiles[lower] + share * quantiles[upper]
    q = q / q.sum()  # rows may sum to 1 only within float32 rounding
    distances = np.abs(p - q).sum(-1)  # (B,), twice the TVD
    mean_tvd = float(0.5 * distances.mean())
    return q, mean_tvd


def multilabel_constant_twin(probabilities: ArrayLike) -> tuple[Array, float]:
    r"""The constant prediction nearest to all, for independent labels: each label's median.

    Args:
        probabilities: (B, C), a probability a label.

    Returns:
        q (C,), and the mean over examples and labels of ``|p - q|`` (0 to 1).

    Raises:
        InputError: no example, or values outside 0 to 1.

    Reference:
        As :func:`constant_twin`, each label taken as its own head.

    Example:
        >>> q, distance = multilabel_constant_twin([[0.9, 0.2], [0.5, 0.2], [0.1, 0.8]])
        >>> q.tolist(), round(distance, 4)
        ([0.5, 0.2], 0.2333)
    """
    p = _probabilities(probabilities, "B, C")
    q: Array = np.median(p, axis=0)
    return q, float(np.abs(p - q).mean())


def is_collapsed(tvd_mean: float, constant_tvd: float, share: float = 0.9) -> bool:
    r"""Whether a twin is about as far from the base as a constant prediction is: ``TVD >= share * constant TVD``.

    Such a twin gave up predicting; its AtteFa is high and says nothing of attention. The share of 0.9 is a
    convention. False if the constant twin's TVD is 0 (the base itself is constant) or either value is NaN.

    Args:
        tvd_mean: the twin's mean TVD, 0 to 1.
        constant_tvd: that of :func:`constant_twin`, 0 to 1.
        share: above 0.

    Raises:
        InputError: a share that is not positive.

    Reference:
        Amini and Kosseim, table 3, whose adversarial rows with F1 = 0 are such twins.

    Example:
        >>> is_collapsed(0.36, 0.35), is_collapsed(0.08, 0.35)
        (True, False)
    """
    if not share > 0:
        raise InputError(f"Expected `share` above 0, but got {share}.")
    return bool(constant_tvd > 0 and tvd_mean >= share * constant_tvd)


def bootstrap_attefa(
    tvd_by_seed: Sequence[ArrayLike],
    jsd_by_seed: Sequence[ArrayLike],
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    examples_by_seed: Sequence[Sequence[Hashable]] | None = None,
) -> tuple[float, float]:
    r"""Percentile interval for AtteFa averaged over twins of several seeds, of one base or of several.

    What is resampled are the texts; the trained models are given. The interval says where the mean over these twins
    would lie on other texts of the same kind, and nothing of other seeds: that is the standard deviation over seeds.
    Twins answer the same texts, and a text that is hard for one is hard for all, so every resample draws the texts
    once, with replacement, for all twins and for TVD and JSD alike; each twin gives its ratio over them, and the
    resample's value is the mean over twins. A text that is undefined for a twin is left out of that twin's means; a
    twin whose ratio is undefined is left out of the mean.

    Args:
        tvd_by_seed: for each twin (B,), 0 to 1.
        jsd_by_seed: for each twin (B,), nats.
        n_resamples: at least 1.
        level: coverage, between 0 and 1.
        seed: of the resampling.
        examples_by_seed: for each twin the ids of its B texts: equal ids are one text. Without, twins of equally
            many texts answered the same ones in the same order, and others have texts of their own.

    Returns:
        (low, high), in 0 to 1; (NaN, NaN) if no twin has a defined AtteFa.

    Raises:
        InputError: unequal numbers of twins or examples, an id twice, values out of range, a wrong level.

    Reference:
        Efron and Tibshirani (1993), section 13.3 (percentile interval).

    Example:
        >>> low, high = bootstrap_attefa([[0.1, 0.2, 0.3]], [[0.6, 0.6, 0.6]])
        >>> 0.1 < low < 0.2 / 0.6 * LN2 < high < 0.4
        True
    """
    if len(tvd_by_seed) != len(jsd_by_seed):
        raise InputError(
            f"Expected as many seeds in `tvd_by_seed` ({len(tvd_by_seed)}) as in `jsd_by_seed` ({len(jsd_by_seed)})."
        )
    twins = []
    for tvd, jsd in zip(tvd_by_seed, jsd_by_seed, strict=True):
        twins.append(np.stack(_columns(tvd, jsd)))  # (2, B)
    means = resampled_means(twins, examples_by_seed, n_resamples, level, seed)
    ratios = [_ratio(mean_tvd, mean_jsd) for mean_tvd, mean_jsd in means]
    return percentiles(ratios, level)
