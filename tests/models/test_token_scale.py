"""Lin-TaSc: a learned scale of what attention weighs, against the paper's formula and all that reads the model."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.func import functional_call

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, SourceSettings, attribute
from attn_faithful.functional.flip_set import smallest_flip_set
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.token_scale import TokenScale
from tests.checks import BATCHED, EXACT, check_attention_model
from tests.models.examples import small_batch, small_model
from tests.reference.token_scale import logits as reference


def scaled_model(seed=0, **settings) -> AttentionClassifier:
    """A model whose scales are not near 0, where they start: at random from -1 to 1."""
    model = small_model(seed, scale="tasc_lin", **settings)
    with torch.no_grad():
        model.scale.weight.uniform_(-1, 1, generator=torch.Generator().manual_seed(seed))
    return model


@pytest.mark.parametrize("encoder", ENCODERS)
def test_logits_are_those_of_the_formula(encoder):
    model, batch = scaled_model(encoder=encoder, num_labels=3).double(), small_batch()
    with torch.no_grad():
        output = model(**batch, output_hidden_states=True)
    weight, bias = model.readout.weight.detach().numpy(), model.readout.bias.detach().numpy()
    for row, length in enumerate(batch["attention_mask"].sum(1).tolist()):
        ids = batch["input_ids"][row, :length]
        expected = reference(
            output.attentions[row, :length].numpy(),
            output.hidden_states[row, :length].numpy(),
            model.scale.weight[ids].detach().numpy(),
            model.embedding.weight[ids].detach().numpy(),
            weight,
            bias,
        )
        torch.testing.assert_close(output.logits[row], torch.from_numpy(expected), rtol=0, atol=1e-10)


def test_the_scale_starts_as_in_their_code_and_attention_does_not_see_it():
    plain, model, batch = small_model(encoder="lstm"), small_model(encoder="lstm", scale="tasc_lin"), small_batch()
    bound = 20**-0.5
    assert float(model.scale.weight.abs().max()) <= bound
    assert float(model.scale.weight.std()) > bound / 3
    model.load_state_dict(plain.state_dict(), strict=False)
    torch.testing.assert_close(model(**batch).attentions, plain(**batch).attentions, rtol=0, atol=0)
    assert not torch.allclose(model(**batch).logits[:3], plain(**batch).logits[:3], atol=1e-3)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_passes_the_checks(encoder):
    check_attention_model(scaled_model(encoder=encoder), small_batch(special=((0, 0), (2, 0))))


@pytest.mark.parametrize("encoder", ["gru", "none"])
def test_with_a_query_and_a_tanh_read_out(encoder):
    model = scaled_model(encoder=encoder, query=True, readout="tanh", num_labels=4, output="softmax")
    batch = small_batch(queries=(2, 4, 1, 3))
    check_attention_model(model, batch)
    encoded = copy.deepcopy(model).double().encode(batch)
    texts = torch.tensor([0, 2])
    found = encoded.tail_of(texts).logits(encoded.attention[texts, None])
    torch.testing.assert_close(found[:, 0], encoded.logits[texts], rtol=0, atol=1e-10)


@pytest.mark.parametrize("encoder", ["lstm", "mlp"])
def test_the_smallest_flip_set_is_that_of_all_subsets(encoder):
    """By the forward, which is given every attention that is left; the exact answer reads the affine read-out."""
    flips = 0
    for seed in range(24):
        model, batch = scaled_model(seed, encoder=encoder).double(), small_batch((5,), seed=seed)
        with torch.no_grad():
            encoded = model.encode(batch)
        affine = encoded.affine
        found = smallest_flip_set(encoded.log_weights[:, 0], encoded.content, affine.token_logits, affine.bias)
        decision, sizes = int(encoded.logits[0].argmax()), []
        for size in range(1, 6):
            for removed in itertools.combinations(range(5), size):
                weights = encoded.attention[0, 0].clone()
                weights[list(removed)] = 0
                weights = weights / weights.sum().clamp(min=1e-300)
                with torch.no_grad():
                    logits = model(**batch, attention_weights=weights[None]).logits
                if int(logits[0].argmax()) != decision:
                    sizes.append(size)
        if sizes:
            flips += 1
            assert float(found.size[0]) == min(sizes)
        else:
            assert found.reason[0] == "never flips"
    assert flips > 2


def test_gradients():
    model, batch = scaled_model(encoder="lstm", dropout=0.0).double(), small_batch((4, 2))
    names = ("scale.weight", "embedding.weight", "readout.weight")
    chosen = [model.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def of(*parameters):
        return functional_call(model, dict(zip(names, parameters, strict=True)), (), batch).logits

    assert torch.autograd.gradcheck(of, chosen)


def test_a_word_read_once_is_scaled_as_each_of_its_tokens():
    model, batch = scaled_model(encoder="mlp", dropout=0.0).train(), small_batch(special=((0, 0), (1, 1)))
    batch["input_ids"] = batch["input_ids"] % 4 + 1
    batch = {name: torch.cat([value, value.flip(1)]) for name, value in batch.items()}  # padding on the left, too
    found = []
    for more in ({}, {"output_hidden_states": True}):
        model.zero_grad()
        output = model(**batch, labels=torch.arange(8) % 2, **more)
        output.loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append((output.logits, gradients))
    assert "scale.weight" in found[0][1]
    torch.testing.assert_close(*found, **EXACT)


def test_embeddings_need_their_words():
    model, batch = scaled_model(encoder="lstm"), small_batch()
    embedded = model.embedding(batch["input_ids"])
    given = {**batch, "inputs_embeds": embedded}
    torch.testing.assert_close(model(**given).logits, model(**batch).logits, **EXACT)
    keep = torch.rand(4, 6, 7, generator=torch.Generator().manual_seed(0)) < 0.6
    torch.testing.assert_close(model.without(given, keep), model.without(batch, keep), **BATCHED)
    given.pop("input_ids")
    for ask in (lambda: model(**given), lambda: model.encode(given)):
        with pytest.raises(InputError, match="expected `input_ids` beside `inputs_embeds`"):
            ask()
    with pytest.raises(InputError, match="not both"):
        small_model()(**batch, inputs_embeds=embedded)


@pytest.mark.parametrize("source", ["input_x_gradient", "integrated_gradients"])
def test_gradients_of_sources_pass_the_scale(source):
    model, batch = scaled_model(encoder="cnn", dropout=0.0).double(), small_batch((5, 3))
    settings = SourceSettings(sign="signed", attention_path="attached", n_steps=200)
    target = torch.tensor([1, 0])
    found = attribute(source, Request(model, batch, model.encode(batch), settings, target)).values
    leaf = model.embedding(batch["input_ids"]).detach().requires_grad_()

    def probability(embedded):
        return model(**batch, inputs_embeds=embedded).logits.softmax(-1)[torch.arange(2), target]

    if source == "input_x_gradient":
        (gradient,) = torch.autograd.grad(probability(leaf).sum(), leaf)
        expected = (gradient * leaf).sum(-1).detach()
        torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-10)
        torch.testing.assert_close(found[1, :3], expected[1, :3], rtol=0, atol=1e-10)
    else:
        whole = probability(leaf) - probability(torch.zeros_like(leaf))
        torch.testing.assert_close(found.nansum(1), whole.detach(), rtol=1e-3, atol=1e-4)  # of 200 steps


def test_states_are_the_encoder_s_and_not_scaled():
    model, batch = scaled_model(encoder="lstm"), small_batch()
    states = model(**batch, output_hidden_states=True).hidden_states
    torch.testing.assert_close(model.encode(batch).states, states, **EXACT)


def test_a_vocabulary_is_resized_with_its_scales(tmp_path):
    model, batch = scaled_model(encoder="lstm"), small_batch()
    expected = model(**batch).logits
    model.resize_token_embeddings(25)
    assert model.scale.weight.shape == (25,)
    assert isinstance(model.scale.weight, nn.Parameter)
    assert torch.equal(model(**batch).logits, expected)
    model.save_pretrained(tmp_path)
    assert torch.equal(AttentionClassifier.from_pretrained(tmp_path)(**batch).logits, expected)
    model.resize_token_embeddings(22)
    assert model.scale.weight.shape == (22,)


def test_weights_of_the_start_come_back():
    scale = TokenScale(50)
    with torch.no_grad():
        scale.weight.fill_(7)
    scale.reset_parameters()
    assert float(scale.weight.abs().max()) <= 50**-0.5


def test_hierarchical_models_have_none():
    with pytest.raises(InputError, match="no query, no scale and an affine read-out"):
        HANConfig(scale="tasc_lin")
