"""A model that has the members of the protocol without deriving from `AttentionModel`, brought under it."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from attn_faithful.models.configurations import longest_text
from attn_faithful.models.protocol import AttentionModel

_DEFAULTS = [name for name in vars(AttentionModel) if not name.startswith("_")]
_MEMBERS = ("sites", *(name for name in _DEFAULTS if name != "deletes"))  # which follows from `without`


class AdaptedModel(AttentionModel):
    """Somebody's model with the members of `AttentionModel` that it defines, and the defaults of the others.

    Args:
        original: any object; what is no member of `AttentionModel` is looked up there.
    """

    def __init__(self, original: Any) -> None:
        self.original = original
        for name in _MEMBERS:
            if hasattr(original, name):
                setattr(self, name, getattr(original, name))
        config = getattr(original, "config", None)
        if not hasattr(original, "max_tokens"):
            self.max_tokens = longest_text(config)
        self.has_query = bool(getattr(config, "query", False))
        self.training_texts = getattr(getattr(original, "model", original), "training_texts", None)

    def __getattr__(self, name: str) -> Any:
        if name == "original":  # not set yet, as in a copy
            raise AttributeError(name)
        return getattr(self.original, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)


def adapted(model: Any) -> Any:
    """The model itself where it derives from `AttentionModel`, else brought under it.

    Example:
        >>> class Mine:
        ...     sites = ("pool",)
        ...     pad_token_id = 3
        >>> model = adapted(Mine())
        >>> model.sites, model.pad_token_id, model.reads_pairs, model.cost(7)
        (('pool',), 3, False, 7)
    """
    if isinstance(model, AttentionModel):
        return model
    return AdaptedModel(model)


def original(model: Any) -> Any:
    """The object that was brought under `AttentionModel`; any other model itself."""
    if isinstance(model, AdaptedModel):
        return model.original
    return model


def class_name(model: Any) -> str:
    """The name of the class of a model, for messages."""
    return type(original(model)).__name__


def computing_module(model: Any) -> nn.Module | None:
    """The torch module that does a model's work; None where it is not known."""
    inner: nn.Module | None = original(model)
    if hasattr(inner, "modules"):
        return inner
    return getattr(inner, "model", None)


def network_of(model: Any) -> nn.Module | None:
    """The torch module whose weights and code are the model; None of one that is no module."""
    inner: Any = original(model)
    if model.layered:
        inner = inner.model
    if isinstance(inner, nn.Module):
        return inner
    return None


def facts_of(model: Any) -> Any:
    """All that a model is which is no torch module: what it says of itself, else its attributes."""
    inner = original(model)
    return getattr(inner, "facts", None) or vars(inner)


def input_embeddings(model: Any) -> nn.Module | None:
    """The table in which a model looks up ids; None where it has none."""
    find = getattr(model, "get_input_embeddings", None)
    if find is None:
        return None
    return find()


def forward_arguments(model: Any) -> set[str]:
    """The names of the arguments of a model's forward; none where it has no forward."""
    forward = getattr(model, "forward", None)
    if forward is None:
        return set()
    return set(inspect.signature(forward).parameters)
