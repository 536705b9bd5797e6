"""Which shortened texts of a batch say the same, so that each is run once.

Two neighbouring words that are equal leave the same text whichever of them is deleted, and two texts of a data set may
be one without a word. A matrix product rounds a row by its place among the others: run twice, the same text would have
two numbers, and a tie of importance would be broken by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

BY_TOKEN = ("input_ids", "special_tokens_mask", "token_type_ids")  # numbers that a model reads of each token
BY_TEXT = ("query_input_ids", "query_attention_mask", "candidates")  # and of each text


@dataclass(frozen=True, eq=False)
class Naming:
    """Names of the shortened texts of one batch: equal names, equal texts.

    A name is the numbers of the tokens that are left, as bytes; those of all texts are cut out of one buffer.

    Attributes:
        codes: (B, T) a number for all that is read of a token: equal numbers, equal tokens; of a text without order
            they are sorted.
        order: (B, T) which token each of them is of; None where they stand as in the text.
        texts: of each text what is read beside its tokens.
        read: (B, T) bool.
        sentences: (B, T) the sentence of each token, numbered from 0, or None.
    """

    codes: np.ndarray
    order: np.ndarray | None
    texts: list[bytes]
    read: np.ndarray
    sentences: np.ndarray | None

    @classmethod
    def of(cls, batch: Mapping[str, Tensor], ordered: bool = True) -> Naming:
        """Of a model's inputs; without order for a model to which a text is a bag of tokens."""
        name = "inputs_embeds" if "inputs_embeds" in batch else "input_ids"
        shape = batch[name].shape[:2]  # B, T
        read = np.ones(shape, dtype=bool)
        mask = batch.get("attention_mask")
        if mask is not None:
            read = mask.bool().cpu().numpy()
        codes = _token_codes(batch, read)  # (B, T)
        order = None
        sentences = None
        if batch.get("sentence_ids") is not None:
            numbers = _numbers(batch["sentence_ids"])
            _, from_zero = np.unique(numbers, return_inverse=True)
            sentences = from_zero.reshape(shape)
        elif not ordered:
            order = codes.argsort(axis=1, kind="stable")
            codes = np.take_along_axis(codes, order, axis=1)
        texts = _text_codes(batch, shape[0])
        return cls(codes, order, texts, read, sentences)

    def names(self, keep: Tensor) -> list[list[bytes]]:
        """A name for each of the texts that ``keep`` (B, K, T) leaves."""
        kept = keep.cpu().numpy() & self.read[:, None]  # (B, K, T)
        if self.order is not None and len(kept):
            pairs = zip(kept, self.order, strict=True)
            kept = np.stack([masks[:, order] for masks, order in pairs])
        codes = np.broadcast_to(self.codes[:, None], kept.shape)[kept]  # (L,), text after text
        counts = np.count_nonzero(kept, axis=2)  # (B, K)
        if self.sentences is not None:
            sentences = _renumbered(self.sentences, kept, counts)
            codes = np.stack([codes.astype(np.int32), sentences], axis=1)  # (L, 2)
        left = _cut(codes, counts.ravel())  # of each shortened text, B * K
        alternatives = kept.shape[1]
        names = []
        for row, text in enumerate(self.texts):
            left_of_text = left[row * alternatives : (row + 1) * alternatives]
            names.append([text + tokens for tokens in left_of_text])
        return names


def alike(batch: Mapping[str, Tensor]) -> Tensor:
    """For each token of a text the first one that is equal to it, as a place in the text, (B, T).

    Example:
        >>> alike({"input_ids": torch.tensor([[5, 6, 5]])})
        tensor([[0, 1, 0]])
    """
    naming = Naming.of(batch)
    places = np.zeros(naming.codes.shape, dtype=np.int64)
    for row, codes in enumerate(naming.codes):
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        places[row] = first[number.reshape(codes.shape)]
    return torch.from_numpy(places)


def first_equal(
    batch: Mapping[str, Tensor],
    keep: Tensor,
    ordered: bool = True,
) -> Tensor:
    """For each shortened text the first that says the same, as a place in the texts laid end to end, (B, K).

    Args:
        batch: a model's inputs.
        keep: (B, K, T) bool.
        ordered: whether the order of the tokens tells texts apart.

    Example:
        >>> batch = {"input_ids": torch.tensor([[5, 5, 6]])}
        >>> first_equal(batch, ~torch.eye(3, dtype=torch.bool)[None])
        tensor([[0, 0, 2]])
    """
    names = Naming.of(batch, ordered).names(keep)
    seen: dict[bytes, int] = {}
    places: list[int] = []
    for name in chain.from_iterable(names):
        places.append(seen.setdefault(name, len(places)))
    first = torch.tensor(places, dtype=torch.long, device=keep.device)  # (B * K,)
    return first.view(keep.shape[:2])


def is_first(first: Tensor) -> Tensor:
    """Which of the shortened texts (B, K) are the first of those that are equal to them."""
    places = torch.arange(first.numel(), device=first.device)
    return first == places.view(first.shape)


def from_first(logits: Tensor, first: Tensor) -> Tensor:
    """Logits (B, K, C) in which every shortened text has those of the first that is equal to it."""
    return logits.flatten(0, 1)[first]


def _token_codes(batch: Mapping[str, Tensor], read: np.ndarray) -> np.ndarray:
    """A number for all that is read of a token, (B, T): equal numbers, equal tokens."""
    columns = [read.astype(np.int64)]  # (B, T) each
    for name in BY_TOKEN:
        if batch.get(name) is not None:
            columns.append(_numbers(batch[name]))
    if batch.get("inputs_embeds") is not None:
        columns.append(_vectors(batch["inputs_embeds"]))
    rows = np.stack(columns, axis=-1).reshape(-1, len(columns))  # (B * T, columns)
    return _codes(rows).reshape(read.shape)


def _text_codes(batch: Mapping[str, Tensor], texts: int) -> list[bytes]:
    """For each text what is read of it beside its tokens."""
    columns = []
    for name in BY_TEXT:
        if batch.get(name) is not None:
            columns.append(_numbers(batch[name]).reshape(texts, -1))
    if not columns:
        return [b""] * texts
    rows = np.concatenate(columns, axis=1)  # (B, numbers of a text)
    return [code.tobytes() for code in _codes(rows)]


def _numbers(values: Tensor) -> np.ndarray:
    numbers: np.ndarray = values.detach().long().cpu().numpy()
    return numbers


def _renumbered(
    sentences: np.ndarray,
    kept: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """The sentences (L,) of all tokens that are left, numbered anew: one that is gone leaves no gap.

    Args:
        sentences: (B, T) of all tokens, numbered from 0.
        kept: (B, K, T) bool.
        counts: of each text, how many tokens are left, (B, K).
    """
    size = int(sentences.max(initial=0)) + 1
    texts = np.arange(counts.size, dtype=np.int64)
    old_numbers = np.broadcast_to(sentences[:, None], kept.shape)[kept]  # (L,)
    place = np.repeat(texts * size, counts.ravel()) + old_numbers  # (L,)
    present = np.zeros((counts.size, size), dtype=bool)  # (B * K, sentences)
    present.ravel()[place] = True
    new_numbers = present.cumsum(axis=1, dtype=np.int32)  # (B * K, sentences)
    numbers: np.ndarray = new_numbers.ravel()[place]
    return numbers


def _vectors(values: Tensor) -> np.ndarray:
    """A number for each of the vectors (B, T, E), equal for equal ones, (B, T)."""
    flat = values.detach().cpu().flatten(0, 1).contiguous()  # (B * T, E)
    bits = flat.view(torch.uint8).numpy()
    return _codes(bits).reshape(values.shape[:2])


def _codes(rows: np.ndarray) -> np.ndarray:
    """A number for each row, from 0, equal for equal rows, in the smallest type that holds them."""
    one_each = np.ones(len(rows), dtype=np.int64)
    seen: dict[bytes, int] = {}
    codes = []
    for row in _cut(rows, one_each):
        codes.append(seen.setdefault(row, len(seen)))
    return np.asarray(codes, dtype=np.min_scalar_type(len(seen)))


def _cut(rows: np.ndarray, counts: np.ndarray) -> list[bytes]:
    """Rows that lie end to end as bytes, so many (N,) for each of N texts."""
    size = rows.itemsize * int(np.prod(rows.shape[1:]))  # bytes of a row
    ends = (counts.cumsum() * size).tolist()
    starts = [0, *ends]
    buffer = rows.tobytes()
    # at the last end no text starts
    return [buffer[start:end] for start, end in zip(starts, ends, strict=False)]
