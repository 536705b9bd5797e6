"""Rows of attention, any number of each text, against alternatives of every text one by one."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from attn_faithful.models.row_decoding import decode_rows
from attn_faithful.models.stock import decoder
from attn_faithful.models.stock.model import StockModel

TEXT = torch.tensor([0, 2, 2, 2, 3])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
    )
    return StockModel(BertForSequenceClassification(config).eval())


def encoded_at(model, site, words=False):
    ids = torch.tensor([[2, 7, 8, 9, 3, 0], [2, 5, 6, 3, 0, 0], [2, 11, 12, 13, 14, 3], [2, 4, 3, 0, 0, 0]])
    special = (ids < 4).long()
    batch = {"input_ids": ids, "attention_mask": (ids > 0).long(), "special_tokens_mask": special}
    if words:
        batch["word_ids"] = _numbered(special)
    with torch.no_grad():
        return model.encode(batch, site)


def _numbered(special):
    """Words of two tokens each."""
    place = (special == 0).cumsum(1) - 1
    return torch.where(special.bool(), -1, place // 2)


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("site", ["layer.0", "layer.2", "joint"])
def test_rows_equal_alternatives_of_every_text(model, site, words):
    encoded = encoded_at(model, site, words)
    allowed = encoded.allowed[TEXT]  # (R, S, T)
    generator = torch.Generator().manual_seed(1)
    rows = torch.rand(allowed.shape, generator=generator) * allowed
    rows = rows / rows.sum(-1, keepdim=True)
    found = decode_rows(encoded.decode, rows, TEXT, 4)
    # a decode that has no rows
    padded = decode_rows(lambda attention: encoded.decode(attention), rows, TEXT, 4)
    torch.testing.assert_close(found, padded, atol=1e-5, rtol=0)
    for row, text in enumerate(TEXT.tolist()):
        of_every_text = encoded.attention[:, None].clone()
        of_every_text[text, 0] = rows[row]
        torch.testing.assert_close(found[row], encoded.decode(of_every_text)[text, 0], atol=1e-5, rtol=0)
    assert float((found[1] - found[2]).abs().max()) > 1e-3


@pytest.mark.parametrize("site", ["layer.0", "layer.2", "joint"])
def test_gradients_are_the_same_in_one_part_and_in_several(model, site, monkeypatch):
    encoded = encoded_at(model, site)
    remembered = []
    own = decoder.checkpoint

    def noted(*args, **kwargs):
        remembered.append(len(args[1]))
        return own(*args, **kwargs)

    monkeypatch.setattr(decoder, "checkpoint", noted)

    def gradient():
        weights = encoded.attention[:, None].repeat(1, 3, 1, 1).requires_grad_()
        with torch.enable_grad():
            logits = encoded.decode(weights)
        return torch.autograd.grad(logits[..., 1].sum(), weights)[0]

    in_one_part = gradient()
    assert not remembered  # its graph is kept
    monkeypatch.setattr(decoder, "CELLS", 5 * encoded.decode.cost(6))
    in_several = gradient()
    assert sum(remembered) == 12
    assert len(remembered) > 1
    torch.testing.assert_close(in_one_part, in_several, atol=1e-5, rtol=1e-4)
    assert float(in_one_part.abs().max()) > 1e-3
