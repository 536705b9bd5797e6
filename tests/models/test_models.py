"""Every encoder with every attention and projection passes the checks of an attention model."""

from __future__ import annotations

import itertools

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from tests.checks import EXACT, check_attention_model
from tests.models.examples import small_batch, small_model


@pytest.mark.parametrize(
    ("encoder", "attention", "projection"), list(itertools.product(ENCODERS, SCORERS, PROJECTIONS))
)
def test_every_combination_passes_the_checks(encoder, attention, projection):
    check_attention_model(small_model(encoder=encoder, attention=attention, projection=projection), small_batch())


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("attention", [name for name in SCORERS if name != "uniform"])
def test_a_query_passes_the_checks(encoder, attention):
    model = small_model(encoder=encoder, attention=attention, query=True)
    batch = small_batch(queries=(2, 4, 0, 3))
    check_attention_model(model, batch)
    asked = {name: value.flip(0) if name.startswith("query_") else value for name, value in batch.items()}
    assert not torch.allclose(model(**asked).attentions[0], model(**batch).attentions[0], atol=1e-6)


VARIANTS = {
    "special tokens": {"encoder": "lstm"},
    "special tokens, reads alone": {"encoder": "mlp"},
    "special tokens, positions": {"encoder": "transformer"},
    "learned positions": {"encoder": "transformer", "positions": "learned", "max_positions": 11},
    "two layers of transformer": {"encoder": "transformer", "num_layers": 2},
    "two layers of lstm": {"encoder": "lstm", "num_layers": 2},
    "two layers of gru": {"encoder": "gru", "num_layers": 2},
    "one direction of lstm": {"encoder": "lstm", "bidirectional": False},
    "one direction of gru, two layers": {"encoder": "gru", "num_layers": 2, "bidirectional": False},
    "two orthogonal layers": {"encoder": "orthogonal_lstm", "num_layers": 2},
    "learned alpha": {"encoder": "gru", "projection": "entmax", "learn_alpha": True, "entmax_alpha": 1.3},
    "temperature": {"encoder": "lstm", "temperature": 0.3},
    "sparsegen's lambda": {"encoder": "lstm", "projection": "sparsegen", "sparsegen_lambda": 0.8},
    "entmax's alpha": {"encoder": "cnn", "projection": "entmax", "entmax_alpha": 1.8},
    "relu": {"encoder": "average", "activation": "relu"},
    "attention_size": {"encoder": "cnn", "attention_size": 3},
    "softmax over two": {"encoder": "lstm", "output": "softmax"},
    "softmax over four": {"encoder": "mlp", "num_labels": 4},
    "multi_label": {"encoder": "cnn", "num_labels": 3, "output": "multi_label"},
    "frozen embeddings": {"encoder": "mlp", "freeze_embeddings": True},
    "no padding id": {"encoder": "lstm", "pad_token_id": None},
    "scale": {"encoder": "lstm", "scale": "tasc_lin"},
    "scale, reads alone": {"encoder": "mlp", "scale": "tasc_lin", "num_labels": 3},
    "special tokens, scale": {"encoder": "cnn", "scale": "tasc_lin"},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_setting_passes_the_checks(name):
    special = ((0, 0), (0, 6), (1, 1), (2, 0)) if name.startswith("special") else ()
    check_attention_model(small_model(**VARIANTS[name]), small_batch(special=special))


@pytest.mark.parametrize("given", [False, True], ids=["own attention", "given attention"])
@pytest.mark.parametrize("attention", SCORERS)
@pytest.mark.parametrize("encoder", [name for name in ENCODERS if ENCODERS[name].reach == 0])
def test_a_word_read_once_is_read_as_each_of_its_tokens(encoder, attention, given):
    model = small_model(encoder=encoder, attention=attention, projection="entmax15", dropout=0.0).train()
    batch = small_batch(special=((0, 0), (1, 1), (2, 0)))
    batch["input_ids"] = batch["input_ids"] % 4 + 1  # words that stand in several texts, and several times in one
    batch = {name: torch.cat([value, value.flip(1)]) for name, value in batch.items()}  # padding on the left, too
    if given:
        batch["attention_weights"] = torch.rand(batch["input_ids"].shape, generator=torch.Generator().manual_seed(0))
    found = []
    for once in (True, False):
        model.zero_grad()
        inputs = dict(batch) if once else {**batch, "inputs_embeds": model.embedding(batch["input_ids"])}
        if not once:
            del inputs["input_ids"]
        assert model._reads_words(inputs.get("input_ids")) == once
        output = model(**inputs, labels=torch.arange(len(batch["input_ids"])) % 2)
        (output.loss + (output.attentions * torch.arange(1.0, 1 + output.attentions.shape[1])).sum()).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append((output.logits, output.attentions, gradients))
    torch.testing.assert_close(*found, **EXACT)


def test_words_are_read_one_by_one_where_that_matters():
    ids = small_batch()["input_ids"]
    assert not small_model(encoder="mlp", dropout=0.0)._reads_words(ids)  # not training
    for settings in (
        {"encoder": "mlp", "dropout": 0.5},
        {"encoder": "lstm", "dropout": 0.0},
        {"encoder": "mlp", "dropout": 0.0, "query": True},
    ):
        assert not small_model(**settings).train()._reads_words(ids)


def test_attention_leaves_out_special_tokens_that_the_encoder_reads():
    model, batch = small_model(), small_batch((5,), special=((0, 0), (0, 4)))
    encoded = model.encode(batch)
    assert encoded.content.tolist() == [[False, True, True, True, False]]
    swapped = {**batch, "input_ids": batch["input_ids"].clone()}
    swapped["input_ids"][0, 0] = 2 + batch["input_ids"][0, 0] % 18
    assert not torch.allclose(model(**swapped).logits, model(**batch).logits)
    plain = model.encode({name: value for name, value in batch.items() if name != "special_tokens_mask"})
    ratio = plain.attention[0, 0, 1:4] / plain.attention[0, 0, 1:4].sum()
    torch.testing.assert_close(encoded.attention[0, 0, 1:4], ratio, **EXACT)


def test_without_a_mask_everything_is_read():
    model, batch = small_model(), small_batch((4, 4))
    torch.testing.assert_close(model(batch["input_ids"]).logits, model(**batch).logits, rtol=0, atol=0)


def test_embeddings_in_place_of_tokens():
    model, batch = small_model(), small_batch()
    embedded = model.get_input_embeddings()(batch["input_ids"])
    given = {"inputs_embeds": embedded, "attention_mask": batch["attention_mask"]}
    torch.testing.assert_close(model.encode(given).logits, model.encode(batch).logits, rtol=0, atol=0)
    keep = torch.ones(4, 1, 7, dtype=torch.bool)
    keep[:, :, 1] = False
    torch.testing.assert_close(model.without(given, keep), model.without(batch, keep), rtol=0, atol=0)
    with pytest.raises(InputError, match="either `input_ids` or `inputs_embeds`"):
        model(batch["input_ids"], inputs_embeds=embedded)
    with pytest.raises(InputError, match="either `input_ids` or `inputs_embeds`"):
        model()


def test_what_an_output_holds():
    model, batch = small_model(), small_batch()
    output = model(**batch, labels=torch.tensor([0, 1, 1, 0]), output_hidden_states=True)
    assert output.hidden_states.shape == (4, 7, 16)
    assert bool((output.hidden_states[~batch["attention_mask"].bool()] == 0).all())
    torch.testing.assert_close(
        model.eval().encode(batch).states, model(**batch, output_hidden_states=True).hidden_states
    )
    assert output.attentions.shape == (4, 7)
    assert output.loss.dim() == 0
    plain = model(**batch)
    assert plain.hidden_states is None
    assert plain.loss is None
    logits, attention = model(**batch, return_dict=False)
    assert torch.equal(logits, plain.logits)
    assert torch.equal(attention, plain.attentions)


def test_a_one_logit_model_gives_zero_and_the_logit():  # C21
    model = small_model(encoder="mlp")
    with torch.no_grad():
        model.readout.weight.zero_()
        model.readout.bias.fill_(1.2)
    encoded = model.encode(small_batch((3,)))
    assert encoded.logits.tolist() == [[0.0, pytest.approx(1.2)]]
    assert encoded.probabilities.tolist() == [[pytest.approx(0.231475, abs=1e-6), pytest.approx(0.768525, abs=1e-6)]]
    weights = encoded.attention[:, None].clone().requires_grad_()
    model.readout.weight.data.normal_()
    decoded = model.encode(small_batch((3,))).decode(weights).softmax(-1)
    rows = [torch.autograd.grad(decoded[0, 0, c], weights, retain_graph=True)[0] for c in (0, 1)]
    assert float(rows[1].detach().abs().max()) > 1e-3
    torch.testing.assert_close(rows[0], -rows[1], **EXACT)


def test_probabilities_of_several_labels_are_independent():
    encoded = small_model(encoder="mlp", num_labels=3, output="multi_label").encode(small_batch())
    torch.testing.assert_close(encoded.probabilities, encoded.logits.sigmoid(), rtol=0, atol=0)
    several = small_model(encoder="mlp", num_labels=3).encode(small_batch())
    torch.testing.assert_close(several.probabilities.sum(-1), torch.ones(4), **EXACT)


def test_a_learned_alpha_has_the_right_gradient():
    model = small_model(encoder="mlp", projection="entmax", learn_alpha=True, entmax_alpha=1.3).double()
    batch = small_batch()

    def attention(logit):
        model.attention.alpha_logit.data = logit.data
        return torch.func.functional_call(model, {"attention.alpha_logit": logit}, kwargs=batch).attentions

    start = model.attention.alpha_logit.detach().clone().requires_grad_()
    assert 1 + float(start.detach().sigmoid()) == pytest.approx(1.3)
    assert float(torch.autograd.grad(attention(start).square().sum(), start)[0].abs()) > 1e-4
    assert torch.autograd.gradcheck(attention, (start,), atol=1e-6)


def test_temperature_and_lambda_reach_the_projection():
    batch = small_batch((7,))
    support = {
        value: int((small_model(projection="sparsegen", sparsegen_lambda=value)(**batch).attentions > 0).sum())
        for value in (-5.0, 0.999)
    }
    assert support[-5.0] > support[0.999] == 1
    sharp, flat = (small_model(temperature=value)(**batch).attentions.detach().max() for value in (0.05, 5.0))
    assert float(sharp) > float(flat) + 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("projection", PROJECTIONS)
def test_half_precision_models_give_attention_in_float32(dtype, projection):  # C13
    model, batch = small_model(encoder="mlp", projection=projection).to(dtype), small_batch()
    encoded, output = model.encode(batch), model(**batch)
    assert encoded.attention.dtype == encoded.logits.dtype == output.attentions.dtype == torch.float32
    torch.testing.assert_close(encoded.attention.sum(-1)[:3], torch.ones(3, 1), **EXACT)
    tolerance = 8 * torch.finfo(dtype).eps  # one rounding a layer
    torch.testing.assert_close(output.logits.float(), encoded.logits, rtol=tolerance, atol=tolerance)


def test_autocast_keeps_attention_in_float32():  # C13
    model, batch = small_model(encoder="mlp"), small_batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, encoded = model(**batch, labels=torch.tensor([0, 1, 1, 0])), model.encode(batch)
    assert output.attentions.dtype == encoded.attention.dtype == torch.float32
    torch.testing.assert_close(encoded.attention.sum(-1)[:3], torch.ones(3, 1), **EXACT)
    torch.testing.assert_close(encoded.logits, model.encode(batch).logits, rtol=0.1, atol=0.1)


def test_a_model_cannot_be_asked_for_what_it_does_not_have():
    model, batch = small_model(), small_batch()
    with pytest.raises(InputError, match="Unknown site 'word'"):
        model.encode(batch, "word")
    with pytest.raises(InputError, match=r"`attention` of shape \(B, K, S, T\)"):
        model.encode(batch).decode(torch.zeros(4, 7))
    with pytest.raises(InputError, match=r"`attention_weights` of shape \(B, T\)"):
        model(**batch, attention_weights=torch.zeros(4, 1, 7))
    with pytest.raises(InputError, match=r"`keep` of shape \(B, K, T\)"):
        model.without(batch, torch.ones(4, 7, dtype=torch.bool))
    with pytest.raises(InputError, match=r"`input_ids` of shape \(B, T\)"):
        model(torch.zeros(7, dtype=torch.long))
    with pytest.raises(InputError, match="has no query"):
        model(**batch, query_input_ids=batch["input_ids"])
    with pytest.raises(InputError, match="has a query"):
        small_model(query=True)(**batch)


def test_without_does_not_depend_on_the_rows_a_forward():
    model, batch = small_model(), small_batch()
    keep = ~torch.eye(7, dtype=torch.bool).expand(4, 7, 7)
    torch.testing.assert_close(model.without(batch, keep, rows=5), model.without(batch, keep), rtol=1e-5, atol=1e-5)
