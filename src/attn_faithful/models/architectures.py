"""The classifiers that a recipe can name.

"flat" attends over all words, "hierarchical" over words and sentences; "bypass" is flat, with a path around its
attention.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from attn_faithful._checks import check_choice

FLAT = "flat"
HIERARCHICAL = "hierarchical"
BYPASS = "bypass"
ARCHITECTURES = (FLAT, HIERARCHICAL, BYPASS)
# name -> module and class, which are imported when they are asked for
_CONFIGURATIONS = {
    FLAT: ("configuration", "AttentionClassifierConfig"),
    HIERARCHICAL: ("han_configuration", "HANConfig"),
    BYPASS: ("bypass_configuration", "BypassConfig"),
}
_MODELS = {
    FLAT: ("pooled", "AttentionClassifier"),
    HIERARCHICAL: ("han", "HANClassifier"),
    BYPASS: ("bypass", "BypassClassifier"),
}


def config_class(architecture: str) -> Any:
    """The configuration of an architecture.

    Raises:
        InputError: there is none of that name.
    """
    check_choice("architecture", architecture, ARCHITECTURES)
    return _imported(*_CONFIGURATIONS[architecture])


def settings_of(architecture: str) -> dict[str, Any]:
    """Its configuration's own fields, name -> annotation as written; those of transformers are left out."""
    annotations: dict[str, Any] = {}
    for part in reversed(config_class(architecture).__mro__):
        if part.__module__.startswith("attn_faithful."):
            annotations.update(part.__annotations__)
    return annotations


def new_model(config: Any) -> Any:
    """A model of this configuration, with fresh weights."""
    return model_class(type(config))(config)


def load_model(path: Any) -> Any:
    """The model saved in a folder, in eval mode."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    return model_class(type(config)).from_pretrained(path, use_safetensors=True).eval()


def model_class(config_class: Any) -> Any:
    """The model that goes with a class of configurations."""
    for architecture, address in _CONFIGURATIONS.items():
        if config_class is _imported(*address):
            return _imported(*_MODELS[architecture])
    raise TypeError(f"{config_class} is no configuration of this package")


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(f"attn_faithful.models.{module}"), name)
