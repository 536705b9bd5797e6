"""Every set of items is asked of the model once, in parts of bounded size."""

import pytest
import torch

from attn_faithful.experiments import deletions as module
from attn_faithful.experiments.block_erasures import BlockErasures
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.models.protocol import AttentionModel


class Counting(AttentionModel):
    """A model whose logits tell which tokens are kept, and that remembers what it was asked."""

    def __init__(self):
        self.calls = []

    def without(self, batch, keep):
        self.calls.append(keep.clone())
        weights = 2.0 ** torch.arange(keep.shape[2], dtype=torch.double)
        told = (keep.double() * weights).sum(-1) + 1000 * torch.arange(len(keep))[:, None]
        return torch.stack([told, -told], dim=-1)


def batch(rows=3, tokens=5):
    """Texts of which no two tokens are equal."""
    return {"input_ids": torch.arange(rows * tokens).view(rows, tokens)}


def masks(seed, b=3, k=9, t=5):
    drawn = torch.rand(b, k, t, generator=torch.Generator().manual_seed(seed)) < 0.5
    return torch.cat([drawn, drawn[:, ::2]], dim=1)  # some of them twice


@pytest.mark.parametrize("seed", [0, 1])
def test_logits_are_the_models_and_asked_for_once(seed):
    model, keep = Counting(), masks(seed)
    deletions = ItemDeletions(model, batch(), None)
    found = deletions(keep)
    assert torch.equal(found, Counting().without({}, keep))
    (asked,) = model.calls
    for row in range(len(keep)):
        sets = {tuple(mask.tolist()) for mask in keep[row]}
        other = [mask for mask in asked[row].tolist() if not all(mask)]
        assert len(other) == len({tuple(mask) for mask in other})  # the whole text costs next to nothing
        assert sets <= {tuple(mask) for mask in asked[row].tolist()}
    again = deletions(keep.flip(1))
    assert torch.equal(again, found.flip(1))
    assert len(model.calls) == 1  # all of it is known


def test_what_is_asked_at_once_has_a_bound_and_changes_nothing(monkeypatch):
    model, keep = Counting(), masks(2)
    monkeypatch.setattr(module, "CELLS", 2 * len(keep) * keep.shape[2])
    assert torch.equal(ItemDeletions(model, batch(), None)(keep), Counting().without({}, keep))
    assert len(model.calls) > 2
    assert all(part.numel() <= module.CELLS for part in model.calls)


def test_tokens_go_with_their_item_and_others_stay():
    model = Counting()
    members = torch.tensor([[-1, 0, 0, 1, -1]])
    deletions = ItemDeletions(model, batch(1), members)
    deletions(torch.tensor([[[False, True]]]))
    assert model.calls[0].tolist() == [[[True, False, False, True, True]]]
    assert BlockErasures(members, None, None).serves(members.clone())
    assert not BlockErasures(members, None, None).serves(None)
    assert not BlockErasures(members, None, None).serves(members + 1)
