"""Two models over the texts that both were tested on: what they are, how far apart, in which numbers they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from attn_faithful._checks import InputError
from attn_faithful.reports.answer.answer import Answer, answer
from attn_faithful.reports.compare.differences import Difference, Distance, differences, distances
from attn_faithful.reports.compare.matching import match
from attn_faithful.reports.compare.side import Side
from attn_faithful.reports.compare.tables import lead
from attn_faithful.reports.compare.texts import Texts
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.run_differences import NUMBERS, comparable, differing, told_apart

_MADE_OTHERWISE = (
    "The runs were not made alike (version of the package, data, split, units, sources or settings of tests, see what "
    "differs): a difference of their numbers may come from that."
)


class Compared:
    """Two models over the texts that both were tested on.

    Args:
        first, second: the models.
        names: of both; None for what tells them apart.

    Attributes:
        matched: their texts.
        texts: what both say of them.
        notes: what sets the comparison apart: texts left out, runs that were not made alike.

    Raises:
        InputError: runs that hold no predictions or no attention, or have no text in common.
    """

    def __init__(self, first: Side, second: Side, names: Sequence[str] | None = None) -> None:
        for side in (first, second):
            _check(side)
        self.first, self.second = first, second
        first.name, second.name = names or _names(first, second)
        self.matched = match(first, second)
        self.texts = Texts(first, second, self.matched)
        alike = comparable(first.run.info) == comparable(second.run.info)
        self.notes = [*self.matched.notes, *([] if alike else [_MADE_OTHERWISE])]

    def __len__(self) -> int:
        return len(self.matched)

    @property
    def title(self) -> str:
        """Both models."""
        return f"{self.first.name} against {self.second.name}"

    @property
    def about(self) -> str:
        """What A and B are, and over how many texts."""
        order = ""
        if self.second.twin is not None:
            order = " A is the base, B its twin, which was trained to predict the same and attend elsewhere."
        return (
            f"A: {self.first.name}. B: {self.second.name}. {counted(len(self), 'text')} of both.{order}{self._of_sites}"
        )

    @property
    def file_name(self) -> str:
        """A name for the page, by the folders of the runs."""
        first, second = self.first.run.name, self.second.run.name
        if self.second.twin is not None:
            second = f"twin-{self.second.twin}"
        return f"{first}-against-{second}.html"

    @property
    def _of_sites(self) -> str:
        """Which attention, where the models have several."""
        first, second = self.first.site, self.second.site
        if first == second:
            return "" if len(self.first.run.shown_sites) == 1 else f" Attention at {first}."
        return f" Attention at {first} of A and at {second} of B."

    @cached_property
    def differences(self) -> list[Difference]:
        """Every number that both have, with its paired test."""
        return differences(self.texts)

    @property
    def n_tests(self) -> int:
        """How many tests p is corrected for: numbers that some text has in both."""
        return sum(each.test.n > 0 for each in self.differences)

    @cached_property
    def distances(self) -> list[Distance]:
        """How far apart attention, predictions and decisions are."""
        return distances(self.texts)

    @property
    def settings(self) -> list[tuple[str, str, str]]:
        """What the runs differ in: name, and the value of each; nothing of a base and its twin."""
        if self.second.twin is not None:
            return []
        return differing(self.first.run.info, self.second.run.info)

    @property
    def sentences(self) -> list[str]:
        """The comparison in words."""
        return lead(self.differences, self.distances)

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers of the runs: one of a base and its twin, else two."""
        sides = [self.first] if self.second.twin is not None else [self.first, self.second]
        return [answer(side.run, side.site) for side in sides]

    @property
    def noun(self) -> str:
        """What a common word is: "sentence" or "word" where an item of either model is, else "token"."""
        nouns = {self.first.examples.noun, self.second.examples.noun}
        return next(noun for noun in ("sentence", "word", "token") if noun in nouns)


def _check(side: Side) -> None:
    if not side.run.has("predictions"):
        raise InputError(
            f"Expected a run with predictions, but {side.run.path} has none; compare runs of evaluate, train or a "
            "recipe."
        )
    if side.attention is None:
        raise InputError(
            f"Expected a run with the attention of its texts, but {side.run.path} holds none"
            f"{f' of the twin {side.twin}' if side.twin else ''}; run attn-faithful evaluate on its model."
        )


def _names(first: Side, second: Side) -> tuple[str, str]:
    """What tells the models apart, in words."""
    if second.twin is not None:
        return first.run.title, f"twin {second.twin}"
    all_axes = told_apart([first.run.info, second.run.info])
    labels = [_labels(axes, other) for axes, other in zip(all_axes, all_axes[::-1], strict=True)]
    names = [" ".join(found) for found in labels]
    if not all(names):
        names = [" ".join([side.run.title, *found]) for side, found in zip((first, second), labels, strict=True)]
    if names[0] == names[1]:
        names = [f"{name}, seed {side.run.seed}" for name, side in zip(names, (first, second), strict=True)]
    return names[0], names[1]


def _labels(axes: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The labels of a run that the other one does not share; the version of the package is no name."""
    return [label for axis, label in axes.items() if axis != NUMBERS and label not in (other.get(axis), "-")]
