"""Gradients, deletions and gradients of attention for transformers models, against the plain models' own forwards."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import OPERATORS, Request, SourceSettings, attribute, outcome
from attn_faithful.attributions.embedded_text import text_at
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from tests.attributions.test_layers import LENGTHS, ask, in_words, place, with_gradients
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import EOS, PAD, build, read, stock, texts, wrapped
from tests.reference import stock as reference

EXACT = {"rtol": 0, "atol": 1e-10}
SIGNED = SourceSettings(sign="signed")
TARGET = torch.tensor([0, 2, 1, 0])
IDS = {"mask": 7, "unk": 8, "pad": PAD}
NAMES = ("bert", "gpt2")  # one that reads its first token, one that reads its last and no later one


def found(source: str, name: str, settings: SourceSettings = SIGNED, words: bool = False, **more) -> Tensor:
    batch = in_words(texts(LENGTHS)) if words else texts(LENGTHS)
    request = replace(ask(wrapped(name), batch, target=TARGET, **more), settings=settings, token_ids=IDS)
    return attribute(source, request).values


def content() -> Tensor:
    batch = texts(LENGTHS)
    return batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()


def one_text(name: str, text: int, ids: list[int] | None = None, embedded: Tensor | None = None) -> Tensor:
    """The probability of the target that the plain model gives a text alone, without padding."""
    model = stock(name)
    ids = texts(LENGTHS)["input_ids"][text, : LENGTHS[text]].tolist() if ids is None else ids
    given = {"input_ids": torch.tensor([ids])} if embedded is None else {"inputs_embeds": embedded[None]}
    return model(**given).logits.softmax(-1)[0, TARGET[text]]


def embeddings(name: str, text: int) -> Tensor:
    ids = texts(LENGTHS)["input_ids"][text, : LENGTHS[text]]
    return stock(name).get_input_embeddings()(ids).detach()


# --- gradients


@pytest.mark.parametrize("name", NAMES)
def test_gradients_equal_plain_autograd(name):
    saliency, product = found("saliency", name), found("input_x_gradient", name)
    torch.testing.assert_close(saliency, product, equal_nan=True, **EXACT)
    norms = found("saliency", name, replace(SIGNED, reduction="l2"))
    assert torch.equal(saliency.isfinite(), content())
    for text, length in enumerate(LENGTHS):
        leaf = embeddings(name, text).requires_grad_()
        gradient = torch.autograd.grad(one_text(name, text, embedded=leaf), leaf)[0]
        own = content()[text, :length]
        expected = (gradient * leaf.detach()).sum(-1)
        torch.testing.assert_close(saliency[text, :length][own], expected[own], **EXACT)
        torch.testing.assert_close(norms[text, :length][own], gradient.norm(dim=-1)[own], **EXACT)


@pytest.mark.parametrize("name", NAMES)
def test_integrated_gradients_add_up_to_the_change(name):  # C19
    batch = texts(LENGTHS)
    for words in (False, True):
        request = replace(ask(wrapped(name), in_words(batch) if words else batch, target=TARGET), settings=SIGNED)
        answer = attribute("integrated_gradients", request)
        assert answer.reasons == ()
        assert float(answer.extra["convergence_delta"].nan_to_num().abs().max()) < 1e-6
        for text, length in enumerate(LENGTHS[:3]):
            start = embeddings(name, text) * ~content()[text, :length, None]
            with torch.no_grad():
                change = one_text(name, text) - one_text(name, text, embedded=start)
            assert float(answer.values[text].nansum()) == pytest.approx(float(change), abs=1e-6)


def test_a_way_through_a_pole_is_told():
    """Llama's norms forget a text's size, so all happens near the start of the way, where embeddings are zero."""
    batch, model = texts(LENGTHS), wrapped("llama")
    coarse, fine = (
        attribute("integrated_gradients", ask(model, batch, target=TARGET, n_steps=n, sign="signed")) for n in (20, 300)
    )
    assert "raise n_steps" in coarse.reasons[0]
    gap, less = (a.extra["convergence_delta"].nan_to_num().abs().max() for a in (coarse, fine))
    assert float(less) < float(gap) / 10


@pytest.mark.parametrize("name", NAMES)
def test_held_attention_is_a_constant(name):
    """Against finite differences of transformers' eager function with the weights as a list."""
    model, batch = wrapped(name), texts(LENGTHS)
    request = replace(ask(model, batch, target=TARGET), settings=replace(SIGNED, attention_path="detached"))
    values = attribute("input_x_gradient", request).values
    for text in (0, 1):
        length, step = LENGTHS[text], 1e-5
        own = {n: v[text : text + 1, :length] for n, v in read(batch).items()}
        _, weights = reference.run(stock(name), own)
        for token in content()[text].nonzero()[:, 0].tolist():
            ends = []
            for size in (1 + step, 1 - step):
                embedded = embeddings(name, text)
                embedded[token] *= size
                given = {"inputs_embeds": embedded[None], "attention_mask": own["attention_mask"]}
                logits = torch.as_tensor(reference.run(stock(name), given, weights)[0])
                ends.append(float(logits.softmax(-1)[0, TARGET[text]]))
            assert float(values[text, token]) == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-8)
    free = found("input_x_gradient", name)
    assert float((values - free).nan_to_num().abs().max()) > 1e-4


def test_the_path_is_the_models_unless_one_is_asked_for():
    batch = texts(LENGTHS)
    stock_request = ask(wrapped("bert"), batch)
    assert stock_request.attention_path == "attached"
    assert "attention_weights" not in text_at(stock_request, "saliency").names
    pooled = small_model()
    asked = Request(pooled, small_batch(), pooled.encode(small_batch()))
    assert asked.attention_path == "detached"
    assert "attention_weights" in text_at(asked, "saliency").names
    for path in ("attached", "detached"):
        for request in (stock_request, asked):
            assert replace(request, settings=SourceSettings(attention_path=path)).attention_path == path


# --- deletions


@torch.no_grad()
def changed(name: str, text: int, tokens: list[int], operator: str) -> Tensor:
    """The target's probability without some tokens of a text."""
    ids = texts(LENGTHS)["input_ids"][text, : LENGTHS[text]].tolist()
    if operator == "delete":
        return one_text(name, text, [i for t, i in enumerate(ids) if t not in tokens])
    if operator == "zero":
        embedded = embeddings(name, text)
        embedded[tokens] = 0
        return one_text(name, text, embedded=embedded)
    return one_text(name, text, [IDS[operator] if t in tokens else i for t, i in enumerate(ids)])


@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_equals_a_loop(name, operator, words):  # C22
    values = found("leave_one_out", name, replace(SIGNED, operator=operator), words)
    members = in_words(texts(LENGTHS))["word_ids"] if words else torch.where(content(), torch.arange(max(LENGTHS)), -1)
    for text in range(len(LENGTHS)):
        with torch.no_grad():
            whole = one_text(name, text)
        for item in members[text].unique().tolist():
            if item >= 0:
                tokens = (members[text] == item).nonzero()[:, 0].tolist()
                expected = float(whole - changed(name, text, tokens, operator))
                assert float(values[text, item]) == pytest.approx(expected, abs=1e-8)
    if operator == "zero":
        occluded = found("occlusion", name, SIGNED, words)
        torch.testing.assert_close(values, occluded, equal_nan=True, **EXACT)


# --- gradients of attention


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_a_layers_attention_equal_plain_autograd(name):
    """Of the row that is read, summed over the heads; a product is taken before heads are summed."""
    model, batch = wrapped(name), texts(LENGTHS)
    layers, slopes = (torch.as_tensor(x) for x in map(_stacked, with_gradients(name, TARGET.tolist())))
    rows = torch.arange(len(LENGTHS)), torch.tensor([place(name, b) for b in range(len(LENGTHS))])
    for n, site in enumerate(model.sites[:-1]):
        request = ask(model, batch, site, TARGET, outcome="logit")
        weights, slope = (x[n].transpose(1, 2)[rows] for x in (layers, slopes))  # (B, H, T)
        slope = slope * request.encoded.allowed
        for source, expected in (("attention_gradient", slope), ("attention_x_gradient", slope * weights)):
            values = attribute(source, request).values
            torch.testing.assert_close(values[content()], expected.sum(1)[content()], **EXACT)


def _stacked(layers) -> Tensor:
    return torch.stack([torch.as_tensor(layer) for layer in layers])


@pytest.mark.parametrize(("name", "queries"), [("bert", "auto"), ("gpt2", "all"), ("bert", "mean"), ("bart", "auto")])
def test_gradients_of_attention_equal_finite_differences(name, queries):
    """At the site of all layers too, where a row is replaced in all of them at once."""
    model, batch, step = wrapped(name, queries), texts((5, 3)), 1e-5
    generator = torch.Generator().manual_seed(0)
    for site in (model.sites[0], JOINT):
        for words in (False, True):
            request = ask(model, in_words(batch) if words else batch, site, torch.tensor([0, 2]), outcome="logit")
            encoded = request.encoded
            plain, product = (attribute(s, request).values for s in ("attention_gradient", "attention_x_gradient"))
            # one direction for each: every slot's weight of a token moves alike, or in proportion to itself
            token = torch.rand(encoded.content.shape, generator=generator, dtype=torch.float64) * encoded.content
            for values, direction in (
                (plain, encoded.allowed * token[:, None]),
                (product, encoded.attention * token[:, None]),
            ):
                with torch.no_grad():
                    ends = torch.stack([encoded.attention + s * step * direction for s in (1, -1)], dim=1)
                    odds = outcome(encoded.decode(ends), request.classes, "logit", multi_label=False)
                expected = (odds[:, 0] - odds[:, 1]) / (2 * step)
                torch.testing.assert_close((values.nan_to_num() * token).sum(1), expected, rtol=1e-5, atol=1e-7)


# --- what there is not


@pytest.mark.parametrize("source", ["state_saliency", "state_leave_one_out", "hidden_gradient", "attention"])
def test_sources_of_pooled_models_are_refused(source):
    with pytest.raises(InputError, match=r"state|one attention distribution"):
        found(source, "bert")


def test_one_head_is_one_distribution():
    model, batch = StockModel(stock("bert"), heads=[2]), texts(LENGTHS)
    request = ask(model, batch, "layer.1", TARGET)
    values = attribute("state_leave_one_out", request).values
    assert torch.equal(values.isfinite(), content())
    own = attribute("attention", request).values
    torch.testing.assert_close(own[content()], request.encoded.attention[:, 0][content()], **EXACT)


def test_a_model_without_a_padding_token_reads_embeddings_alike():
    model = build("gpt2").double()
    expected = attribute("saliency", ask(StockModel(model), texts(LENGTHS), target=TARGET)).values
    model.config.pad_token_id = None
    values = attribute("saliency", ask(StockModel(model), texts(LENGTHS), target=TARGET)).values
    torch.testing.assert_close(values, expected, equal_nan=True, **EXACT)
    assert EOS != PAD
