"""The parts of a model from its output down: each weight is in one of them, and a forward calls them in this order."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.entry import as_attention_model
from attn_faithful.models.model_parts import parts_from_top, weights_of
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.wrapped import OwnModel
from tests.models.examples import small_batch, small_model
from tests.models.stock_families import NAMES, build, wrapped
from tests.models.test_han import documents, small_han
from tests.models.test_stock_untouched import check_untouched, state

STOCK = {
    "bert": ["classifier", "pooler", "encoder.layer.2", "encoder.layer.1", "encoder.layer.0", "embeddings"],
    "albert": [
        "classifier",
        "pooler",
        "encoder.albert_layer_groups.0",  # all layers share their weights
        "encoder.embedding_hidden_mapping_in",
        "embeddings",
    ],
    "gpt2": ["score", "ln_f", "h.2", "h.1", "h.0", "wpe", "wte"],
    "llama": ["score", "norm", "layers.2", "layers.1", "layers.0", "embed_tokens"],
    "bart": [
        "classification_head",
        "decoder.layers.1",
        "decoder.layers.0",
        "decoder.layernorm_embedding",
        "decoder.embed_positions",
        "encoder.layers.1",
        "encoder.layers.0",
        "encoder.layernorm_embedding",
        "encoder.embed_positions",
        "shared",
    ],
    "t5": [
        "classification_head",
        "decoder.final_layer_norm",
        "decoder.block.1",
        "decoder.block.0",
        "encoder.final_layer_norm",
        "encoder.block.1",
        "encoder.block.0",
        "shared",
    ],
}
OWN = {
    "lstm": ["encoder.1", "encoder.0"],
    "gru": ["encoder.1", "encoder.0"],
    "orthogonal_lstm": ["encoder.1", "encoder.0"],
    "transformer": ["encoder.2", "encoder.1", "encoder.0"],
    "mlp": ["encoder"],
    "average": ["encoder"],
    "cnn": ["encoder"],
    "none": [],
}


def check_each_weight_once(model, parts):
    weights = [id(weight) for part in parts for weight in part.weights]
    assert len(weights) == len(set(weights))
    assert set(weights) == {id(weight) for weight in weights_of(model).parameters()}
    assert len({part.name for part in parts}) == len(parts)


@pytest.mark.parametrize("name", NAMES)
def test_each_weight_of_a_transformers_model_is_in_one_part(name):
    parts = parts_from_top(wrapped(name), {})
    check_each_weight_once(wrapped(name), parts)
    if name in STOCK:
        assert [part.name for part in parts] == STOCK[name]


@pytest.mark.parametrize("encoder", list(ENCODERS))
def test_each_weight_of_our_models_is_in_one_part(encoder):
    model = small_model(encoder=encoder, num_layers=2)
    parts = parts_from_top(model, small_batch())
    check_each_weight_once(model, parts)
    assert [part.name for part in parts] == ["readout", "attention", *OWN[encoder], "embedding"]


def test_of_a_model_with_a_query():
    model = small_model(encoder="lstm", query=True)
    parts = parts_from_top(model, small_batch(queries=(4, 3, 2, 1)))
    check_each_weight_once(model, parts)
    names = [part.name for part in parts]
    assert names[:2] == ["readout", "attention"]
    assert {"query_embedding", "query_encoder", "encoder", "embedding"} == set(names[2:])
    assert names.index("encoder") < names.index("embedding")
    assert names.index("query_encoder") < names.index("query_embedding")


def test_of_a_model_with_a_scale():
    model = small_model(encoder="lstm", scale="tasc_lin")
    parts = parts_from_top(model, small_batch())
    check_each_weight_once(model, parts)
    assert [part.name for part in parts] == ["readout", "attention", "encoder", "scale", "embedding"]


def test_of_a_hierarchical_model():
    model = small_han()
    parts = parts_from_top(model, documents())
    check_each_weight_once(model, parts)
    names = [part.name for part in parts]
    assert names == ["readout", "sentence_attention", "sentence_encoder", "attention", "encoder", "embedding"]


class Turned(nn.Module):
    """Lists its modules in another order than it calls them, and holds weights of its own and one that is unused."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 2)
        self.unused = nn.Linear(3, 3)
        self.gain = nn.Parameter(torch.ones(4))
        self.table = nn.Embedding(20, 4)
        self.tied = nn.Linear(4, 20, bias=False)
        self.tied.weight = self.table.weight

    def encode(self, batch):
        values = self.out(self.table(batch["input_ids"]) * self.gain)  # (B, T, 2)
        content = batch["attention_mask"].bool()
        attention = (content / content.sum(1, keepdim=True).clamp(min=1))[:, None]

        def decode(weights):
            return weights[:, :, 0] @ values

        return Encoded(attention, content[:, None], content, "token", decode(attention[:, None])[:, 0], decode)


def test_of_a_model_written_by_hand():
    network = Turned()
    model = OwnModel(network.encode, labels=["a", "b"])
    parts = parts_from_top(model, small_batch())
    check_each_weight_once(model, parts)
    # what is not called stands above what is listed before it, which is called last; what is shared lies lowest
    assert [part.name for part in parts] == ["unused", "out", "table", "Turned"]
    shared = next(part for part in parts if part.name == "table")
    assert shared.weights == (network.table.weight,)


def test_a_model_without_weights_has_no_parts():
    def encode(batch):
        raise AssertionError("not to be called")

    assert parts_from_top(OwnModel(encode, labels=["a", "b"]), small_batch()) == []


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_finding_them_leaves_a_model_as_it_is(name):
    plain = build(name)
    model = as_attention_model(plain)
    before = state(plain)
    parts_from_top(model, {})
    check_untouched(plain, before)
