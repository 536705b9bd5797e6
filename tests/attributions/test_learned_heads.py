"""The mix of all heads' attention against transformers' own eager attention."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.attributions.learned_heads import attention_of_heads
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from tests.attributions.test_layers import CLOSE, LENGTHS, ask, in_words, place, plain
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import FAMILIES, NAMES, build, eager, read, stock, texts, wrapped
from tests.models.test_han import documents, small_han

EXACT = {"rtol": 0, "atol": 1e-10}


def weights_of(model: StockModel, seed: int = 0) -> torch.Tensor:
    """A weight a head, of either sign, (L, H)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(model.probe.heads), max(model.probe.heads), generator=generator, dtype=torch.float64)


def mixed(model: StockModel, batch: dict, site: str = JOINT) -> Request:
    return replace(ask(model, batch, site), head_weights=weights_of(model))


def row(name: str, call: int, text: int, layer: np.ndarray) -> np.ndarray:
    """The attention (H, T) of what the classifier reads of a text, at the text's tokens."""
    family, length = FAMILIES[name], LENGTHS[text]
    if call < family.encoder:
        return layer[text][:, :length].mean(1)
    found = layer[text][:, place(name, text)]
    if call in family.shifted:
        found = np.concatenate([np.roll(found[:, :length], -1, axis=1), found[:, length:]], axis=1)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_mix_is_that_of_all_heads(name):
    model, batch = wrapped(name), texts(LENGTHS)
    request = mixed(model, batch)
    found, columns = attribute("learned_heads", request).values, attention_of_heads(request)
    content = request.encoded.content
    assert torch.equal(found.isfinite(), content)
    close = EXACT if FAMILIES[name].dtype == torch.float64 else CLOSE
    for text in range(len(LENGTHS)):
        of_layers = [row(name, call, text, layer) for call, layer in enumerate(plain(name))]
        own = sum(w @ heads for w, heads in zip(weights_of(model).numpy(), of_layers, strict=True))
        inside = content[text]
        np.testing.assert_allclose(found[text][inside], own[inside.numpy()], **close)
        heads = np.concatenate(of_layers)  # (L * H, T)
        np.testing.assert_allclose(columns[text][inside], heads.T[inside.numpy()], **close)


def test_a_classifier_that_reads_all_tokens():
    model, batch = build("modernbert", classifier_pooling="mean"), texts(LENGTHS)
    adapter = StockModel(model)
    found = attribute("learned_heads", mixed(adapter, batch)).values
    layers = [layer.double().numpy() for layer in eager(model, read(batch))[1]]
    for text, length in enumerate(LENGTHS):
        rows = [layer[text][:, :length].mean(1) for layer in layers]
        own = sum(w @ heads for w, heads in zip(weights_of(adapter).numpy(), rows, strict=True))
        inside = found[text].isfinite()
        np.testing.assert_allclose(found[text][inside], own[inside.numpy()], **CLOSE)


def test_every_site_and_choice_of_heads_has_the_same_mix():
    batch = texts(LENGTHS)
    whole = attribute("learned_heads", mixed(wrapped("bert"), batch)).values
    for site in ("layer.0", "layer.2"):
        found = attribute("learned_heads", mixed(wrapped("bert"), batch, site)).values
        torch.testing.assert_close(found, whole, equal_nan=True, **EXACT)
    some = StockModel(stock("bert"), heads=[1], layers=[0, 2])
    torch.testing.assert_close(attribute("learned_heads", mixed(some, batch)).values, whole, equal_nan=True, **EXACT)


def test_a_word_has_the_sum_of_its_tokens():
    model, batch = wrapped("gpt2"), texts(LENGTHS)
    tokens, words = attribute("learned_heads", mixed(model, batch)).values, in_words(batch)
    found = attribute("learned_heads", mixed(model, words)).values
    for text, members in enumerate(words["word_ids"]):
        for word in range(int(members.max()) + 1):
            expected = float(tokens[text][members == word].sum())
            assert float(found[text, word]) == pytest.approx(expected, abs=1e-10)


def test_layers_of_fewer_heads_have_columns_of_zeros(monkeypatch):
    """Heads that a layer lacks carry nothing, whatever weight they would have."""
    model = StockModel(build("bert").double())
    monkeypatch.setattr(model, "probe", replace(model.probe, heads=[4, 4, 5]))
    batch = texts(LENGTHS)
    columns = attention_of_heads(ask(model, batch, "layer.0"))
    assert columns.shape[-1] == 15
    assert float(columns[..., [4, 9]].abs().max()) == 0
    with_weights = replace(ask(model, batch, "layer.0"), head_weights=torch.ones(3, 5).double())
    own = attribute("learned_heads", with_weights).values
    torch.testing.assert_close(own.nan_to_num(), columns.sum(-1).masked_fill(own.isnan(), 0), **EXACT)


def test_without_weights_it_says_who_fits_them():
    with pytest.raises(InputError, match="needs weights of heads, which are fitted on training texts by eval"):
        attribute("learned_heads", ask(wrapped("bert"), texts(LENGTHS)))


def test_models_without_layers_are_told_what_to_use():
    for model, batch in ((small_model(), small_batch()), (small_han(), documents())):
        encoded = model.encode(batch, model.sites[-1])
        with pytest.raises(InputError, match=r"'learned_heads' needs a transformers model.*choose 'attention'"):
            attribute("learned_heads", Request(model, batch, encoded, site=model.sites[-1]))
