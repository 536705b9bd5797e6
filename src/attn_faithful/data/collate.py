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

        lengths = [len(row["input_ids"]) for row in rows]
        size = max([1, *lengths])
        batch: dict[str, Any] = self._texts("", [row["input_ids"] for row in rows])
        labels = [row.get("labels") for row in rows]
        if labels and all(label is not None for label in labels):
            known = np.asarray(labels)
            if (known >= 0).all():
                batch["labels"] = torch.from_numpy(known.astype(np.float32 if known.ndim == 2 else np.int64))
        for name in self.columns:
            values = self._values(name, rows)
            if name == "query_input_ids":
                batch |= self._texts("query_", values)
            elif name == "candidates":
                batch[name] = torch.from_numpy(np.asarray(values, dtype=bool))
            else:
                batch[name] = self._column(name, values, rows, lengths, size)
        return batch

    def _texts(self, prefix: str, ids: Sequence[Any]) -> dict[str, torch.Tensor]:
        import torch

        lengths = [len(row) for row in ids]
        size = max([1, *lengths])
        padded = self._padded(ids, lengths, size, np.int64, self.pad_token_id)
        read = np.arange(size) < np.asarray(lengths)[:, None]
        return {
            f"{prefix}input_ids": torch.from_numpy(padded),
            f"{prefix}attention_mask": torch.from_numpy(read).long(),
        }

    @staticmethod
    def _padded(values: Sequence[Any], lengths: Sequence[int], size: int, dtype: Any, fill: float) -> Any:
        padded = np.full((len(values), size, *np.shape(values[0])[1:]) if values else (0, size), fill, dtype)
        for row, value, length in zip(padded, values, lengths, strict=True):
            row[:length] = value
        return padded

    @staticmethod
    def _values(name: str, rows: Sequence[dict[str, Any]]) -> list[Any]:
        for row in rows:
            if row.get(name) is None:
                raise InputError(
                    f"Expected a column {name!r} in every row, but example {row.get('example')!r} has none."
                )
        return [row[name] for row in rows]

    def _column(
        self, name: str, values: list[Any], rows: Sequence[dict[str, Any]], lengths: list[int], size: int
    ) -> Any:
        import torch

        if isinstance(values[0], str):
            return values
        dtype, fill = (np.int64 if name in FILL else np.float32), FILL.get(name, 0)
        shapes = [np.shape(value) for value in values]
        if all(shape and shape[0] == n for shape, n in zip(shapes, lengths, strict=True)):
            return torch.from_numpy(self._padded(values, lengths, size, dtype, fill))
        if len(set(shapes)) == 1:
            return torch.from_numpy(np.asarray(values, dtype=dtype))
        i = next(i for i, (shape, n) in enumerate(zip(shapes, lengths, strict=True)) if not shape or shape[0] != n)
        raise InputError(
            f"Expected {name!r} to have one value a token or one length for all rows, but example "
            f"{rows[i].get('example')!r} has {shapes[i]} for {lengths[i]} tokens."
        )
