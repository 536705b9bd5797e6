"""Resamples of the texts that several seeds answered: one draw for all of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from attn_faithful._checks import InputError

Array = NDArray[np.float64]

# Resampled indices held at once: 16 MB, whatever the number of examples.
_CHUNK = 2_000_000


def resampled_means(
    seeds: list[Array],
    examples_by_seed: Sequence[Sequence[Hashable]] | None,
    n_resamples: int,
    level: float,
    seed: int,
) -> list[Array]:
    """Means of several seeds' columns over the same resamples of their texts.

    Args:
        seeds: for each seed (columns, B); a text that is NaN in one column is left out of all columns of that seed.
        examples_by_seed: for each seed the ids of its B texts; without, seeds of equally many texts share them.
        n_resamples, level, seed: as for `faithfulness.bootstrap_attefa`, which says what is resampled and why.

    Returns:
        for each seed (columns, n_resamples); NaN where a resample holds no text that is defined for the seed.

    Raises:
        InputError: a level or a number of resamples out of range, other shapes, ids that are not one a value.

    Example:
        >>> one, other = resampled_means([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])], None, 3, 0.95, 0)
        >>> (other - one).tolist()  # the same texts in every resample
        [[2.0, 2.0, 2.0]]
    """
    if not 0 < level < 1:
        raise InputError(f"Expected `level` between 0 and 1, but got {level}; 0.95 gives the usual interval.")
    if n_resamples < 1:
        raise InputError(f"Expected `n_resamples` of at least 1, but got {n_resamples}.")
    for columns in seeds:
        if columns.ndim != 2:
            raise InputError(f"Expected for each seed values of shape (B,), but got {columns.shape[1:]}.")
    placed, defined = _by_text(seeds, _places(seeds, examples_by_seed))
    generator = np.random.default_rng(seed)
    means = [np.full((len(columns), n_resamples), np.nan) for columns in placed]
    n = len(defined[0]) if defined else 0
    step = max(1, _CHUNK // max(n, 1))
    for start in range(0, n_resamples if n else 0, step):
        picks = generator.integers(0, n, size=(min(step, n_resamples - start), n))
        stop = start + len(picks)
        for columns, known, mean in zip(placed, defined, means, strict=True):
            counts = known[picks].sum(-1, dtype=np.float64)
            for column, out in zip(columns, mean, strict=True):
                with np.errstate(invalid="ignore"):
                    out[start:stop] = column[picks].sum(-1) / counts  # 0 / 0 where no defined text was drawn
    return means


def _places(seeds: list[Array], examples_by_seed: Sequence[Sequence[Hashable]] | None) -> list[NDArray[np.int64]]:
    """For each seed which text (B,) each of its values belongs to, texts numbered over all seeds."""
    if examples_by_seed is None:  # equally many texts are the same ones
        examples_by_seed = [[(columns.shape[1], i) for i in range(columns.shape[1])] for columns in seeds]
    found: list[NDArray[np.int64]] = []
    numbers: dict[Hashable, int] = {}
    for columns, examples in zip(seeds, examples_by_seed, strict=True):
        if len(examples) != columns.shape[1] or len(set(examples)) != len(examples):
            raise InputError(
                f"Expected for each seed as many different ids in `examples_by_seed` as values, but got "
                f"{len(examples)} ids, {len(set(examples))} of them different, for {columns.shape[1]} values."
            )
        found.append(np.array([numbers.setdefault(example, len(numbers)) for example in examples], dtype=np.int64))
    return found


def _by_text(seeds: list[Array], places: list[NDArray[np.int64]]) -> tuple[list[Array], list[NDArray[np.bool_]]]:
    """Columns over all texts (columns, n), 0 where a seed has no value, and where it has one (n,).

    Texts without a value in any seed are no texts: nothing is drawn for them.
    """
    n = max((int(place.max(initial=-1)) + 1 for place in places), default=0)
    placed, defined = [], []
    for columns, place in zip(seeds, places, strict=True):
        known = ~np.isnan(columns).any(0)
        whole = np.zeros((len(columns), n))
        whole[:, place[known]] = columns[:, known]
        placed.append(whole)
        defined.append(np.isin(np.arange(n), place[known]))
    somewhere = np.any(defined, axis=0) if defined else np.zeros(0, dtype=bool)
    return [columns[:, somewhere] for columns in placed], [known[somewhere] for known in defined]


def percentiles(by_seed: list[Array], level: float) -> tuple[float, float]:
    """The interval of the mean over seeds, each (n_resamples,); NaN where no seed is defined in any resample."""
    values = np.stack(by_seed) if by_seed else np.full((1, 1), np.nan)
    defined = ~np.isnan(values)
    counts = defined.sum(0)
    means = np.where(defined, values, 0.0).sum(0)[counts > 0] / counts[counts > 0]
    if means.size == 0:
        return math.nan, math.nan
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
