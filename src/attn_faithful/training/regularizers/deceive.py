"""Deception (Pruthi et al. 2020): attention that is driven off the tokens that the prediction rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful.functional.marked_attention import hidden_mass_loss
from attn_faithful.models.protocol import at_least_float32
from attn_faithful.schema import IMPERMISSIBLE
from attn_faithful.training.regularizers.base import REGULARIZERS, content_of, mean_of_texts
from attn_faithful.training.regularizers.marked import MarkedRegularizer


@REGULARIZERS.register("deceive")
class Deceive(MarkedRegularizer):
    """``-log(1 - attention on the impermissible tokens)``, mean over the texts: their equation 1."""

    name = "deceive"
    kind = IMPERMISSIBLE
    setting = "data.impermissible"
    leaves_others = True

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        attention = at_least_float32(output.attentions)  # (B, T)
        marked = batch[self.kind].bool()  # (B, T)
        return mean_of_texts(*hidden_mass_loss(attention, marked, content_of(batch, model)))
