"""Stock models on shorter texts, and on texts with other company: the plain model on each text by itself decides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.stock import packing
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import NAMES, PAD, VOCABULARY, build, read, texts, wrapped
from tests.models.test_stock import alternatives, check_close


@torch.no_grad()
def by_itself(model: StockModel, ids: Tensor) -> Tensor:
    """Logits (C,) of one text's ids (T,) by the plain model, without padding."""
    return model.model(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]).logits[0]


def kept(batch: dict[str, Tensor], k: int) -> Tensor:
    """Special tokens and some others, (B, K, T); everything first, no other last."""
    generator = torch.Generator().manual_seed(3)
    found = torch.rand(len(batch["input_ids"]), k, batch["input_ids"].shape[1], generator=generator) < 0.5
    found[:, 0] = True
    found[:, -1] = False
    return found | batch["special_tokens_mask"].bool()[:, None]


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_of_a_text_is_read_as_any_text(name, left):
    model, batch = wrapped(name), texts(left=left)
    keep = kept(batch, 4)
    logits = model.without(batch, keep)
    rows = (keep & batch["attention_mask"].bool()[:, None]).flatten(0, 1)
    shorter = [ids[row] for ids, row in zip(batch["input_ids"].repeat_interleave(4, 0), rows, strict=True)]
    assert {1, 2, 9} <= {len(ids) for ids in shorter}
    expected = torch.stack([by_itself(model, ids) for ids in shorter]).double()
    # torch's attention kernel adds in another order than transformers' eager one, and llama's norms are in float32
    check_close(logits, expected.view(4, 4, 3), 3e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_how_many_run_together_changes_nothing(name, monkeypatch):
    model, batch = wrapped(name), texts()
    keep = kept(batch, 3)
    whole = model.without(batch, keep)
    monkeypatch.setattr(packing, "CPU", packing.Load(activations=2 * 9 * model.width, padding=0))
    check_close(model.without(batch, keep), whole)


@pytest.mark.parametrize("name", ["bert", "modernbert", "gpt2", "gemma2"])
def test_a_text_without_tokens_leaves_the_others_as_they_are(name):
    model, batch = wrapped(name), texts()
    empty = {**batch, "attention_mask": batch["attention_mask"].clone(), "input_ids": batch["input_ids"].clone()}
    empty["attention_mask"][1], empty["input_ids"][1] = 0, PAD
    others = torch.tensor([0, 2, 3])
    with torch.no_grad():
        whole, encoded = model.encode(batch, model.sites[-2]), model.encode(empty, model.sites[-2])
        logits = encoded.decode(encoded.attention[:, None])[:, 0]
    check_close(encoded.logits[others], whole.logits[others])
    check_close(logits, encoded.logits)
    assert bool(logits.isfinite().all())
    assert not bool(encoded.allowed[1].any() | encoded.content[1].any())
    assert float(encoded.attention[1].abs().max()) == 0


def test_a_text_may_lose_every_token():
    model, batch = wrapped("gpt2"), texts()
    keep = torch.zeros(4, 2, 9, dtype=torch.bool)
    keep[0, 0, :2] = True
    logits = model.without(batch, keep)
    assert bool(logits.isfinite().all())
    check_close(logits[0, 0], by_itself(model, batch["input_ids"][0, :2]))


def test_the_cost_of_long_texts(monkeypatch):
    """Each shorter text is run once, and never so many at a time that their attention fills the memory (case C27)."""
    size, shapes = 512, []

    def predicted(self, inputs):
        shapes.append(inputs["input_ids"].shape)
        return torch.zeros(len(inputs["input_ids"]), 3, dtype=torch.float64)

    model = wrapped("bert")
    keep = ~torch.eye(size, dtype=torch.bool)[None]
    batch = {"input_ids": 7 + torch.arange(size)[None] % 37, "attention_mask": torch.ones(1, size).long()}
    with monkeypatch.context() as counting:
        counting.setattr(StockModel, "predicted", predicted)
        model.without(batch, keep)
    assert sum(rows for rows, _ in shapes) == size
    assert {length for _, length in shapes} == {size - 1}
    heads = max(model.probe.heads)
    assert max(rows * heads * length**2 for rows, length in shapes) <= 2 * 1024 * CELLS


@pytest.mark.parametrize("name", NAMES)
def test_company_and_order_change_nothing(name):
    model, batch = wrapped(name), texts()
    site, lengths = model.sites[-2], batch["attention_mask"].sum(1).tolist()
    with torch.no_grad():
        all_gather = model.encode(batch, site)
        many = alternatives(all_gather)
        decoded, order = all_gather.decode(many), torch.tensor([2, 0, 3, 1])
        turned = model.encode({n: v[order] for n, v in batch.items()}, site)
        check_close(turned.logits, all_gather.logits[order])
        check_close(turned.attention, all_gather.attention[order])
        check_close(turned.decode(many[order]), decoded[order])
        alone = [model.encode({n: v[b : b + 1, :t] for n, v in batch.items()}, site) for b, t in enumerate(lengths)]
    check_close(torch.cat([each.logits for each in alone]), all_gather.logits)
    for b, t in enumerate(lengths):
        check_close(alone[b].attention[0], all_gather.attention[b, :, :t])


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_a_decoder_starts_at_the_end_of_each_text(name):
    """Not at the end of the batch, where it would be padding in one batch and a token in another."""
    model, batch = wrapped(name, "mean"), texts()
    all_gather = model.encode(batch, "layer.2")
    assert not bool((all_gather.allowed.any(1) & ~batch["attention_mask"].bool()).any())
    for b, t in enumerate(batch["attention_mask"].sum(1).tolist()):
        alone = model.encode({n: v[b : b + 1, :t] for n, v in batch.items()}, "layer.2")
        check_close(alone.attention[0].detach(), all_gather.attention[b, :, :t].detach())


def test_a_model_without_a_padding_id_reads_several_texts():
    plain = build("gpt2", pad_token_id=None).double()
    model, batch = StockModel(plain), texts()
    assert plain.config.pad_token_id is None
    lengths = batch["attention_mask"].sum(1).tolist()
    alone = torch.stack([by_itself(model, ids[:n]) for ids, n in zip(batch["input_ids"], lengths, strict=True)])
    for site in model.sites[-2:]:
        encoded = model.encode(batch, site)
        check_close(encoded.logits.detach(), alone)
        check_close(encoded.decode(encoded.attention[:, None])[:, 0].detach(), alone)
    check_close(model.without(batch, kept(batch, 2))[:, 0], alone)
    check_close(model(**read(batch)).logits.detach(), alone)
    assert plain.config.pad_token_id is None
    full = torch.arange(VOCABULARY).view(2, -1)
    with pytest.raises(InputError, match="no padding id"):
        model.encode({"input_ids": full}, "joint")
    assert plain.config.pad_token_id is None
