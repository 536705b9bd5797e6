"""From encoded rows to padded tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_faithful._checks import InputError

if TYPE_CHECKING:
    import torch

# what a model reads beside the text
MODEL_COLUMNS = (
    "special_tokens_mask",
    "sentence_ids",
    "query_input_ids",
    "candidates",
    "word_ids",
    "token_type_ids",
)
FILL = {"special_tokens_mask": 1, "word_ids": -1, "sentence_ids": 0, "token_type_ids": 0}  # whole numbers a token


@dataclass
class Collator:
    """Rows of an encoded data set to tensors, padded on the right to the longest row (one position at least).

    Gives ``input_ids`` and ``attention_mask`` (B, T), ``labels`` where every row has one that is not negative (float
    for several labels a row), and every name in ``columns``: lists as long as the row's tokens are padded with 0 to
    (B, T) (``special_tokens_mask`` with 1, ``word_ids`` with -1), lists of one common length and plain numbers are
    stacked, strings stay a list. ``query_input_ids`` is padded to its own longest row (B, Q) and brings
    ``query_attention_mask``; ``candidates`` (B, C) is bool.

    Example:
        >>> batch = Collator(columns=("weight",))([
        ...     {"input_ids": [5, 6], "labels": 1, "weight": [0.25, 0.75]},
        ...     {"input_ids": [], "labels": 0, "weight": []}])
        >>> batch["input_ids"].tolist(), batch["attention_mask"].tolist(), batch["weight"].tolist()
        ([[5, 6], [0, 0]], [[1, 1], [0, 0]], [[0.25, 0.75], [0.0, 0.0]])
    """

    pad_token_id: int = 0
    columns: Sequence[str] = ()

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        import torch

        ids = [row["input_ids"] for row in rows]
        lengths = list(map(len, ids))
        batch: dict[str, Any] = self._texts("", ids)
        labels = _labels(rows)
        if labels is not None:
            batch["labels"] = torch.from_numpy(labels)  # (B,) or (B, C)
        for name in self.columns:
            values = _values(name, rows)
            if name == "query_input_ids":
                batch |= self._texts("query_", values)
            elif name == "candidates":
                batch[name] = torch.from_numpy(np.asarray(values, dtype=bool))  # (B, C)
            elif isinstance(values[0], str):
                batch[name] = values
            else:
                batch[name] = torch.from_numpy(_column(name, values, rows, lengths))
        return batch

    def _texts(self, prefix: str, ids: Sequence[Any]) -> dict[str, torch.Tensor]:
        import torch

        lengths = list(map(len, ids))
        padded = _padded(ids, lengths, np.int64, self.pad_token_id)  # (B, T)
        is_token = np.arange(padded.shape[1]) < np.asarray(lengths)[:, None]  # (B, T)
        return {
            f"{prefix}input_ids": torch.from_numpy(padded),
            f"{prefix}attention_mask": torch.from_numpy(is_token).long(),
        }


def _labels(rows: Sequence[dict[str, Any]]) -> np.ndarray | None:
    """(B,) or, of several labels a row, (B, C); None where a row has none."""
    values = [row.get("labels") for row in rows]
    if not values or any(value is None for value in values):
        return None
    labels = np.asarray(values)
    if not (labels >= 0).all():
        return None
    dtype = np.float32 if labels.ndim == 2 else np.int64
    return labels.astype(dtype)


def _values(name: str, rows: Sequence[dict[str, Any]]) -> list[Any]:
    for row in rows:
        if row.get(name) is None:
            raise InputError(f"Expected a column {name!r} in every row, but example {row.get('example')!r} has none.")
    return [row[name] for row in rows]


def _column(name: str, values: list[Any], rows: Sequence[dict[str, Any]], lengths: list[int]) -> np.ndarray:
    """Numbers of every row, padded where there is one a token, else stacked."""
    dtype = np.int64 if name in FILL else np.float32
    shapes = list(map(np.shape, values))
    one_a_token = [shape[:1] == (length,) for shape, length in zip(shapes, lengths, strict=True)]
    if all(one_a_token):
        return _padded(values, lengths, dtype, FILL.get(name, 0))  # (B, T, ...)
    if len(set(shapes)) == 1:
        return np.asarray(values, dtype=dtype)  # (B, ...)
    row = one_a_token.index(False)
    raise InputError(
        f"Expected {name!r} to have one value a token or one length for all rows, but example "
        f"{rows[row].get('example')!r} has {shapes[row]} for {lengths[row]} tokens."
    )


def _padded(values: Sequence[Any], lengths: Sequence[int], dtype: Any, fill: float) -> np.ndarray:
    """(B, T, ...) of lists of different lengths, the rest filled."""
    longest = max([1, *lengths])
    of_a_token = np.shape(values[0])[1:] if values else ()
    padded = np.full((len(values), longest, *of_a_token), fill, dtype)  # (B, T, ...)
    for row, value, length in zip(padded, values, lengths, strict=True):
        row[:length] = value
    return padded
