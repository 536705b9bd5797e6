"""Correlations of a block against those of each text alone, to the last bit, and against the slow references."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.block_correlations import block_rho, block_tau, block_top_k, undefined
from attn_faithful.functional.block_ranks import BlockRanks, Items
from attn_faithful.functional.rankings import kendall_tau_b, merge_ties, spearman
from attn_faithful.functional.top_k import overlap, top_k_kendall, top_k_tau
from tests.reference import rankings as reference

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 12, 19, 33, 34, 60)
ROUNDING = 1e-12  # of the overlap, a sum of shares


def texts(seed: int, lengths=LENGTHS):
    """Two importances of each text: without ties, with some, with many, constant, with infinities and NaN."""
    generator = np.random.default_rng(seed)
    rows = []
    for n in lengths:
        smooth, other = generator.random((2, n))
        rows.append((smooth, other))
        rows.append((smooth, -smooth))
        nearly = np.arange(float(n))
        nearly[:2] = nearly[:2][::-1]
        rows.append((np.arange(float(n)), nearly))
        rows.append((smooth.round(1), other))
        rows.append((generator.integers(0, 3, n).astype(float), generator.integers(0, 3, n).astype(float)))
        rows.append((np.full(n, 1 / 3), other))
        rows.append((smooth, np.zeros(n)))
        infinite = other.copy()
        infinite[: n // 3] = math.inf
        rows.append((smooth, infinite))
        missing = smooth.copy()
        missing[-1:] = math.nan
        rows.append((missing, other))
    return rows


def block_of(rows, seed=0, wider=0, tie_tolerance=1e-6):
    """The ranks of a block in which the items of the texts stand anywhere."""
    generator = np.random.default_rng(seed)
    width = max(len(x) for x, _ in rows) + wider
    items = np.zeros((len(rows), width), dtype=bool)
    first, second = generator.random((2, len(rows), width))
    for row, (x, y) in enumerate(rows):
        places = np.sort(generator.permutation(width)[: len(x)])
        items[row, places] = True
        first[row, places] = x
        second[row, places] = y
    found = Items.of(items)
    return tuple(BlockRanks.of(name, values, found, tie_tolerance) for name, values in (("a", first), ("b", second)))


def same(found, expected):
    return (found == expected) | (np.isnan(found) & np.isnan(expected))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [2, 5, 10])
def test_a_block_equals_its_texts(seed, k):
    rows = texts(seed)
    x, y = block_of(rows, seed, wider=seed)
    tau, rho, top = block_tau(x, y), block_rho(x, y), block_top_k(x, y, k)
    names = ("a", "b")
    alone = [kendall_tau_b(*row, names=names) for row in rows]
    assert tau.reasons == [each.reason for each in alone] == undefined(x, y)
    assert same(tau.value, [each.value for each in alone]).all()
    assert same(tau.p_value, [each.p_value for each in alone]).all()
    assert same(x.tied_share, [each.ties_x for each in alone]).all()
    assert same(rho, [spearman(*row).value for row in rows]).all()
    assert same(top.top_k_tau, [top_k_tau(*row, k).value for row in rows]).all()
    assert same(top.top_k_kendall, [top_k_kendall(*row, k).value for row in rows]).all()
    np.testing.assert_allclose(top.overlap, [overlap(*row, k).value for row in rows], rtol=0, atol=ROUNDING)
    assert np.isnan(tau.value).any()
    assert (~np.isnan(tau.value)).sum() > 30


def test_ranks_are_those_of_each_text():
    rows = [row for row in texts(0) if not np.isnan(row[0]).any()]
    for tie_tolerance in (0.0, 1e-6, 0.2):
        x, _ = block_of(rows, tie_tolerance=tie_tolerance)
        for place, (values, _) in enumerate(rows):
            n = len(values)
            assert x.ranks[place, :n].tolist() == merge_ties(values, tie_tolerance).tolist()
            assert (x.ranks[place, n:] == -1).all()


def test_equals_the_slow_references():
    generator = np.random.default_rng(0)
    rows = [tuple(generator.integers(0, 6, (2, n)).astype(float)) for n in (2, 3, 4, 6) for _ in range(6)]
    x, y = block_of(rows)
    tau, rho, top = block_tau(x, y), block_rho(x, y), block_top_k(x, y, 4)
    for place, (a, b) in enumerate(rows):
        if tau.reasons[place]:
            assert min(len(set(a)), len(set(b))) == 1
            continue
        assert tau.value[place] == pytest.approx(reference.kendall_tau_b(a, b), abs=1e-10)
        assert rho[place] == pytest.approx(reference.spearman(a, b), abs=1e-10)
        shares = zip(reference.top_k_share(a, 4), reference.top_k_share(b, 4), strict=True)
        assert top.overlap[place] * min(4, len(a)) == pytest.approx(sum(map(min, shares)), abs=1e-10)


def test_long_texts():
    """Up to 512 items pairs are compared in parts of a few rows; beyond, the same way as of one text."""
    rows = [row for row in texts(1, lengths=(200, 512, 513, 700)) if len(row[0])]
    x, y = block_of(rows)
    tau = block_tau(x, y)
    alone = [kendall_tau_b(*row, names=("a", "b")) for row in rows]
    assert same(tau.value, [each.value for each in alone]).all()
    np.testing.assert_allclose(tau.p_value, [each.p_value for each in alone], rtol=ROUNDING, atol=0)
    assert same(block_top_k(x, y, 10).top_k_tau, [top_k_tau(*row, 10).value for row in rows]).all()


def test_no_row_depends_on_another_nor_on_padding():
    generator = np.random.default_rng(0)
    tied = [tuple(generator.integers(0, 4, (2, n)).astype(float)) for n in range(20, 60)]
    rows = texts(2) + tied
    together = block_of(rows, wider=3)
    whole = [block_tau(*together).p_value, block_rho(*together), block_top_k(*together, 11).overlap]
    for place, row in enumerate(rows):
        alone = block_of([row])
        of_one = [block_tau(*alone).p_value, block_rho(*alone), block_top_k(*alone, 11).overlap]
        for found, expected in zip(of_one, whole, strict=True):
            assert same(found, expected[[place]]).all()


def test_what_does_not_fit_is_named():
    items = Items.of(np.ones((2, 3), dtype=bool))
    with pytest.raises(InputError, match="as many rows"):
        BlockRanks.of("a", np.zeros((3, 3)), items)
    with pytest.raises(InputError, match="tie_tolerance"):
        BlockRanks.of("a", np.zeros((2, 3)), items, 1.0)
    with pytest.raises(InputError, match="shape"):
        Items.of(np.ones(3, dtype=bool))
