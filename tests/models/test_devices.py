"""Devices: by name, those that are there; a model is on one inside, and afterwards where it was."""

import pytest
import torch
from torch import nn

from attn_faithful._checks import InputError
from attn_faithful.models import devices
from attn_faithful.models.devices import device_named, device_of, devices_there, on_device
from attn_faithful.models.protocol import AttentionModel
from attn_faithful.models.stock.model import StockModel
from tests.models.stock_families import build


@pytest.fixture
def gpus(monkeypatch):
    """A machine that says it has two GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_auto_takes_cuda_where_it_is(gpus):
    assert devices_there() == ["cpu", "cuda", "cuda:0", "cuda:1"]
    assert device_named("auto") == torch.device("cuda")
    assert device_named("cuda:1") == torch.device("cuda:1")
    assert device_named("cpu") == torch.device("cpu")


def test_auto_is_the_cpu_elsewhere(no_gpu):
    assert device_named("auto") == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_device_that_is_not_there_is_told_with_those_that_are(no_gpu, name):
    with pytest.raises(InputError, match=f"no {name!r}; it has 'cpu'"):
        device_named(name)


def test_a_gpu_that_is_not_there_is_told_with_those_that_are(gpus):
    with pytest.raises(InputError, match="no 'cuda:2'; it has 'cpu', 'cuda', 'cuda:0', 'cuda:1'"):
        device_named("cuda:2")


@pytest.mark.parametrize(("typed", "meant"), [("cdua", "cuda"), ("cuda:x", "cuda"), ("gpu", "cpu"), ("CPU", "Known")])
def test_a_misspelt_device_is_told_with_the_nearest(typed, meant):
    with pytest.raises(InputError, match=meant):
        device_named(typed)


def test_a_device_without_float64_is_refused():
    with pytest.raises(InputError, match="float64"):
        device_named("mps")


@pytest.fixture
def elsewhere(monkeypatch):
    """Torch's device without memory stands for an accelerator."""
    monkeypatch.setattr(devices, "device_named", torch.device)
    return "meta"


@pytest.fixture
def moved(monkeypatch):
    """A model, and the devices that it was moved to."""
    model, moves = nn.Linear(2, 2), []
    monkeypatch.setattr(model, "to", lambda device: moves.append(device.type))
    return model, moves


def test_a_model_is_moved_inside_alone(elsewhere, moved):
    model, moves = moved
    with on_device(model, elsewhere):
        assert moves == ["meta"]
    assert moves == ["meta", "cpu"]


def test_a_model_comes_back_after_an_error(elsewhere, moved):
    model, moves = moved
    with pytest.raises(KeyError), on_device(model, elsewhere):
        raise KeyError
    assert moves == ["meta", "cpu"]


def test_a_model_that_is_there_is_not_moved(moved):
    model, moves = moved
    with on_device(model, "cpu"):
        pass
    assert moves == []


def test_auto_leaves_a_model_where_it_is(gpus):
    model = nn.Linear(2, 2)
    with on_device(model, "auto"):
        assert device_of(model).type == "cpu"


def test_a_model_that_cannot_be_moved_is_told(elsewhere):
    class Bare(AttentionModel):
        def parameters(self):
            return iter([torch.zeros(1)])

    with pytest.raises(InputError, match="Bare is no torch module"), on_device(Bare(), elsewhere):
        pass
    with on_device(Bare(), "cpu"):
        pass


def test_a_batch_follows_the_model():
    model = StockModel(build("bert")).to("meta")
    inputs = model.inputs({"input_ids": torch.zeros(0, 3, dtype=torch.long), "attention_mask": torch.ones(0, 3)})
    assert {values.device.type for values in inputs.values()} == {"meta"}
