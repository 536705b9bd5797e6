"""Importance of states against autograd and loops."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import entropy

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.attributions.hidden import hidden_gradient_importance
from attn_faithful.models.protocol import probabilities
from tests.models.examples import small_batch, small_model
from tests.models.test_han import documents, small_han
from tests.reference import divergences as slow


def ask(name, model, batch, **settings):
    return attribute(name, Request(model, batch, model.encode(batch, model.sites[-1]), SourceSettings(**settings)))


@pytest.mark.parametrize("encoder", ["lstm", "mlp", "transformer"])
@pytest.mark.parametrize("path", ["attached", "detached"])
def test_state_saliency_equals_autograd(encoder, path):
    model, batch = small_model(encoder=encoder), small_batch((5, 2))
    found = ask("state_saliency", model, batch, attention_path=path).values
    encoded = model.encode(batch)
    states = model(**batch, output_hidden_states=True).hidden_states.detach()
    for row, n in enumerate((5, 2)):
        leaf = states[row : row + 1, :n].clone().requires_grad_()
        attention = encoded.attention[row, :, :n]
        if path == "attached":
            attention = model.attention(leaf, torch.ones(1, n).bool())[0]
        logits = model.read_out((attention[:, None] @ leaf).squeeze(1))
        p = logits.softmax(-1)[0, encoded.logits[row].argmax()]
        gradient = torch.autograd.grad(p, leaf)[0]
        torch.testing.assert_close(found[row, :n].float(), gradient[0].norm(dim=-1), rtol=1e-5, atol=1e-6)
        assert bool(found[row, n:].isnan().all())


@pytest.mark.parametrize("projection", ["softmax", "sparsemax"])
def test_a_state_left_out_equals_a_loop(projection):
    model, batch = small_model(encoder="gru", projection=projection), small_batch((5, 1))
    found = ask("state_leave_one_out", model, batch).values
    encoded = model.encode(batch)
    before = probabilities(encoded.logits)
    for row, n in enumerate((5, 1)):
        for t in range(n):
            allowed = encoded.allowed[row : row + 1].clone()
            allowed[0, 0, t] = False
            weights = encoded.project(encoded.scores[row : row + 1], allowed)
            full = encoded.attention.clone()
            full[row] = weights[0]
            after = probabilities(encoded.decode(full[:, None])[:, 0])
            assert float(found[row, t]) == pytest.approx(slow.tvd(after[row].tolist(), before[row].tolist()), abs=1e-6)


def test_hidden_gradient_says_how_spread_a_state_is():
    model, batch = small_model(encoder="lstm"), small_batch((4, 3, 1, 0))
    found = ask("hidden_gradient", model, batch)
    shares, _ = hidden_gradient_importance(model, batch, model.encode(batch))
    spread = found.extra["hidden_entropy"].tolist()
    for row, n in enumerate((4, 3)):  # the second is padded
        torch.testing.assert_close(found.values[row, :n].sum(), torch.tensor(1.0, dtype=torch.float64))
        by_hand = sum(entropy(shares[row, p, :n].numpy()) / math.log(n) for p in range(n)) / n
        assert spread[row] == pytest.approx(by_hand, abs=1e-10)
    assert math.isnan(spread[2])  # of one token nothing can be said
    assert math.isnan(spread[3])
    alone = ask("hidden_gradient", small_model(encoder="mlp"), small_batch((4,)))
    assert float(alone.extra["hidden_entropy"][0]) == pytest.approx(0, abs=1e-12)


def test_models_without_such_states_are_refused():
    model, batch = small_han(), documents()
    with pytest.raises(InputError, match="state"):
        ask("state_saliency", model, batch)
