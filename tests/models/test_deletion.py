"""Deleting tokens by the shortest way equals running every shortened text on its own."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models import deletion, recurrent_passes, single_deletions
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from tests.checks import BATCHED, EXACT, pad, shortened
from tests.models.examples import small_batch, small_model

SHORT = (
    "lstm",
    "gru",
    "orthogonal_lstm",
    "cnn",
    "average",
    "mlp",
    "none",
)  # encoders with a way that runs no text again


def awkward_batch(**settings) -> dict[str, Tensor]:
    """Gaps, padding on both sides, special tokens anywhere, one token, no content token, no token at all."""
    batch = small_batch((9, 7, 3, 1, 2, 1, 0), special=((0, 0), (0, 8), (1, 3), (4, 0), (5, 0)), **settings)
    batch = pad(batch, 2, 1)
    mask = batch["attention_mask"]
    mask[0, 5] = mask[1, 3] = mask[1, 4] = 0  # gaps
    return batch


def leave_one_out(batch: dict[str, Tensor]) -> Tensor:
    size = batch["attention_mask"].shape[1]
    return ~torch.eye(size, dtype=torch.bool).expand(len(batch["attention_mask"]), size, size)


@torch.no_grad()
def one_by_one(model, batch: dict[str, Tensor], keep: Tensor) -> Tensor:
    """Logits (B, K, C): each shortened text alone, without its padding."""
    batch = dict(batch)
    read, candidates = batch["attention_mask"].bool(), batch.pop("candidates", None)

    def alone(b: int, kept: Tensor) -> Tensor:
        classes = {} if candidates is None else {"candidates": candidates[b : b + 1]}
        return model(**shortened(batch, b, read[b] & kept), **classes).logits[0]

    return torch.stack([torch.stack([alone(b, kept) for kept in keep[b]]) for b in range(len(read))])


def check(model, batch, keep=None, **tolerance) -> None:
    keep = leave_one_out(batch) if keep is None else keep
    torch.testing.assert_close(model.without(batch, keep), one_by_one(model, batch, keep), **(tolerance or BATCHED))


def all_run_again(model, batch: dict[str, Tensor], monkeypatch) -> Tensor:
    with monkeypatch.context() as slow:
        slow.setattr(deletion, "_texts_class", lambda encoder: None)
        slow.setattr(type(model.encoder), "reads_alone", False)
        return model.without(batch, leave_one_out(batch))


@pytest.mark.parametrize(
    ("encoder", "attention", "projection"), list(itertools.product(ENCODERS, SCORERS, PROJECTIONS))
)
def test_every_combination_gives_what_running_all_texts_again_gives(encoder, attention, projection, monkeypatch):
    model, batch = small_model(encoder=encoder, attention=attention, projection=projection), awkward_batch()
    logits = model.without(batch, leave_one_out(batch))
    torch.testing.assert_close(logits, all_run_again(model, batch, monkeypatch), **BATCHED)


@pytest.mark.parametrize(("encoder", "attention"), list(itertools.product(ENCODERS, SCORERS)))
def test_leave_one_out_equals_each_shortened_text_alone(encoder, attention):
    check(small_model(encoder=encoder, attention=attention), awkward_batch())


VARIANTS = {
    "two layers": {"encoder": "lstm", "num_layers": 2},
    "one direction": {"encoder": "lstm", "bidirectional": False},
    "one direction of gru": {"encoder": "gru", "bidirectional": False, "attention": "dot"},
    "two layers of one direction": {"encoder": "gru", "num_layers": 2, "bidirectional": False},
    "two orthogonal layers": {"encoder": "orthogonal_lstm", "num_layers": 2},
    "one kernel": {"encoder": "cnn", "kernel_sizes": (1,)},
    "kernels wider than most texts": {"encoder": "cnn", "kernel_sizes": (3, 9), "attention_size": 3},
    "softmax over four": {"encoder": "lstm", "num_labels": 4},
    "multi-label": {"encoder": "cnn", "num_labels": 3, "output": "multi_label"},
    "temperature": {"encoder": "gru", "temperature": 0.3},
    "learned alpha": {"encoder": "lstm", "projection": "entmax", "learn_alpha": True},
    "no padding id": {"encoder": "lstm", "pad_token_id": None},
    "scale": {"encoder": "gru", "scale": "tasc_lin"},
    "scale of windows": {"encoder": "cnn", "scale": "tasc_lin"},
    "scale of words read alone": {"encoder": "mlp", "scale": "tasc_lin", "projection": "sparsemax"},
    "scale, run again": {"encoder": "transformer", "scale": "tasc_lin"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_leave_one_out_of_every_setting(name):
    check(small_model(**VARIANTS[name]), awkward_batch())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_a_query_goes_with_its_text(encoder, attention):
    model = small_model(encoder=encoder, attention=attention, query=True)
    batch = awkward_batch(queries=(2, 4, 0, 3, 1, 2, 2))
    check(model, batch)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_read_out_that_is_not_linear_and_candidates(encoder):
    model = small_model(encoder=encoder, query=True, readout="tanh", num_labels=4, output="softmax")
    batch = awkward_batch(queries=(2, 4, 0, 3, 1, 2, 2))
    batch["candidates"] = torch.rand(7, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    batch["candidates"][:, 1] = True
    check(model, batch)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_none_one_and_several_in_one_call(encoder):
    batch = awkward_batch()
    several = torch.rand(7, 5, 12, generator=torch.Generator().manual_seed(0)) < 0.5
    keep = torch.cat([several, leave_one_out(batch), torch.ones(7, 1, 12, dtype=torch.bool)], dim=1)
    keep = keep[:, torch.randperm(keep.shape[1], generator=torch.Generator().manual_seed(1))]
    check(small_model(encoder=encoder), batch, keep)


@pytest.mark.parametrize("encoder", SHORT)
def test_nothing_is_run_again(encoder, monkeypatch):
    model, batch = small_model(encoder=encoder), awkward_batch()
    expected = one_by_one(model, batch, leave_one_out(batch))
    states = []
    monkeypatch.setattr(model.encoder, "forward", lambda e, m, f=model.encoder.forward: states.append(e) or f(e, m))
    monkeypatch.setattr(model, "forward", None)
    torch.testing.assert_close(model.without(batch, leave_one_out(batch)), expected, **BATCHED)
    assert [len(e) for e in states] in ([], [7]), "the whole texts are read once at most"


@pytest.mark.parametrize("attention", SCORERS)
@pytest.mark.parametrize("encoder", ["lstm", "gru"])
def test_one_direction_runs_nothing_again_and_gives_the_same(encoder, attention, monkeypatch):
    model = copy.deepcopy(small_model(encoder=encoder, attention=attention, bidirectional=False)).double()
    batch = awkward_batch()
    expected = one_by_one(model, batch, leave_one_out(batch))
    steps = []
    one_pass = recurrent_passes.RecurrentPass
    monkeypatch.setattr(one_pass, "changed", lambda *a, f=one_pass.changed: steps.append(a) or f(*a))
    monkeypatch.setattr(model, "forward", None)
    torch.testing.assert_close(model.without(batch, leave_one_out(batch)), expected, rtol=1e-12, atol=1e-12)
    assert len(steps) == 1, "no pass reads back"


@pytest.mark.parametrize("encoder", ENCODERS)
def test_what_is_run_together_changes_nothing(encoder, monkeypatch):
    model, batch = small_model(encoder=encoder), awkward_batch()
    several = torch.rand(7, 4, 12, generator=torch.Generator().manual_seed(0)) < 0.5
    keep = torch.cat([leave_one_out(batch), several], dim=1)
    all_gather = model.without(batch, keep)
    for states, weights, scored in ((1, 1, 1), (12 * 8 * 5, 12 * 7 * 3, 7)):
        monkeypatch.setattr(deletion, "STATES", states)
        monkeypatch.setattr(deletion, "WEIGHTS", weights)
        monkeypatch.setattr(single_deletions, "SCORED", scored)
        torch.testing.assert_close(model.without(batch, keep), all_gather, **EXACT)
    torch.testing.assert_close(model.without(batch, keep, rows=3), all_gather, **EXACT)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_in_double_precision_the_ways_agree_to_it(encoder):
    model = copy.deepcopy(small_model(encoder=encoder)).double()
    check(model, awkward_batch(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_half_precision_gives_logits_in_float32(encoder):  # C13
    model, batch = small_model(encoder=encoder).to(torch.bfloat16), awkward_batch()
    logits = model.without(batch, leave_one_out(batch))
    assert logits.dtype == torch.float32
    expected = one_by_one(model, batch, leave_one_out(batch)).float()
    torch.testing.assert_close(logits, expected, rtol=0.05, atol=0.05)  # a few roundings at 2^-8


@pytest.mark.parametrize("encoder", ["lstm", "gru"])
@pytest.mark.parametrize("lasting", [False, True], ids=["states that fade", "states that last"])
def test_rows_that_come_back_to_their_text_stop_there(encoder, lasting, monkeypatch):
    model = small_model(encoder=encoder)
    if lasting:  # forget nothing (LSTM), update little (GRU)
        with torch.no_grad():
            for net in (*model.encoder.ahead, *model.encoder.back):
                net.bias_ih_l0[8:16] += 8
    batch, steps = small_batch((130, 100, 40)), []
    place = torch.arange(batch["input_ids"].shape[1])
    batch["input_ids"] = 2 + (batch["input_ids"] + place) % 2 + 2 * (place % 9)  # no neighbours that are equal
    cell = recurrent_passes.LSTMCell if encoder == "lstm" else recurrent_passes.GRUCell
    monkeypatch.setattr(cell, "step", lambda *a, f=cell.step: steps.append(len(a[2])) or f(*a))
    logits = model.without(batch, leave_one_out(batch))
    taken, all_of_them = sum(steps), sum(n * (n - 1) + 2 * n for n in (130, 100, 40))
    assert taken == all_of_them if lasting else taken < 0.6 * all_of_them
    torch.testing.assert_close(logits, all_run_again(model, batch, monkeypatch), **BATCHED)


@pytest.mark.parametrize("low", [-10.0, -30.0, -60.0, -120.0])
def test_small_scores_keep_their_ratio_without_the_large_one(low):  # 0 / 0 if divided by 1 - attention
    model = small_model(encoder="none", attention="dot", embedding_size=4, hidden_size=4)
    with torch.no_grad():
        model.embedding.weight.zero_()
        model.embedding.weight[2:5, 0] = torch.tensor([0.0, low, low - 1]) * 2  # scores are divided by sqrt(4)
        model.embedding.weight[3, 1] = 1
        model.attention.scorer.vector.weight.copy_(torch.tensor([[1.0, 0, 0, 0]]))
        model.readout.weight.copy_(torch.tensor([[0.0, 1, 0, 0]]))  # reads the weight of the second token
        model.readout.bias.zero_()
    logits = model.without({"input_ids": torch.tensor([[2, 3, 4]])}, torch.tensor([[[False, True, True]]]))
    assert float(logits[0, 0, 1]) == pytest.approx(0.731059, abs=1e-6)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_embeddings_in_place_of_ids(encoder):
    model, batch = small_model(encoder=encoder), awkward_batch()
    expected = model.without(batch, leave_one_out(batch))
    ids = batch.pop("input_ids")
    batch["inputs_embeds"] = model.embedding(ids).detach()
    torch.testing.assert_close(model.without(batch, leave_one_out(batch)), expected, **EXACT)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_neither_ids_nor_embeddings(encoder):
    keep = torch.ones(1, 1, 3, dtype=torch.bool)
    with pytest.raises(InputError, match="either `input_ids` or `inputs_embeds`"):
        small_model(encoder=encoder).without({"attention_mask": torch.ones(1, 3)}, keep)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_mask_means_that_all_is_read(encoder):
    model, batch = small_model(encoder=encoder), small_batch((4, 4))
    expected = model.without(batch, leave_one_out(batch))
    del batch["attention_mask"]
    keep = ~torch.eye(4, dtype=torch.bool).expand(2, 4, 4)
    torch.testing.assert_close(model.without(batch, keep), expected, **EXACT)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_positions_and_no_alternatives(encoder):
    model = small_model(encoder=encoder)
    empty = {"input_ids": torch.zeros(2, 0, dtype=torch.long), "attention_mask": torch.zeros(2, 0)}
    logits = model.without(empty, torch.zeros(2, 3, 0, dtype=torch.bool))
    torch.testing.assert_close(logits[..., 1], model.readout.bias.detach().expand(2, 3))
    assert model.without(small_batch(), torch.zeros(4, 0, 7, dtype=torch.bool)).shape == (4, 0, 2)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_no_gradient_is_kept_and_nothing_is_changed(encoder):  # C27
    model, batch = small_model(encoder=encoder).train(), awkward_batch()
    before = {name: value.clone() for name, value in (*batch.items(), *model.state_dict().items())}
    logits = model.without(batch, leave_one_out(batch))
    assert not logits.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in (*batch.items(), *model.state_dict().items()))
    assert all(module.training for module in model.modules())
    torch.testing.assert_close(logits, model.eval().without(batch, leave_one_out(batch)), **EXACT)
