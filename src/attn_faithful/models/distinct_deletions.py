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
        shape = batch["inputs_embeds" if "inputs_embeds" in batch else "input_ids"].shape[:2]
        mask = batch.get("attention_mask")
        read = np.ones(shape, dtype=bool) if mask is None else mask.bool().cpu().numpy()
        codes = _token_codes(batch, read)  # (B, T)
        order = sentences = None
        if batch.get("sentence_ids") is not None:
            numbers = _numbers(batch["sentence_ids"])
            sentences = np.unique(numbers, return_inverse=True)[1].reshape(shape)
        elif not ordered:
            order = codes.argsort(axis=1, kind="stable")
            codes = np.take_along_axis(codes, order, axis=1)
        return cls(codes, order, _text_codes(batch, shape[0]), read, sentences)

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
        parts = iter(_cut(codes, counts.ravel()))
        alternatives = range(kept.shape[1])
        return [[text + next(parts) for _ in alternatives] for text in self.texts]


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


def first_equal(batch: Mapping[str, Tensor], keep: Tensor, ordered: bool = True) -> Tensor:
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
    seen: dict[bytes, int] = {}
    places: list[int] = []
    for name in chain.from_iterable(Naming.of(batch, ordered).names(keep)):
        places.append(seen.setdefault(name, len(places)))
    return torch.tensor(places, dtype=torch.long, device=keep.device).view(keep.shape[:2])


def is_first(first: Tensor) -> Tensor:
    """Which of the shortened texts (B, K) are the first of those that are equal to them."""
    return first == torch.arange(first.numel(), device=first.device).view(first.shape)


def from_first(logits: Tensor, first: Tensor) -> Tensor:
    """Logits (B, K, C) in which every shortened text has those of the first that is equal to it."""
    return logits.flatten(0, 1)[first]


def _token_codes(batch: Mapping[str, Tensor], read: np.ndarray) -> np.ndarray:
    """A number for all that is read of a token, (B, T): equal numbers, equal tokens."""
    columns = [read.astype(np.int64)]
    columns += [_numbers(batch[name]) for name in BY_TOKEN if batch.get(name) is not None]
    if batch.get("inputs_embeds") is not None:
        columns.append(_vectors(batch["inputs_embeds"]))
    rows = np.stack(columns, axis=-1).reshape(-1, len(columns))
    return _codes(rows).reshape(read.shape)


def _text_codes(batch: Mapping[str, Tensor], texts: int) -> list[bytes]:
    """For each text what is read of it beside its tokens."""
    columns = [_numbers(batch[name]).reshape(texts, -1) for name in BY_TEXT if batch.get(name) is not None]
    if not columns:
        return [b""] * texts
    return [code.tobytes() for code in _codes(np.concatenate(columns, axis=1))]


def _numbers(values: Tensor) -> np.ndarray:
    numbers: np.ndarray = values.detach().long().cpu().numpy()
    return numbers


def _renumbered(sentences: np.ndarray, kept: np.ndarray, counts: np.ndarray) -> np.ndarray:
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
    present = np.zeros((counts.size, size), dtype=bool)
    present.ravel()[place] = True
    numbers: np.ndarray = present.cumsum(axis=1, dtype=np.int32).ravel()[place]
    return numbers


def _vectors(values: Tensor) -> np.ndarray:
    """A number for each of the vectors (B, T, E), equal for equal ones, (B, T)."""
    flat = values.detach().cpu().flatten(0, 1).contiguous()  # (B * T, E)
    return _codes(flat.view(torch.uint8).numpy()).reshape(values.shape[:2])


def _codes(rows: np.ndarray) -> np.ndarray:
    """A number for each row, from 0, equal for equal rows, in the smallest type that holds them."""
    seen: dict[bytes, int] = {}
    codes = []
    for row in _cut(rows, np.ones(len(rows), dtype=np.int64)):
        codes.append(seen.setdefault(row, len(seen)))
    return np.asarray(codes, dtype=np.min_scalar_type(len(seen)))


def _cut(rows: np.ndarray, counts: np.ndarray) -> list[bytes]:
    """Rows that lie end to end as bytes, so many (N,) for each of N texts."""
    size = rows.itemsize * int(np.prod(rows.shape[1:]))
    ends = (counts.cumsum() * size).tolist()
    buffer = rows.tobytes()
    return [buffer[start:end] for start, end in zip([0, *ends], ends, strict=False)]
