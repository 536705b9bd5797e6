"""What every regularizer has: a check of the model, and a loss of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attn_faithful._registry import Registry
from attn_faithful.models.hierarchy import at_slots

REGULARIZERS: Registry[type[Regularizer]] = Registry("regularizer")


class Regularizer:
    """A loss that is added, times a weight, to that of the labels.

    Attributes:
        name: that it is registered by.
        columns: of the rows that it reads beside what the model does.
        draw: seed and step, which random choices are keyed by beside the text; set before every loss.
        of_attention: whether it reads nothing but attention, so that transformers models can have it too.
    """

    name: str
    columns: tuple[str, ...] = ()
    draw: tuple[int, ...] = ()
    of_attention: bool = False

    def check(self, model: Any) -> None:
        """Raise where the model cannot have it, before training."""

    def check_rows(self, rows: Any) -> None:
        """Raise where the training rows do not have what it needs, before training."""

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        """The loss of a batch, a scalar.

        Args:
            batch: the forward's inputs, and its own columns.
            output: of the forward in training, with its hidden states.
            model: that ran.
        """
        raise TypeError("a regularizer defines loss")


def content_of(batch: Mapping[str, Tensor], model: Any) -> Tensor:
    """Which tokens of a batch are content, (B, T) bool."""
    return read_and_content(batch, model)[1]


def read_and_content(batch: Mapping[str, Tensor], model: Any) -> tuple[Tensor, Tensor]:
    """Which tokens of a batch the model reads, and which of them are content, (B, T) bool each."""
    special = batch.get("special_tokens_mask")
    if model.layered:
        read = batch["attention_mask"].bool()
        return read, read if special is None else read & ~special.bool()
    masks: tuple[Tensor, Tensor] = model.masks(batch["input_ids"], batch.get("attention_mask"), special)
    return masks


def slots_of(batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
    """What each attention over the words weighs, (B, S, T) bool: all content, or the content of a sentence."""
    content = content_of(batch, model)  # (B, T)
    if output.sentence_attentions is None:
        return content[:, None]
    return at_slots(content, batch["sentence_ids"], output.sentence_attentions.shape[1])


def mean_of_texts(values: Tensor, flags: Mapping[str, Tensor]) -> Tensor:
    """The sum of the texts' values over their number, as the loss of the labels; undefined texts add nothing.

    The number is that of all texts, so that the mean of the parts that several processes have of a batch is that of the
    batch. What is not finite for no known reason stays.

    Args:
        values: (B,).
        flags: reason -> (B,) bool, the texts that are undefined for it.

    Example:
        >>> float(mean_of_texts(torch.tensor([1.0, torch.nan]), {"n<2": torch.tensor([False, True])}))
        0.5
    """
    undefined = torch.stack(list(flags.values())).any(0)  # (B,)
    return torch.where(undefined, 0.0, values).sum() / len(values)
