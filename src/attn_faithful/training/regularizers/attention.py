"""The attention that regularizers are of: of our own models, and head by head of transformers' ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attn_faithful.models.adapted import forward_arguments
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import at_least_float32
from attn_faithful.models.stock.embedding import embedding
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.model import StockModel
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


def last_layer(model: StockModel) -> Trace:
    """What reads the attention of the last layer in one forward of a transformers model."""
    return Trace(read={model.layers[-1]})


def heads_of(model: StockModel, trace: Trace, batch: Mapping[str, Tensor]) -> Tensor:
    """What the heads of the last layer did in a forward with the trace of `last_layer`, (B, H, T)."""
    layer = model.layers[-1]
    return model.slots_of(trace.seen[layer], layer, model.inputs(dict(batch))).attention


def attention_of_embeddings(batch: Mapping[str, Tensor], embedded: Tensor, model: Any) -> Tensor:
    """Attention of texts whose embeddings are others, (B, H, T), without dropout and differentiable in them.

    Args:
        batch: of the texts.
        embedded: (B, T, E), in the place of the embeddings of their ids; positions are added as ever.
        model: of our own (H is 1) or of transformers, see `AttentionRows`.
    """
    with analysing(model):
        if model.layered:
            trace, inputs = last_layer(model), model.inputs(dict(batch))
            with embedding(model.model, inputs["input_ids"], embedded):
                model.run(inputs, trace)
            return heads_of(model, trace, batch)
        takes = forward_arguments(model) - {"inputs_embeds", "labels"}
        if not model.reads_ids:
            takes.discard("input_ids")
        inputs = {name: value for name, value in batch.items() if name in takes}
        return at_least_float32(model(inputs_embeds=embedded, **inputs).attentions)[:, None]
