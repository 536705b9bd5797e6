"""The model in its card: a sentence about it, its configuration, and its training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_faithful.reports.run import Run

# of the configuration: those that describe the model
_SETTINGS = (
    "model_type",
    "encoder",
    "embedding_size",
    "hidden_size",
    "num_layers",
    "bidirectional",
    "attention",
    "projection",
    "temperature",
    "sparsegen_lambda",
    "entmax_alpha",
    "scale",
    "readout",
    "output",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)
_ONLY_OF = {"temperature": "softmax", "sparsegen_lambda": "sparsegen", "entmax_alpha": "entmax"}
_USUAL = {"bidirectional": True}  # what goes without saying
_TRAINING = ("epochs", "batch_size", "learning_rate", "weight_decay", "patience", "select_by", "select_on")
_TWINS = ("objective", "epochs")

Settings = list[tuple[str, Any]]


def configuration_of(model: Path) -> dict[str, Any]:
    """The configuration of a saved model; empty where there is none."""
    path = model / "config.json"
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def settings_of(configuration: Mapping[str, Any]) -> Settings:
    """The settings of a configuration that describe the model."""
    projection = configuration.get("projection")
    settings = []
    for name in _SETTINGS:
        value = configuration.get(name)
        if value is None or value is _USUAL.get(name):
            continue
        if isinstance(value, bool):
            value = json.dumps(value)  # as recipes write it
        if _ONLY_OF.get(name, projection) == projection:
            settings.append((name, value))
    return settings


def training_of(run: Run) -> Settings:
    """How the model and its twins were trained; empty for a run that trained nothing."""
    train = run.recipe.get("train") or {}
    settings = {name: train.get(name) for name in _TRAINING}
    if run.summary.twins:
        twin = run.recipe.get("twin") or {}
        for name in _TWINS:
            settings[f"{name} of the twins"] = twin.get(name)
    return [(name, value) for name, value in settings.items() if value is not None]


def about(run: Run, configuration: Mapping[str, Any], tested: bool) -> str:
    """What the model is, and whether its attention was tested, in a sentence or two."""
    what = f"A text classifier{_architecture(configuration)}"
    name = run.axes.get("data")
    data = f" on {name}" if name else ""
    if run.recipe:
        what += f", trained{data} (seed {run.seed})"
        and_tested = " and tested"
    else:
        and_tested = f", tested{data}"
    if not tested:
        return f"{what}. How faithful its attention is was not tested."
    return f"{what}{and_tested} for how faithful its attention is."


def _architecture(configuration: Mapping[str, Any]) -> str:
    encoder, attention = configuration.get("encoder"), configuration.get("attention")
    model_type = configuration.get("model_type") or ""
    if encoder and attention:
        levels = "at two levels, words and sentences, " if "hierarchical" in model_type else ""
        return f" with {attention} attention {levels}over a {encoder} encoder"
    if model_type:
        return f" ({model_type})"
    return ""
