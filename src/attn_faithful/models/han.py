"""Hierarchical attention networks: words make sentences, sentences make the document (Yang et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful import _auto
from attn_faithful._checks import InputError, check_choice, check_shape
from attn_faithful.models.attention import Attention
from attn_faithful.models.base import AttentionClassifierOutput, EmbeddingClassifier
from attn_faithful.models.document_deletion import STATES, logits_without
from attn_faithful.models.encoders import ENCODERS, encode_padded
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.hierarchy import Sentences, at_slots, encode_by_length, split_sentences
from attn_faithful.models.modes import evaluating
from attn_faithful.models.protocol import Affine, Batch, Encoded, at_least_float32, check_alternatives
from attn_faithful.models.readout import attended, for_later


class HANClassifier(EmbeddingClassifier):
    """A document classifier with attention over the words of each sentence and over the sentences.

    A document is one row of tokens; ``sentence_ids`` says which sentence each belongs to. A sentence without content is
    as if it were not there: its attention is 0 and the sentence encoder does not read it.

    Example:
        >>> model = HANClassifier(HANConfig(vocab_size=10, embedding_size=4, hidden_size=3, num_labels=5))
        >>> output = model(torch.tensor([[2, 3, 4]]), sentence_ids=torch.tensor([[0, 0, 1]]))
        >>> output.attentions.shape, output.sentence_attentions.shape, output.logits.shape
        (torch.Size([1, 3]), torch.Size([1, 2]), torch.Size([1, 5]))
    """

    config_class = HANConfig
    base_model_prefix = "hierarchical_attention_classifier"
    sites = ("word", "sentence")
    reads_sentences = True

    def __init__(self, config: HANConfig) -> None:
        super().__init__(config)
        self.encoder = ENCODERS[config.encoder](config)
        self.attention = Attention(config, self.encoder.width)
        self.sentence_encoder = ENCODERS[config.encoder](config.sentence_level(self.encoder.width))
        self.sentence_attention = Attention(config, self.sentence_encoder.width)
        rate = config.sentence_dropout
        self.sentence_dropout = nn.Dropout(config.dropout if rate is None else rate)
        rows = 1 if config.output == "sigmoid" else config.num_labels
        self.readout = nn.Linear(self.sentence_encoder.width, rows)
        self.post_init()
        self.freeze()

    def forward(  # noqa: PLR0913 -- as forward of transformers' classifiers
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        sentence_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        attention_weights: Tensor | None = None,
        sentence_weights: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> AttentionClassifierOutput | tuple[Tensor, ...]:
        """Classify a batch of documents.

        Args:
            input_ids: (B, T), or give `inputs_embeds` (B, T, E).
            attention_mask: (B, T), 1 where the encoder reads; padding may stand on either side.
            special_tokens_mask: (B, T), 1 at tokens that attention must not reach.
            sentence_ids: (B, T), the sentence of each token, from 0.
            attention_weights: (B, T), used in each sentence instead of the model's own attention.
            sentence_weights: (B, S), used instead of the model's own attention to the sentences.
            labels: (B,) class indices, or (B, C) of 0 and 1 for multi-label; negative: unknown, no loss.
            output_hidden_states: also return the states of the words, (B, T, N), and of the sentences, (B, S, N).
            return_dict: False for a tuple.
        """
        states, sentences = self.read(input_ids, attention_mask, special_tokens_mask, sentence_ids, inputs_embeds)
        if attention_weights is None:
            words, _ = self.attention(states, sentences.content)  # (M, L)
        else:
            check_shape("attention_weights", attention_weights, "B T")
            words = sentences.pack(attention_weights[:, :, None])[:, :, 0]
        vectors = sentences.by_document(attended(words, states))  # (B, S, N)
        if sentence_weights is not None:
            check_shape("sentence_weights", sentence_weights, "B S")
        documents = self._encode_sentences(vectors, sentences.present)  # (B, S, N)
        logits, weights = self._read_out(documents, sentences.present, sentence_weights)
        shares = weights.flatten()[sentences.row]  # (M,), the weight of each row's sentence
        output = AttentionClassifierOutput(
            loss=self.loss_of(logits, labels),
            logits=logits,
            attentions=sentences.unpack(words * shares[:, None]),
            hidden_states=sentences.unpack(states) if output_hidden_states else None,
            sentence_attentions=weights,
            sentence_states=documents if output_hidden_states else None,
        )
        if return_dict is False:
            return output.to_tuple()
        return output

    def read(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        special_tokens_mask: Tensor | None = None,
        sentence_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> tuple[Tensor, Sentences]:
        """States of the words (M, L, N), a sentence a row, and where they stand."""
        embedded, read, content = self.embed(input_ids, attention_mask, special_tokens_mask, inputs_embeds)
        if sentence_ids is None:
            raise InputError(
                "Expected `sentence_ids`, the sentence of each token; encode the texts with "
                "attn_faithful.data.encoding.encode_texts(..., sentences=True), or with the tokenizer of "
                "attn_faithful.data.sentence_tokenizer.with_sentences."
            )
        sentences = split_sentences(sentence_ids, read, content)
        packed = self.dropout(sentences.pack(embedded))  # (M, L, E)
        states = encode_by_length(self.encoder, packed, sentences.read)
        return states, sentences

    def _encode_sentences(self, vectors: Tensor, present: Tensor) -> Tensor:
        """States of the sentences (B, S, N) from their vectors."""
        vectors = self.sentence_dropout(vectors)
        return encode_padded(self.sentence_encoder, vectors, present)

    def conclude(self, vectors: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, C) of documents, from the vectors of their sentences (B, S, N), and the attention to these."""
        return self._read_out(self._encode_sentences(vectors, present), present)

    def _read_out(
        self,
        documents: Tensor,
        present: Tensor,
        weights: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits (B, C) of documents, from the states of their sentences (B, S, N), and the attention to these."""
        if weights is None:
            weights, _ = self.sentence_attention(documents, present)  # (B, S)
        context = attended(weights, documents)  # (B, N)
        values = self.readout(self.classifier_dropout(context))
        return self.paired(values), weights

    def fixed_attention(self, batch: Batch) -> dict[str, Tensor]:
        """Arguments of the forward that hold all of the model's attention as it is."""
        with torch.no_grad():
            words = self.encode(batch, "word").attention  # (B, S, T), a slot a sentence
            sentences = self.encode(batch, "sentence").attention  # (B, 1, S)
        return {"attention_weights": words.sum(1), "sentence_weights": sentences[:, 0]}

    def encode(self, batch: Batch, site: str = "sentence") -> Encoded:
        """Run the model once in eval mode and return what its attention did.

        Args:
            batch: the forward's inputs; labels and other columns are ignored.
            site: "word", a slot a sentence over the document's tokens, or "sentence", one slot over the sentences, of
                which the logits are affine.
        """
        check_choice("site", site, self.sites)
        precise = self.in_full()
        if precise is not self:
            return precise.encode(batch, site)
        # float32 whatever the caller's autocast
        with evaluating(self), torch.autocast(self.device.type, enabled=False):
            inputs = _inputs(batch)
            states, sentences = self.read(**inputs)
            states = at_least_float32(states)  # (M, L, N)
            words, scores = self.attention(states, sentences.content)  # (M, L)
            if site == "word":
                return self._at_words(inputs["sentence_ids"], sentences, states, words, scores)
            vectors = attended(words, states)  # (M, N)
            return self._at_sentences(inputs, sentences, vectors)

    def _at_sentences(
        self,
        inputs: dict[str, Tensor],
        sentences: Sentences,
        vectors: Tensor,
    ) -> Encoded:
        present = sentences.present
        documents = self._encode_sentences(sentences.by_document(vectors), present)  # (B, S, N)
        attention, scores = self.sentence_attention(documents, present)  # (B, S)
        weight = self.paired(self.readout.weight.to(documents.dtype).T)  # (N, C)
        bias = self.paired(for_later(self.readout.bias, documents.dtype))
        bias = bias.expand(len(documents), -1)  # (B, C)
        affine = Affine(documents @ weight, bias)

        def decode(weights: Tensor) -> Tensor:
            check_alternatives(weights)
            return weights[:, :, 0] @ affine.token_logits + bias[:, None]

        attention = attention.to(documents.dtype)[:, None]  # (B, 1, S)
        in_a_sentence = sentences.unpack(sentences.content.long()).bool()  # (B, T)
        return Encoded(
            attention=attention,
            allowed=present[:, None],
            content=present,
            items="sentence",
            logits=decode(attention[:, None])[:, 0],
            decode=decode,
            scores=scores[:, None],
            project=self.sentence_attention.project,
            affine=affine,
            multi_label=self.config.multi_label,
            log_weights=self.sentence_attention.log_weights(scores, present),
            members=torch.where(in_a_sentence, inputs["sentence_ids"].long(), -1),
            states=documents,
        )

    def _at_words(
        self,
        sentence_ids: Tensor,
        sentences: Sentences,
        states: Tensor,
        words: Tensor,
        scores: Tensor,
    ) -> Encoded:
        slots = sentences.size[1]
        content = sentences.unpack(sentences.content.long()).bool()  # (B, T)
        in_sentence = sentences.unpack(words.to(states.dtype))  # (B, T), attention within each sentence
        attention = at_slots(in_sentence, sentence_ids, slots)  # (B, S, T)
        states = sentences.unpack(states)  # (B, T, N)
        decode = _WordDecoder(self, states, sentences.present)
        with torch.no_grad():
            _, shares = decode.concluded(attention[:, None])  # (B, S)
        share_of_token = shares.gather(1, sentence_ids.long().clamp(0, slots - 1))  # (B, T)
        return Encoded(
            attention=attention,
            allowed=at_slots(content, sentence_ids, slots),
            content=content,
            items="token",
            logits=decode(attention[:, None])[:, 0],
            decode=decode,
            scores=sentences.unpack(scores)[:, None].expand(-1, slots, -1),
            project=self.attention.project,
            multi_label=self.config.multi_label,
            pooled=in_sentence * share_of_token,
            states=states,
        )

    def without(self, batch: Batch, keep: Tensor, rows: int = 256) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` deleted and the model run again, without gradients.

        A sentence that loses nothing keeps its vector; only the others are encoded again. Equal shortened documents
        have equal logits.

        Args:
            batch: the forward's inputs.
            keep: (B, K, T) bool.
            rows: documents a forward at most; the result does not depend on it.
        """
        check_shape("keep", keep, "B K T")
        precise = self.in_full()
        if precise is not self:
            return precise.without(batch, keep, rows)
        with evaluating(self), torch.no_grad(), torch.autocast(self.device.type, enabled=False):
            return logits_without(self, _inputs(batch), keep, rows)


@dataclass(frozen=True, eq=False)
class _WordDecoder:
    """Logits that follow from other attention to the words.

    Attributes:
        model: that encoded the documents.
        states: of the words, (B, T, N).
        present: (B, S) bool, sentences with content.
    """

    model: HANClassifier
    states: Tensor
    present: Tensor

    def concluded(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B * K, C) under attention (B, K, S, T), and the attention to the sentences."""
        documents, alternatives, slots, _ = weights.shape
        vectors = weights @ self.states[:, None].to(weights.dtype)  # (B, K, S, N)
        vectors = vectors.reshape(documents * alternatives, slots, -1)
        present = self.present[:, None].expand(-1, alternatives, -1)
        present = present.reshape(documents * alternatives, slots)
        return self.model.conclude(vectors.to(self.states.dtype), present)

    def __call__(self, weights: Tensor) -> Tensor:
        """(B, K, S, T) -> (B, K, C)."""
        check_alternatives(weights)
        size = max(1, STATES // max(1, self.states.numel()))
        parts = []
        with evaluating(self.model):  # called long after `encode`, whatever the model's mode is by then
            for part in weights.split(size, dim=1):
                logits, _ = self.concluded(part)
                parts.append(logits.view(len(part), part.shape[1], -1))
        return torch.cat(parts, dim=1)


_INPUTS = ("input_ids", "attention_mask", "special_tokens_mask", "sentence_ids", "inputs_embeds")


def _inputs(batch: Batch) -> dict[str, Any]:
    return {name: batch[name] for name in _INPUTS if batch.get(name) is not None}


_auto.register_model()
