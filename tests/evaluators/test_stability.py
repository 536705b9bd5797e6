"""Which word is exchanged, and how a ranking on the altered text is compared."""

import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import kendalltau

from attn_faithful._checks import InputError
from attn_faithful.evaluators.rereading import Reading, Rereading
from attn_faithful.evaluators.stability import StabilitySettings, exchanged, run
from tests.evaluators.blocks import random_block, values
from tests.evaluators.test_polarity import deleting

LENGTHS = (5, 1, 0, 7, 2, 30, 3)
SETTINGS = StabilitySettings(rankings=["attention", "moving"])


def reread(block, ids=None, read_again=None):
    """The block of a model that reads words again: attention stays, "moving" depends on all words."""
    size = block.encoded.content.shape
    ids = torch.arange(size[0] * size[1]).view(size) + 5 if ids is None else ids
    batches = []

    def moving(batch):
        shuffled = (batch["input_ids"] * 7919) % 101 + batch["input_ids"].sum(1, keepdim=True) % 13
        return torch.where(shuffled % 2 == 0, shuffled, -shuffled).double()

    def read(batch, keys, names):
        batches.append(batch)
        assert list(keys) == [f"{key} altered" for key in block.keys]
        sources = {"attention": block.importance("attention"), "moving": moving(batch)}
        return Reading(block.encoded, {name: sources[name] for name in names})

    batch = {"input_ids": ids}
    rereading = Rereading(None, batch, block.keys, read_again or read)
    sources = {"moving": moving(batch)}
    return replace(block, without=deleting(block), rereading=rereading, sources=sources), batches


def least(block, row, n):
    """The items of a text by what their deletion changes, least first; equal ones in order."""
    own = block.encoded.logits[row].softmax(-1)
    changes = []
    for t in range(n):
        keep = torch.ones_like(block.encoded.content)[:, None]
        keep[row, 0, t] = False
        other = block.without(keep)[row, 0].softmax(-1)
        changes.append((float((own - other).abs().sum() / 2), t))
    return [t for _, t in sorted(changes)]


def test_the_word_of_least_effect_is_exchanged_and_the_others_are_compared():
    block, batches = reread(random_block(LENGTHS))
    found = run(block, SETTINGS)
    (batch,) = batches
    ids = block.rereading.batch["input_ids"]
    tau, reason = values(found, "stability_tau", "moving")
    of_attention, _ = values(found, "stability_tau", "attention")
    for row, n in enumerate(LENGTHS):
        example = f"e{row}"
        changed = (batch["input_ids"][row] != ids[row]).nonzero()[:, 0].tolist()
        if n < 2:
            assert changed == []
            assert reason[example] == ("no content token" if n == 0 else "one item")
            continue
        first, second = least(block, row, n)[:2]
        assert changed == [first]
        assert batch["input_ids"][row, first] == ids[row, second]
        if n == 2:
            assert reason[example] == "n<2"  # one other word is in no order
            continue
        others = [t for t in range(n) if t != first]
        before = block.sources["moving"][row, others].numpy()
        after = block.rereading.read(batch, [f"{key} altered" for key in block.keys], ["moving"]).sources["moving"]
        assert tau[example] == pytest.approx(kendalltau(before, after[row, others].numpy()).statistic, abs=1e-10)
        assert of_attention[example] == 1.0


def test_words_of_several_tokens_are_exchanged_whole():
    ids = torch.tensor([[2, 10, 11, 20, 21, 30, 3]])
    members = torch.tensor([[-1, 0, 0, 1, 1, 2, -1]])
    content = torch.ones(1, 3, dtype=torch.bool)
    found = exchanged(ids, content, members, torch.tensor([[0.3, 0.2, 0.1]]))
    # the word of least effect has no other of one token: the next takes its place
    assert found.ids.tolist() == [[2, 10, 11, 10, 11, 30, 3]]
    assert found.is_exchanged.tolist() == [[False, True, False]]


def test_equal_words_are_no_exchange():
    ids = torch.tensor([[7, 7, 9]])
    effects = torch.tensor([[0.0, 0.0, 0.5]])
    assert exchanged(ids, torch.ones(1, 3, dtype=torch.bool), None, effects).ids.tolist() == [[9, 7, 9]]
    same = torch.tensor([[7, 7, 7]])
    found = exchanged(same, torch.ones(1, 3, dtype=torch.bool), None, effects)
    assert torch.equal(found.ids, same)
    assert not found.is_exchanged.any()


def test_a_text_of_equal_words_is_undefined():
    block = random_block((3,))
    block, _ = reread(block, torch.full_like(block.encoded.content, 7, dtype=torch.long))
    value, reason = values(run(block, SETTINGS), "stability_tau", "attention")
    assert math.isnan(value["e0"])
    assert reason["e0"] == "no other word to exchange"


@pytest.mark.parametrize("lost", ["without", "rereading"])
def test_a_model_that_cannot_be_asked(lost):
    block, _ = reread(random_block(LENGTHS))
    value, reason = values(run(replace(block, **{lost: None}), SETTINGS), "stability_tau", "attention")
    assert math.isnan(value["e0"])
    assert reason["e0"] == "model cannot delete tokens"


@pytest.mark.parametrize("rankings", [[], ["attention", "attention"]])
def test_bad_rankings_are_told(rankings):
    with pytest.raises(InputError, match="different sources"):
        StabilitySettings(rankings=rankings)
