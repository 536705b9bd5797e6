"""Which texts of a stock model are run together, and how much of its last block is run."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.packing import packed
from tests.models.stock_families import FAMILIES, NAMES, texts, wrapped
from tests.models.test_stock import check_close
from tests.models.test_stock_runs import whole_forwards

LENGTHS = st.lists(st.integers(0, 40), max_size=60)


@given(lengths=LENGTHS, cells=st.integers(1, 200), padding=st.integers(0, 50))
def test_parts_hold_each_text_once_and_no_more_than_they_may(lengths, cells, padding):
    parts = packed(torch.tensor(lengths, dtype=torch.long), lambda length: max(1, cells // length), padding)
    assert sorted(torch.cat([torch.empty(0, dtype=torch.long), *parts]).tolist()) == list(range(len(lengths)))
    before = None
    for part in parts:
        sizes = [lengths[place] for place in part.tolist()]
        longest = sizes[0]
        assert sizes == sorted(sizes, reverse=True)
        assert before is None or longest <= before
        assert len(sizes) == 1 or len(sizes) * longest <= cells
        assert sum(longest - size for size in sizes) <= padding
        before = sizes[-1]


@given(lengths=LENGTHS, seed=st.integers(0, 9))
def test_parts_depend_on_lengths_and_not_on_their_order(lengths, seed):
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed))
    given_lengths = torch.tensor(lengths, dtype=torch.long)

    def sizes_of_parts(of_texts: torch.Tensor) -> list[list[int]]:
        return [of_texts[part].tolist() for part in packed(of_texts, lambda length: 100 // max(1, length), 8)]

    assert sizes_of_parts(given_lengths[order]) == sizes_of_parts(given_lengths)


def rows_of_linear_layers(model: StockModel, monkeypatch) -> list[int]:
    """How many tokens each linear layer of the last block was given, in a forward of 4 texts of 9 tokens."""
    rows = []
    block = list(model.blocks.members)[-1]
    with monkeypatch.context() as counting:
        for layer in block.modules():
            if isinstance(layer, torch.nn.Linear):
                counting.setattr(layer, "forward", counted(layer.forward, rows))
        model.logits_of({**texts((9, 9, 9, 9))})
    return rows


def counted(forward, rows):
    def called(values):
        rows.append(values.shape[0] * values.shape[1])
        return forward(values)

    return called


def test_the_last_block_gives_keys_and_values_of_all_tokens_and_the_rest_of_one(monkeypatch):
    model = wrapped("bert")
    rows = rows_of_linear_layers(model, monkeypatch)
    keys_and_values = [number for number in rows if number == 4 * 9]
    assert len(keys_and_values) == 2
    assert all(number == 4 for number in rows if number != 4 * 9)
    with whole_forwards(model):
        assert set(rows_of_linear_layers(model, monkeypatch)) == {4 * 9}


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_logits_by_the_shortest_way_are_those_of_whole_forwards(name, left):
    model, batch = wrapped(name), texts(left=left)
    logits = model.logits_of(batch)
    with whole_forwards(model):
        expected = model.logits_of(batch)
    # norms in float32 round otherwise beside other rows, and encode adds attention in another order
    check_close(logits, expected, 3e-6)
    check_close(logits, model.encode(batch, model.sites[0]).logits.detach().double(), 3e-6)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "albert", "llama", "gemma2"])
def test_layers_of_queries_are_found_by_their_gradients(name):
    model = wrapped(name)
    names = {id(layer): key for key, layer in model.model.named_modules()}
    (query,) = [names[id(layer)] for layer in model.query_layers]
    assert query.rsplit(".", 1)[1] in ("query", "q_lin", "q_proj")


@pytest.mark.parametrize("name", ["modernbert", "gpt2", "bart"])
def test_layers_that_give_queries_with_keys_and_values_are_none_of_queries(name):
    assert not list(wrapped(name).query_layers)
    assert FAMILIES[name].encoder or wrapped(name).ends_early
