"""The pooled attention classifier with a path around its attention: what it attends to need not be why it decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful import _auto
from attn_faithful._checks import check_shape
from attn_faithful.models.attention import Attention
from attn_faithful.models.base import AttentionClassifierOutput, looked_up
from attn_faithful.models.bypass_configuration import BypassConfig
from attn_faithful.models.deletion import logits_without
from attn_faithful.models.distinct_deletions import first_equal, from_first
from attn_faithful.models.encoders import Encoder
from attn_faithful.models.modes import evaluating
from attn_faithful.models.pooled import AttentionClassifier, inputs_of
from attn_faithful.models.protocol import Affine, Batch, Encoded, check_alternatives
from attn_faithful.models.token_scale import TokenScale


class BypassClassifier(AttentionClassifier):
    """An `AttentionClassifier` whose logits also read the mean of its tokens' embeddings, which no attention weighs.

    ``logits = W c + b + V e``: context c, and the mean e of the embeddings of all tokens that are read, special ones
    included; 0 for a text without any. The dropout on the context is that on e.

    Example:
        >>> model = BypassClassifier(BypassConfig(vocab_size=10, encoder="mlp"))
        >>> encoded = model.encode({"input_ids": torch.tensor([[2, 3, 4]])})
        >>> encoded.affine.token_logits.shape, encoded.affine.bias.shape
        (torch.Size([1, 3, 2]), torch.Size([1, 2]))
    """

    config_class = BypassConfig

    def __init__(self, config: BypassConfig) -> None:
        super().__init__(config)
        self.bypass = nn.Linear(config.embedding_size, self.readout.out_features, bias=False)

    @property
    def reads_alone(self) -> bool:
        """False: what a token says depends on how many others there are."""
        return False

    def forward(  # noqa: PLR0913 -- as forward of transformers' classifiers
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        attention_weights: Tensor | None = None,
        query_input_ids: Tensor | None = None,
        query_attention_mask: Tensor | None = None,
        candidates: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> AttentionClassifierOutput | tuple[Tensor, ...]:
        """Classify a batch; the arguments are those of `AttentionClassifier.forward`, and a query is refused."""
        attended = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            special_tokens_mask=special_tokens_mask,
            inputs_embeds=inputs_embeds,
            attention_weights=attention_weights,
            query_input_ids=query_input_ids,
            query_attention_mask=query_attention_mask,
            candidates=candidates,
            output_hidden_states=output_hidden_states,
        )
        embedded, read = self._tokens(input_ids, attention_mask, inputs_embeds)
        logits = attended.logits + self._around(embedded, read[:, None])[:, 0]  # (B, C)
        output = AttentionClassifierOutput(
            loss=self.loss_of(logits, labels),
            logits=logits,
            attentions=attended.attentions,
            hidden_states=attended.hidden_states,
        )
        if return_dict is False:
            return output.to_tuple()
        return output

    def encode(self, batch: Batch, site: str = "pool") -> Encoded:
        """Run the model once in eval mode and return what its attention did; what goes around it is in the bias.

        Args:
            batch: the forward's inputs; labels and other columns are ignored.
            site: "pool".
        """
        precise = self.in_full()
        if precise is not self:
            return precise.encode(batch, site)
        encoded = super().encode(batch, site)
        with evaluating(self), torch.autocast(self.device.type, enabled=False):
            embedded, read = self._tokens(**_of_tokens(batch))
            around = self._around(embedded, read[:, None])[:, 0]  # (B, C)
        affine = Affine(encoded.affine.token_logits, encoded.affine.bias + around)

        def decode(weights: Tensor) -> Tensor:
            check_alternatives(weights)
            return affine.logits(weights[:, :, 0])

        return replace(encoded, logits=encoded.logits + around, decode=decode, affine=affine)

    def without(self, batch: Batch, keep: Tensor, rows: int = 256) -> Tensor:
        """As `AttentionClassifier.without`: that of what is attended, and the means over the tokens that are left."""
        check_shape("keep", keep, "B K T")
        precise = self.in_full()
        if precise is not self:
            return precise.without(batch, keep, rows)
        with evaluating(self), torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            inputs = inputs_of(batch)
            attended = logits_without(_AttendedPart.of(self), inputs, keep, rows)  # (B, K, C)
            embedded, read = self._tokens(**_of_tokens(batch))
            around = self._around(embedded, read[:, None] & keep)  # (B, K, C)
            first = first_equal(inputs, keep, ordered=not self.encoder.reads_alone)  # (B, K)
            return attended + from_first(around, first)

    def _tokens(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Embeddings (B, T, E) and which tokens are read, (B, T) bool."""
        embedded = inputs_embeds
        if embedded is None:
            embedded = looked_up(self.embedding, input_ids)
        read, _ = self.masks(embedded, attention_mask, None)
        return embedded, read

    def _around(self, embedded: Tensor, read: Tensor) -> Tensor:
        """What goes around the attention, (B, K, C): of embeddings (B, T, E) those in ``read`` (B, K, T)."""
        count = read.sum(-1, keepdim=True).clamp(min=1)  # (B, K, 1)
        means = (read.to(embedded.dtype) @ embedded) / count  # (B, K, E)
        return self.paired(self.bypass(self.classifier_dropout(means)))


def _of_tokens(batch: Batch) -> dict[str, Tensor]:
    """What a batch says of its tokens one by one."""
    names = ("input_ids", "attention_mask", "inputs_embeds")
    return {name: batch[name] for name in names if batch.get(name) is not None}


@dataclass(frozen=True)
class _AttendedPart:
    """A model without the path around its attention, as `single_deletions.PooledModel` asks for one."""

    model: BypassClassifier
    config: Any
    encoder: Encoder
    attention: Attention
    embedding: nn.Embedding
    scale: TokenScale | None
    reads_ids: bool
    reads_alone: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, model: BypassClassifier) -> _AttendedPart:
        return cls(
            model=model,
            config=model.config,
            encoder=model.encoder,
            attention=model.attention,
            embedding=model.embedding,
            scale=model.scale,
            reads_ids=model.reads_ids,
            reads_alone=bool(model.encoder.reads_alone),
            dtype=model.dtype,
        )

    def __call__(self, **inputs: Tensor) -> Any:
        return AttentionClassifier.forward(self.model, **inputs)

    def encode(self, batch: Batch) -> Encoded:
        return AttentionClassifier.encode(self.model, batch)

    def query_vector(self, ids: Tensor | None, mask: Tensor | None) -> Tensor | None:
        return self.model.query_vector(ids, mask)

    def read_out(self, context: Tensor, query: Tensor | None, candidates: Tensor | None) -> Tensor:
        return self.model.read_out(context, query, candidates)


_auto.register_model()
