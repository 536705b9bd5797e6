"""Half precision of a transformer's blocks: near float32 and told, with attention and classifier in float32."""

import copy

import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.stock import half
from attn_faithful.models.stock.half import BOUND, HALF
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import build, texts

FAMILIES = ("bert", "distilbert", "albert", "modernbert", "gpt2", "llama")
TEXTS = ["good film", "a bad film", "not good , not bad"]


def stock(name):
    """A new model, whose weights are not so large that rounding decides."""
    model = build(name).float()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.3 if weight.dim() > 1 else 1.0)
    return model


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", FAMILIES)
def test_probabilities_are_near_those_of_float32(name, dtype):
    own = stock(name)
    exact, rounded = StockModel(own), StockModel(own, dtype=dtype)
    batch = texts()
    for site in exact.sites:
        one, two = exact.encode(batch, site), rounded.encode(batch, site)
        assert (one.probabilities - two.probabilities).abs().max() <= BOUND
        assert (one.attention - two.attention).abs().max() <= BOUND
        assert {two.attention.dtype, two.logits.dtype, two.probabilities.dtype} == {torch.float32}
    assert 0 < rounded.rounding <= BOUND
    assert exact.rounding is None


@pytest.mark.parametrize("name", FAMILIES)
def test_own_attention_gives_own_logits(name):
    """The noise of half precision is the same in both, so that a small change of attention does not drown in it."""
    model, batch = StockModel(stock(name), dtype="bfloat16"), texts()
    for site in model.sites:
        encoded = model.encode(batch, site)
        with torch.no_grad():
            decoded = encoded.decode(encoded.attention[:, None])[:, 0]
        torch.testing.assert_close(decoded, encoded.logits.detach(), rtol=0, atol=2e-3)


def test_blocks_are_in_half_precision_and_the_classifier_is_not():
    own = stock("bert")
    seen = {}

    def note(name):
        return lambda module, inputs, output: seen.update({name: output.dtype})

    own.bert.encoder.layer[1].intermediate.dense.register_forward_hook(note("block"))
    own.classifier.register_forward_hook(note("classifier"))
    StockModel(own, dtype="bfloat16").logits_of(texts())
    assert seen == {"block": torch.bfloat16, "classifier": torch.float32}
    StockModel(own).logits_of(texts())
    assert seen == {"block": torch.float32, "classifier": torch.float32}
    own(**{name: value for name, value in texts().items() if name in ("input_ids", "attention_mask")})
    assert seen["block"] == torch.float32  # the user's model stays as it is
    assert {weight.dtype for weight in own.parameters()} == {torch.float32}


def test_gradients_pass():
    model = StockModel(stock("bert"), dtype="bfloat16")
    encoded = model.encode(texts(), "layer.0")
    attention = encoded.attention.detach()[:, None].requires_grad_()
    (gradient,) = torch.autograd.grad(encoded.decode(attention)[..., 0].sum(), attention)
    exact = StockModel(model.model).encode(texts(), "layer.0")
    (expected,) = torch.autograd.grad(exact.decode(attention)[..., 0].sum(), attention)
    assert gradient.dtype == torch.float32
    torch.testing.assert_close(gradient, expected, rtol=0.1, atol=0.02 * float(expected.abs().max()))


def test_a_model_that_is_too_far_off_is_refused(monkeypatch):
    monkeypatch.setattr(half, "BOUND", 1e-9)
    with pytest.raises(InputError, match=r"off by up to .* leave dtype out"):
        StockModel(stock("bert"), dtype="bfloat16")


def test_no_numbers_are_too_far_off():
    model = stock("bert")
    with torch.no_grad():
        model.bert.encoder.layer[0].intermediate.dense.bias.fill_(7e4)  # more than float16 has
        model.bert.encoder.layer[0].output.dense.weight.mul_(1e-6)
    StockModel(model)
    with pytest.raises(InputError, match="off by up to nan"):
        StockModel(model, dtype="float16")


def test_other_names_and_types_are_refused():
    with pytest.raises(InputError, match="Did you mean 'bfloat16'"):
        StockModel(stock("bert"), dtype="bfloat61")
    with pytest.raises(InputError, match="no stack of blocks in float32"):
        StockModel(build("bert").double(), dtype="bfloat16")
    with pytest.raises(InputError, match="computes the transformer alone in half"):
        StockModel(stock("bert").bfloat16())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a small BERT with its tokenizer."""
    folder = tmp_path_factory.mktemp("saved")
    tokenizer = train_tokenizer(TEXTS)
    model = stock("bert")
    model.resize_token_embeddings(len(tokenizer))
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_the_type_names_the_run_and_is_told(saved, tmp_path):
    results = {}
    for dtype in ("float32", "bfloat16", torch.bfloat16, "float16"):
        model, tokenizer = af.load(saved, dtype=dtype)
        results[dtype] = af.evaluate_attention(model, tokenizer, TEXTS, ["entropy"], output=tmp_path)
    names = {dtype: result.path.name for dtype, result in results.items()}
    assert len(set(names.values())) == 3
    assert names["bfloat16"] == names[torch.bfloat16]
    plain, in_half = results["float32"].info.precision, results["bfloat16"].info.precision
    assert plain == {"stored": "float32", "measured": "float32"}
    assert in_half["backbone"] == "bfloat16"
    assert 0 < float(in_half["rounding"]) <= BOUND
    assert "with the transformer in bfloat16 (probabilities up to " in str(results["bfloat16"].answer.about)
    assert "with the transformer" not in str(results["float32"].answer.about)


def test_chosen_heads_keep_the_type(saved):
    model, _ = af.load(saved, dtype="bfloat16")
    assert model.choosing(layers=[0]).backbone == copy.copy(model).backbone == torch.bfloat16
