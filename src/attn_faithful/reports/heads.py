"""What is proved and found of each head of a transformers model, in every text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from attn_faithful.reports.run import Run

CERTIFIED, FLIPPED = "head_certified", "head_flipped"
_PLACES = 4  # layers whose heads are named; of more their number is told


@dataclass(frozen=True)
class Head:
    """One slot of a transformers model's attention.

    Attributes:
        number: in its layer, from 0.
        layer: of slots of several layers, which one; None where the site is one layer.
    """

    number: int
    layer: int | None = None


@dataclass(frozen=True)
class Heads:
    """What is known of each head, while the others keep their attention.

    Attributes:
        heads: which.
        certified: whether it is proved that none of its attention changes the decision, (B, S); NaN where nothing can
            be proved, and of a head without an item.
        flipped: whether an attention of it was found that does, (B, S); NaN of a head without an item.
    """

    heads: Sequence[Head]
    certified: np.ndarray
    flipped: np.ndarray

    def proved_in(self, i: int) -> list[int]:
        """The places of the heads of which it is proved in a text that they change nothing."""
        return np.flatnonzero(self.certified[i] == 1).tolist()

    def flipped_in(self, i: int) -> list[int]:
        """The places of those that change its decision."""
        return np.flatnonzero(self.flipped[i] == 1).tolist()

    def open_in(self, i: int) -> list[int]:
        """The places of those of which neither is known."""
        return np.flatnonzero(~self.harmless[i] & (self.flipped[i] == 0)).tolist()

    def counts(self, place: int) -> tuple[int, int]:
        """In how many texts a head is proved to change nothing, and in how many another attention of it changes."""
        proved = int((self.certified[:, place] == 1).sum())
        changing = int((self.flipped[:, place] == 1).sum())
        return proved, changing

    @property
    def least_certain(self) -> list[int]:
        """The places of the heads that are not proved in most texts; of these those that change most decisions."""
        not_proved = (~self.harmless[self.known]).sum(0)  # (S,)
        changing = (self.flipped == 1).sum(0)  # (S,)
        least = not_proved == not_proved.max()
        least &= changing == changing[least].max()
        return np.flatnonzero(least).tolist()

    @property
    def known(self) -> np.ndarray:
        """In which texts something is known, (B,) bool."""
        return np.isfinite(self.flipped).any(1)

    @property
    def harmless(self) -> np.ndarray:
        """Of which heads it is certain that they change nothing, (B, S) bool; a head without an item is one of them."""
        return (self.certified == 1) | np.isnan(self.flipped)

    def named(self, places: Sequence[int]) -> str:
        """Some heads in words.

        Example:
            >>> none = np.zeros((0, 5))
            >>> heads = Heads([Head(number) for number in range(5)], none, none)
            >>> heads.named([2]), heads.named([0, 1]), heads.named([0, 1, 2, 4])
            ('head 2', 'heads 0 and 1', 'heads 0 to 2 and 4')
            >>> heads = Heads([Head(0, 3), Head(1, 3), Head(0, 4)], none[:, :3], none[:, :3])
            >>> heads.named([0, 1, 2])
            'heads 0 and 1 of layer 3 and head 0 of layer 4'
        """
        chosen = sorted((self.heads[place] for place in places), key=_order)
        by_layer = []
        for layer, of_layer in groupby(chosen, key=lambda head: head.layer):
            words = _numbers([head.number for head in of_layer])
            by_layer.append(words if layer is None else f"{words} of layer {layer}")
        if len(by_layer) > _PLACES:
            return f"{len(places)} heads of {len(by_layer)} layers"
        return _listed(by_layer)


def slots_of(run: Run, site: str | None) -> int:
    """How many slots were proved or attacked one by one."""
    return run.scores_by_slot(CERTIFIED, site=site).shape[1]


def heads_of(run: Run, site: str | None) -> Heads | None:
    """What is known of the heads of a run; None where its slots are no heads, or nothing is known of one."""
    heads = _heads_at(run, site)
    certified = run.scores_by_slot(CERTIFIED, site=site)
    flipped = run.scores_by_slot(FLIPPED, site=site)
    if not heads or certified.shape[1] != len(heads) or not np.isfinite(flipped).any():
        return None
    return Heads(heads, certified, flipped)


def _heads_at(run: Run, site: str | None) -> list[Head]:
    """The heads that are the slots of a site; none where slots are something else, or it is not known."""
    read = run.info.attention or {}
    rows = read.get("rows") or {}
    numbers = read.get("heads") or range(read.get("heads_in_all") or 0)
    sites = [name for name in rows if site in (name, "joint")]
    if not all(rows[name] in ("token", "mean") for name in sites):
        return []
    heads = []
    for name in sites:
        layer = int(re.sub(r"\D", "", name)) if len(sites) > 1 else None
        heads += [Head(number, layer) for number in numbers]
    return heads


def _order(head: Head) -> tuple[int, int]:
    return head.layer or 0, head.number


def _numbers(numbers: Sequence[int]) -> str:
    """Numbers of heads in words, three in a row or more by the first and the last."""
    parts = []
    for run_of in _runs(numbers):
        if len(run_of) > 2:
            parts.append(f"{run_of[0]} to {run_of[-1]}")
        else:
            parts += map(str, run_of)
    if len(numbers) == 1:
        return f"head {parts[0]}"
    return f"heads {_listed(parts)}"


def _runs(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Numbers as runs in which each is one more than the one before."""
    run_of: list[int] = []
    for number in numbers:
        if run_of and number != run_of[-1] + 1:
            yield run_of
            run_of = []
        run_of.append(number)
    if run_of:
        yield run_of


def _listed(parts: Sequence[str]) -> str:
    """Words in a row, with "and" before the last."""
    *before, last = parts
    if not before:
        return last
    return f"{', '.join(before)} and {last}"
