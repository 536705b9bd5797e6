"""Bootstrap over the texts that several seeds answered: one draw of the texts for all of them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attn_faithful._checks import InputError

Array = NDArray[np.float64]

# Resampled indices in memory at once: 16 MB, whatever the number of examples.
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
        n_resamples, level, seed: as for `attefa.bootstrap_attefa`, which says what is resampled and why.

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
    places = _places(seeds, examples_by_seed)
    columns_by_seed, defined_by_seed = _by_text(seeds, places)
    means = [np.full((len(columns), n_resamples), np.nan) for columns in columns_by_seed]
    n = len(defined_by_seed[0]) if defined_by_seed else 0
    if n == 0:
        return means
    generator = np.random.default_rng(seed)
    step = max(1, _CHUNK // n)
    for start in range(0, n_resamples, step):
        stop = min(start + step, n_resamples)
        picks = generator.integers(0, n, size=(stop - start, n))  # texts, the same for all seeds
        for columns, defined, out in zip(columns_by_seed, defined_by_seed, means, strict=True):
            counts = defined[picks].sum(-1, dtype=np.float64)
            for column, column_means in zip(columns, out, strict=True):
                sums = column[picks].sum(-1)
                with np.errstate(invalid="ignore"):  # 0 / 0 where no defined text was drawn
                    column_means[start:stop] = sums / counts
    return means


def _places(seeds: list[Array], examples_by_seed: Sequence[Sequence[Hashable]] | None) -> list[NDArray[np.int64]]:
    """For each seed which text (B,) each of its values belongs to, texts numbered over all seeds."""
    if examples_by_seed is None:
        examples_by_seed = [_ids_by_number(columns.shape[1]) for columns in seeds]
    places: list[NDArray[np.int64]] = []
    numbers: dict[Hashable, int] = {}
    for columns, examples in zip(seeds, examples_by_seed, strict=True):
        if len(examples) != columns.shape[1] or len(set(examples)) != len(examples):
            raise InputError(
                f"Expected for each seed as many different ids in `examples_by_seed` as values, but got "
                f"{len(examples)} ids, {len(set(examples))} of them different, for {columns.shape[1]} values."
            )
        numbered = [numbers.setdefault(example, len(numbers)) for example in examples]
        places.append(np.array(numbered, dtype=np.int64))
    return places


def _ids_by_number(n: int) -> list[Hashable]:
    """Ids under which equally many texts are the same ones."""
    return [(n, i) for i in range(n)]


def _by_text(seeds: list[Array], places: list[NDArray[np.int64]]) -> tuple[list[Array], list[NDArray[np.bool_]]]:
    """Columns over all texts (columns, n), 0 where a seed has no value, and where it has one (n,).

    Texts without a value in any seed are no texts: nothing is drawn for them.
    """
    largest = [int(place.max(initial=-1)) for place in places]
    n = max(largest, default=-1) + 1
    columns_by_seed, defined_by_seed = [], []
    for columns, place in zip(seeds, places, strict=True):
        known = ~np.isnan(columns).any(0)
        over_texts = np.zeros((len(columns), n))
        over_texts[:, place[known]] = columns[:, known]
        columns_by_seed.append(over_texts)
        defined_by_seed.append(np.isin(np.arange(n), place[known]))
    if not seeds:
        return [], []
    somewhere = np.any(defined_by_seed, axis=0)
    columns_by_seed = [columns[:, somewhere] for columns in columns_by_seed]
    defined_by_seed = [defined[somewhere] for defined in defined_by_seed]
    return columns_by_seed, defined_by_seed


def percentiles(by_seed: list[Array], level: float) -> tuple[float, float]:
    """The interval of the mean over seeds, each (n_resamples,); NaN where no seed is defined in any resample.

    Example:
        >>> percentiles([np.array([0.0, 1.0]), np.array([np.nan, 2.0])], 1.0)
        (0.0, 1.5)
    """
    values = np.stack(by_seed) if by_seed else np.full((1, 1), np.nan)
    defined = ~np.isnan(values)
    counts = defined.sum(0)
    some = counts > 0
    sums = np.where(defined, values, 0.0).sum(0)
    means = sums[some] / counts[some]
    if means.size == 0:
        return math.nan, math.nan
    ends = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(means, ends)
    return float(low), float(high)


def bootstrap_mean(
    values_by_seed: Sequence[ArrayLike],
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    examples_by_seed: Sequence[Sequence[Hashable]] | None = None,
) -> tuple[float, float]:
    r"""Percentile interval for a mean over examples, averaged over seeds; resampled as in `attefa.bootstrap_attefa`.

    Args:
        values_by_seed: for each seed (B,), any unit; NaN examples are left out.
        n_resamples: at least 1.
        level: coverage, between 0 and 1.
        seed: of the resampling.
        examples_by_seed: as there.

    Returns:
        (low, high), in the unit of the values; (NaN, NaN) if no seed has a defined example.

    Raises:
        InputError: other shapes, a wrong level or number of resamples.

    Reference:
        Efron and Tibshirani (1993), section 13.3 (percentile interval).

    Example:
        >>> bootstrap_mean([[2.0, 2.0, 2.0]])
        (2.0, 2.0)
    """
    seeds = [np.asarray(values, dtype=np.float64)[None] for values in values_by_seed]  # each (1, B)
    means = resampled_means(seeds, examples_by_seed, n_resamples, level, seed)
    return percentiles([columns[0] for columns in means], level)
