"""Rationales: attention that is drawn to the words that people marked as the reason for the label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful.functional.marked_attention import rationale_divergence
from attn_faithful.schema import RATIONALE
from attn_faithful.training.regularizers.attention import AttentionRows
from attn_faithful.training.regularizers.base import REGULARIZERS, mean_of_texts
from attn_faithful.training.regularizers.marked import MarkedRegularizer


@REGULARIZERS.register("rationale")
class Rationale(MarkedRegularizer):
    """``KL(rationale || attention)``, mean over the texts and heads; a text without a marked word adds nothing."""

    name = "rationale"
    kind = RATIONALE
    setting = "data.rationale"

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        rows = AttentionRows.of(batch, output, model)
        marked = rows.each(batch[self.kind].bool())  # (B H, T)
        return mean_of_texts(*rationale_divergence(rows.attention, marked, rows.tokens))
