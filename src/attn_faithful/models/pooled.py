"""The pooled attention classifier: embedding, encoder, attention, read-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful import _auto
from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.functional.tail import Activation, Linear, Tail, TailUnknownError
from attn_faithful.models.attention import Attention
from attn_faithful.models.base import AttentionClassifierOutput, EmbeddingClassifier, looked_up
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.deletion import logits_without
from attn_faithful.models.encoders import ENCODERS, compaction, encode_padded
from attn_faithful.models.modes import evaluating
from attn_faithful.models.protocol import (
    AMONG_CANDIDATES,
    Affine,
    Batch,
    Encoded,
    at_least_float32,
    check_alternatives,
)
from attn_faithful.models.readout import TanhReadout, among, attended, check_candidates, for_later
from attn_faithful.models.reversal import wide
from attn_faithful.models.token_scale import TokenScale, scaled


@dataclass(frozen=True)
class _Texts:
    """What is known of texts once they are read.

    Attributes:
        states: of the encoder, (B, T, N).
        content: (B, T) bool.
        query: (B, Nq), or None.
        scale: (B, T), what each token's weight is multiplied by; None for 1.
    """

    states: Tensor
    content: Tensor
    query: Tensor | None
    scale: Tensor | None


class AttentionClassifier(EmbeddingClassifier):
    """A text classifier that reads out the attention-weighted mean of its tokens' states.

    Example:
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=10, encoder="mlp"))
        >>> output = model(torch.tensor([[2, 3, 4]]))
        >>> output.attentions.shape, output.logits.shape
        (torch.Size([1, 3]), torch.Size([1, 2]))
    """

    base_model_prefix = "attention_classifier"
    sites = ("pool",)

    def __init__(self, config: AttentionClassifierConfig) -> None:
        super().__init__(config)
        self.scale = None
        if config.scale is not None:
            self.scale = TokenScale(config.vocab_size)
        self.encoder = ENCODERS[config.encoder](config)
        query_width = None
        if config.query:
            self.query_embedding = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
            self.query_encoder = ENCODERS[config.encoder](config)
            query_width = self.query_encoder.width
        self.attention = Attention(config, self.encoder.width, query_width)
        rows = 1 if config.output == "sigmoid" else config.num_labels
        if config.readout == "tanh":
            self.readout = TanhReadout(self.encoder.width, query_width, rows)
        else:
            self.readout = nn.Linear(self.encoder.width, rows)
        self.post_init()
        self.freeze()

    @property
    def reads_alone(self) -> bool:
        """Whether each token is read alone, so that a text is a bag of tokens to the model."""
        return bool(self.encoder.reads_alone)

    @property
    def reach(self) -> int | None:
        """How many tokens that are read, on each side, the state of a token depends on; None for all of the text."""
        return self.encoder.reach

    @property
    def reads_ids(self) -> bool:
        """Whether the forward takes `input_ids` beside the `inputs_embeds` in their place: to scale words."""
        return self.scale is not None

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """As `PreTrainedModel.resize_token_embeddings`, for every embedding of words and their scales."""
        first = super().resize_token_embeddings(*args, **kwargs)
        if self.scale is not None:
            self.scale.resize(first.num_embeddings)
        return first

    def embeddings(self) -> list[nn.Embedding]:
        if self.config.query:
            return [self.embedding, self.query_embedding]
        return [self.embedding]

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
        """Classify a batch.

        Args:
            input_ids: (B, T), or give `inputs_embeds` (B, T, E); both for a model with a scale.
            attention_mask: (B, T), 1 where the encoder reads; padding may stand on either side.
            special_tokens_mask: (B, T), 1 at tokens that attention must not reach.
            attention_weights: (B, T), used instead of the model's own attention.
            query_input_ids: (B, Q), with `query_attention_mask`, for models with a query.
            candidates: (B, C), 1 at the classes that may be the answer; the others' logits are -inf.
            labels: (B,) class indices, or (B, C) of 0 and 1 for multi-label; negative: unknown, no loss.
            output_hidden_states: also return the encoder's states.
            return_dict: False for a tuple.
        """
        if attention_weights is not None:
            check_shape("attention_weights", attention_weights, "B T", "pass attention[:, 0] of an Encoded")
        further_inputs = inputs_embeds is not None or query_input_ids is not None
        states, query = None, None
        if self._reads_words(input_ids) and not further_inputs and not output_hidden_states:
            attention, context = self._by_word(input_ids, attention_mask, special_tokens_mask, attention_weights)
        else:
            texts = self._read(
                input_ids, attention_mask, special_tokens_mask, inputs_embeds, query_input_ids, query_attention_mask
            )
            states, query = texts.states, texts.query
            attention = attention_weights
            if attention is None:
                attention, _ = self.attention(states, texts.content, query)
            context = attended(scaled(attention, texts.scale), states)  # (B, N)
        logits = self.read_out(self.classifier_dropout(context), query, candidates)
        output = AttentionClassifierOutput(
            loss=self.loss_of(logits, labels),
            logits=logits,
            attentions=attention,
            hidden_states=states if output_hidden_states else None,
        )
        if return_dict is False:
            return output.to_tuple()
        return output

    def _reads_words(self, ids: Tensor | None) -> bool:
        """Whether the state and score of a token are those of its word, wherever it stands, and that saves time.

        In training only: elsewhere a text's numbers must not hang on the words beside it, to the last bit. Finding
        the words of a batch makes a GPU wait, which has less to gain.
        """
        if ids is None or not self.training or not self.encoder.reads_alone:
            return False
        if self.config.query or self.dropout.p != 0:
            return False
        return ids.dim() == 2 and ids.device.type == "cpu" and ids.numel() > 0

    def _by_word(
        self,
        ids: Tensor,
        attention_mask: Tensor | None,
        special_tokens_mask: Tensor | None,
        attention: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Attention (B, T) and context (B, N) with each word of the batch embedded, encoded and scored once."""
        words, place = ids.long().unique(return_inverse=True)
        read, content = self.masks(ids, attention_mask, special_tokens_mask)
        every_word = words[None] >= 0
        embedded = looked_up(self.embedding, words[None])  # (1, W, E)
        states = self.encoder(embedded, every_word)  # (1, W, N)
        if attention is None:
            score_of_word = self.attention.scorer(states, None)  # (1, W)
            scores = score_of_word.expand(len(ids), -1).gather(1, place)  # (B, T)
            attention = self.attention.project(scores, content)
        scale = None
        if self.scale is not None:
            scale = self.scale(words[None], embedded)[0, place]  # (B, T)
        weights = torch.where(read, scaled(attention, scale), 0.0)  # padding has no state
        by_word = weights.new_zeros(len(ids), len(words)).scatter_add(1, place, weights)  # (B, W)
        return attention, by_word.to(states.dtype) @ states[0]

    def _read(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        query_input_ids: Tensor | None = None,
        query_attention_mask: Tensor | None = None,
    ) -> _Texts:
        given = input_ids
        if self.reads_ids and inputs_embeds is not None:
            given = None  # the words are there to be scaled
        embedded, read, content = self.embed(given, attention_mask, special_tokens_mask, inputs_embeds)
        scale = None
        if self.scale is not None:
            scale = self.scale(input_ids, embedded)  # (B, T)
        states = encode_padded(self.encoder, self.dropout(embedded), read)
        query = self.query_vector(query_input_ids, query_attention_mask)
        return _Texts(states, content, query, scale)

    def query_vector(self, ids: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """The vector (B, Nq) of queries (B, Q); None of a model without a query.

        Raises:
            InputError: a query for a model without one, or none for a model with one.
        """
        if not self.config.query:
            if ids is not None:
                raise InputError("The model has no query, but got `query_input_ids`; build it with query=True.")
            return None
        if ids is None:
            raise InputError("The model has a query: expected `query_input_ids`.")
        read = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()  # (B, Q)
        compact, order = compaction(read)
        embedded = self.dropout(looked_up(self.query_embedding, ids))  # (B, Q, E)
        embedded = embedded.gather(1, wide(order, self.config.embedding_size))
        states = self.query_encoder(embedded, compact)  # (B, Q, Nq)
        return self.query_encoder.summary(states, compact)

    def cost(self, length: int) -> int:
        """Cells that a text of so many tokens takes, see `blocks.CELLS`; in a transformer its attention counts."""
        if self.config.encoder != "transformer":
            return length
        return length * max(1, self.config.num_heads * length // 1024)

    def read_out(
        self,
        context: Tensor,
        query: Tensor | None = None,
        candidates: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, C) of what was attended.

        Args:
            context: (B, N), the attention-weighted mean of the states.
            query: (B, Nq), the query's vector.
            candidates: (B, C), see `forward`.
        """
        values = self.readout(context, query) if self.config.readout == "tanh" else self.readout(context)
        candidates = check_candidates(candidates, self.config.num_labels, self.config.multi_label)
        return among(self.paired(values), candidates)

    def encode(self, batch: Batch, site: str = "pool") -> Encoded:
        """Run the model once in eval mode and return what its attention did.

        Args:
            batch: the forward's inputs; labels and other columns are ignored.
            site: "pool".
        """
        check_choice("site", site, self.sites)
        precise = self.in_full()
        if precise is not self:
            return precise.encode(batch, site)
        # float32 whatever the caller's autocast
        with evaluating(self), torch.autocast(self.device.type, enabled=False):
            inputs = inputs_of(batch)
            candidates = inputs.pop("candidates", None)
            texts = self._read(**inputs)
            content, query = texts.content, texts.query
            attention, scores = self.attention(texts.states, content, query)  # (B, T)
            states = at_least_float32(texts.states)
            if query is not None:
                query = query.to(states.dtype)
            values = states  # (B, T, N), what attention sums up
            if texts.scale is not None:
                values = states * texts.scale[:, :, None].to(states.dtype)
            logits_of, affine = self._decoding(values, query, candidates)

        def decode(weights: Tensor) -> Tensor:
            check_alternatives(weights)
            return logits_of(weights[:, :, 0])

        attention = attention.to(states.dtype)[:, None]  # (B, 1, T)
        return Encoded(
            attention=attention,
            allowed=content[:, None],
            content=content,
            items="token",
            logits=decode(attention[:, None])[:, 0],
            decode=decode,
            scores=scores[:, None],
            project=self.attention.project,
            affine=affine,
            multi_label=self.config.multi_label,
            log_weights=self.attention.log_weights(scores, content),
            tail=self._tail(values, query, candidates) if affine is None else None,
            states=states,
        )

    def affine(self, values: Tensor, candidates: Tensor | None = None) -> Affine:
        """The affine read-out of what attention sums up (B, T, N), differentiable, among candidates (B, C) if given."""
        candidates = check_candidates(candidates, self.config.num_labels, self.config.multi_label)
        weight = self.paired(self.readout.weight.to(values.dtype).T)  # (N, C)
        own_bias = self.paired(for_later(self.readout.bias, values.dtype))
        bias = among(own_bias.expand(len(values), -1), candidates)  # (B, C)
        return Affine(values @ weight, bias)

    def _decoding(
        self,
        values: Tensor,
        query: Tensor | None,
        candidates: Tensor | None,
    ) -> tuple[Callable[[Tensor], Tensor], Affine | None]:
        """What maps weights (B, K, T) to logits (B, K, C), and what these are affine in, if they are.

        All that is affine is computed once a token, so that an alternative costs T times the classes.
        """
        candidates = check_candidates(candidates, self.config.num_labels, self.config.multi_label)
        if self.config.readout == "tanh":
            of_token, of_query, output = self.readout.parts(values, query)

            def through_tanh(weights: Tensor) -> Tensor:
                features = (weights @ of_token + of_query).tanh()  # (B, K, M)
                return among(self.paired(output(features)), candidates)

            return through_tanh, None
        affine = self.affine(values, candidates)
        return affine.logits, affine

    def _tail(
        self,
        values: Tensor,
        query: Tensor | None,
        candidates: Tensor | None,
    ) -> Callable[[Tensor], Tail]:
        """What comes after the attention of some texts (R,), with the tanh read-out."""

        @torch.no_grad()
        def tail(texts: Tensor) -> Tail:
            if candidates is not None:
                raise TailUnknownError(AMONG_CANDIDATES, "some classes are no candidates")
            query_of_texts = None if query is None else query[texts].double()
            of_token, of_query, _ = self.readout.parts(values[texts].double(), query_of_texts)  # (R, T, M), (R, 1, M)
            output = self.readout.output
            weight = self.paired(output.weight.double().T).T  # (C, M)
            bias = self.paired(output.bias.double())  # (C,)
            steps = (Activation(0, "tanh"), Linear(1, weight, bias))
            return Tail(of_query[:, 0], of_token[:, None], steps)

        return tail

    def without(self, batch: Batch, keep: Tensor, rows: int = 256) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` deleted and the model run again, without gradients.

        No text is run again where less will do: see `attn_faithful.models.deletion`. Equal shortened texts have equal
        logits.

        Args:
            batch: the forward's inputs.
            keep: (B, K, T) bool.
            rows: texts a forward at most; the result does not depend on it.
        """
        check_shape("keep", keep, "B K T")
        precise = self.in_full()
        if precise is not self:
            return precise.without(batch, keep, rows)
        with evaluating(self), torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return logits_without(self, inputs_of(batch), keep, rows)


_INPUTS = (
    "input_ids",
    "attention_mask",
    "special_tokens_mask",
    "inputs_embeds",
    "query_input_ids",
    "query_attention_mask",
    "candidates",
)


def inputs_of(batch: Batch) -> dict[str, Tensor]:
    """What the forward of a pooled classifier reads of a batch."""
    return {name: batch[name] for name in _INPUTS if batch.get(name) is not None}


_auto.register_model()
