"""Deception (Pruthi et al. 2020): attention that is driven off the tokens that the prediction rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful.functional.marked_attention import hidden_mass_loss
from attn_faithful.schema import IMPERMISSIBLE
from attn_faithful.training.regularizers.attention import AttentionRows
from attn_faithful.training.regularizers.base import REGULARIZERS, mean_of_texts
from attn_faithful.training.regularizers.marked import MarkedRegularizer


@REGULARIZERS.register("deceive")
class Deceive(MarkedRegularizer):
    """``-log(1 - attention on the impermissible tokens)``, mean over the texts and heads: their equation 1."""

    name = "deceive"
    kind = IMPERMISSIBLE
    setting = "data.impermissible"
    leaves_others = True

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        rows = AttentionRows.of(batch, output, model)
        marked = rows.each(batch[self.kind].bool())  # (B H, T)
        return mean_of_texts(*hidden_mass_loss(rows.attention, marked, rows.tokens))
