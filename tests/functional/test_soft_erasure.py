"""Probabilities of soft erasure and the paper's ratios against loops, at a text's edges and out of range."""

import math

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.soft_erasure import keep_probabilities, soft_nc, soft_ns
from tests.reference import soft_erasure as slow

SHARES = (0.05, 0.5, 0.9)


def drawn(seed, texts=40, longest=9):
    """Importance with zeros, ties, numbers below 0 and of every size, and which tokens are content."""
    generator = np.random.default_rng(seed)
    sizes = generator.choice([0.0, 1.0, 1e-6, 1e6], size=(texts, longest), p=[0.3, 0.5, 0.1, 0.1])
    values = generator.choice([-1.0, 0.5, 1.0, 2.0], size=(texts, longest)) * sizes
    content = generator.random((texts, longest)) < 0.8
    content[0] = False
    values[1] = 0.0
    values[2] = -1.0
    values[3] = 0.25
    return torch.from_numpy(values), torch.from_numpy(content)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [None, *SHARES])
def test_probabilities_equal_a_loop(seed, share):
    values, content = drawn(seed)
    found, reasons = keep_probabilities(values, content, share)
    assert found.dtype == torch.float64
    for row, (of_text, inside) in enumerate(zip(values.tolist(), content, strict=True)):
        kept = [value for value, is_content in zip(of_text, inside, strict=True) if is_content]
        assert (found[row][~inside] == 0).all()
        if not kept:
            assert reasons[row] == "no content token"
            continue
        if share is None and max(kept) <= 0:
            assert reasons[row] == "no mass"
            assert (found[row] == 0).all()
            continue
        assert reasons[row] is None
        expected = slow.keep_probabilities(kept, share)
        assert found[row][inside].tolist() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("share", SHARES)
def test_every_ranking_keeps_the_share_and_more_of_what_is_more_important(share):
    values, content = drawn(7)
    found, _ = keep_probabilities(values, content, share)
    means = found.sum(1)[1:] / content.sum(1)[1:]
    assert means.tolist() == pytest.approx([share] * len(means), abs=1e-12)
    assert ((found >= 0) & (found <= 1)).all()
    more = values[:, :, None] > values[:, None]  # (B, T, T)
    both = content[:, :, None] & content[:, None]
    assert (found[:, :, None] >= found[:, None])[more & both].all()


@pytest.mark.parametrize("share", [None, 0.5])
def test_unit_and_padding_are_no_matter(share):
    values, content = drawn(3)
    found, _ = keep_probabilities(values, content, share)
    other, _ = keep_probabilities(3e-4 * values, content, share)
    torch.testing.assert_close(other, found, atol=1e-12, rtol=0)
    padded = [torch.nn.functional.pad(given, (1, 2), value=True) for given in (values, content)]
    padded[1][:, [0, -1, -2]] = False
    wide, _ = keep_probabilities(*padded, share)
    torch.testing.assert_close(wide[:, 1:-2], found, atol=1e-12, rtol=0)


def test_nan_and_empty_texts():
    values, content = torch.tensor([[1.0, math.nan], [math.nan, 2.0]]), torch.tensor([[True, True], [False, True]])
    for share in (None, 0.5):
        found, reasons = keep_probabilities(values, content, share)
        assert reasons == ["nan in scores", None]
        assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == [0, 0.5]
    for share in (None, 0.5):
        found, reasons = keep_probabilities(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool), share)
        assert found.shape == (2, 0)
        assert reasons == ["no content token"] * 2


@pytest.mark.parametrize("share", [0.0, 1.0, -1, 50, math.nan])
def test_shares_out_of_range(share):
    with pytest.raises(InputError, match="Expected `share` above 0 and below 1"):
        keep_probabilities(torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool), share)


@pytest.mark.parametrize("content", [torch.ones(1, 3, dtype=torch.bool), torch.ones(1, 2)])
def test_wrong_content(content):
    with pytest.raises(InputError, match="Expected bool `content` of shape"):
        keep_probabilities(torch.ones(1, 2), content)


def test_the_papers_ratios_equal_a_loop():
    generator = torch.Generator().manual_seed(0)
    full, zero = torch.rand(2, 50, generator=generator, dtype=torch.float64)
    others = torch.rand(50, 4, generator=generator, dtype=torch.float64)
    zero[0] = full[0]
    for fast, by_hand in ((soft_nc, slow.soft_nc), (soft_ns, slow.soft_ns)):
        found = fast(full, others, zero)
        expected = [by_hand(*of_text) for of_text in zip(full.tolist(), others.tolist(), zero.tolist(), strict=True)]
        assert found.tolist() == pytest.approx(expected, abs=1e-10, nan_ok=True)
        assert found.isnan().tolist() == (zero >= full).tolist()
        assert 0 < found.isnan().sum() < 50
