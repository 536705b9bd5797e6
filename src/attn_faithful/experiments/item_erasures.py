"""Erases items from the texts of a block and asks the model again, once for every text that is left."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor


class ItemErasures:
    """``erasures(keep (B, K, items) bool) -> values (B, K, ...)``: what the items outside ``keep`` are erased from.

    Shares of short texts round up to the same number, rankings agree on sets, neighbouring words are equal, and another
    site asks the same again: most erased texts occur several times, and each is run once.

    Those that derive from it say what an erased text is called (`names`), and run the unknown ones (`run`).

    Args:
        members: which item each token belongs to, see `Encoded.members`.
    """

    def __init__(self, members: Tensor | None) -> None:
        self.members = members
        self.known: dict[bytes, Tensor] = {}  # an erased text -> what the model gives for it

    def names(self, keep: Tensor) -> list[list[bytes]]:
        """A name for each of the texts that the tokens ``keep`` (B, K, T) leave: equal names, equal texts."""
        raise NotImplementedError

    def texts(self, text: Tensor, keep: Tensor) -> dict[str, Tensor]:
        """The inputs of texts (R,), by number, of which the tokens ``keep`` (R, T) are left, cut behind the longest."""
        raise NotImplementedError

    def lengths(self, text: Tensor, keep: Tensor) -> Tensor:
        """How many tokens these texts have, (R,)."""
        raise NotImplementedError

    def run(self, keep: Tensor, unknown: list[dict[bytes, int]]) -> None:
        """Run the unknown ones, each text's name -> its place in ``keep`` (B, K, T), and put them among the known."""
        raise NotImplementedError

    def __call__(self, keep: Tensor) -> Tensor:
        # (B, K, T)
        keep = self.of_tokens(keep)
        names = [digests(row) for row in self.names(keep)]
        self.run(keep, self._unknown(names))
        # (B, K, ...)
        return torch.stack([self._values(row) for row in names])

    def of_tokens(self, keep: Tensor) -> Tensor:
        """Flags of items (B, K, items) as those of tokens (B, K, T): a token goes with its item."""
        members = self.members
        if members is None:
            return keep
        # (B, K, T): the item of each token, 0 for tokens of no item
        index = members.clamp(min=0)[:, None].expand(-1, keep.shape[1], -1)
        of_no_item = (members < 0)[:, None]
        return keep.gather(2, index) | of_no_item

    def remember(self, names: Sequence[bytes], rows: Tensor, values: Tensor) -> None:
        """Put what some of these names (R,) gave, by number (P,), among the known: (P, ...)."""
        for number, value in zip(rows.tolist(), values, strict=True):
            self.known[names[number]] = value

    def _values(self, names: list[bytes]) -> Tensor:
        """What erased texts (K,) gave, (K, ...)."""
        return torch.stack([self.known[name] for name in names])

    def _unknown(self, names: list[list[bytes]]) -> list[dict[bytes, int]]:
        """Of each text the erased ones that were never run -> their first place; each in one text alone."""
        unknown: list[dict[bytes, int]] = []
        earlier: set[bytes] = set()
        for row in names:
            first_places: dict[bytes, int] = {}
            for k, name in enumerate(row):
                if name not in self.known and name not in earlier:
                    first_places.setdefault(name, k)
            earlier |= first_places.keys()
            unknown.append(first_places)
        return unknown


def rows_of(keep: Tensor, unknown: list[dict[bytes, int]]) -> tuple[list[bytes], Tensor, Tensor]:
    """Of unknown erased texts (R,) their names, the text that each is made of (R,), and what is kept of it (R, T)."""
    counts = torch.tensor([len(places) for places in unknown])
    text = torch.arange(len(unknown)).repeat_interleave(counts).to(keep.device)
    places = list(chain.from_iterable(places.values() for places in unknown))
    place = torch.tensor(places, dtype=torch.long, device=keep.device)
    return list(chain.from_iterable(unknown)), text, keep[text, place]


def digests(names: Iterable[bytes]) -> list[bytes]:
    """Short names in long ones' places: a block of long texts has many."""
    return [hashlib.blake2b(name, digest_size=16).digest() for name in names]
