"""One pass over a data set gives the data's order, whatever the batches (C16)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.blocks import CELLS, blocks, content_keys
from attn_faithful.models.inference import Outputs, run_over, run_share
from tests.models.examples import small_model

LENGTHS = (3, 7, 0, 1, 7, 5, 2, 0, 9, 3, 4)
BATCHED = {"rtol": 1e-5, "atol": 1e-5}


def rows(special: bool = False) -> Rows:
    generator = np.random.default_rng(0)
    columns = {
        "input_ids": [generator.integers(2, 20, n).tolist() for n in LENGTHS],
        "labels": [i % 2 for i in range(len(LENGTHS))],
    }
    if special:  # the first and the last token, so that texts of one or two tokens have nothing else
        columns["special_tokens_mask"] = [[int(i in (0, n - 1)) for i in range(n)] for n in LENGTHS]
    return Rows(columns)


def collator(special: bool) -> Collator:
    return Collator(columns=("special_tokens_mask",) if special else ())


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special tokens"])
@pytest.mark.parametrize("encoder", ["lstm", "cnn", "transformer", "mlp"])
def test_every_example_equals_itself_alone(encoder, special):
    model, data = small_model(encoder=encoder), rows(special)
    out = run_over(model, data, collator(special))
    content = [max(0, n - 2) if special else n for n in LENGTHS]
    assert [len(weights) for weights in out.attention] == content
    assert len(out) == len(LENGTHS)
    for i, ids in enumerate(data["input_ids"]):
        alone = model.encode(collator(special)([data[i]]))
        expected = alone.attention[0, 0, : len(ids)][alone.content[0, : len(ids)]]
        np.testing.assert_allclose(out.probabilities[i], alone.probabilities[0].detach(), **BATCHED)
        np.testing.assert_allclose(out.attention[i], expected.detach(), **BATCHED)
        assert out.attention[i].sum() == pytest.approx(1 if content[i] else 0, abs=1e-6)


@pytest.mark.parametrize("encoder", ["lstm", "gru", "cnn", "transformer", "mlp"])
def test_another_order_of_the_data_gives_the_same_bits(encoder):
    generator = np.random.default_rng(3)
    data = Rows({"input_ids": [generator.integers(2, 20, n) for n in generator.integers(0, 12, 150)]})
    model, order = small_model(encoder=encoder), np.random.default_rng(1).permutation(150).tolist()
    straight = run_over(model, data, collator(False))
    turned = run_over(model, data.take(order), collator(False))
    np.testing.assert_array_equal(turned.probabilities, straight.probabilities[order])
    for weights, i in zip(turned.attention, order, strict=True):
        np.testing.assert_array_equal(weights, straight.attention[i])


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_are_disjoint_whole_and_equal_to_one_process(world):
    generator = np.random.default_rng(4)
    data = Rows({"input_ids": [generator.integers(2, 20, n) for n in generator.integers(0, 12, 150)]})
    model = small_model()
    found = [row for rank in range(world) for row in run_share(model, data, collator(False), rank, world)]
    assert sorted(row[0] for row in found) == list(range(150))
    np.testing.assert_array_equal(
        Outputs.of(found, 2).probabilities, run_over(model, data, collator(False)).probabilities
    )


def test_blocks_depend_on_the_texts_alone_and_bound_their_cells():
    generator = np.random.default_rng(5)
    lengths = generator.integers(1, 5000, 300)
    data = Rows({"input_ids": [generator.integers(2, 9, n) for n in lengths]})
    order = generator.permutation(300)
    keys = content_keys(data)
    found = blocks(lengths, keys)
    assert sorted(i for block in found for i in block) == list(range(300))
    for block in found:
        assert len(block) == 1 or len(block) * max(lengths[i] for i in block) <= CELLS
    turned = blocks(lengths[order], [keys[i] for i in order])
    assert [[keys[order[i]] for i in block] for block in turned] == [[keys[i] for i in block] for block in found]


def test_probabilities_are_those_of_the_kind_of_output():
    softmax = run_over(small_model(num_labels=4), rows(), collator(False))
    np.testing.assert_allclose(softmax.probabilities.sum(1), 1, rtol=1e-6)
    labels = run_over(small_model(num_labels=3, output="multi_label"), rows(), collator(False))
    assert labels.probabilities.shape == (len(LENGTHS), 3)
    assert np.ptp(labels.probabilities.sum(1)) > 0.01
    assert softmax.probabilities.dtype == np.float64


def test_no_rows():
    out = run_over(small_model(num_labels=4), Rows({"input_ids": []}), collator(False))
    assert out.probabilities.shape == (0, 4)
    assert len(out) == 0


def test_only_empty_texts():
    out = run_over(small_model(), Rows({"input_ids": [[], []]}), collator(False))
    assert np.isfinite(out.probabilities).all()
    assert [len(weights) for weights in out.attention] == [0, 0]


def test_the_mode_is_restored_and_no_gradient_is_kept():
    model = small_model().train()
    first, second = (run_over(model, rows(), collator(False)) for _ in range(2))
    np.testing.assert_array_equal(first.probabilities, second.probabilities)  # dropout would differ
    assert all(module.training for module in model.modules())
    assert all(p.grad is None for p in model.parameters())

    def broken(batch):
        raise RuntimeError("a broken row")

    with pytest.raises(RuntimeError, match="a broken row"):
        run_over(model, rows(), broken)
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()
