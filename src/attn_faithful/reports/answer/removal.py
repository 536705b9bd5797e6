"""What removing items in attention's order says: when it never flips the decision, and after how many it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attn_faithful.reports.answer.head_statements import JOINT, searched
from attn_faithful.reports.answer.wording import Part, Sentence
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.scores import Scores

_NEVER = "flip_never"


def removal_sentences(scores: Scores) -> Iterator[Sentence]:
    """The texts that removal in attention's order never flips, then those that it does."""
    removal = _Removal(scores)
    if not removal.n:
        return
    if removal.stuck:
        yield removal.never_flips()
    if removal.stuck < removal.n and removal.flipped:
        yield removal.flips()


@dataclass(frozen=True)
class _Removal:
    """Removal in attention's order, of every text or pair of text and label."""

    scores: Scores

    @cached_property
    def never(self) -> np.ndarray:
        """1 where the order never flips the decision, 0 where it does."""
        return self.scores.of_questions(_NEVER)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many items must go in attention's order."""
        return self.scores.of_questions("flip_size")

    @cached_property
    def fewest(self) -> np.ndarray:
        """How many would do; as in attention's order where no set was sought."""
        best = self.scores.best_set
        if best is None:
            return self.sizes
        return self.scores.of_questions("flip_size", best)

    @property
    def n(self) -> int:
        """Questions that were asked."""
        return int(np.isfinite(self.never).sum())

    @property
    def stuck(self) -> int:
        """Those that the order never flips."""
        return int(np.nansum(self.never))

    @property
    def both(self) -> np.ndarray:
        """Where both sizes are known."""
        return np.isfinite(self.sizes) & np.isfinite(self.fewest)

    @property
    def flipped(self) -> int:
        return int(self.both.sum())

    @property
    def single(self) -> bool:
        """Whether there is one question."""
        return self.scores.single and not self.scores.by_label(_NEVER)

    def never_flips(self) -> Sentence:
        """That the order never flips some or all."""
        noun, texts, though = self.scores.noun, self.scores.over(self.n, _NEVER), self._though
        if self.single:
            return [f"Removing {noun}s in attention's order ", ("remove", "never"), f" flips the decision{though}."]
        if self.stuck == self.n:
            none = ("remove", f"none of the {texts}")
            return ["In ", none, f" does removing {noun}s in attention's order flip the decision{though}."]
        some = ("remove", f"{self.stuck:,} of {texts}")
        return ["In ", some, f" removing {noun}s in attention's order never flips the decision{though}."]

    @property
    def _though(self) -> str:
        """In how many of the texts that the order never flips some other set does, and other attention."""
        by_others = np.isfinite(self.fewest) & (self.never == 1)
        parts = []
        if by_others.any():
            parts.append(f"removing others does in {by_others.sum():,} of them")
        if self.changed and self.single:
            parts.append("other attention does")
        elif self.changed:
            parts.append(f"other attention does in {self.changed:,} of them")
        if not parts:
            return ""
        return f", though {' and '.join(parts)}"

    @property
    def changed(self) -> int:
        """How many of the texts that the order never flips another attention does, where that is not exactly known."""
        if not searched(self.scores):
            return 0
        return int((self.scores.of_questions(JOINT)[self.never == 1] == 1).sum())

    def flips(self) -> Sentence:
        """After how many items the order flips, beside the fewest that would do."""
        noun = self.scores.noun
        typical = "" if self.single else "a median of "
        size = float(np.median(self.sizes[self.both]))
        sentence: list[Part] = [
            f"{self._where} the {noun}s with most attention flips the decision after {typical}",
            ("remove", counted(size, noun)),
        ]
        if self.scores.best_set is not None:
            fewest = np.median(self.fewest[self.both])
            sentence += ["; ", ("remove", f"{fewest:g} would do")]
        sentence += self._at_last
        return [*sentence, "."]

    @property
    def _at_last(self) -> list[Part]:
        """In how many of the texts that the order flips it does so only once no item is left."""
        flags = self.scores.of_questions("flip_at_last")
        if flags.shape != self.both.shape:  # asked of whole texts, not label by label
            return []
        at_last = flags[self.both] == 1
        if not at_last.any():
            return []
        if self.single:
            return [f"; it does so only once no {self.scores.noun} is left"]
        where = "all of them" if at_last.all() else f"{at_last.sum():,} of them"
        return [f"; in {where} only once no {self.scores.noun} is left"]

    @property
    def _where(self) -> str:
        if self.single:
            return "Removing"
        if self.stuck and self.flipped == self.n - self.stuck:
            return f"In the other {self.flipped:,}, removing"
        if self.flipped == self.n:
            return f"In all {self.scores.over(self.n, _NEVER)} removing"
        return f"In {self.flipped:,} of {self.scores.over(self.n, _NEVER)} removing"
