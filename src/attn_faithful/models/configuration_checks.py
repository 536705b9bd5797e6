"""Checks of the settings of a classifier, each with what is allowed."""

from __future__ import annotations

from typing import Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.functional.projections import PROJECTIONS
from attn_faithful.models.attention import SCORERS
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.token_scale import SCALES

OUTPUTS = ("sigmoid", "softmax", "multi_label")
ACTIVATIONS = ("tanh", "relu")
POSITIONS = ("learned", "sinusoidal")
READOUTS = ("affine", "tanh")

_SIZES = ("vocab_size", "embedding_size", "hidden_size", "num_layers", "num_heads", "max_positions")


def check_configuration(config: Any) -> None:
    """Raise for the first setting that is wrong.

    Args:
        config: an `AttentionClassifierConfig`.

    Raises:
        InputError: a name that does not exist, a value out of range, or settings that contradict each other.
    """
    _check_names(config)
    _check_classes(config)
    _check_sizes(config)
    _check_rates(config)
    _check_padding(config)
    _check_class_weights(config)
    if not isinstance(config.bidirectional, bool):
        raise InputError(f"Expected bidirectional to be true or false, but it is {config.bidirectional!r}; set either.")
    if config.encoder == "cnn":
        _check_kernels(config)
    if config.encoder == "transformer" and config.hidden_size % config.num_heads:
        raise InputError(
            f"hidden_size {config.hidden_size} cannot be shared by {config.num_heads} heads; make it a multiple."
        )
    if config.attention == "uniform" and config.query and config.readout == "affine":
        raise InputError(
            "attention 'uniform' reads no scores, so a query has no effect on an affine read-out; set readout to "
            "'tanh' or leave the query out."
        )


def check_rate(name: str, rate: float | None) -> None:
    """Raise for a dropout rate out of range; None stands for another one."""
    if rate is not None and not 0 <= rate < 1:
        raise InputError(f"{name} must lie from 0 to below 1, but is {rate}.")


def _check_names(config: Any) -> None:
    check_choice("encoder", config.encoder, ENCODERS)
    check_choice("attention", config.attention, SCORERS)
    check_choice("projection", config.projection, PROJECTIONS)
    check_choice("output", str(config.output), OUTPUTS)
    check_choice("activation", config.activation, ACTIVATIONS)
    check_choice("positions", config.positions, POSITIONS)
    check_choice("readout", config.readout, READOUTS)
    if config.scale is not None:
        check_choice("scale", config.scale, SCALES)


def _check_classes(config: Any) -> None:
    if config.output == "sigmoid" and config.num_labels != 2:
        raise InputError(f"output 'sigmoid' is for two classes, but num_labels is {config.num_labels}; use 'softmax'.")
    if config.num_labels < 1 or (config.num_labels < 2 and not config.multi_label):
        raise InputError(f"Expected two labels or more, but num_labels is {config.num_labels}.")


def _check_sizes(config: Any) -> None:
    for name in _SIZES:
        size = getattr(config, name)
        if size < 1:
            raise InputError(f"{name} must be at least 1, but is {size}.")
    if config.attention_size is not None and config.attention_size < 1:
        raise InputError(f"attention_size must be at least 1, but is {config.attention_size}.")


def _check_rates(config: Any) -> None:
    check_rate("dropout", config.dropout)
    check_rate("classifier_dropout", config.classifier_dropout)
    if not config.sparsegen_lambda < 1:
        raise InputError(f"sparsegen_lambda must lie below 1, but is {config.sparsegen_lambda}.")
    if not config.temperature > 0:
        raise InputError(f"temperature must be positive, but is {config.temperature}.")
    if not config.entmax_alpha >= 1:
        raise InputError(f"entmax_alpha must be at least 1, but is {config.entmax_alpha}.")


def _check_padding(config: Any) -> None:
    padding = config.pad_token_id
    if padding is None:
        return
    whole = isinstance(padding, int) and not isinstance(padding, bool)
    if not whole or not 0 <= padding < config.vocab_size:
        raise InputError(
            f"Expected pad_token_id to be one of the vocabulary's {config.vocab_size} ids, from 0, but it is "
            f"{padding!r}; set it to the tokenizer's pad_token_id."
        )


def _check_class_weights(config: Any) -> None:
    weights = config.class_weights
    if weights is not None and len(weights) != config.num_labels:
        raise InputError(f"Expected {config.num_labels} class_weights, one a label, but got {len(weights)}.")


def _check_kernels(config: Any) -> None:
    sizes = config.kernel_sizes
    even = [size for size in sizes if size % 2 == 0 or size < 1]
    if even or not sizes:
        raise InputError(f"kernel_sizes must be odd, so that a position keeps its centre, but are {list(sizes)}.")
    if config.hidden_size % len(sizes):
        raise InputError(
            f"hidden_size {config.hidden_size} cannot be shared by {len(sizes)} kernel_sizes; "
            f"make it a multiple of {len(sizes)}."
        )
