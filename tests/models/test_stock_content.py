"""What of a stock model's text tests may move, and the ways past known blocks that a model must first stand."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import build, read, texts, wrapped


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
@pytest.mark.parametrize("words", [False, True], ids=["tokens", "words"])
def test_special_tokens_are_no_content(name, words):
    """They keep their weight and their place before the classifier, and no test may move or rank them."""
    model, batch = wrapped(name), texts()
    if words:
        numbers = batch["attention_mask"].cumsum(1) - 1
        batch["word_ids"] = torch.where(batch["special_tokens_mask"].bool(), -1, numbers)
    special, real = batch["special_tokens_mask"].bool(), batch["attention_mask"].bool()
    assert bool((special & real).any(1).all())
    for site in (model.sites[-2], "joint"):
        encoded = model.encode(batch, site)
        assert torch.equal(encoded.content.sum(1), (real & ~special).sum(1))
        block = Block(["a", "b", "c", "d"], ["a", "b", "c", "d"], 0, site, encoded)
        held = encoded.attention.sum(-1)
        moved = (encoded.attention * block.items).sum(-1)
        assert bool((moved <= held + 1e-9).all())
        assert bool((moved[0] < held[0] - 1e-6).any())  # the rest lies on special tokens
        if not words:
            assert torch.equal(encoded.content, real & ~special)
            assert not bool((block.items & special[:, None]).any())


class LooksBack(transformers.BertForSequenceClassification):
    """Its head reads, beside the first token of the last layer, the mean over what came out of an earlier one."""

    layer = 1

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        output = self.bert(input_ids, attention_mask=attention_mask, output_hidden_states=True, **kwargs)
        earlier, mask = output.hidden_states[self.layer], attention_mask[:, :, None]
        mean = (earlier * mask).sum(1) / mask.sum(1)
        logits = self.classifier(output.last_hidden_state[:, 0] + 3 * mean)
        return transformers.modeling_outputs.SequenceClassifierOutput(logits=logits)


class LooksBeside(LooksBack):
    """What came out of the layer before the last: other tokens' states are needed, but no earlier ones."""

    layer = 2


def by_hook(plain: LooksBack, batch: dict[str, Tensor], layer: int, row: Tensor) -> Tensor:
    """Logits (B, C) where the first row of every head of a layer is ``row`` (B, H, T), by a hand-made layer."""
    own = plain.bert.encoder.layer[layer].attention.self
    attend = own.forward

    def forward(states, attention_mask=None, *args, **kwargs):
        b, t, n = states.shape
        query, key, value = (f(states).view(b, t, 4, -1).transpose(1, 2) for f in (own.query, own.key, own.value))
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(~batch["attention_mask"].bool()[:, None, None], -torch.inf).softmax(-1)
        weights = torch.cat([row[:, :, None], weights[:, :, 1:]], dim=2)
        return (weights @ value).transpose(1, 2).reshape(b, t, n), weights

    own.forward = forward
    try:
        return plain(**batch).logits
    finally:
        own.forward = attend


@torch.no_grad()
@pytest.mark.parametrize(("kind", "skips"), [(LooksBack, False), (LooksBeside, True)])
def test_a_shortcut_is_taken_only_where_it_gives_what_the_whole_model_gives(kind, skips):
    plain = kind(build("bert").config).eval()
    plain.load_state_dict(build("bert").state_dict())
    model, batch = StockModel(plain), read(texts())
    assert (model.probe.reads, model.skips, model.single) == ("first", skips, False)
    first = torch.zeros(4, 4, 9)  # (B, H, T)
    first[..., 0] = 1.0
    for layer in (1, 2):
        encoded = model.encode(batch, f"layer.{layer}")
        found = encoded.decode(first[:, None])[:, 0]
        expected = by_hook(plain, batch, layer, first)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
        assert float((expected - encoded.logits).abs().max()) > 1e-2
