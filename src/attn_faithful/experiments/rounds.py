"""Copies of a block's texts that differ in what the data says beside the text: labels, rationales, importance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One copy of each text of a block, and the copies that say the same.

    Every round runs all texts of the block, so that a number which nothing beside the text changes is the same in each.

    Attributes:
        representatives: of each text the place in the data whose labels, rationale and importance are used.
        places: of each text the places that get the results; none where a text has no further copies.
    """

    representatives: list[int]
    places: list[list[int]]


def rounds_of(copies: list[list[int]], facts_of: Callable[[int], str]) -> list[Round]:
    """The copies of each text by what the data says of them; in an order that is not the data's.

    Args:
        copies: of each text, the places in the data where it is.
        facts_of: ``facts_of(place)`` is all that the data says beside the text.

    Example:
        >>> rounds_of([[0, 2], [1]], lambda place: "abb"[place])
        [Round(representatives=[0, 1], places=[[0], [1]]), Round(representatives=[2, 1], places=[[2], []])]
    """
    groups = [_grouped(places, facts_of) for places in copies]
    rounds = []
    for number in range(max(map(len, groups), default=0)):
        one = Round([], [])
        for of_text in groups:
            if number < len(of_text):
                one.representatives.append(of_text[number][0])
                one.places.append(of_text[number])
            else:
                one.representatives.append(of_text[-1][0])
                one.places.append([])
        rounds.append(one)
    return rounds


def _grouped(places: list[int], facts_of: Callable[[int], str]) -> list[list[int]]:
    """Places of which the data says the same, sorted by what it says."""
    groups: dict[str, list[int]] = {}
    for place in places:
        groups.setdefault(facts_of(place), []).append(place)
    return [groups[facts] for facts in sorted(groups)]
