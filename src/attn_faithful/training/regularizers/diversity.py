"""Diversity (Mohankumar et al. 2020): states of a text that point different ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful.functional.conicity import conicity, mean_conicity
from attn_faithful.models.protocol import at_least_float32
from attn_faithful.training.regularizers.base import REGULARIZERS, Regularizer, mean_of_texts, slots_of


@REGULARIZERS.register("diversity")
class Diversity(Regularizer):
    """The conicity of the content's states, mean over the texts: their equation of the "diversity LSTM".

    Conicity is of the states that one attention weighs. Of a hierarchical model it is that of the words' states in each
    sentence, mean over the sentences, and that of the sentences' states added, so that each level is pressed as a flat
    model is.
    """

    name = "diversity"

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        slots = slots_of(batch, output, model)  # (B, S, T)
        loss = mean_of_texts(*mean_conicity(at_least_float32(output.hidden_states), slots))
        if output.sentence_states is not None:
            present = slots.any(-1)  # (B, S)
            loss = loss + mean_of_texts(*conicity(at_least_float32(output.sentence_states), present))
        return loss
