"""Where models are trained."""

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.training.placement import training_on, trains_on_cpu
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.trainer import arguments


@pytest.fixture
def gpus(monkeypatch):
    """A machine that says it has two GPUs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_the_cpu_is_taken_where_it_is_asked_for(gpus, tmp_path):
    assert not trains_on_cpu()
    with training_on("cpu"):
        assert trains_on_cpu()
        made = arguments(TrainSettings(), 0, tmp_path, "eval_loss", False)
        assert (made.use_cpu, made.dataloader_pin_memory) == (True, False)
    assert not trains_on_cpu()


def test_without_a_gpu_models_are_trained_on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with training_on("auto"):
        assert trains_on_cpu()


def test_a_gpu_that_trainer_cannot_take_is_refused(gpus):
    with pytest.raises(InputError, match="CUDA_VISIBLE_DEVICES=1"), training_on("cuda:1"):
        pass
    with training_on("cuda:0"):
        assert not trains_on_cpu()
