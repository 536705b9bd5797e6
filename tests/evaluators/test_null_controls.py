"""Null controls: what they hold, and that they depend on seed and text alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.evaluators.null_controls import CONTROLS, controlled
from tests.evaluators.blocks import random_block


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_a_distribution_on_the_items_with_its_own_logits(name):
    block = random_block()
    found = controlled(block, name)
    attention = found.encoded.attention
    assert found.attention == name
    assert bool((attention[~block.items] == 0).all())
    torch.testing.assert_close(attention.sum(-1), block.items.any(-1).to(attention.dtype))
    torch.testing.assert_close(found.encoded.logits, block.encoded.decode(attention[:, None])[:, 0])
    assert torch.equal(block.encoded.attention, random_block().encoded.attention)


def test_uniform_is_uniform():
    attention = controlled(random_block((4, 2)), "uniform").encoded.attention
    assert attention[0, 0, :4].tolist() == pytest.approx([0.25] * 4)
    assert attention[1, 0, :2].tolist() == pytest.approx([0.5] * 2)


def test_random_is_spread_evenly_over_the_simplex():
    block = random_block((3,) * 2000)
    weights = controlled(block, "random").encoded.attention[:, 0, :3]
    # a flat Dirichlet of 3: mean 1/3, variance 1/18; 2,000 draws put the mean within 0.02 and the variance within 10%
    assert weights.mean(0).tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert weights.var(0).tolist() == pytest.approx([1 / 18] * 3, rel=0.1)


def test_random_depends_on_seed_and_text_alone():
    block = random_block((4, 6))
    again = controlled(block, "random").encoded.attention
    assert torch.equal(controlled(random_block((4, 6)), "random").encoded.attention, again)
    swapped = replace(block, keys=[block.keys[1], block.keys[0]])
    assert not torch.equal(controlled(swapped, "random").encoded.attention, again)
    assert not torch.equal(controlled(replace(block, seed=1), "random").encoded.attention, again)


def test_positions_that_are_no_items_keep_their_weight():
    block = random_block((4, 3))
    content = block.encoded.content.clone()
    content[:, 0] = False  # a special token that holds mass
    block = replace(block, encoded=replace(block.encoded, content=content))
    for name in CONTROLS:
        attention = controlled(block, name).encoded.attention
        torch.testing.assert_close(attention[:, 0, 0], block.encoded.attention[:, 0, 0])
        torch.testing.assert_close(attention.sum(-1), block.encoded.attention.sum(-1))


def test_an_unknown_control_names_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'uniform'"):
        controlled(random_block(), "unifrom")


def with_slots(allowed, pooled):
    """A text of four items and several slots: what each slot reaches, (S, 4), and the attention over all, (4,)."""
    block = random_block((4,))
    allowed = torch.nn.functional.pad(torch.tensor(allowed), (0, 1))[None]  # (1, S, 5), one position of padding
    weights = torch.rand(allowed.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * allowed
    attention = weights / weights.sum(-1, keepdim=True)
    over_items = torch.tensor([[*pooled, 0.0]], dtype=torch.float64)

    def decode(given):
        return block.encoded.decode(given.mean(2, keepdim=True))

    encoded = replace(
        block.encoded, attention=attention, allowed=allowed, pooled=over_items, decode=decode, affine=None
    )
    return replace(block, encoded=encoded)


@pytest.mark.parametrize("name", CONTROLS)
def test_over_the_items_a_control_is_the_mean_of_its_heads(name):
    block = with_slots([[True] * 4] * 3, [0.4, 0.3, 0.2, 0.1])
    found = controlled(block, name).encoded
    torch.testing.assert_close(found.over_items, found.attention.mean(1))


@pytest.mark.parametrize("name", CONTROLS)
def test_sentences_keep_their_share_of_the_text(name):
    block = with_slots([[True, True, False, False], [False, False, True, True]], [0.6, 0.1, 0.1, 0.2])
    over_items = controlled(block, name).encoded.over_items
    assert over_items[0, :2].sum().item() == pytest.approx(0.7)
    assert over_items[0, 2:].sum().item() == pytest.approx(0.3)
