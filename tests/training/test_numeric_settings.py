"""What a launcher's variables and torch's own settings say changes no number, and is there again afterwards."""

import os

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.training.base import train_base
from attn_faithful.training.base_outputs import with_base
from attn_faithful.training.numeric_settings import recipe_precision
from attn_faithful.training.settings import TrainSettings, TwinSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.twin import new_twin, train_twin
from tests.experiments.tiny import cells, numbers, run
from tests.training.planted import COLLATE, WITH_BASE, classifier, random_outputs, same, texts, weights

TRAIN, VALIDATION = texts(32), texts(16, seed=1)
SETTINGS = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-2)
VARIABLES = [
    {"ACCELERATE_MIXED_PRECISION": "bf16", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"},
    {"ACCELERATE_MIXED_PRECISION": "fp16", "ACCELERATE_DYNAMO_BACKEND": "INDUCTOR", "ACCELERATE_FP8_BACKEND": "TE"},
]


def based(path):
    model = classifier()
    train_base(model, TrainingTask(TRAIN, VALIDATION, COLLATE, SETTINGS, 3, path / "base"))
    return weights(model)


def twinned(path):
    twin = new_twin(classifier(), 5)
    rows = [with_base(part, random_outputs(part)) for part in (TRAIN, VALIDATION)]
    train_twin(twin, TrainingTask(*rows, WITH_BASE, TwinSettings(epochs=1, batch_size=8), 3, path / "twin"))
    return weights(twin)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain")
    return based(path), twinned(path)


@pytest.mark.parametrize("variables", VARIABLES, ids=lambda given: " ".join(given))
def test_a_launchers_variables_change_no_weight(variables, plain, tmp_path, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert same(based(tmp_path), plain[0])
    assert same(twinned(tmp_path), plain[1])
    assert {name: os.environ[name] for name in variables} == variables


@pytest.mark.parametrize("where", ["train", "cell"])
def test_torchs_own_settings_change_no_number(where, plain, tmp_path):
    kind, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    (cell,) = cells(twin=None, train={"epochs": 1, "batch_size": 30})
    expected = numbers(run(cell, tmp_path / "plain").read_summary()) if where == "cell" else plain[0]
    try:
        torch.set_float32_matmul_precision("medium")
        torch.set_default_dtype(torch.float64)
        with torch.autocast("cpu", torch.bfloat16):
            if where == "cell":
                assert numbers(run(cell, tmp_path / "other").read_summary()) == expected
            else:
                torch.set_default_dtype(torch.float32)  # of the model that is made here
                assert same(based(tmp_path), expected)
                torch.set_default_dtype(torch.float64)
        assert torch.get_default_dtype() == torch.float64
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_default_dtype(kind)
        torch.set_float32_matmul_precision(precision)


def test_products_are_float32_in_full_inside():
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with recipe_precision():
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
            assert torch.backends.mkldnn.matmul.fp32_precision == "ieee"
            assert torch.backends.cudnn.conv.fp32_precision == "ieee"
            assert torch.backends.cudnn.rnn.fp32_precision == "ieee"
        assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ACCELERATE_USE_FSDP", "true", "FSDP"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "DeepSpeed"),
        ("ACCELERATE_USE_MEGATRON_LM", "true", "Megatron-LM"),
        ("ACCELERATE_USE_PARALLELISM_CONFIG", "true", "parallelism"),
        ("NVIDIA_TF32_OVERRIDE", "1", "another precision"),
        ("ONEDNN_DEFAULT_FPMATH_MODE", "BF16", "another precision"),
    ],
)
def test_what_no_recipe_knows_is_refused_by_name(name, value, said, tmp_path, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=f"(?s){name}.*|{said}") as error:
        based(tmp_path)
    assert said in str(error.value)
    monkeypatch.setenv(name, "0" if name.startswith("NVIDIA") else "strict" if "MODE" in name else "false")
    with recipe_precision():
        pass
