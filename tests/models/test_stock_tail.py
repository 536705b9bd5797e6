"""What comes after the attention of stock models as data: its logits against the model's own."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.functional.tail import TailUnknownError
from attn_faithful.models.label_view import label_view
from attn_faithful.models.protocol import JOINT, Encoded
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.tail_nodes import Attended, scaled
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
    "Qwen3": ("llama", "Qwen3", FLOAT64, 1e-5),
    "Gemma": ("llama", "Gemma", FLOAT64, 1e-5),
    "OLMo2": ("llama", "Olmo2", FLOAT64, 1e-5),
    "Phi": ("llama", "Phi", FLOAT64, 1e-9),
    "GPT-NeoX": ("llama", "GPTNeoX", FLOAT64, 1e-9),
    "Gemma2": ("gemma2", "Gemma2", FLOAT32, 1e-4),
}
REFUSED = {
    "bart": "BartForSequenceClassification: only at its last layer",
    "t5": "T5ForSequenceClassification: only at its last layer",
}


@cache
def stock(family: str) -> StockModel:
    name, prefix, dtype, _ = UNDERSTOOD[family]
    return StockModel(build(name, prefix).to(dtype))


def last_layer(model: StockModel, batch: dict[str, Tensor]) -> Encoded:
    with torch.no_grad():
        return model.encode(batch, model.sites[-2])


def anywhere(encoded: Encoded, rows: int = 6) -> Tensor:
    """(B, rows + 3, S, T): the own attention, nothing, weights of all sizes, and weights where none may be too."""
    generator = torch.Generator().manual_seed(3)
    shape = (len(encoded.attention), rows, *encoded.attention.shape[1:])
    weights = torch.rand(shape, generator=generator, dtype=torch.float64).log().abs() ** 4 * encoded.allowed[:, None]
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)
    own = encoded.attention.double()[:, None]
    return torch.cat([own, torch.zeros_like(own), weights, torch.ones_like(own)], dim=1).to(encoded.attention.dtype)


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


def in_words(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch with words of two tokens."""
    content = batch["special_tokens_mask"] == 0
    word = (content.cumsum(1) - 1) // 2
    return {**batch, "word_ids": torch.where(content, word, -1)}


@pytest.mark.parametrize("family", ["BERT", "GPT-2", "Llama", "Gemma2"])
def test_words_and_some_heads(family):
    model = stock(family).choosing(heads=[3, 1])
    encoded = last_layer(model, in_words(texts((7, 8, 5))))
    assert (encoded.items, encoded.attention.shape[1]) == ("word", 2)
    check_tail(encoded, UNDERSTOOD[family][3])


def test_weights_in_float32_give_a_tail_in_float64():
    check_tail(last_layer(StockModel(build("bert")), texts()), 1e-5)


def test_a_model_in_training_mode_is_read_in_eval_mode():
    model = StockModel(build("bert", hidden_dropout_prob=0.5).double())
    model.model.train()
    check_tail(last_layer(model, texts()), 1e-9)
    assert model.model.training


def test_each_label_of_a_multi_label_model():
    model = StockModel(build("bert", problem_type="multi_label_classification").double())
    encoded = last_layer(model, texts())
    for label in range(3):
        check_tail(label_view(encoded, label), 1e-9)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_understood_is_refused_by_name(name):
    model = StockModel(build(name).double())
    with pytest.raises(TailUnknownError, match=REFUSED[name]):
        last_layer(model, texts()).tail_of(torch.tensor([0]))


@pytest.mark.parametrize(("queries", "site"), [("auto", "layer.1"), ("auto", JOINT), ("mean", "layer.2")])
def test_sites_with_more_than_one_row_or_layer_have_none(queries, site):
    encoded = stock("BERT").choosing(queries).encode(texts(), site)
    with pytest.raises(TailUnknownError, match="BertForSequenceClassification: only at its last layer"):
        encoded.tail_of(torch.tensor([0]))


def test_a_function_that_is_not_understood_is_named():
    bert = build("distilbert").double()
    bert.pre_classifier = nn.Sequential(bert.pre_classifier, nn.Softmax(-1))
    with pytest.raises(TailUnknownError, match="DistilBertForSequenceClassification: the function softmax after"):
        last_layer(StockModel(bert), texts()).tail_of(torch.tensor([1]))


def test_a_gate_of_another_size_for_each_text_is_not_understood():
    numbers = torch.rand(2, 3, dtype=FLOAT64)
    node = Attended(numbers, None, torch.zeros_like(numbers))
    assert scaled(node, torch.tensor([[1.0, 2.0, 3.0]] * 2)) is not None
    assert scaled(node, torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])) is None


class OfTheLargest(nn.Module):
    """Shifts each text by its largest number, read as a number of Python, which no function of torch shows."""

    def forward(self, x: Tensor) -> Tensor:
        largest = x.detach().amax(1).tolist()
        return x + torch.tensor(largest, dtype=x.dtype)[:, None]


def test_what_depends_on_the_attention_unseen_is_found_by_other_logits():
    bert = build("distilbert").double()
    bert.pre_classifier = nn.Sequential(bert.pre_classifier, OfTheLargest())
    with pytest.raises(TailUnknownError, match="give logits that are off by"):
        last_layer(StockModel(bert), texts()).tail_of(torch.tensor([0]))


def test_a_weight_that_is_no_number_is_refused_by_name():
    bert = build("bert").double()
    encoded = last_layer(StockModel(bert), texts())
    with torch.no_grad():
        bert.classifier.weight[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"weight of Linear .* is not finite"):
        encoded.tail_of(torch.tensor([0]))
    with torch.no_grad():
        bert.bert.encoder.layer[-1].attention.output.dense.bias[0] = torch.inf
    with pytest.raises(InputError, match="not finite"):
        encoded.tail_of(torch.tensor([0]))


def test_half_precision_is_refused_by_name():
    model = StockModel(build("bert", initializer_range=0.002), dtype="bfloat16")
    with pytest.raises(TailUnknownError, match="compute in torch"):
        last_layer(model, texts()).tail_of(torch.tensor([0]))
