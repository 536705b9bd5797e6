"""What comes after the attention of stock models as data: its logits against the model's own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attn_faithful.models.protocol import Encoded, TailUnknownError
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import build, texts

FLOAT64, FLOAT32 = torch.float64, torch.float32
# family, prefix, type of the weights, tolerance: norms that compute in float32 whatever the type leave 1e-5
UNDERSTOOD = {
    "BERT": ("bert", "Bert", FLOAT64, 1e-9),
    "RoBERTa": ("roberta", "Roberta", FLOAT64, 1e-9),
    "XLM-RoBERTa": ("roberta", "XLMRoberta", FLOAT64, 1e-9),
    "DistilBERT": ("distilbert", "DistilBert", FLOAT64, 1e-9),
    "ELECTRA": ("electra", "Electra", FLOAT64, 1e-9),
    "ALBERT": ("albert", "Albert", FLOAT64, 1e-9),
    "ModernBERT": ("modernbert", "ModernBert", FLOAT64, 1e-9),
    "GPT-2": ("gpt2", "GPT2", FLOAT64, 1e-9),
    "Llama": ("llama", "Llama", FLOAT64, 1e-5),
    "Mistral": ("llama", "Mistral", FLOAT64, 1e-5),
    "Qwen2": ("llama", "Qwen2", FLOAT64, 1e-5),
    "Gemma2": ("gemma2", "Gemma2", FLOAT32, 1e-4),
}
REFUSED = {
    "bart": "BartForSequenceClassification: only at its last layer",
    "t5": "T5ForSequenceClassification: only at its last layer",
}


def stock(family: str, heads: list[int] | None = None) -> StockModel:
    name, prefix, dtype, _ = UNDERSTOOD[family]
    return StockModel(build(name, prefix).to(dtype), heads=heads)


def last_layer(model: StockModel, batch: dict[str, Tensor]) -> Encoded:
    with torch.no_grad():
        return model.encode(batch, model.sites[-2])


def anywhere(encoded: Encoded, rows: int = 6) -> Tensor:
    """(B, rows + 2, S, T): the own attention, nothing, and weights of all sizes."""
    generator = torch.Generator().manual_seed(3)
    shape = (len(encoded.attention), rows, *encoded.attention.shape[1:])
    weights = torch.rand(shape, generator=generator, dtype=torch.float64).log().abs() ** 4 * encoded.allowed[:, None]
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    own = encoded.attention.double()[:, None]
    return torch.cat([own, torch.zeros_like(own), weights], dim=1).to(encoded.attention.dtype)


def check_tail(encoded: Encoded, tolerance: float) -> None:
    """The tail of the texts in another order has the logits of `decode`, and is all in float64."""
    order = torch.arange(len(encoded.logits)).flip(0)
    attention = anywhere(encoded)
    tail = encoded.tail_of(order)
    with torch.no_grad():
        expected = encoded.decode(attention)[order]
    found = tail.logits(attention[order])
    size = float(expected.abs().max())
    torch.testing.assert_close(found, expected.double(), rtol=0, atol=tolerance * size)
    assert {tensor.dtype for tensor in (tail.base, tail.values, found)} == {FLOAT64}
    spread = expected.max(1).values - expected.min(1).values
    assert float(spread.max()) > 0.01 * size  # attention matters


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("family", UNDERSTOOD)
def test_the_tail_has_the_logits_of_the_model(family, left):
    model = stock(family)
    if left and not model.probe.left:
        pytest.skip("reads no padding on the left")
    check_tail(last_layer(model, texts(left=left)), UNDERSTOOD[family][3])


@pytest.mark.parametrize("family", UNDERSTOOD)
def test_words_and_some_heads(family):
    model = stock(family, heads=[3, 1])
    batch = texts((7, 8, 5))
    batch["word_ids"] = torch.where(
        batch["special_tokens_mask"] == 0, batch["special_tokens_mask"].eq(0).cumsum(1) // 2, -1
    )
    tolerance = UNDERSTOOD[family][3]
    encoded = last_layer(model, batch)
    assert encoded.items == "word"
    check_tail(encoded, tolerance)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_by_name(name):
    model = StockModel(build(name).double())
    with pytest.raises(TailUnknownError, match=REFUSED[name]):
        last_layer(model, texts()).tail_of(torch.tensor([0]))
