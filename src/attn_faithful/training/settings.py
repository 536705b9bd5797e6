"""How base models and twins are trained, as data: without the trainer, which takes seconds to import."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful.names import ATTENTION_REGULARIZERS, REGULARIZERS

SELECTIONS = ("roc_auc", "accuracy", "f1", "loss")
HEADS = ("keep", "new")
MASKINGS = ("half",)
OBJECTIVES = ("attefa", "kl", "constrained")


@dataclass(frozen=True)
class TrainSettings:
    """How a base model is trained; the defaults are those of Jain and Wallace (2019) and Amini and Kosseim.

    Attributes:
        epochs: at most this many.
        batch_size: examples a step.
        learning_rate: of Adam, constant.
        weight_decay: L2 added to the gradients of everything but the attention: that of words and of sentences, and the
            self-attention of a Transformer.
        amsgrad: Adam's variant, as in the code of Jain and Wallace.
        max_grad_norm: gradients longer than this are cut to it; None for no limit.
        patience: epochs without a better selection before training stops; None for all epochs.
        select_by: what the best epoch is chosen by: "roc_auc", "accuracy", "f1" or "loss".
        select_on: "validation", or "test" only to repeat a paper.
        class_weights: None, "balanced" (N / (C n_c)) or a factor a class.
        mixed_precision: multiply in bfloat16 while training; weights, attention, losses and all that is measured stay
            in float32. Numbers are others than without.
        trackers: names of transformers' reporting integrations, such as "tensorboard".
        regularizers: name -> weight of a loss that is added in training, such as {"diversity": 0.5}; 0 is as none. See
            `attn_faithful.training.regularizers`.
        masking: "half": in half of the texts of each batch a number of tokens, uniform from none to all, is masked, so
            that masked texts are like those of training (Madsen et al. 2024); None for none.
    """

    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    amsgrad: bool = False
    max_grad_norm: float | None = None
    patience: int | None = None
    select_by: str = "roc_auc"
    select_on: str = "validation"
    class_weights: str | list[float] | None = None
    mixed_precision: bool = False
    trackers: list[str] = field(default_factory=list)
    regularizers: dict[str, float] = field(default_factory=dict)
    masking: str | None = None

    def __post_init__(self) -> None:
        _check_regularizers(self.regularizers)
        _check_masking(self.masking)
        check_choice("select_by", self.select_by, SELECTIONS)
        check_choice("select_on", self.select_on, ("validation", "test"))
        if isinstance(self.class_weights, str):
            check_choice("class_weights", self.class_weights, ("balanced",))
        _check_positive(self, ("epochs", "batch_size", "learning_rate"))
        _check_norm(self.max_grad_norm)

    @property
    def active_regularizers(self) -> dict[str, float]:
        """The regularizers with a weight above 0."""
        return _active(self.regularizers)


@dataclass(frozen=True)
class FineTuneSettings:
    """How a transformers classifier is fine-tuned; the defaults are those of Devlin et al. (2019), appendix A.3.

    The optimizer is AdamW, without decay of biases and of the weights of norms. Dropout is what the model's
    configuration says.

    Attributes:
        epochs: at most this many.
        batch_size: examples a step.
        learning_rate: the largest: it rises from 0 over the first steps, and falls to 0 over the rest, in lines.
        warmup_ratio: share of all steps in which it rises.
        weight_decay: share of the learning rate that weights lose a step.
        max_grad_norm: gradients longer than this are cut to it; None for no limit.
        patience: epochs without a better selection before training stops; None for all epochs.
        select_by: what the best epoch is chosen by: "roc_auc", "accuracy", "f1" or "loss".
        select_on: "validation", or "test" only to repeat a paper.
        head: "keep" the head for classes where the model has one, or draw a "new" one for the data's classes; a model
            without a head gets a new one either way.
        mixed_precision: as for `TrainSettings`.
        trackers: names of transformers' reporting integrations, such as "tensorboard".
        regularizers: as for `TrainSettings`; those of attention alone.
        masking: as for `TrainSettings`.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 2e-5
    warmup_ratio: float = 0.1
    weight_decay: float = 0.01
    max_grad_norm: float | None = 1.0
    patience: int | None = None
    select_by: str = "accuracy"
    select_on: str = "validation"
    head: str = "keep"
    mixed_precision: bool = False
    trackers: list[str] = field(default_factory=list)
    regularizers: dict[str, float] = field(default_factory=dict)
    masking: str | None = None

    def __post_init__(self) -> None:
        _check_regularizers(self.regularizers)
        _check_masking(self.masking)
        for name in self.active_regularizers:
            if name not in ATTENTION_REGULARIZERS:
                raise InputError(
                    f"The regularizer {name!r} reads more of a model than its attention, and is there for our own "
                    f"models alone; transformers models can have {', '.join(ATTENTION_REGULARIZERS)}."
                )
        check_choice("select_by", self.select_by, SELECTIONS)
        check_choice("select_on", self.select_on, ("validation", "test"))
        check_choice("head", self.head, HEADS)
        _check_positive(self, ("epochs", "batch_size", "learning_rate"))
        _check_norm(self.max_grad_norm)
        if not 0 <= self.warmup_ratio < 1:
            raise InputError(f"warmup_ratio must lie from 0 to below 1, but is {self.warmup_ratio}.")
        if not self.weight_decay >= 0:
            raise InputError(f"weight_decay must be 0 or more, but is {self.weight_decay}.")

    @property
    def active_regularizers(self) -> dict[str, float]:
        """The regularizers with a weight above 0."""
        return _active(self.regularizers)


@dataclass(frozen=True)
class TwinSettings:
    """How a twin is trained; the defaults are those of Amini and Kosseim, section 3.2.

    Attributes:
        objective: "attefa": ``TVD - weight * JSD / ln 2`` (their equation 4 with weight 1); "kl": ``TVD - weight *
            KL(twin || base)`` (Wiegreffe and Pinter 2019, section 4); "constrained": the largest JSD whose mean TVD
            is at most `max_tvd`, by a multiplier that adapts during training (dual ascent).
        weight: of the divergence. Twice the lambda of Wiegreffe and Pinter for "kl": their TVD, of the one positive
            probability, is half of ours.
        max_tvd: "constrained" only.
        start: "new" weights, or "base": the base's, except for a new attention (from equal attention no gradient
            leads away).
        epochs: at most this many.
        patience: epochs without a better selection before training stops; not while the twin counts as collapsed.
        batch_size, learning_rate, weight_decay: as for the base.
        select_on: "validation", or "test" only to repeat the paper.
        mixed_precision: as for the base.
        trackers: names of transformers' reporting integrations.
    """

    objective: str = "attefa"
    weight: float = 1.0
    max_tvd: float = 0.05
    start: str = "new"
    epochs: int = 80
    patience: int = 10
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    select_on: str = "validation"
    mixed_precision: bool = False
    trackers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)
        check_choice("start", self.start, ("new", "base"))
        check_choice("select_on", self.select_on, ("validation", "test"))
        if not 0 < self.max_tvd < 1:
            raise InputError(f"max_tvd must lie between 0 and 1, but is {self.max_tvd}.")
        _check_positive(self, ("epochs", "batch_size", "learning_rate", "patience"))

    @property
    def variant(self) -> str:
        """A short name of what sets this objective apart, the same in folders, tables and figures."""
        name = self.objective
        if self.objective == "constrained":
            name = f"constrained-{self.max_tvd:g}"
        elif self.weight != 1:
            name = f"{self.objective}-{self.weight:g}"
        if self.start == "base":
            name = f"{name}-from-base"
        return name


def selection_metric(settings: TrainSettings | FineTuneSettings) -> str:
    """The column of the history that the best epoch is chosen by.

    With masks that is "eval_selection", what `select_by` names less (of a loss, and) what the prior is missed by beyond
    `training.masking.PRIOR_TOLERANCE` with every token masked.

    Example:
        >>> selection_metric(TrainSettings()), selection_metric(TrainSettings(masking="half"))
        ('eval_roc_auc', 'eval_selection')
    """
    return f"eval_{settings.select_by}" if settings.masking is None else "eval_selection"


def _check_positive(settings: Any, names: Sequence[str]) -> None:
    for name in names:
        value = getattr(settings, name)
        if not value > 0:
            raise InputError(f"{name} must be positive, but is {value}.")


def _check_norm(max_grad_norm: float | None) -> None:
    if max_grad_norm is not None and not max_grad_norm > 0:
        raise InputError(f"max_grad_norm must be positive, but is {max_grad_norm}; leave it out for no limit.")


def _check_masking(masking: str | None) -> None:
    if masking is not None:
        check_choice("masking", masking, MASKINGS)


def _active(regularizers: Mapping[str, float]) -> dict[str, float]:
    """Those with a weight above 0."""
    return {name: weight for name, weight in regularizers.items() if weight > 0}


def _check_regularizers(regularizers: Mapping[str, float]) -> None:
    """Raise for an unknown regularizer, or a weight that is no number from 0."""
    for name, weight in regularizers.items():
        check_choice("regularizer", name, REGULARIZERS)
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < math.inf:
            raise InputError(
                f"Expected the weight of the regularizer {name!r} as a number from 0, but got {weight!r}; a larger "
                "weight acts more, 0 not at all."
            )


def check_trackers(names: Sequence[str]) -> None:
    """Raise for a tracker that does not exist or is not installed, before any work."""
    if not names:  # the integrations take seconds to import
        return
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    for name in names:
        if name not in INTEGRATION_TO_CALLBACK:
            raise InputError(f"Unknown tracker {name!r}.{did_you_mean(name, INTEGRATION_TO_CALLBACK)}")
        if name not in get_available_reporting_integrations():
            raise InputError(f"The tracker {name!r} is not installed; install its package or leave it out of trackers.")
