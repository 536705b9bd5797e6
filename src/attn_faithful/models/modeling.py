"""The pooled attention classifier: embedding, encoder, attention, read-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from attn_faithful import _auto
from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.models.attention import Attention
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.encoders import ENCODERS
from attn_faithful.models.protocol import Affine, Batch, Encoded, evaluating
from attn_faithful.models.readout import TanhReadout, among, check_candidates, held
from attn_faithful.models.removal import logits_without


@dataclass
class AttentionClassifierOutput(ModelOutput):
    """What the forward returns.

    Attributes:
        loss: with labels only; the weighted sum of the examples' losses over their number.
        logits: (B, C); (0, z) for a one-logit model.
        attentions: (B, T), 0 outside the content tokens.
        hidden_states: the encoder's states (B, T, N), on request.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    attentions: Tensor | None = None
    hidden_states: Tensor | None = None


class AttentionClassifier(PreTrainedModel):
    """A text classifier that reads out the attention-weighted mean of its tokens' states.

    Example:
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=10, encoder="mlp"))
        >>> output = model(torch.tensor([[2, 3, 4]]))
        >>> output.attentions.shape, output.logits.shape
        (torch.Size([1, 3]), torch.Size([1, 2]))
    """

    config_class = AttentionClassifierConfig
    base_model_prefix = "attention_classifier"
    main_input_name = "input_ids"
    sites = ("pool",)

    def __init__(self, config: AttentionClassifierConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.encoder = ENCODERS[config.encoder](config)
        query_width = None
        if config.query:
            self.query_embedding = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
            self.query_encoder = ENCODERS[config.encoder](config)
            query_width = self.query_encoder.width
        self.attention = Attention(config, self.encoder.width, query_width)
        self.dropout = nn.Dropout(config.dropout)
        rows = 1 if config.output == "sigmoid" else config.num_labels
        if config.readout == "tanh":
            self.readout = TanhReadout(self.encoder.width, query_width, rows)
        else:
            self.readout = nn.Linear(self.encoder.width, rows)
        self.post_init()
        self._freeze()

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, but a checkpoint that lacks weights raises."""
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if info["missing_keys"]:
            missing = ", ".join(sorted(info["missing_keys"]))
            raise InputError(f"The checkpoint {args[0]} lacks the weights {missing}; it is incomplete.")
        model._freeze()
        return (model, info) if output_loading_info else model

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's own initialisation, which the papers' numbers stand on; transformers' default is N(0, 0.02)
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()

    def _freeze(self) -> None:
        if self.config.freeze_embeddings:
            self.embedding.requires_grad_(False)
            if self.config.query:
                self.query_embedding.requires_grad_(False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embedding = value

    def load_vectors(self, matrix: Tensor) -> None:
        """Copy word vectors (V, E) into the embeddings.

        Raises:
            InputError: the matrix has another shape than the embedding.
        """
        if matrix.shape != self.embedding.weight.shape:
            raise InputError(
                f"Expected vectors of shape {tuple(self.embedding.weight.shape)}, but got {tuple(matrix.shape)}; "
                "set vocab_size and embedding_size to match the file."
            )
        with torch.no_grad():
            self.embedding.weight.copy_(matrix)
            if self.config.query:
                self.query_embedding.weight.copy_(matrix)

    def forward(
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
        """Classify a batch.

        Args:
            input_ids: (B, T), or give `inputs_embeds` (B, T, E).
            attention_mask: (B, T), 1 where the encoder reads; padding may stand on either side.
            special_tokens_mask: (B, T), 1 at tokens that attention must not reach.
            attention_weights: (B, T), used instead of the model's own attention.
            query_input_ids: (B, Q), with `query_attention_mask`, for models with a query.
            candidates: (B, C), 1 at the classes that may be the answer; the others' logits are -inf.
            labels: (B,) class indices, or (B, C) of 0 and 1 for multi-label; negative: unknown, no loss.
            output_hidden_states: also return the encoder's states.
            return_dict: False for a tuple.
        """
        states, _, content, query = self._read(
            input_ids, attention_mask, special_tokens_mask, inputs_embeds, query_input_ids, query_attention_mask
        )
        if attention_weights is None:
            attention, _ = self.attention(states, content, query)
        else:
            check_shape("attention_weights", attention_weights, "B T", "pass attention[:, 0] of an Encoded")
            attention = attention_weights
        # attention is float32 at least, states have the precision of the weights
        context = (attention[:, None].to(states.dtype) @ states).squeeze(1)  # (B, N)
        logits = self.read_out(self.dropout(context), query, candidates)
        output = AttentionClassifierOutput(
            loss=self._loss(logits, labels),
            logits=logits,
            attentions=attention,
            hidden_states=states if output_hidden_states else None,
        )
        return output.to_tuple() if return_dict is False else output

    def _read(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        query_input_ids: Tensor | None = None,
        query_attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """States (B, T, N), which tokens were read, which are content, and the query's vector."""
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("Expected either `input_ids` or `inputs_embeds`, and not both.")
        if inputs_embeds is None:
            check_shape("input_ids", input_ids, "B T")
            inputs_embeds = self.embedding(input_ids.long())  # a tokenizer gives no ids at all as floats
        if attention_mask is None:
            read = torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
        else:
            check_shape("attention_mask", attention_mask, "B T")
            read = attention_mask.bool()
        content = read if special_tokens_mask is None else read & ~special_tokens_mask.bool()
        states = _encode_padded(self.encoder, self.dropout(inputs_embeds), read)
        return states, read, content, self._ask(query_input_ids, query_attention_mask)

    def _ask(self, ids: Tensor | None, mask: Tensor | None) -> Tensor | None:
        if not self.config.query:
            if ids is not None:
                raise InputError("The model has no query, but got `query_input_ids`; build it with query=True.")
            return None
        if ids is None:
            raise InputError("The model has a query: expected `query_input_ids`.")
        read = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        compact, order = _compaction(read)
        embedded = self.dropout(self.query_embedding(ids)).gather(1, _wide(order, self.config.embedding_size))
        return self.query_encoder.summary(self.query_encoder(embedded, compact), compact)

    def read_out(self, context: Tensor, query: Tensor | None = None, candidates: Tensor | None = None) -> Tensor:
        """Logits (B, C) of what was attended.

        Args:
            context: (B, N), the attention-weighted mean of the states.
            query: (B, Nq), the query's vector.
            candidates: (B, C), see `forward`.
        """
        values = self.readout(context, query) if self.config.readout == "tanh" else self.readout(context)
        candidates = check_candidates(candidates, self.config.num_labels, self.config.multi_label)
        return among(self._pair(values), candidates)

    def _pair(self, values: Tensor) -> Tensor:
        """A one-logit read-out (..., 1) as the pair (0, z); others as they are."""
        return F.pad(values, (1, 0)) if self.config.output == "sigmoid" else values

    def _loss(self, logits: Tensor, labels: Tensor | None) -> Tensor | None:
        if labels is None:
            return None
        weights = self.config.class_weights
        weights = None if weights is None else torch.tensor(weights, dtype=logits.dtype, device=logits.device)
        known = (labels >= 0).flatten(1).all(1) if labels.dim() > 1 else labels >= 0
        if not bool(known.any()):
            return None
        logits, labels = logits[known], labels[known]
        if self.config.multi_label:
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), pos_weight=weights)
        if bool((chosen := logits.gather(1, labels[:, None]).isneginf()).any()):
            raise InputError(f"Label {int(labels[chosen[:, 0]][0])} is none of its candidates; its loss is infinite.")
        losses = F.cross_entropy(logits, labels, weight=weights, reduction="none")
        return losses.sum() / len(losses)

    def encode(self, batch: Batch, site: str = "pool") -> Encoded:
        """Run the model once in eval mode and return what its attention did.

        Args:
            batch: the forward's inputs; labels and other columns are ignored.
            site: "pool".
        """
        check_choice("site", site, self.sites)
        # float32 whatever the caller's autocast
        with evaluating(self), torch.autocast(self.device.type, enabled=False):
            inputs = _inputs(batch)
            candidates = inputs.pop("candidates", None)
            states, _, content, query = self._read(**inputs)
            attention, scores = self.attention(states, content, query)
            states = states if states.dtype == torch.float64 else states.float()
            query = None if query is None else query.to(states.dtype)
            mapped, affine = self._mapped(states, query, candidates)
        allowed = content[:, None]

        def decode(weights: Tensor) -> Tensor:
            check_shape("attention", weights, "B K S T", "pass attention[:, None] for one alternative an example")
            return mapped(weights[:, :, 0])

        attention = attention.to(states.dtype)[:, None]
        return Encoded(
            attention=attention,
            allowed=allowed,
            content=content,
            items="token",
            logits=decode(attention[:, None])[:, 0],
            decode=decode,
            scores=scores[:, None],
            project=self.attention.project,
            affine=affine,
            multi_label=self.config.multi_label,
        )

    def _mapped(
        self, states: Tensor, query: Tensor | None, candidates: Tensor | None
    ) -> tuple[Callable[[Tensor], Tensor], Affine | None]:
        """Weights (B, K, T) -> logits (B, K, C), and what they are affine in, if they are.

        All that is affine is worked out once a token, so that an alternative costs T times the classes.
        """
        candidates = check_candidates(candidates, self.config.num_labels, self.config.multi_label)
        if self.config.readout == "tanh":
            of_token, of_query, output = self.readout.parts(states, query)
            return lambda weights: among(self._pair(output((weights @ of_token + of_query).tanh())), candidates), None
        weight = self._pair(self.readout.weight.to(states.dtype).T)  # (N, C)
        bias = among(self._pair(held(self.readout.bias, states.dtype)).expand(len(states), -1), candidates)
        affine = Affine(states @ weight, bias)
        return lambda weights: weights @ affine.token_logits + bias[:, None], affine

    def without(self, batch: Batch, keep: Tensor, rows: int = 256) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` deleted and the model run again, without gradients.

        No text is run again where less will do: see `attn_faithful.models.removal`.

        Args:
            batch: the forward's inputs.
            keep: (B, K, T) bool.
            rows: texts a forward at most; the result does not depend on it.
        """
        check_shape("keep", keep, "B K T")
        with evaluating(self), torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return logits_without(self, _inputs(batch), keep, rows)


_INPUTS = (
    "input_ids",
    "attention_mask",
    "special_tokens_mask",
    "inputs_embeds",
    "query_input_ids",
    "query_attention_mask",
    "candidates",
)


def _inputs(batch: Batch) -> dict[str, Tensor]:
    return {name: batch[name] for name in _INPUTS if batch.get(name) is not None}


def _wide(index: Tensor, width: int) -> Tensor:
    return index[:, :, None].expand(-1, -1, width)


def _compaction(read: Tensor) -> tuple[Tensor, Tensor]:
    """The mask with all read positions first, and the order (B, T) that brings them there."""
    order = torch.argsort(~read, dim=1, stable=True)
    return read.gather(1, order), order


def _encode_padded(encoder: nn.Module, embedded: Tensor, read: Tensor) -> Tensor:
    """States with 0 where nothing was read; gaps and padding on the left are closed for the encoder, then reopened."""
    if embedded.shape[1] == 0:
        return embedded.new_zeros(len(embedded), 0, encoder.width)
    if encoder.reads_alone or not bool((read[:, 1:] & ~read[:, :-1]).any()):
        return encoder(embedded, read) * read[:, :, None]
    compact, order = _compaction(read)
    states = encoder(embedded.gather(1, _wide(order, embedded.shape[-1])), compact) * compact[:, :, None]
    return torch.zeros_like(states).scatter(1, _wide(order, states.shape[-1]), states)


_auto.register_model()
