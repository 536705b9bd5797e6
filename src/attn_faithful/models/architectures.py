"""The classifiers that a recipe can name: "flat" attends over all words, "hierarchical" over words and sentences."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from attn_faithful._checks import check_choice

FLAT = "flat"
_PLACES = {
    FLAT: ("configuration:AttentionClassifierConfig", "pooled:AttentionClassifier"),
    "hierarchical": ("han_configuration:HANConfig", "han:HANClassifier"),
}
ARCHITECTURES = tuple(_PLACES)


def config_class(architecture: str) -> Any:
    """The configuration of an architecture.

    Raises:
        InputError: there is none of that name.
    """
    return _named(_PLACES[check_choice("architecture", architecture, ARCHITECTURES)][0])


def settings_of(architecture: str) -> dict[str, Any]:
    """Its configuration's own fields, name -> annotation as written; those of transformers are left out."""
    chain = [c for c in config_class(architecture).__mro__ if c.__module__.startswith("attn_faithful.")]
    return {name: kind for c in reversed(chain) for name, kind in c.__annotations__.items()}


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
    return next(_named(model) for name, model in _PLACES.values() if config_class is _named(name))


def _named(place: str) -> Any:
    module, name = place.split(":")
    return getattr(import_module(f"attn_faithful.models.{module}"), name)
