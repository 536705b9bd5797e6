"""Importance from the attention of many layers, against transformers' own eager attention and the papers' loops."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.attributions import parts
from attn_faithful.attributions.base import Request, SourceSettings, attribute, outcome
from attn_faithful.functional.rollout import HEADS
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import FAMILIES, build, eager, read, stock, texts, wrapped
from tests.models.test_han import documents, small_han
from tests.reference import rollout as slow

SOURCES = ("raw_attention", "value_norm", "value_zeroing", "rollout", "attention_flow", "attention_relevance")
NAMES = ("bert", "gpt2", "llama", "modernbert")
LENGTHS = (7, 5, 2, 1)  # the last is its special token alone
CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # of models in float32, whose logits differ by as much between implementations


def ask(model: StockModel, batch: dict[str, Tensor], site: str = JOINT, target=None, **settings) -> Request:
    with torch.no_grad():
        encoded = model.encode(batch, site)
    return Request(model, batch, encoded, SourceSettings(**settings), target, site=site)


def values(source: str, *args, **more) -> Tensor:
    return attribute(source, ask(*args, **more)).values


def in_words(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Words of two content tokens each, the last of one perhaps."""
    content = batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()
    return {**batch, "word_ids": torch.where(content, (content.cumsum(1) - 1) // 2, -1)}


@cache
def plain(name: str) -> list[np.ndarray]:
    """The layers' eager attention (B, H, T, T) in the texts."""
    return [layer.double().numpy() for layer in eager(stock(name), read(texts(LENGTHS)))[1]]


def place(name: str, text: int) -> int:
    return LENGTHS[text] - 1 if FAMILIES[name].reads == "last" else 0


def check(name: str, found: Tensor, expected: list[np.ndarray]) -> None:
    """Values (B, T) against those of each text, NaN outside its content."""
    batch = texts(LENGTHS)
    content = batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()
    assert found.dtype == torch.float64
    assert torch.equal(found.isfinite(), content)
    exact = {"rtol": 0, "atol": 1e-10} if FAMILIES[name].dtype == torch.float64 else CLOSE
    for text, own in enumerate(expected):
        np.testing.assert_allclose(found[text][content[text]], own[content[text].numpy()], **exact)


# --- against the papers


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_raw_attention_is_the_row_of_the_token_that_is_read(name, heads):
    model, batch, layers = wrapped(name), texts(LENGTHS), plain(name)
    rows = [[slow.merged(layer[b], heads)[place(name, b)] for layer in layers] for b in range(len(LENGTHS))]
    for n, site in enumerate(model.sites[:-1]):
        check(name, values("raw_attention", model, batch, site, heads=heads), [own[n] for own in rows])
    check(name, values("raw_attention", model, batch, heads=heads), [own[-1] for own in rows])
    check(name, values("raw_attention", model, batch, heads=heads, layers="all"), [np.mean(own, 0) for own in rows])


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_rollout_and_flow_equal_the_loops(name, heads):
    model, batch, layers = wrapped(name), texts(LENGTHS), plain(name)
    stacks = [np.stack([slow.merged(layer[b], heads) for layer in layers]) for b in range(len(LENGTHS))]
    own = [slow.rollout(stack)[place(name, b)] for b, stack in enumerate(stacks)]
    check(name, values("rollout", model, batch, heads=heads), own)
    starts = [np.eye(max(LENGTHS))[place(name, b)] for b in range(len(LENGTHS))]
    most = [
        np.array([slow.flow(stack, start, j) for j in range(len(start))])
        for stack, start in zip(stacks, starts, strict=True)
    ]
    check(name, values("attention_flow", model, batch, heads=heads), most)


def with_gradients(name: str, classes: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Eager attention (B, H, T, T) of each layer, and the gradient of the target's log-odds with respect to it."""
    model = stock(name)
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        output = model(**read(texts(LENGTHS)), output_attentions=True)
    finally:
        model.set_attn_implementation(before)
    odds = outcome(output.logits, torch.tensor(classes), "logit", multi_label=False)
    slopes = torch.autograd.grad(odds.sum(), output.attentions)
    return tuple([x.detach().double().numpy() for x in each] for each in (output.attentions, slopes))


@pytest.mark.parametrize("name", NAMES)
def test_relevance_equals_the_loops(name):
    model, batch, classes = wrapped(name), texts(LENGTHS), [0, 2, 1, 0]
    layers, slopes = with_gradients(name, classes)
    expected = []
    for b in range(len(LENGTHS)):
        own, slope = (np.stack([layer[b] for layer in each]) for each in (layers, slopes))
        expected.append(slow.relevance(own, slope)[place(name, b)])
    for of in ("probability", "logit"):
        found = values("attention_relevance", model, batch, target=torch.tensor(classes), outcome=of)
        check(name, found, expected)
    predicted = model.seen(batch).logits.argmax(-1)
    found = values("attention_relevance", model, batch, target=predicted)
    torch.testing.assert_close(values("attention_relevance", model, batch), found, equal_nan=True, rtol=0, atol=0)


def values_and_output(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Value vectors (B, H, T, D) of a layer and its output projection (H * D, N), from the family's own parameters."""
    model = stock(name)
    with torch.no_grad():
        states = model(**read(texts(LENGTHS)), output_hidden_states=True).hidden_states[n]
        if name == "bert":
            layer = model.bert.encoder.layer[n].attention
            found, output = layer.self.value(states), layer.output.dense.weight.T
        elif name == "gpt2":
            layer = model.transformer.h[n]
            found, output = layer.attn.c_attn(layer.ln_1(states))[..., -32:], layer.attn.c_proj.weight
        elif name == "llama":
            layer = model.model.layers[n]
            found, output = layer.self_attn.v_proj(layer.input_layernorm(states)), layer.self_attn.o_proj.weight.T
        else:
            layer = model.model.layers[n]
            found, output = layer.attn.Wqkv(layer.attn_norm(states))[..., -32:], layer.attn.Wo.weight.T
    found = found.unflatten(-1, (-1, 8)).transpose(1, 2)
    found = found.repeat_interleave(4 // found.shape[1], dim=1)  # heads that share a value
    return found.double().numpy(), output.detach().double().numpy()


@pytest.mark.parametrize("name", NAMES)
def test_value_norms_equal_the_loops(name):
    model, batch, layers = wrapped(name), texts(LENGTHS), plain(name)
    each = []
    for n, site in enumerate(model.sites[:-1]):
        vectors, output = values_and_output(name, n)
        expected = [slow.value_norms(layers[n][b][:, place(name, b)], vectors[b], output) for b in range(len(LENGTHS))]
        check(name, values("value_norm", model, batch, site), expected)
        each.append(expected)
    check(name, values("value_norm", model, batch), each[-1])
    check(name, values("value_norm", model, batch, layers="all"), list(np.mean(each, axis=0)))


@pytest.mark.parametrize("name", ["roberta", "distilbert", "electra", "albert", "gemma2", "bart", "t5"])
def test_every_family_has_a_projection(name):
    model = wrapped(name)
    for site in model.sites:
        found = values("value_norm", model, texts(LENGTHS), site)
        assert float(found.nan_to_num().max()) > 0


def test_heads_that_cancel_out_have_no_norm():
    model = build("bert").double()
    layer = model.bert.encoder.layer[2].attention
    with torch.no_grad():  # heads 0 and 1 alike up to their sign, the others nothing
        for linear in (layer.self.query, layer.self.key, layer.self.value):
            linear.weight[8:16], linear.bias[8:16] = linear.weight[:8], linear.bias[:8]
        layer.output.dense.weight[:, 8:16] = -layer.output.dense.weight[:, :8]
        layer.output.dense.weight[:, 16:] = 0
    found = values("value_norm", StockModel(model), texts(LENGTHS), "layer.2")
    assert float(found.nan_to_num().abs().max()) < 1e-12
    alone = values("value_norm", StockModel(model, heads=[0]), texts(LENGTHS), "layer.2")
    assert float(alone.nan_to_num().max()) > 1e-3


class Adapted(nn.Module):
    """A linear map beside a smaller one, as adapters have it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.down, self.up = base, nn.Linear(32, 2, bias=False), nn.Linear(2, 32, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def test_adapters_are_part_of_the_projection():
    model = build("llama")
    output = model.model.layers[1].self_attn
    output.o_proj = Adapted(output.o_proj)
    found = values("value_norm", StockModel(model), texts(LENGTHS), "layer.1")
    merged = build("llama")
    with torch.no_grad():
        merged.model.layers[1].self_attn.o_proj.weight += output.o_proj.up.weight @ output.o_proj.down.weight
    expected = values("value_norm", StockModel(merged), texts(LENGTHS), "layer.1")
    torch.testing.assert_close(found, expected, equal_nan=True, **CLOSE)


def test_attention_that_goes_into_no_linear_map_is_refused():
    model = build("llama")
    layer = model.model.layers[1].self_attn
    layer.o_proj = nn.Sequential(nn.LayerNorm(32), layer.o_proj)
    wrapped_ = StockModel(model)
    with pytest.raises(InputError, match=r"no linear map that the attention of layer 1 of LlamaForSeq.*raw_attention"):
        values("value_norm", wrapped_, texts(LENGTHS), "layer.1")
    assert bool(values("value_norm", wrapped_, texts(LENGTHS), "layer.0").isfinite().any())


# --- what is read, and of what


def test_a_classifier_that_reads_all_tokens():
    """The mean over the text's rows, and a flow that starts at all of them."""
    model = build("modernbert", classifier_pooling="mean")
    adapter, batch = StockModel(model), texts(LENGTHS)
    assert adapter.probe.reads == "every"
    layers = [layer.double().numpy() for layer in eager(model, read(batch))[1]]
    vectors = []
    with torch.no_grad():
        last = model.model.layers[2]
        states = model(**read(batch), output_hidden_states=True).hidden_states[2]
        vectors = last.attn.Wqkv(last.attn_norm(states))[..., -32:].unflatten(-1, (4, 8)).transpose(1, 2)
    output = last.attn.Wo.weight.detach().T.double().numpy()
    expected = {name: [] for name in ("raw_attention", "rollout", "attention_flow", "value_norm")}
    for b, length in enumerate(LENGTHS):
        stack = np.stack([slow.merged(layer[b], "mean") for layer in layers])
        start = np.array([1 / length if j < length else 0.0 for j in range(max(LENGTHS))])
        expected["raw_attention"].append(start @ stack[-1])
        expected["rollout"].append(start @ slow.rollout(stack))
        expected["attention_flow"].append(np.array([slow.flow(stack, start, j) for j in range(len(start))]))
        rows = [slow.value_norms(layers[2][b][:, q], vectors[b].double().numpy(), output) for q in range(length)]
        expected["value_norm"].append(np.mean(rows, axis=0))
    for source, own in expected.items():
        check("modernbert", values(source, adapter, batch), own)
    assert bool(values("attention_relevance", adapter, batch).isfinite().any())


@pytest.mark.parametrize("source", ["raw_attention", "value_norm"])
def test_a_decoder_is_one_token_behind(source):
    """In a decoder's own attention the key at t is the text's token before t."""
    model, batch = wrapped("bart"), texts(LENGTHS)
    layers = eager(model.model, read(batch))[1]
    found = values("raw_attention", model, batch, "layer.4")
    own = (
        layers[4].mean(1)[torch.arange(4), torch.tensor(LENGTHS) - 1].roll(-1, -1)
    )  # what starts the decoder goes last
    content = found.isfinite()
    torch.testing.assert_close(found[content], own[content], rtol=0, atol=1e-10)
    crossed = values("raw_attention", model, batch, "layer.5")
    own = layers[5].mean(1)[torch.arange(4), torch.tensor(LENGTHS) - 1]
    torch.testing.assert_close(crossed[content], own[content], rtol=0, atol=1e-10)
    decoder = model.model.model.decoder
    with torch.no_grad():
        states = model.model(**read(batch), output_hidden_states=True).decoder_hidden_states[1]
        vectors = decoder.layers[1].self_attn.v_proj(states).unflatten(-1, (4, 8)).transpose(1, 2).numpy()
    output = decoder.layers[1].self_attn.out_proj.weight.detach().T.numpy()
    norms = values("value_norm", model, batch, "layer.4")
    for b, length in enumerate(LENGTHS):
        own = slow.value_norms(layers[4][b, :, length - 1].numpy(), vectors[b], output)
        np.testing.assert_allclose(norms[b][content[b]], np.roll(own, -1)[content[b]], rtol=0, atol=1e-10)
    both = values(source, model, batch, layers="all")
    each = torch.stack([values(source, model, batch, site) for site in model.sites[:-1]])
    torch.testing.assert_close(both, each.mean(0), equal_nan=True, rtol=0, atol=1e-10)


@pytest.mark.parametrize("source", SOURCES[3:])
@pytest.mark.parametrize("name", ["bart", "t5"])
def test_an_encoder_with_a_decoder_is_no_stack(name, source):
    with pytest.raises(InputError, match=f"'{source}' follows one stack of layers.*choose 'raw_attention'"):
        values(source, wrapped(name), texts(LENGTHS))


@pytest.mark.parametrize("source", SOURCES)
def test_models_without_layers_are_told_what_to_use(source):
    for model, batch in ((small_model(), small_batch()), (small_han(), documents())):
        encoded = model.encode(batch, model.sites[-1])
        with pytest.raises(InputError, match=f"'{source}' needs a transformers model with layers.*choose 'attention'"):
            attribute(source, Request(model, batch, encoded, site=model.sites[-1]))


@pytest.mark.parametrize("source", SOURCES[:3])
def test_sources_of_one_site_ask_for_its_name(source):
    model, batch = wrapped("bert"), texts(LENGTHS)
    with pytest.raises(InputError, match=r"is of one site; pass its name, one of layer\.0, layer\.1"):
        attribute(source, Request(model, batch, model.encode(batch, JOINT)))
    with pytest.raises(InputError, match=r"Unknown site 'layer\.9'"):
        attribute(source, Request(model, batch, model.encode(batch, JOINT), site="layer.9"))


def test_chosen_layers_and_heads():
    model, batch, layers = StockModel(stock("bert"), heads=[1], layers=[0, 2]), texts(LENGTHS), plain("bert")
    found = values("raw_attention", model, batch, layers="all")
    check("bert", found, [(layers[0][b][1, 0] + layers[2][b][1, 0]) / 2 for b in range(len(LENGTHS))])
    for source in SOURCES[3:]:  # of the whole model, whatever a test may change
        whole = values(source, wrapped("bert"), batch)
        torch.testing.assert_close(values(source, model, batch), whole, equal_nan=True, rtol=0, atol=1e-12)


# --- all of them


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", NAMES)
def test_neither_padding_nor_batch_mates_change_a_text(name, source):  # C16
    model, batch, target = wrapped(name), texts(LENGTHS), torch.tensor([0, 2, 1, 0])
    all_gather = values(source, model, batch, target=target)
    padded = values(source, model, texts(LENGTHS, padding=3), target=target)
    torch.testing.assert_close(padded[:, : max(LENGTHS)], all_gather, equal_nan=True, **CLOSE)
    assert bool(padded[:, max(LENGTHS) :].isnan().all())
    for row, length in enumerate(LENGTHS):
        alone = {n: v[row : row + 1, :length] for n, v in batch.items()}
        found = values(source, model, alone, target=target[row : row + 1])
        torch.testing.assert_close(found[0], all_gather[row, :length], equal_nan=True, **CLOSE)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_a_word_has_the_sum_of_its_tokens(name, source):
    model, batch = wrapped(name), texts(LENGTHS)
    tokens = values(source, model, batch)
    words = in_words(batch)
    request = ask(model, words)
    found = attribute(source, request).values
    assert torch.equal(found.isfinite(), request.encoded.content)
    for row, members in enumerate(words["word_ids"]):
        for word in range(int(members.max()) + 1):
            expected = float(tokens[row][members == word].sum())
            assert float(found[row, word]) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("source", SOURCES)
def test_the_model_is_left_as_it_was(source):
    model = build("gpt2")
    adapter, batch = StockModel(model).train(), texts(LENGTHS)
    model.transformer.h[1].eval()
    request = ask(adapter, batch)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    modes, forwards = [m.training for m in adapter.modules()], [m.__dict__.get("forward") for m in model.modules()]
    state, own = torch.get_rng_state(), model.config._attn_implementation
    first = attribute(source, request).values
    model.requires_grad_(False)
    frozen = attribute(source, request).values
    torch.testing.assert_close(first, frozen, rtol=0, atol=0, equal_nan=True)  # dropout would differ
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert [m.training for m in adapter.modules()] == modes
    assert [m.__dict__.get("forward") for m in model.modules()] == forwards
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.config._attn_implementation == own
    assert torch.is_grad_enabled()


def test_parts_of_a_batch_are_no_other_texts(monkeypatch):
    model, batch = wrapped("gpt2"), in_words(texts(LENGTHS))
    ways = [("attention_relevance", {}), ("saliency", {}), ("integrated_gradients", {"attention_path": "detached"})]
    whole = [values(source, model, batch, **given) for source, given in ways]
    monkeypatch.setattr(parts, "CELLS", 50)
    run_together = parts.gradient_parts(ask(model, batch))
    assert [(part.length, part.rows.tolist()) for part in run_together] == [(7, [0, 1]), (2, [2, 3])]
    for (source, given), expected in zip(ways, whole, strict=True):
        found = values(source, model, batch, **given)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10, equal_nan=True)


def test_several_labels():
    """A label's own log-odds."""
    model = build("bert", problem_type="multi_label_classification").double()
    adapter, batch, target = StockModel(model), texts(LENGTHS), torch.tensor([0, 2, 1, 0])
    request = ask(adapter, batch, target=target)
    request_alike = replace(request, encoded=replace(request.encoded, multi_label=False))
    found, other = (attribute("attention_relevance", r).values for r in (request, request_alike))
    assert float((found - other).nan_to_num().abs().max()) > 1e-6
