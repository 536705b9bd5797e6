"""How a data set is cut into batches, so that numbers do not depend on its order or on who asks.

A matrix product rounds a row by its place among the others: two equal rows may differ in their last bits. So each
distinct text is run once and what comes out is handed to all of its copies, and blocks are made of the distinct texts
alone: sorted by length and content, of a size that the length decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

CONTENT = ("input_ids", "sentence_ids", "query_input_ids", "candidates")  # what tells texts apart
READ = (*CONTENT, "special_tokens_mask", "token_type_ids", "word_ids")  # all that a model reads of one
ROWS = 64
CELLS = 32 * 1024  # rows times tokens: what bounds the memory of a block


def content_keys(dataset: Any) -> list[str]:
    """A digest of what each example says to a model; equal texts have equal keys.

    Args:
        dataset: columns ``input_ids`` and where they are there ``sentence_ids``, ``query_input_ids``, ``candidates``.
    """
    return _digests(dataset, CONTENT)


def _digests(dataset: Any, names: Sequence[str]) -> list[str]:
    """A digest of each example's values in the columns that are there."""
    columns = []
    for name in names:
        if name in dataset.column_names:
            columns.append(dataset[name])
    return [_digest(values) for values in zip(*columns, strict=True)]


def _digest(values: Sequence[Any]) -> str:
    seen = hashlib.sha256()
    for value in values:
        seen.update(np.asarray(value, dtype=np.int64).tobytes() + b"|")
    return seen.hexdigest()[:16]


@dataclass(frozen=True)
class Block:
    """Distinct texts that are encoded together.

    Attributes:
        number: its place among the blocks of a data set.
        copies: of each text, the places in the data where it stands, rising; two places are of one text where all that
            a model reads of them is equal.
        keys: of each text, see :func:`content_keys`.
    """

    number: int
    copies: list[list[int]]
    keys: list[str]

    @property
    def first(self) -> list[int]:
        """Of each text its first place in the data."""
        return [places[0] for places in self.copies]

    @property
    def places(self) -> list[int]:
        """All of its places in the data, text after text."""
        return list(chain.from_iterable(self.copies))

    @property
    def row(self) -> list[int]:
        """Of each of these places, which of the texts stands there."""
        rows: list[int] = []
        for row, places in enumerate(self.copies):
            rows += [row] * len(places)
        return rows

    def alone(self) -> list[Block]:
        """Each text as a block of its own."""
        pairs = zip(self.copies, self.keys, strict=True)
        return [Block(self.number, [places], [key]) for places, key in pairs]


def distinct_blocks(
    dataset: Any,
    cost: Callable[[int], int] = lambda length: length,
) -> list[Block]:
    """A data set as blocks of distinct texts: the same whatever the order of the data and however many copies it holds.

    Args:
        dataset: rows with ``input_ids`` and what else a model reads.
        cost: cells that a text of so many tokens takes.

    Example:
        >>> from attn_faithful.data.rows import Rows
        >>> [block.copies for block in distinct_blocks(Rows({"input_ids": [[5, 6], [7], [5, 6]]}))]
        [[[0, 2], [1]]]
    """
    copies: dict[str, list[int]] = {}
    for place, reading in enumerate(_digests(dataset, READ)):
        copies.setdefault(reading, []).append(place)
    texts = sorted(copies.items())  # of texts that differ in what no key tells, the order must not be the data's
    places_of = [places for _, places in texts]
    first = [places[0] for places in places_of]
    keys_of_data = content_keys(dataset)
    keys = [keys_of_data[place] for place in first]
    ids = dataset["input_ids"]
    lengths = [len(ids[place]) for place in first]
    distinct = []
    for number, members in enumerate(blocks(lengths, keys, cost)):
        copies_of_members = [places_of[text] for text in members]
        keys_of_members = [keys[text] for text in members]
        distinct.append(Block(number, copies_of_members, keys_of_members))
    return distinct


def blocks(
    lengths: Sequence[int],
    keys: Sequence[str],
    cost: Callable[[int], int] = lambda length: length,
) -> list[list[int]]:
    """Rows that are encoded together, longest texts first.

    Args:
        lengths: tokens of each example.
        keys: of :func:`content_keys`.
        cost: cells that a text of so many tokens takes.

    Example:
        >>> blocks([2, 9, 2], ["a", "b", "c"])
        [[1, 2, 0]]
    """
    by_length = list(zip(lengths, keys, strict=True))
    order = sorted(range(len(lengths)), key=by_length.__getitem__, reverse=True)
    members: list[list[int]] = []
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        rows_in_memory = CELLS // max(1, cost(longest))
        size = max(1, min(ROWS, rows_in_memory))
        members.append(order[start : start + size])
        start += size
    return members
