"""Logits of documents without some of their tokens: only the sentences that lose any are encoded again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from attn_faithful.models.attention import Attention
from attn_faithful.models.distinct_deletions import first_equal, from_first, is_first
from attn_faithful.models.encoders import Encoder
from attn_faithful.models.hierarchy import Sentences, encode_by_length, split_sentences
from attn_faithful.models.readout import attended

STATES = 2**24  # numbers that the states of documents run together may hold


class HierarchicalModel(Protocol):
    """What deletion asks of a classifier with attention over words and over sentences."""

    config: Any
    encoder: Encoder
    attention: Attention

    def embed(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        special_tokens_mask: Tensor | None,
        inputs_embeds: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]: ...

    def read(self, **inputs: Tensor) -> tuple[Tensor, Sentences]: ...

    def conclude(self, vectors: Tensor, present: Tensor) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class Documents:
    """The whole documents of a batch, as shortened ones are made of them.

    Attributes:
        embedded: (B, T, E).
        read, content: (B, T) bool.
        sentence_ids: (B, T).
        sentences: where the tokens stand.
        vectors: of the sentences, (B, S, N).
    """

    embedded: Tensor
    read: Tensor
    content: Tensor
    sentence_ids: Tensor
    sentences: Sentences
    vectors: Tensor

    @classmethod
    def of(cls, model: HierarchicalModel, inputs: Mapping[str, Tensor]) -> Documents:
        """Those of a batch, encoded by a model."""
        embedded, read, content = model.embed(
            inputs.get("input_ids"),
            inputs.get("attention_mask"),
            inputs.get("special_tokens_mask"),
            inputs.get("inputs_embeds"),
        )
        states, sentences = model.read(**inputs)  # (M, L, N)
        words, _ = model.attention(states, sentences.content)  # (M, L)
        vectors = sentences.by_document(attended(words, states))
        return cls(embedded, read, content, inputs["sentence_ids"], sentences, vectors)


def logits_without(
    model: HierarchicalModel,
    inputs: Mapping[str, Tensor],
    keep: Tensor,
    rows: int,
) -> Tensor:
    """Logits (B, K, C) of a model in eval mode; see `HANClassifier.without`."""
    documents = Documents.of(model, inputs)
    alternatives = keep.shape[1]
    # of a document
    numbers = max(1, documents.vectors[0].numel(), documents.embedded[0].numel())
    size = max(1, min(rows, STATES // numbers))
    first = first_equal(inputs, keep)  # (B, K)
    selected = is_first(first).flatten().nonzero()[:, 0]
    logits = documents.vectors.new_zeros(len(keep) * alternatives, model.config.num_labels)
    if len(selected):
        parts = [_shortened(model, documents, keep, part) for part in selected.split(size)]
        new_logits = torch.cat(parts)
        logits = logits.to(new_logits.dtype).index_copy(0, selected, new_logits)
    return from_first(logits.view(len(keep), alternatives, -1), first)


def _shortened(
    model: HierarchicalModel,
    documents: Documents,
    keep: Tensor,
    part: Tensor,
) -> Tensor:
    """Logits (P, C) of the shortened documents ``part`` (P,), numbered over documents and alternatives."""
    # (P,) each
    document = part // keep.shape[1]
    alternative = part % keep.shape[1]
    kept = keep[document, alternative]  # (P, T)
    read = documents.read[document]
    sentence_ids = documents.sentence_ids[document]
    slots = documents.vectors.shape[1]

    # sentences that lose a token, (P, S)
    changed = torch.zeros(len(part), slots, dtype=torch.bool, device=keep.device)
    row, token = (read & ~kept).nonzero(as_tuple=True)
    changed[row, sentence_ids[row, token]] = True

    kept = kept & changed.gather(1, sentence_ids.clamp(0, slots - 1))
    content = documents.content[document]
    again = split_sentences(sentence_ids, read & kept, content & kept)
    vectors = torch.where(changed[:, :, None], 0, documents.vectors[document])  # (P, S, N)
    present = documents.sentences.present[document] & ~changed  # (P, S)
    if len(again.row):
        embedded = again.pack(documents.embedded[document])  # (M, L, E)
        states = encode_by_length(model.encoder, embedded, again.read)  # (M, L, N)
        words, _ = model.attention(states, again.content)  # (M, L)
        sentence = again.row % again.size[1]  # (M,)
        vectors[again.document, sentence] = attended(words, states)
        is_present = torch.ones_like(sentence, dtype=torch.bool)
        present = present.index_put((again.document, sentence), is_present)
    logits, _ = model.conclude(vectors, present)
    return logits
