"""Diversity (Mohankumar et al. 2020): states of a text that point different ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful.functional.conicity import conicity
from attn_faithful.models.protocol import at_least_float32
from attn_faithful.training.regularizers.base import REGULARIZERS, Regularizer, content_of, mean_of_texts


@REGULARIZERS.register("diversity")
class Diversity(Regularizer):
    """The conicity of the content's states, mean over the texts: their equation of the "diversity LSTM"."""

    name = "diversity"

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        states = at_least_float32(output.hidden_states)  # (B, T, N)
        return mean_of_texts(*conicity(states, content_of(batch, model)))
