"""Which parameters decay: all but those of attention, whatever the architecture calls them."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from attn_faithful.models.attention import Attention
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.trainer import AttentionTrainer, arguments
from tests.models.examples import small_model
from tests.models.stock_families import FAMILIES, build
from tests.training.planted import texts

ARCHITECTURES = {
    "lstm": lambda: small_model(encoder="lstm"),
    "query": lambda: small_model(encoder="cnn", query=True, attention="additive"),
    "dot": lambda: small_model(encoder="lstm", attention="dot"),
    "learned alpha": lambda: small_model(projection="entmax", learn_alpha=True),
    "transformer": lambda: small_model(encoder="transformer"),
    "han": lambda: HANClassifier(HANConfig(vocab_size=10, embedding_size=4, hidden_size=3, num_labels=5)),
    **{name: partial(build, name) for name in FAMILIES},
}
# what a module that projects to queries and keys calls its parts, in the families of transformers
QUERIES = ("query", "q_proj", "q_lin", "q", "c_attn", "Wqkv")


def attention_parameters(model):
    """Parameters inside modules that make attention, found by what they are and hold and not by their own names."""
    found = set()
    for prefix, module in model.named_modules():
        projects = any(isinstance(getattr(module, name, None), torch.nn.Module) for name in QUERIES)
        if isinstance(module, Attention | torch.nn.MultiheadAttention) or projects:
            found |= {f"{prefix}.{name}" for name, _ in module.named_parameters()}
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_no_attention_decays_and_all_else_does(name, tmp_path):
    model, settings = ARCHITECTURES[name](), TrainSettings(weight_decay=0.5)
    args = arguments(settings, 0, tmp_path, "eval_loss", False)
    rows = texts(4)
    optimizer = AttentionTrainer(model=model, args=args, eval_dataset=rows, settings=settings).create_optimizer()
    names = {id(p): name for name, p in model.named_parameters()}
    decay = {names[id(p)]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    attention = attention_parameters(model) & decay.keys()
    assert attention
    assert {decay[parameter] for parameter in attention} == {0.0}
    others = {p for p in decay if "attn" not in p.lower() and "attention" not in p.lower()}
    assert {decay[parameter] for parameter in others} == {0.5}
    assert any("embed" in p or "wte" in p or "shared" in p for p in others)


def test_both_levels_of_a_han_are_attention():
    model = ARCHITECTURES["han"]()
    levels = {name.split(".")[0] for name in attention_parameters(model)}
    assert levels == {"attention", "sentence_attention"}
