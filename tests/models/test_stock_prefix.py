"""Rows that begin like a text are run from where they differ: in causal models, and with the numbers of whole rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attn_faithful.models.stock import packing
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.packing import packed
from attn_faithful.models.stock.prefix import PrefixCache, SharedPrefixes, groups
from tests.models.stock_families import PAD, build, texts, wrapped
from tests.models.test_stock import check_close

CAUSAL = ("gpt2", "llama", "qwen2", "gemma2")
LENGTHS = (20, 19, 8, 1)
ANOTHER = 59  # a token that no text holds

Ask = Callable[[], Tensor]


def causal(name: str) -> StockModel:
    if name == "qwen2":  # built as llama, with a window in its upper layers
        settings = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
        return StockModel(build("llama", "Qwen2", **settings))
    return wrapped(name)


@pytest.fixture(autouse=True)
def tiny_forwards(monkeypatch):
    """Forwards that start for nothing, so that prefixes of a few tokens pay, with room for several rows."""
    monkeypatch.setattr(packing, "CPU", packing.Load(activations=2**16, padding=4))


def one_left_out(batch: dict[str, Tensor]) -> Tensor:
    """Each place once, then nothing, then some at random, (B, K, T)."""
    count, size = batch["input_ids"].shape
    generator = torch.Generator().manual_seed(1)
    some = torch.rand(count, 6, size, generator=generator) < 0.8
    each = ~torch.eye(size, dtype=torch.bool).expand(count, -1, -1)
    return torch.cat([each, torch.ones_like(some[:, :1]), some], dim=1)


def replaced(batch: dict[str, Tensor], token: int) -> tuple[dict[str, Tensor], Tensor]:
    """Rows with ``token`` at each place of each text, and their texts."""
    text, place = batch["attention_mask"].nonzero(as_tuple=True)
    rows = {name: values[text] for name, values in batch.items()}
    rows["input_ids"][torch.arange(len(text)), place] = token
    return rows, text


def run_whole(model: StockModel, monkeypatch, ask: Ask) -> Tensor:
    """What is asked, without prefixes."""
    with monkeypatch.context() as patch:
        patch.setattr(model, "shares_prefixes", False)
        return ask()


def counted(monkeypatch, ask: Ask) -> tuple[Tensor, int]:
    """What is asked, and how many tokens the model is run on for it, those of prefixes with them."""
    run, count = StockModel.run, 0

    def counting(self, inputs, trace):
        nonlocal count
        count += inputs["input_ids"].numel()
        return run(self, inputs, trace)

    with monkeypatch.context() as patch:
        patch.setattr(StockModel, "run", counting)
        return ask(), count


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", CAUSAL)
def test_texts_without_tokens_have_the_logits_of_whole_rows(name, left, monkeypatch):
    model, batch = causal(name), texts(LENGTHS, left=left)
    keep = one_left_out(batch)

    def ask():
        return model.without(batch, keep)

    assert model.shares_prefixes
    logits, tokens = counted(monkeypatch, ask)
    expected, tokens_of_whole_rows = counted(monkeypatch, lambda: run_whole(model, monkeypatch, ask))
    check_close(logits, expected, 3e-6)  # float32 rounds otherwise beside other rows
    assert tokens < 0.8 * tokens_of_whole_rows


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("token", [ANOTHER, PAD], ids=["token", "padding"])
@pytest.mark.parametrize("name", CAUSAL)
def test_texts_with_another_token_have_the_logits_of_whole_rows(name, token, left, monkeypatch):
    model = causal(name)
    rows, text = replaced(texts(LENGTHS, left=left), token)
    logits, tokens = counted(monkeypatch, lambda: model.logits_of(rows, text))
    expected, tokens_of_whole_rows = counted(monkeypatch, lambda: model.logits_of(rows))
    check_close(logits, expected, 3e-6)
    if not left and token != PAD:
        assert tokens < 0.8 * tokens_of_whole_rows


@pytest.mark.parametrize("name", CAUSAL)
def test_models_whose_last_block_is_run_whole_share_prefixes_too(name, monkeypatch):
    model, batch = causal(name), texts((20, 20))
    expected = model.without(batch, one_left_out(batch))
    monkeypatch.setattr(model, "ends_early", False)
    check_close(model.without(batch, one_left_out(batch)), expected, 3e-6)


def test_a_text_that_holds_the_padding_id_is_run_whole(monkeypatch):
    """Its last token may be one that the classifier takes for padding, and the one that it reads stand before it."""
    model, batch = wrapped("gpt2"), texts((20, 19))
    batch["input_ids"][0, 15:] = PAD

    def ask():
        return model.without(batch, one_left_out(batch))

    check_close(ask(), run_whole(model, monkeypatch, ask))


def test_a_model_without_a_padding_id_shares_prefixes(monkeypatch):
    model, batch = StockModel(build("gpt2", pad_token_id=None).double()), texts((20, 19))
    batch["input_ids"][0, 3] = model.pad_token_id

    def ask():
        return model.without(batch, one_left_out(batch))

    assert model.shares_prefixes
    logits, tokens = counted(monkeypatch, ask)
    expected, tokens_of_whole_rows = counted(monkeypatch, lambda: run_whole(model, monkeypatch, ask))
    check_close(logits, expected)
    assert tokens < 0.8 * tokens_of_whole_rows


@pytest.mark.parametrize("name", CAUSAL)
def test_equal_shortened_texts_have_equal_logits(name):
    model, batch = causal(name), texts((20, 20, 20))
    batch["input_ids"][:, 11] = batch["input_ids"][:, 10]
    batch["input_ids"][2] = batch["input_ids"][1]
    logits = model.without(batch, one_left_out(batch))
    assert torch.equal(logits[:, 10], logits[:, 11])
    assert torch.equal(logits[1, :21], logits[2, :21])
    assert torch.equal(model.without(batch, one_left_out(batch)), logits)


def test_half_precision_shares_prefixes(monkeypatch):
    model, batch = StockModel(build("llama"), dtype="bfloat16"), texts((20, 19))

    def ask():
        return model.without(batch, one_left_out(batch)).softmax(-1)

    assert model.shares_prefixes
    check_close(ask(), run_whole(model, monkeypatch, ask), 0.02)


class Remembering(nn.Module):
    """A layer that gives each token something of those before it, past the attention."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, states: Tensor) -> Tensor:
        return self.layer(states) + states.cumsum(1)


def test_models_that_see_other_tokens_past_their_attention_are_run_whole():
    plain = build("gpt2").double()
    assert StockModel(plain).shares_prefixes
    plain.transformer.h[1].mlp = Remembering(plain.transformer.h[1].mlp)
    assert not StockModel(plain).shares_prefixes


@torch.no_grad()
def test_attention_to_later_tokens_is_seen_in_any_call():
    for name, is_causal in {"gpt2": True, "gemma2": True, "bert": False, "bart": False}.items():
        model = wrapped(name)
        with model.analysing():
            assert PrefixCache(model, model.inputs(texts((9, 6)))).is_causal() == is_causal


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rotations_that_depend_on_the_length_keep_prefixes_apart(kind):
    rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
    if kind == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "original_max_position_embeddings": 20}
    assert not StockModel(build("llama", rope_parameters=rope)).shares_prefixes
    assert StockModel(build("llama")).shares_prefixes


ROWS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 29)), max_size=40)
MANY = st.lists(st.tuples(st.just(30), st.sampled_from([1, 2, 9, 28, 29])), min_size=20, max_size=40)


@given(rows=ROWS, cells=st.integers(1, 200), padding=st.integers(0, 50))
def test_parts_that_share_hold_each_row_once_and_no_more_than_they_may(rows, cells, padding):
    lengths = torch.tensor([length for length, _ in rows], dtype=torch.long)
    shared = torch.tensor([min(part, length - 1) for length, part in rows], dtype=torch.long)
    parts = packed(lengths, lambda places: max(1, cells // places), padding, shared)
    assert sorted(torch.cat([torch.empty(0, dtype=torch.long), *parts]).tolist()) == list(range(len(rows)))
    for part in parts:
        start, end = int(shared[part].min()), int(lengths[part].max())
        assert start == int(shared[part[0]])
        run = len(part) * (end - start)
        assert len(part) == 1 or (run <= cells and run - int((lengths - shared)[part].sum()) <= padding)


@given(rows=MANY, seed=st.integers(0, 9), padding=st.integers(1, 9))
def test_rows_behind_prefixes_begin_like_a_text_of_their_group_and_save_more_than_they_cost(rows, seed, padding):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([length for length, _ in rows], dtype=torch.long)
    shared = torch.tensor([min(part, length - 1) for length, part in rows], dtype=torch.long)
    text = torch.randint(0, 3, (len(rows),), generator=generator)
    mask = torch.ones(3, 30, dtype=torch.long)
    found = groups(
        SharedPrefixes({"attention_mask": mask}, text, shared), lengths, lambda places: 60 // places, padding
    )
    for group in found:
        saved = 0
        for part in group.parts:
            assert bool(torch.isin(text[part], group.texts).all())
            assert int(shared[part].min()) == int(shared[part[0]]) > 0
            assert len(part) * int(shared[part[0]]) > 2 * padding
            saved += len(part) * int(shared[part[0]])
        assert saved > 2 * group.tokens * len(group.texts)
    placed = [place for group in found for part in group.parts for place in part.tolist()]
    assert len(placed) == len(set(placed))
