"""Value zeroing against plain transformers models in which a hook sets one token's value vectors to 0."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.attributions import value_zeroing as module
from attn_faithful.models.stock.model import StockModel
from tests.attributions.test_layers import CLOSE, LENGTHS, place, values
from tests.models.stock_families import FAMILIES, NAMES, build, read, stock, texts, wrapped
from tests.reference import value_zeroing as slow

WIDTH = 32  # of value vectors, all heads side by side, which stand last where one map gives queries and keys too
JOINED = ("gpt2", "modernbert")
EXACT = {"rtol": 0, "atol": 1e-10}


def layers(name: str, model: nn.Module) -> list[tuple[nn.Module, nn.Module]]:
    """The block and the map that gives values of each attention call of a plain model, in order."""
    base = model.base_model
    if name in ("bert", "roberta", "electra"):
        return [(block, block.attention.self.value) for block in base.encoder.layer]
    if name == "distilbert":
        return [(block, block.attention.v_lin) for block in base.transformer.layer]
    if name == "albert":
        block = base.encoder.albert_layer_groups[0]
        return [(block, block.albert_layers[0].attention.value)] * 3
    if name == "modernbert":
        return [(block, block.attn.Wqkv) for block in base.layers]
    if name == "gpt2":
        return [(block, block.attn.c_attn) for block in base.h]
    if name in ("llama", "gemma2"):
        return [(block, block.self_attn.v_proj) for block in base.layers]
    found = []
    if name == "bart":
        found += [(block, block.self_attn.v_proj) for block in base.encoder.layers]
        for block in base.decoder.layers:
            found += [(block, block.self_attn.v_proj), (block, block.encoder_attn.v_proj)]
        return found
    found += [(block, block.layer[0].SelfAttention.v) for block in base.encoder.block]
    for block in base.decoder.block:
        found += [(block, block.layer[0].SelfAttention.v), (block, block.layer[1].EncDecAttention.v)]
    return found


@torch.no_grad()
def states(name: str, model: nn.Module, batch: dict[str, Tensor], call: int, zeroed: int | None = None) -> np.ndarray:
    """States (B, T, N) after the block of a call, with the values of the token at ``zeroed`` set to 0."""
    block, linear = layers(name, model)[call]
    time = call if name == "albert" else 0  # which of the module's calls is meant: its layers share one
    outputs: list[Tensor] = []
    seen: list[None] = []

    def zero(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        seen.append(None)
        if len(seen) - 1 != time or zeroed is None:
            return output
        output = output.clone()
        start = output.shape[-1] - WIDTH if name in JOINED else 0
        output[:, zeroed, start:] = 0
        return output

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        outputs.append(output if isinstance(output, Tensor) else output[0])

    handles = [linear.register_forward_hook(zero), block.register_forward_hook(keep)]
    try:
        model(**read(batch))
    finally:
        for handle in handles:
            handle.remove()
    return outputs[time].double().numpy()


@cache
def mixing(name: str, call: int) -> list[np.ndarray]:
    """The matrix (T, T) of each text after a call."""
    model, batch = stock(name), texts(LENGTHS)
    own = states(name, model, batch, call)
    altered = np.stack([states(name, model, batch, call, j) for j in range(max(LENGTHS))])  # (T, B, T, N)
    present = batch["attention_mask"].numpy()
    # a decoder's own attention reads the token before each, the one that starts it among them, and no padding
    return [slow.context_mixing(own[b], altered[:, b], present[b]) for b in range(len(LENGTHS))]


def expected_row(name: str, call: int, text: int) -> np.ndarray:
    """What value zeroing says of a text's tokens at a layer (T,)."""
    matrix, length = mixing(name, call)[text], LENGTHS[text]
    family = FAMILIES[name]
    if call < family.encoder:
        return matrix[:length].mean(0)
    row = matrix[place(name, text)]
    if call not in family.shifted:
        return row
    return np.append(np.roll(row[:length], -1), row[length:])


@pytest.mark.parametrize("name", NAMES)
def test_shares_equal_those_of_a_hook_that_zeroes_values(name):
    model, batch = wrapped(name), texts(LENGTHS)
    content = batch["attention_mask"].bool() & ~batch["special_tokens_mask"].bool()
    close = EXACT if FAMILIES[name].dtype == torch.float64 else CLOSE
    each = []
    for call, site in enumerate(model.sites[:-1]):
        found = values("value_zeroing", model, batch, site)
        assert torch.equal(found.isfinite(), content)
        for b in range(len(LENGTHS)):
            inside = content[b]
            expected = expected_row(name, call, b)[inside.numpy()]
            np.testing.assert_allclose(found[b][inside], expected, **close)
        each.append(found)
    last = values("value_zeroing", model, batch)
    torch.testing.assert_close(last, each[-1], equal_nan=True, **EXACT)
    mean = values("value_zeroing", model, batch, layers="all")
    torch.testing.assert_close(mean, torch.stack(each).mean(0), equal_nan=True, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert"])
def test_one_row_and_whole_layers_say_the_same(name, monkeypatch):
    model, batch = wrapped(name), texts(LENGTHS)
    text = module.LayeredText(model, model.inputs(batch))
    assert [module._one_row_suffices(text, layer, layer) for layer in range(3)] == [True] * 3
    one_row = values("value_zeroing", model, batch, layers="all")
    monkeypatch.setattr(module, "_one_row_suffices", lambda *args: False)
    whole = values("value_zeroing", model, batch, layers="all")
    torch.testing.assert_close(one_row, whole, equal_nan=True, **CLOSE)
    monkeypatch.setattr(model, "skips", False)
    torch.testing.assert_close(values("value_zeroing", model, batch, layers="all"), whole, equal_nan=True, **CLOSE)


@pytest.mark.parametrize("one_row", [True, False])
def test_parts_of_the_tokens_say_the_same(one_row, monkeypatch):
    model, batch = wrapped("bert"), texts(LENGTHS)
    if not one_row:
        monkeypatch.setattr(module, "_one_row_suffices", lambda *args: False)
    whole = values("value_zeroing", model, batch)
    monkeypatch.setattr(module, "CELLS", 20)
    torch.testing.assert_close(values("value_zeroing", model, batch), whole, equal_nan=True, **EXACT)


@pytest.mark.parametrize("one_row", [True, False])
def test_chosen_heads_alone_lose_their_values(one_row, monkeypatch):
    if not one_row:
        monkeypatch.setattr(module, "_one_row_suffices", lambda *args: False)
    batch = texts(LENGTHS)
    found = values("value_zeroing", StockModel(stock("bert"), heads=[1]), batch, "layer.1")
    model = build("bert").double()
    own = states("bert", model, batch, 1)
    linear = layers("bert", model)[1][1]
    for b, length in enumerate(LENGTHS):
        altered = []
        for j in range(max(LENGTHS)):

            def zero(_module, _inputs, output, j=j):
                output = output.clone()
                output[:, j, 8:16] = 0
                return output

            handle = linear.register_forward_hook(zero)
            altered.append(states("bert", model, batch, 1)[b])
            handle.remove()
        row = slow.context_mixing(own[b], np.stack(altered), batch["attention_mask"][b].numpy())[0]
        inside = found[b].isfinite()
        np.testing.assert_allclose(found[b][inside], row[inside.numpy()], **EXACT)
        assert inside.sum() == max(0, length - 2)


def test_a_classifier_that_reads_all_tokens():
    model = build("modernbert", classifier_pooling="mean")
    batch = texts(LENGTHS)
    found = values("value_zeroing", StockModel(model), batch)
    own = states("modernbert", model, batch, 2)
    altered = np.stack([states("modernbert", model, batch, 2, j) for j in range(max(LENGTHS))])
    for b, length in enumerate(LENGTHS):
        matrix = slow.context_mixing(own[b], altered[:, b], batch["attention_mask"][b].numpy())
        inside = found[b].isfinite()
        np.testing.assert_allclose(found[b][inside], matrix[:length].mean(0)[inside.numpy()], **CLOSE)


def test_values_that_change_nothing_have_no_share():
    model = build("bert").double()
    with torch.no_grad():
        model.bert.encoder.layer[2].attention.self.value.weight.zero_()
        model.bert.encoder.layer[2].attention.self.value.bias.zero_()
    found = values("value_zeroing", StockModel(model), texts(LENGTHS))
    assert bool((found[found.isfinite()] == 0).all())


def test_attention_outside_of_blocks_is_refused():
    model = StockModel(build("bert"))
    model.blocks.steps = []
    with pytest.raises(InputError, match=r"layer 2 of BertForSeq.* in no list of blocks; choose 'raw_attention'"):
        values("value_zeroing", model, texts(LENGTHS))
