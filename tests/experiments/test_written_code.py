"""What somebody wrote by hand is in the run's name with all that it uses: settings, layers, hooks, globals, objects."""

from __future__ import annotations

import hashlib
import importlib

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig

import attn_faithful as af
from attn_faithful.experiments import written_code
from attn_faithful.experiments.identity import model_facts
from attn_faithful.experiments.written_code import value_digest
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.wrapped import OwnModel
from tests.models.examples import small_model
from tests.models.stock_families import build, texts


class Net(nn.Module):
    """A model of words that is wrapped by its method `read`."""

    def __init__(self, temperature=1.0, eps=1e-5):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.norm = nn.Embedding(20, 4), nn.LayerNorm(4, eps=eps)
        self.score, self.classify = nn.Linear(4, 1), nn.Linear(4, 2)
        self.temperature, self._scale, self.table = temperature, 1.0, {"scale": 1.0}

    def read(self, batch):
        states = self.norm(self.words(batch["input_ids"]))
        allowed = batch["attention_mask"].bool()
        scores = self.score(states)[..., 0] / self.temperature / self._scale / self.table["scale"]
        weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        said = self.classify(states)
        logits = (weights[:, None] @ said)[:, 0]

        def decode(other):
            return other[:, :, 0] @ said

        return Encoded(weights[:, None], allowed[:, None], allowed, "token", logits, decode)


def digest_of(net):
    return model_facts(af.wrap(encode=net.read, labels=["no", "yes"]))


def changed(change):
    net = Net()
    change(net)
    return net


def without_eps(net):
    """A layer of another kind with the same weights."""
    weight, bias = net.norm.weight, net.norm.bias
    net.norm = nn.Identity()
    net.norm.weight, net.norm.bias = weight, bias


@pytest.mark.parametrize(
    "net",
    [
        Net(temperature=2.0),
        Net(eps=0.1),
        changed(lambda net: setattr(net, "_scale", 2.0)),
        changed(lambda net: net.table.update(scale=2.0)),
        changed(lambda net: net.classify.register_forward_hook(lambda module, given, found: found * 2)),
        changed(lambda net: setattr(net.classify, "forward", lambda states: states[..., :2])),
        changed(without_eps),
        changed(lambda net: net.score.weight.data.add_(1e-4)),
    ],
    ids=["setting", "of a layer", "private", "in a mapping", "hook", "patched forward", "layer", "weight"],
)
def test_all_that_shapes_a_wrapped_model_counts(net):
    assert digest_of(net) != digest_of(Net())


def test_equal_wrapped_models_have_one_name():
    assert digest_of(Net()) == digest_of(Net())
    used = Net()
    used.eval().read({"input_ids": torch.ones(1, 3, dtype=torch.long), "attention_mask": torch.ones(1, 3)})
    assert digest_of(used) == digest_of(Net())


def test_settings_of_our_own_layers_count():
    before = model_facts(small_model())
    assert model_facts(small_model()) == before
    model = small_model()
    model.attention.parameters_of_projection["temperature"] = 3.0
    assert model_facts(model) != before


@pytest.mark.parametrize("family", ["modernbert", "bart"])
def test_a_model_and_its_copy_on_disk_have_one_name(family, tmp_path):
    model = build(family)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    wrapped = af.wrap(model)
    before = model_facts(wrapped)
    assert model_facts(af.wrap(loaded)) == before
    wrapped.encode(texts(), wrapped.sites[0])
    assert model_facts(wrapped) == before


def test_another_configuration_of_one_layer_counts():
    net, other, moved = Net(), Net(), Net()
    net.norm.config = BertConfig(hidden_size=8)
    other.norm.config = BertConfig(hidden_size=8, layer_norm_eps=0.5)
    moved.norm.config = BertConfig(hidden_size=8, name_or_path="elsewhere")
    assert digest_of(net) != digest_of(other)
    assert digest_of(net) == digest_of(moved)


BEFORE = """
import random
import numpy as np
import torch
from functools import cached_property, lru_cache
from types import SimpleNamespace
torch.manual_seed(0)
class Plain:
    def __init__(self, size):
        self.size = size
    def read(self, x):
        return x * self.size
"""
CODE = {
    "two modules": "one, two = torch.nn.Linear(2, {0}), torch.nn.Linear(1, 1)\ndef f(x): return two(one(x))",
    "weights": "one, two = [torch.nn.Linear(2, 2).requires_grad_(False) for _ in 'ab']\none.weight.fill_({0})\n"
    "def f(x): return two(one(x))",
    "namespace": "told = SimpleNamespace(temperature={0})\ndef f(x): return x / told.temperature",
    "object": "told = Plain({0})\ndef f(x): return told.read(x)",
    "method": "f = Plain({0}).read",
    "array": "told = np.full(3, {0})\ndef f(x): return told @ x",
    "bound": "times = torch.full((3,), {0}).mul\ndef f(x): return times(x)",
    "remembered": "@lru_cache\ndef f(x): return x + {0}",
    "without gradient": "@torch.no_grad()\ndef f(x): return x + {0}",
    "of a class": "class Own:\n    told = {{'a': {0}}}\ndef f(x): return x + Own.told['a']",
    "property": "class Own:\n    @cached_property\n    def told(self): return {0}\ndef f(x): return x + Own().told",
    "helper": "k = {0}\ndef g(x): return f(x) if x else k\ndef f(x): return g(x - 1)",
    "inner function": "k = {0}\ndef f(x):\n    return (lambda y: y * k)(x)",
}


def function(source, value):
    held = {"__name__": "__main__"}
    exec(compile(BEFORE + source.format(value), "<notebook>", "exec"), held)
    return held["f"]


@pytest.mark.parametrize("source", CODE.values(), ids=CODE)
def test_what_a_function_takes_from_around_it_counts(source):
    first, again, other = (value_digest(function(source, value)) for value in (2, 2, 3))
    assert first == again
    assert first != other


def test_of_what_nothing_is_known_nothing_is_taken_for_the_same():
    source = "told = random.Random({0})\ndef f(x): return told.random()"
    assert value_digest(function(source, 1)) != value_digest(function(source, 1))


def test_renamed_modules_keep_their_digests():
    """Digests are part of the names of run folders: a finished run is found again after a file was renamed."""
    names = {
        AttentionClassifier: "attn_faithful.models.modeling.AttentionClassifier",
        HANClassifier: "attn_faithful.models.han.HANClassifier",
        StockModel: "attn_faithful.models.stock.StockModel",
        OwnModel: "attn_faithful.models.own.OwnModel",
    }
    for kind, name in names.items():
        assert value_digest(kind) == hashlib.sha256(f"type:{name}".encode()).hexdigest()


def test_methods_of_built_in_classes_are_told_apart():
    digests = {value_digest(method) for method in (str.lower, str.upper, str.lower, dict.keys)}
    assert len(digests) == 3


@pytest.mark.parametrize(("folder", "written"), [("site-packages", False), ("dist-packages", False), ("mine", True)])
def test_packages_outside_of_the_environment_are_installed_too(folder, written, tmp_path, monkeypatch):
    """Those of the user or the system, which an environment may see: their code is not read through."""
    name = f"library_in_{folder.replace('-', '_')}"
    (tmp_path / folder).mkdir()
    (tmp_path / folder / f"{name}.py").write_text("class Layer:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.setattr(written_code, "_INSTALLED", written_code._installed_folders())
    assert written_code.is_written(importlib.import_module(name).Layer) is written
