"""What other attention of one head, or of all together, could change in one text: proved, found or not known.

Of models whose read-out is not affine in one attention, such as transformers models. Of the others the exact answers
say all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from attn_faithful.reports.heads import CERTIFIED, FLIPPED, Heads, heads_of, slots_of
from attn_faithful.reports.numbers import percent
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores

JOINT, PROVED, FOUND = "joint_flip", "certified_radius", "attack_radius"
ALONE = "the others keeping theirs"


def searched(scores: Scores) -> bool:
    """Whether attention was attacked head by head, and nothing is exact."""
    is_exact = np.isfinite(scores.of_questions("attention_proof")).any()
    return bool(np.isfinite(scores.of_questions(JOINT)).any()) and not is_exact


class HeadStatements:
    """What is known of the heads in each text, in words; empty where nothing is.

    Args:
        run: that the texts are of.
        site: where in the model.
    """

    def __init__(self, run: Run, site: str | None) -> None:
        self.run, self.site = run, site
        self.searched = searched(Scores([run], site))
        self.heads = heads_of(run, site)

    def __getitem__(self, i: int) -> str:
        if not self.searched or math.isnan(self._numbers[JOINT][i]):
            return ""
        parts = [*self._of_single_heads(i), self._of_all_together(i)]
        return " ".join(parts)

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray]:
        """metric -> (B,), the mean over slots."""
        names = (CERTIFIED, FLIPPED, JOINT, PROVED, FOUND)
        return {name: self.run.scores(name, site=self.site).to_numpy() for name in names}

    @cached_property
    def _slots(self) -> int:
        return slots_of(self.run, self.site)

    def _of_single_heads(self, i: int) -> Iterator[str]:
        if self._slots == 1:
            return
        if self.heads is not None:
            yield from _of_named_heads(self.heads, i)
            return
        proved, changing = self._numbers[CERTIFIED][i], self._numbers[FLIPPED][i]
        if proved > 0:
            yield f"No attention of {percent(proved)} of the heads could change this decision, {ALONE} (proved)."
        yield f"Another attention of {percent(changing)} of the heads, each alone, changes this decision."

    def _of_all_together(self, i: int) -> str:
        whose = whose_of(self._slots, self.heads)
        proved, found = self._numbers[PROVED][i], self._numbers[FOUND][i]
        if proved == 1:
            return f"No attention{whose} could change this decision (proved)."
        if self._numbers[JOINT][i]:
            return f"Another attention{whose} changes this decision{enough(found)}{stays(proved)}."
        return f"No attention{whose} was found that changes this decision{stays(proved)}."


def _of_named_heads(heads: Heads, i: int) -> Iterator[str]:
    """Which heads of a text are proved, which change its decision, and of which it is not known."""
    proved, changing, unknown = heads.proved_in(i), heads.flipped_in(i), heads.open_in(i)
    if proved:
        yield f"No attention of {any_of(heads, proved)} could change this decision, {ALONE} (proved)."
    if changing:
        decision = "it" if proved else "this decision"
        yield f"Another attention of {_some_of(heads, changing, 'each')} alone changes {decision}."
    if unknown:
        whether = "" if proved or changing else f" whether one alone could change this decision, {ALONE}"
        yield f"Of {heads.named(unknown)} it is not known{whether}."


# parts of sentences


def any_of(heads: Heads, places: Sequence[int]) -> str:
    """One of some heads, in a sentence on none of them."""
    return _some_of(heads, places, "any one")


def _some_of(heads: Heads, places: Sequence[int], which: str) -> str:
    """Which of some heads a sentence is on, such as "any one" or "each"; of one head its name."""
    if len(places) == 1:
        return heads.named(places)
    if len(places) == len(heads.heads):
        return f"{which} of the {len(places)} heads"
    return f"{which} of {heads.named(places)}"


def whose_of(slots: int, heads: Heads | None) -> str:
    """Whose attention is changed where that of all slots is."""
    if slots > 1:
        return " of all heads together"
    if heads is None:
        return ""
    return f" of {heads.named([0])}"


def enough(found: float, typical: str = "") -> str:
    """How much of another attention was found to be enough, rounded up; empty where it is not known."""
    if math.isnan(found):
        return ""
    return f": {typical}{math.ceil(100 * found)}% of it mixed in is enough"


def stays(proved: float, up_to: str = "up to") -> str:
    """Up to where nothing changes, rounded down; empty where next to nothing is proved."""
    if math.isnan(proved) or proved < 0.01:
        return ""
    return f"; {up_to} {math.floor(100 * proved)}% of any other mixed in changes nothing (proved)"
