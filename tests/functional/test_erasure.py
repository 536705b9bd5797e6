"""Comprehensiveness, sufficiency and AOPC against loops over sets of tokens."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.erasure import (
    SHARES,
    aopc,
    comprehensiveness,
    erasure_counts,
    sufficiency,
    top_masks,
)
from tests.reference import eraser as reference

nan = math.nan


def random_examples(seed, n=20, width=40):
    """Importance with ties, content with gaps, one row without content, NaN outside content."""
    generator = np.random.default_rng(seed)
    content = torch.from_numpy(generator.random((n, width)) < generator.random((n, 1)))
    content[0] = False
    importance = torch.from_numpy(generator.integers(-4, 5, (n, width)) / 4)
    return torch.where(content, importance, nan), content


def test_counts_equal_exact_fractions():
    n = torch.arange(0, 1001)
    shares = (*SHARES, 0.07, 0.29, 0.57, 1.0)
    expected = [[reference.count(int(k), share) for share in shares] for k in n]
    assert erasure_counts(n, shares).tolist() == expected
    assert erasure_counts(torch.tensor([1])).tolist() == [[1] * 5]
    assert erasure_counts(torch.tensor([100]), (0.07,)).tolist() == [[7]]  # 0.07 * 100 is a little more than 7


@pytest.mark.parametrize("shares", [(), (0.0,), (0.5, 1.01), (-0.1,), (nan,)])
def test_bad_shares(shares):
    with pytest.raises(InputError, match="Expected `shares`"):
        erasure_counts(torch.tensor([3]), shares)


@pytest.mark.parametrize("seed", range(5))
def test_masks_and_curves_equal_the_reference(seed):
    importance, content = random_examples(seed)
    counts = erasure_counts(content.sum(-1))
    masks, reasons = top_masks(importance, content, counts)
    assert reasons == [None if some else "no content token" for some in content.any(-1).tolist()]
    weights = np.random.default_rng(seed).normal(size=importance.shape)

    for i in range(len(content)):
        rows = importance[i].tolist(), content[i].tolist()
        for k, mask in zip(counts[i].tolist(), masks[i], strict=True):
            assert set(mask.nonzero()[:, 0].tolist()) == reference.top(*rows, k)
        if reasons[i]:
            continue

        def p(kept, row=weights[i]):
            return 1 / (1 + math.exp(-sum(row[t] for t in kept)))

        def of(kept, p=p):
            return torch.tensor([[p(set(mask.nonzero()[:, 0].tolist())) for mask in kept]], dtype=torch.float64)

        full = of(content[i : i + 1])[0]
        found = comprehensiveness(full, of(content[i] & ~masks[i])), sufficiency(full, of(masks[i]))
        for values, expected in zip(found, reference.curve(p, *rows, SHARES), strict=True):
            np.testing.assert_allclose(values[0].numpy(), expected, rtol=0, atol=1e-10)
            assert float(aopc(values)) == pytest.approx(reference.mean(expected), abs=1e-10)
            zero = torch.tensor([0.25], dtype=torch.float64)
            assert float(aopc(values, zero)) == pytest.approx(reference.printed_aopc(expected, 0.25), abs=1e-10)


def test_a_row_with_nan_chooses_nothing_and_says_why():
    importance = torch.tensor([[0.1, nan, 0.4], [0.1, nan, 0.4]])
    content = torch.tensor([[True, True, True], [True, False, True]])
    masks, reasons = top_masks(importance, content, torch.ones(2, 1, dtype=torch.long))
    assert reasons == ["nan in scores", None]
    assert masks[:, 0].int().tolist() == [[0, 0, 0], [0, 0, 1]]


def test_ties_go_to_the_first_position_and_order_is_by_value():
    content = torch.ones(1, 6, dtype=torch.bool)
    sparse = torch.tensor([[0.0, 0.6, 0.0, 0.4, -0.0, 0.0]])  # C06
    masks, _ = top_masks(sparse, content, torch.tensor([[0, 1, 3, 4, 9]]))
    chosen = [mask.nonzero()[:, 0].tolist() for mask in masks[0]]
    assert chosen == [[], [1], [0, 1, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]
    masks, _ = top_masks(torch.tensor([[-9.0, 1.0, math.inf, -math.inf, 2.0, 0.0]]), content, torch.tensor([[1, 3, 5]]))
    assert [mask.nonzero()[:, 0].tolist() for mask in masks[0]] == [[2], [1, 2, 4], [0, 1, 2, 4, 5]]


def test_padding_and_batch_mates_change_nothing():
    importance, content = random_examples(7)
    counts = erasure_counts(content.sum(-1))
    masks, _ = top_masks(importance, content, counts)
    wide = [torch.nn.functional.pad(x, (3, 2), value=v) for x, v in ((importance, 99.0), (content, False))]
    padded, _ = top_masks(wide[0], wide[1], counts)
    assert torch.equal(padded[:, :, 3:-2], masks)
    assert int(padded.sum()) == int(masks.sum())
    for i in range(len(content)):
        alone, _ = top_masks(importance[i : i + 1], content[i : i + 1], counts[i : i + 1])
        assert torch.equal(alone[0], masks[i])


def test_one_token_is_defined():
    content = torch.ones(1, 1, dtype=torch.bool)
    masks, reasons = top_masks(torch.tensor([[0.3]]), content, erasure_counts(content.sum(-1)))
    assert bool(masks.all())
    assert reasons == [None]
    full = torch.tensor([0.9])
    assert aopc(comprehensiveness(full, torch.full((1, 5), 0.5))).tolist() == pytest.approx([0.4])
    assert aopc(sufficiency(full, full[:, None].expand(1, 5))).tolist() == [0.0]


def test_range_precision_and_undefined():
    full, other = torch.tensor([1.0, 0.0, 0.5]), torch.tensor([[0.0, 0.0], [1.0, 1.0], [nan, 0.5]])
    values = comprehensiveness(full, other)
    assert values.dtype == torch.float64
    np.testing.assert_equal(values.numpy(), [[1, 1], [-1, -1], [nan, 0]])
    np.testing.assert_equal(sufficiency(full, other).numpy(), values.numpy())
    np.testing.assert_equal(aopc(values).numpy(), [1, -1, nan])
    assert aopc(values.float()).dtype == torch.float64


def test_bad_input():
    p, content = torch.tensor([0.5]), torch.ones(1, 2, dtype=torch.bool)
    for function, name in ((comprehensiveness, "p_without"), (sufficiency, "p_only")):
        with pytest.raises(InputError, match=f"`{name}` of shape"):
            function(p, p)
        with pytest.raises(InputError, match=f"as many `p_full` as rows of `{name}`"):
            function(p, torch.full((2, 1), 0.5))
        with pytest.raises(InputError, match=r"`p_full` of probabilities.*got 1\.2; pass those of the target class"):
            function(torch.tensor([1.2]), p[:, None])
        with pytest.raises(InputError, match=rf"`{name}` of probabilities.*got -0\.3"):
            function(p, torch.tensor([[-0.3]]))
    with pytest.raises(InputError, match="`at_zero`"):
        aopc(torch.zeros(2, 3), torch.zeros(3))
    with pytest.raises(InputError, match="one bin"):
        aopc(torch.zeros(2, 0))
    for bad in (content.float(), torch.ones(1, 3, dtype=torch.bool), torch.ones(2, 2, dtype=torch.bool)):
        with pytest.raises(InputError, match="bool `content` of the same shape"):
            top_masks(torch.ones(1, 2), bad, torch.ones(1, 1, dtype=torch.long))
    with pytest.raises(InputError, match="at least 0"):
        top_masks(torch.ones(1, 2), content, torch.tensor([[-1]]))
    with pytest.raises(InputError, match="one count an example"):
        top_masks(torch.ones(1, 2), content, torch.tensor([1]))
