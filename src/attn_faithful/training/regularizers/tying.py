"""Tying (Tutek and Snajder 2020): states that stay near the embeddings of their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.tying import tying_distance
from attn_faithful.models.base import looked_up
from attn_faithful.models.protocol import at_least_float32
from attn_faithful.training.regularizers.base import REGULARIZERS, Regularizer, content_of, mean_of_texts


@REGULARIZERS.register("tying")
class Tying(Regularizer):
    """The squared distance of the content's states to their embeddings (before dropout), mean over the texts.

    Of a hierarchical model the states are those of the words.
    """

    name = "tying"

    def check(self, model: Any) -> None:
        width, size = model.encoder.width, model.config.embedding_size
        if width != size:
            raise InputError(
                f"The regularizer 'tying' needs states as wide as the embeddings, but the encoder "
                f"{model.config.encoder!r} gives {width} numbers a token and the embedding {size}; set "
                f"model.embedding_size={width}, or another model.hidden_size."
            )

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        states = at_least_float32(output.hidden_states)  # (B, T, N)
        embedded = looked_up(model.embedding, batch["input_ids"]).to(states.dtype)  # (B, T, N)
        return mean_of_texts(*tying_distance(states, embedded, content_of(batch, model)))
