"""Stock transformers models with a sparse projection in place of the softmax of their attention."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful.functional.projections import project
from attn_faithful.models.stock.interface import ENTMAX_ALPHA, SPARSE, SPARSEGEN_LAMBDA, configs_of, register
from attn_faithful.models.supported import WORKING

PROJECTION = "attention_projection"  # of a model's config, where it is saved
BASE = "transformers.modeling_utils"
PARAMETERS = {"sparsegen": SPARSEGEN_LAMBDA, "entmax": ENTMAX_ALPHA}
ARGUMENTS = {SPARSEGEN_LAMBDA: "lam", ENTMAX_ALPHA: "alpha"}  # as the projections call them


def use_projection(model: Any, name: str, **parameters: float) -> Any:
    """Give every attention layer of a stock model another projection, for training, analysis and saving.

    The name and its parameter are written into the config, which `save_pretrained` keeps (transformers does not save
    the attention implementation itself); :func:`restore_projection` reads them after loading.

    Args:
        model: a transformers model that uses the attention interface.
        name: "sparsemax", "sparsegen", "entmax15", "entmax", or "softmax" for transformers' own attention.
        parameters: ``sparsegen_lambda`` (below 1, default 0) of sparsegen, ``entmax_alpha`` (at least 1, default 1.5)
            of entmax.

    Returns:
        the model.

    Raises:
        InputError: an unknown name or parameter, or a model that ignores the attention interface.

    Reference:
        Martins and Astudillo (2016); Laha et al. (2018), section 3; Peters et al. (2019), section 3.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> bert = BertForSequenceClassification(BertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
        >>> use_projection(bert, "sparsegen", sparsegen_lambda=0.5).config.attention_projection
        'sparsegen'
    """
    check_choice("projection", name, ("softmax", *SPARSE))
    known = PARAMETERS.get(name)
    for parameter in parameters:
        if parameter != known:
            hint = " It takes none." if known is None else did_you_mean(parameter, [known])
            raise InputError(f"Unknown parameter {parameter!r} of projection {name!r}.{hint}")
    check_asks(model)
    arguments = {ARGUMENTS[parameter]: value for parameter, value in parameters.items()}
    project(name, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), **arguments)  # raises for a value out of range
    register()
    for config in configs_of(model):
        setattr(config, PROJECTION, name)
        for parameter, value in parameters.items():
            setattr(config, parameter, value)
    model.set_attn_implementation(None if name == "softmax" else name)  # None: transformers chooses what it supports
    return model


def restore_projection(model: Any) -> Any:
    """Give a model that was loaded the projection that its config names, if it names any.

    Args:
        model: any; one whose config names no `attention_projection` stays as it is.

    Returns:
        the model.

    Raises:
        InputError: an unknown name, or a model that ignores the attention interface.
    """
    name = getattr(getattr(model, "config", None), PROJECTION, None)
    if name in (None, "softmax"):
        return model
    return use_projection(model, name)


def check_asks(model: Any) -> None:
    """Raise for a model whose attention is computed past transformers' attention interface."""
    name = type(model).__name__
    if not isinstance(model, nn.Module) or not hasattr(model, "set_attn_implementation"):
        raise InputError(f"Expected a transformers model, but got {name}; ours take projection= in their config.")
    sources: set[str] = set()
    for module in model.modules():
        sources.update(cls.__module__ for cls in type(module).__mro__)
    # the base of all models names the interface too, and transformers' own test takes a model without attention for one
    sources.discard(BASE)
    asks = any(hasattr(sys.modules.get(source), "ALL_ATTENTION_FUNCTIONS") for source in sources)
    if not asks or not type(model)._can_set_attn_implementation():
        raise InputError(
            f"{name} does not use transformers' attention interface, so its projection cannot be replaced; {WORKING}"
        )
