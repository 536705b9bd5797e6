"""Which shortened texts of a batch say the same, so that each is run once.

Two neighbouring words that are equal leave the same text whichever of them is deleted, and two texts of a data set may
be one without a word. A matrix product rounds a row by its place among the others: run twice, the same text would have
two numbers, and a tie of importance would be broken by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

BY_TOKEN = ("input_ids", "special_tokens_mask", "token_type_ids")  # numbers that a model reads of each token
BY_TEXT = ("query_input_ids", "query_attention_mask", "candidates")  # and of each text


@dataclass(frozen=True, eq=False)
class Naming:
    """Names of the shortened texts of one batch: equal names, equal texts.

    Attributes:
        codes: (B, T) a number for all that is read of a token: equal numbers, equal tokens.
        texts: of each text a number for what is read beside its tokens, (B,).
        read: (B, T) bool.
        sentences: (B, T) the sentence of each token, or None.
        ordered: whether the order of the tokens tells texts apart.
    """

    codes: np.ndarray
    texts: np.ndarray
    read: np.ndarray
    sentences: np.ndarray | None
    ordered: bool

    @classmethod
    def of(cls, batch: Mapping[str, Tensor], ordered: bool = True) -> Naming:
        """Of a model's inputs; without order for a model to which a text is a bag of tokens."""
        shape = batch["inputs_embeds" if "inputs_embeds" in batch else "input_ids"].shape[:2]
        mask = batch.get("attention_mask")
        read = np.ones(shape, dtype=bool) if mask is None else mask.bool().cpu().numpy()
        columns = [read.astype(np.int64)]
        columns += [_numbers(batch[name]) for name in BY_TOKEN if batch.get(name) is not None]
        if batch.get("inputs_embeds") is not None:
            columns.append(_vectors(batch["inputs_embeds"]))
        given = [batch[name].reshape(shape[0], -1) for name in BY_TEXT if batch.get(name) is not None]
        texts = np.zeros(shape[0], dtype=np.int64)
        if given:
            texts = _codes(np.concatenate([_numbers(values) for values in given], axis=1))
        sentences = batch.get("sentence_ids")
        return cls(
            codes=_codes(np.stack(columns, axis=-1).reshape(-1, len(columns))).reshape(shape),
            texts=texts,
            read=read,
            sentences=None if sentences is None else _numbers(sentences),
            ordered=ordered,
        )

    def names(self, keep: Tensor) -> list[list[bytes]]:
        """A name for each of the texts that ``keep`` (B, K, T) leaves."""
        kept = keep.cpu().numpy() & self.read[:, None]  # (B, K, T)
        return [[self._name(row, mask) for mask in masks] for row, masks in enumerate(kept)]

    def _name(self, row: int, mask: np.ndarray) -> bytes:
        codes = self.codes[row][mask]
        if self.sentences is not None:  # numbered anew: a sentence that is gone leaves no gap
            own = self.sentences[row][mask]
            codes = np.stack([codes, np.unique(own, return_inverse=True)[1].reshape(codes.shape)])
        elif not self.ordered:
            codes = np.sort(codes)
        return self.texts[row].tobytes() + codes.tobytes()


def alike(batch: Mapping[str, Tensor]) -> Tensor:
    """For each token of a text the first one that is equal to it, as a place in the text, (B, T).

    Example:
        >>> alike({"input_ids": torch.tensor([[5, 6, 5]])})
        tensor([[0, 1, 0]])
    """
    naming = Naming.of(batch)
    found = np.zeros_like(naming.codes)
    for row, codes in enumerate(naming.codes):
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        found[row] = first[number.reshape(codes.shape)]
    return torch.from_numpy(found)


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
    places = []
    for names in Naming.of(batch, ordered).names(keep):
        for name in names:
            places.append(seen.setdefault(name, len(places)))
    return torch.tensor(places, dtype=torch.long, device=keep.device).view(keep.shape[:2])


def asked_once(first: Tensor) -> Tensor:
    """Which of the texts (B, K) are the first that say what they say."""
    return first == torch.arange(first.numel(), device=first.device).view(first.shape)


def handed(logits: Tensor, first: Tensor) -> Tensor:
    """Logits (B, K, C) in which every text has those of the first that says the same."""
    return logits.flatten(0, 1)[first]


def _numbers(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.detach().long().cpu().numpy()
    return found


def _vectors(values: Tensor) -> np.ndarray:
    """A number for each of the vectors (B, T, E), equal for equal ones, (B, T)."""
    flat = values.detach().cpu().flatten(0, 1).contiguous()  # (B * T, E)
    return _codes(flat.view(torch.uint8).numpy()).reshape(values.shape[:2])


def _codes(rows: np.ndarray) -> np.ndarray:
    """A number for each row, equal for equal rows."""
    _, codes = np.unique(rows, axis=0, return_inverse=True)
    return np.asarray(codes, dtype=np.int64).reshape(len(rows))
