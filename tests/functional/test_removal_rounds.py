"""Rankings asked in rounds: the sizes of a loop, each prefix once, nothing far past a flip."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.removal_rounds import ROWS, first_flips


def problem(lengths, seed):
    """Texts whose lead over class 0 wanders up and down along any ranking, and three rankings of their items."""
    generator = torch.Generator().manual_seed(seed)
    size = max(lengths)
    items = torch.arange(size) < torch.tensor(lengths)[:, None]
    votes = torch.randn(len(lengths), size, generator=generator, dtype=torch.float64)
    votes = votes * items
    orders = []
    for _ in range(3):
        keys = torch.rand(items.shape, generator=generator).masked_fill(~items, 2.0)
        orders.append(keys.argsort(1))
    start = 3.0 + votes.sum(1)
    asked = []

    def after(keep, text):
        assert bool((keep | items[text]).all())
        assert bool((text.diff() >= 0).all())
        asked.extend(zip(text.tolist(), keep.tolist(), strict=True))
        lead = 3.0 + (votes[text] * keep).sum(1)
        return torch.stack([torch.zeros(len(text)), lead * start[text].sign()], -1)

    decision = torch.ones(len(lengths), dtype=torch.long)
    return after, torch.stack(orders), items, decision, asked


@pytest.mark.parametrize("lengths", [(5, 1, 0, 30, 12), (300,), (40,) * 30])
def test_sizes_equal_a_loop(lengths):
    after, orders, items, decision, asked = problem(lengths, len(lengths))
    found = first_flips(after, orders, items, decision)
    mine = list(asked)
    longest = 0
    for text, n in enumerate(lengths):
        for ranking in range(3):
            expected = math.nan
            for k in range(1, n + 1):
                keep = torch.ones_like(items[:1])
                keep[0, orders[ranking, text, :k]] = False
                logits = after(keep, torch.tensor([text]))[0]
                if logits[0] >= logits[1]:
                    expected = k
                    break
            assert found[ranking, text].item() == pytest.approx(expected, nan_ok=True)
            longest += n if math.isnan(expected) else expected
    assert len(mine) <= 1.25 * longest + len(lengths) * 3 + ROWS
    assert bool(found.isfinite().any())


def test_bad_input_is_named():
    after, orders, items, decision, _ = problem((4, 3), 0)
    with pytest.raises(InputError, match="items"):
        first_flips(after, orders, items[:, 1:], decision)
    with pytest.raises(InputError, match="orders"):
        first_flips(after, orders.int(), items, decision)
