"""What the data says of examples beside their texts: gold labels, and marks of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful.data.rows import Rows
from attn_faithful.models.protocol import Encoded


@dataclass(frozen=True)
class Gold:
    """Gold labels and marks of encoded examples, by their places.

    Attributes:
        rows: encoded examples.
    """

    rows: Rows

    def has(self, kind: str) -> bool:
        """Whether there are marks of a kind, such as rationales."""
        return kind in self.rows.column_names

    def labels(self, places: Sequence[int]) -> list[Any]:
        """The label of each example; a list where it may have several, -1 where it is unknown."""
        if "labels" not in self.rows.column_names:
            return [-1] * len(places)
        return [self.rows.labels[place] for place in places]

    def classes(self, places: Sequence[int]) -> list[int] | None:
        """The class of each example; None where an example may have several labels, and without labels."""
        if "labels" not in self.rows.column_names:
            return None
        labels = self.labels(places)
        if any(map(np.ndim, labels)):
            return None
        return list(map(int, labels))

    def marks(self, kind: str, place: int) -> list[Any]:
        """The marks of one example, a number a token."""
        marks: list[Any] = np.asarray(self.rows[kind][place]).tolist()
        return marks

    def marked(self, kind: str, places: Sequence[int], encoded: Encoded) -> Tensor | None:
        """Which items are marked, (B, items) bool; an item of several tokens is where one of them is."""
        if not self.has(kind):
            return None
        content, members = encoded.content, encoded.members
        shape = content.shape if members is None else members.shape
        marked = torch.zeros(shape, dtype=torch.bool)  # (B, items) or (B, T)
        for row, place in enumerate(places):
            values = torch.from_numpy(np.asarray(self.rows[kind][place]) > 0)
            marked[row, : len(values)] = values
        marked = marked.to(content.device)
        if members is None:
            return marked & content
        n_items = content.shape[1]
        item_of_token = torch.where(members < 0, n_items, members)  # tokens of no item count in a column that is cut
        counts = torch.zeros(len(places), n_items + 1, device=marked.device)  # (B, items + 1)
        counts = counts.scatter_add(1, item_of_token, marked.float())
        return counts[:, :-1] > 0
