"""Flat documents as sentences: each sentence a row of its own, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.models.encoders import Encoder, encode_padded


@dataclass(frozen=True)
class Sentences:
    """Where the tokens of B documents stand once each sentence with content is a row.

    Attributes:
        row: (M,), which of the B * S places of sentences each of the M rows is.
        token: (M, L), position in its document of each place of a row; 0 where `read` is False.
        read: (M, L) bool, places that hold a token.
        content: (M, L) bool, those of them that attention may reach.
        size: B, S and T.
    """

    row: Tensor
    token: Tensor
    read: Tensor
    content: Tensor
    size: tuple[int, int, int]

    @property
    def document(self) -> Tensor:
        """(M,), the document of each row."""
        return self.row // self.size[1]

    @property
    def present(self) -> Tensor:
        """(B, S) bool: sentences with content."""
        documents, sentences, _ = self.size
        present = torch.zeros(documents * sentences, dtype=torch.bool, device=self.row.device)  # (B * S,)
        present[self.row] = True
        return present.view(documents, sentences)

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, N) -> (M, L, N), 0 where nothing is read."""
        packed = values[self.document[:, None], self.token]  # (M, L, N)
        return packed * self.read[:, :, None]

    def unpack(self, values: Tensor) -> Tensor:
        """(M, L) or (M, L, N) -> (B, T) or (B, T, N), 0 at tokens of no row."""
        documents, _, tokens = self.size
        row, place = self.read.nonzero(as_tuple=True)
        where = (self.document[row], self.token[row, place])
        unpacked = values.new_zeros(documents, tokens, *values.shape[2:])  # (B, T) or (B, T, N)
        return unpacked.index_put(where, values[row, place])

    def by_document(self, values: Tensor) -> Tensor:
        """(M, N) -> (B, S, N), 0 for sentences without content."""
        documents, sentences, _ = self.size
        by_place = values.new_zeros(documents * sentences, values.shape[1])  # (B * S, N)
        by_place = by_place.index_put((self.row,), values)
        return by_place.view(documents, sentences, -1)


def split_sentences(sentence_ids: Tensor, read: Tensor, content: Tensor) -> Sentences:
    """Documents (B, T) by sentence.

    Args:
        sentence_ids: (B, T), the sentence of each token; those of tokens that are not read count for nothing.
        read: (B, T) bool.
        content: (B, T) bool; a sentence without content is left out, an index without tokens is an empty sentence.

    Raises:
        InputError: another shape, or a negative index.
    """
    check_shape("sentence_ids", sentence_ids, "B T")
    if sentence_ids.shape != read.shape:
        raise InputError(f"Expected `sentence_ids` of shape {tuple(read.shape)}, but got {tuple(sentence_ids.shape)}.")
    documents, tokens = read.shape
    ids = torch.where(read, sentence_ids.long(), 0)  # (B, T)
    if bool((ids < 0).any()):
        raise InputError("Expected `sentence_ids` of at least 0, one a token.")
    sentences = int(ids.max()) + 1 if ids.numel() else 1
    first_place = sentences * torch.arange(documents, device=ids.device)  # (B,)
    place = ids + first_place[:, None]  # (B, T), the sentence of each token among those of all documents
    present = torch.zeros(documents * sentences, dtype=torch.bool, device=ids.device)  # (B * S,)
    present[place[content]] = True
    row = present.nonzero()[:, 0]  # (M,)
    taken = read & present[place]  # (B, T), tokens of sentences with content

    # tokens row after row, each with its place within its row
    number = present.cumsum(0) - 1  # (B * S,), the row of each sentence
    row_of_token = number[place[taken]]  # (n,)
    order = torch.argsort(row_of_token, stable=True)
    row_of_token = row_of_token[order]
    counts = torch.bincount(row_of_token, minlength=len(row))  # (M,), the tokens of each row
    starts = counts.cumsum(0) - counts
    within = torch.arange(len(row_of_token), device=ids.device) - starts[row_of_token]  # (n,)

    length = 1
    if len(counts):
        length = max(1, int(counts.max()))
    position = torch.arange(tokens, device=ids.device).expand(documents, -1)  # (B, T)
    # (M, L) each
    token = torch.zeros(len(row), length, dtype=torch.long, device=ids.device)
    token[row_of_token, within] = position[taken][order]
    row_read = torch.zeros(len(row), length, dtype=torch.bool, device=ids.device)
    row_read[row_of_token, within] = True
    row_content = torch.zeros_like(row_read)
    row_content[row_of_token, within] = content[taken][order]
    return Sentences(row, token, row_read, row_content, (documents, sentences, tokens))


def encode_by_length(encoder: Encoder, packed: Tensor, read: Tensor) -> Tensor:
    """States (M, L, N) of rows (M, L, E), those of like length together.

    Most sentences are far shorter than the longest. A group holds lengths up to a power of two, so that no row is
    padded to more than twice its own.
    """
    if encoder.reads_alone or not len(packed):
        return encode_padded(encoder, packed, read)
    lengths = read.sum(1)  # (M,)
    less_one = (lengths.clamp(min=1) - 1).double().clamp(min=0.5)
    group = less_one.log2().floor()
    states = packed.new_zeros(*packed.shape[:2], encoder.width)  # (M, L, N)
    for key in group.unique():
        rows = (group == key).nonzero()[:, 0]
        longest = int(lengths[rows].max())
        encoded = encode_padded(encoder, packed[rows, :longest], read[rows, :longest])
        columns = torch.arange(longest, device=rows.device)
        states = states.index_put((rows[:, None], columns), encoded)
    return states


def at_slots(values: Tensor, sentence_ids: Tensor, slots: int) -> Tensor:
    """Values of tokens (B, T) as (B, S, T): each in its sentence's slot, 0 elsewhere."""
    slot = torch.arange(slots, device=values.device)
    in_slot = sentence_ids[:, None] == slot[:, None]  # (B, S, T)
    return values[:, None] * in_slot
