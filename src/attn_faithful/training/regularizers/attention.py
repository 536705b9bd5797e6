"""The attention that regularizers are of: of our own models, and head by head of transformers' ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attn_faithful.models.protocol import at_least_float32
from attn_faithful.training.regularizers.base import content_of


@dataclass(frozen=True)
class AttentionRows:
    """Attention in a forward of training, a row a text and head.

    Of a model of our own there is one head, over the content. Of a transformers model there are the heads of its last
    layer, over all tokens of the text, special ones too: the attention of the token that the classifier reads, and
    where it reads several the mean of theirs. Attention is that before dropout.

    Attributes:
        attention: (B H, T).
        tokens: what it goes to, (B H, T) bool.
        heads: H.
    """

    attention: Tensor
    tokens: Tensor
    heads: int

    @classmethod
    def of(cls, batch: Mapping[str, Tensor], output: Any, model: Any) -> AttentionRows:
        """The attention of a batch.

        Args:
            batch: with `input_ids` and `attention_mask`.
            output: of the forward: ``attentions`` are (B, T), or of a transformers model (B, H, T).
            model: that ran.

        Reference:
            Pruthi et al. (2020): of BERT the mean over the heads of the last layer, in the row of the token [CLS].
        """
        attention = at_least_float32(output.attentions)
        if not model.layered:
            return cls(attention, content_of(batch, model), 1)
        heads = attention.shape[1]
        tokens = batch["attention_mask"].bool().repeat_interleave(heads, dim=0)  # (B H, T)
        return cls(attention.flatten(0, 1), tokens, heads)

    def each(self, values: Tensor) -> Tensor:
        """What holds of a text's tokens (B, T) for each head, (B H, T)."""
        return values.repeat_interleave(self.heads, dim=0)
