"""The part ``model`` of a recipe: which settings it may hold, and whether they make a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from attn_faithful._checks import InputError, did_you_mean
from attn_faithful.experiments.strict_settings import typed
from attn_faithful.models.architectures import ARCHITECTURES, FLAT, config_class, settings_of

# settings of a configuration that follow from the data or from the part ``train``
_ELSEWHERE = (
    "model_type",
    "keys_to_ignore_at_inference",
    "later_settings",
    "vocab_size",
    "pad_token_id",
    "class_weights",
    "query",
    "masking",
)


def model_keys() -> list[str]:
    """Settings of the model that a recipe may name."""
    names = dict.fromkeys(name for architecture in ARCHITECTURES for name in settings_of(architecture))
    return ["architecture", *(name for name in names if name not in _ELSEWHERE)]


def check_model_keys(keys: Iterable[str], where: str) -> None:
    """Raise where a setting is one of no architecture."""
    known = model_keys()
    for key in keys:
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")


def check_model(model: Mapping[str, Any], multi_label: bool, where: str) -> None:
    """Raise where the settings make no model.

    Args:
        model: the part ``model`` of a recipe.
        multi_label: whether the data has several labels a text.
        where: origin of the settings, for errors.
    """
    settings = dict(model)
    try:
        architecture = settings.pop("architecture", FLAT)
        annotations = settings_of(architecture)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    unknown = [key for key in settings if key not in annotations]
    if unknown:
        raise InputError(f"{where}: the architecture {architecture!r} has no setting {unknown[0]!r}.")
    hints = _hints({key: annotations[key] for key in settings})
    values = {key: typed(hints[key], value, f"{where}: {key}") for key, value in settings.items()}
    output = values.get("output")
    if output is not None and (output == "multi_label") != multi_label:
        raise InputError(f"{where}: output {output!r} does not go with data.multi_label {multi_label}.")
    try:
        config_class(architecture)(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _hints(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The types of some settings; those of transformers' own settings name modules that are not loaded."""
    module = config_class(FLAT).__module__
    return get_type_hints(type("Settings", (), {"__annotations__": dict(annotations), "__module__": module}))
