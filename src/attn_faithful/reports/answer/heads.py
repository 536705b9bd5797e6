"""What other attention of one head, or of all together, could change: proved, found, or not known; in words.

Of models whose read-out is not affine in one attention, such as transformers models. Of the others the exact answers
say all of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from attn_faithful.reports.answer.wording import Sentence, share_of
from attn_faithful.reports.heads import CERTIFIED, FLIPPED, Heads, heads_of, slots_of
from attn_faithful.reports.numbers import percent
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores

JOINT, PROVED, FOUND = "joint_flip", "certified_radius", "attack_radius"
_CARD = "heads"
_ALONE = "the others keeping theirs"


def searched(scores: Scores) -> bool:
    """Whether attention was searched and bounded head by head, and nothing is exact."""
    is_exact = np.isfinite(scores.of_questions("attention_proof")).any()
    return bool(np.isfinite(scores.of_questions(JOINT)).any()) and not is_exact


def heads_sentences(scores: Scores) -> Iterator[Sentence]:
    """What is proved of single heads, then what attention of all together changes; or why nothing is known."""
    if not searched(scores):
        yield from _why_unknown(scores)
    elif scores.single and not scores.by_label(JOINT):
        yield [HeadStatements(scores.run, scores.site)[0]]
    else:
        yield from _of_single_heads(scores)
        yield from _of_all_together(scores)


def _why_unknown(scores: Scores) -> Iterator[Sentence]:
    """Of a transformers model of whose heads nothing is known, why."""
    record = scores.record(CERTIFIED)
    if record is None or record.n or not record.reasons or not scores.run.info.attention:
        return
    reasons = "; ".join(record.reasons)
    yield [f"What no attention of a head could change is not proved here: {reasons}."]


# one text


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

    def _of_single_heads(self, i: int) -> Iterator[str]:
        if self._slots == 1:
            return
        if self.heads is not None:
            yield from _named_heads(self.heads, i)
            return
        proved, changing = self._numbers[CERTIFIED][i], self._numbers[FLIPPED][i]
        yield f"No attention of {percent(proved)} of the heads could change this decision, {_ALONE} (proved)."
        if changing:
            yield f"Another attention of one of the others alone changes it: of {percent(changing)} of the heads."

    @cached_property
    def _slots(self) -> int:
        return slots_of(self.run, self.site)

    def _of_all_together(self, i: int) -> str:
        whose = _whose(self._slots, self.heads)
        proved, found = self._numbers[PROVED][i], self._numbers[FOUND][i]
        if proved == 1:
            return f"No attention{whose} could change this decision (proved)."
        stays = _stays(proved)
        if self._numbers[JOINT][i]:
            return f"Another attention{whose} changes this decision: {_enough(found)} of it mixed in is enough{stays}."
        return f"No attention{whose} was found that changes this decision{stays}."


def _named_heads(heads: Heads, i: int) -> Iterator[str]:
    """Which heads of a text are proved, which change its decision, and of which it is not known."""
    proved, changing, unknown = heads.proved_in(i), heads.flipped_in(i), heads.open_in(i)
    if proved:
        yield f"No attention of {_any_of(heads, proved)} could change this decision, {_ALONE} (proved)."
    if changing:
        decision = "it" if proved else "this decision"
        yield f"Another attention of {_each_of(heads, changing)} alone changes {decision}."
    if unknown:
        whether = "" if proved or changing else f" whether one alone could change this decision, {_ALONE}"
        yield f"Of {heads.named(unknown)} it is not known{whether}."


def _any_of(heads: Heads, places: Sequence[int]) -> str:
    if len(places) == len(heads.heads):
        return f"any one of the {len(places)} heads"
    if len(places) == 1:
        return heads.named(places)
    return f"any one of {heads.named(places)}"


def _each_of(heads: Heads, places: Sequence[int]) -> str:
    if len(places) == len(heads.heads) > 1:
        return f"each of the {len(places)} heads"
    if len(places) == 1:
        return heads.named(places)
    return f"each of {heads.named(places)}"


def _whose(slots: int, heads: Heads | None) -> str:
    """Whose attention is changed where that of all slots is."""
    if slots > 1:
        return " of all heads together"
    if heads is None:
        return ""
    return f" of {heads.named([0])}"


def _stays(proved: float, typical: str = "") -> str:
    """Up to where nothing changes, rounded down; empty where next to nothing is proved."""
    if not proved >= 0.01:
        return ""
    return f"; up to {typical}{math.floor(100 * proved)}% of any other mixed in changes nothing (proved)"


def _enough(found: float) -> str:
    """What was found to be enough, rounded up."""
    return f"{math.ceil(100 * found)}%"


# many texts


def _of_single_heads(scores: Scores) -> Iterator[Sentence]:
    """The heads that change nothing in any text, in how many no head does, and the head of which least is proved."""
    if slots_of(scores.run, scores.site) == 1:
        return
    heads = heads_of(scores.run, scores.site)
    if heads is None or len(scores.runs) > 1:
        yield _of_mean_heads(scores)
        return
    harmless = heads.certified[heads.known] != 0  # (n, S), one without an item as well
    n, slots = harmless.shape
    never = np.flatnonzero(harmless.all(0)).tolist()
    texts = scores.over(n)
    if never:
        count = f" ({len(never)} of {slots})" if 1 < len(never) < slots else ""
        yield [
            "In ",
            (_CARD, share_of(scores, 1.0, n)),
            f" no attention of {_any_of(heads, never)}{count} could change the decision, {_ALONE} (proved).",
        ]
    if len(never) == slots:
        return
    least = heads.least_certain
    proved, changing = heads.counts(least[0])
    if not harmless.any():
        texts = (_CARD, share_of(scores, changing / n, n))
        yield [
            f"Nothing is proved of single heads; another attention of {_any_of(heads, least)} alone, more than of any "
            "other, changes the decision in ",
            texts,
            ".",
        ]
        return
    every = float(harmless.all(1).mean())
    whose = f"of any one of the {slots} heads"
    if every:
        none = f"no attention {whose} could change the decision, {_ALONE} (proved)."
    else:
        none = f"is it proved that no attention {whose} could change the decision, {_ALONE}."
    yield ["In ", (_CARD, share_of(scores, every, n)), f" {none}"]
    yield [
        f"{_least(heads, least)} proved in ",
        (_CARD, f"{proved:,} of {scores.over(n)}"),
        f"; another attention of it alone changes the decision in {changing:,}.",
    ]


def _least(heads: Heads, places: Sequence[int]) -> str:
    """The heads of which least is proved, as the beginning of a sentence on one of them."""
    if len(places) == len(heads.heads):
        return "Each head is"
    if len(places) == 1:
        return f"The least certain is {heads.named(places)}:"
    return f"The least certain are {heads.named(places)}: each is"


def _of_mean_heads(scores: Scores) -> Sentence:
    """Shares of the heads, where they have no names or those of several models meet."""
    proved = float(np.nanmean(scores.of_questions(CERTIFIED)))
    changing = float(np.nanmean(scores.of_questions(FLIPPED)))
    return [
        "No attention of ",
        (_CARD, f"{percent(proved)} of the heads"),
        f" of a text could change its decision, {_ALONE} (proved); of {percent(changing)} of them another one does.",
    ]


def _of_all_together(scores: Scores) -> Iterator[Sentence]:
    """In how many texts nothing changes the decision, in how many something does, and how little is enough."""
    joint, proved, found = (scores.of_questions(name) for name in (JOINT, PROVED, FOUND))
    known = np.isfinite(joint)
    n = int(known.sum())
    whose = _whose(slots_of(scores.run, scores.site), heads_of(scores.run, scores.site))
    never = float((proved[known] == 1).mean())
    if never:
        texts = (_CARD, share_of(scores, never, n, JOINT))
        yield ["In ", texts, f" no attention{whose} could change the decision (proved)."]
    if never == 1:
        return
    share = float(joint[known].mean())
    enough = ""
    if share:
        typical = float(np.median(found[joint == 1]))
        enough = f": a median of {_enough(typical)} of it mixed in is enough"
    stays = _stays(float(np.median(proved[known])), "a median of ")
    texts = (_CARD, share_of(scores, share, n, JOINT))
    yield [f"Another attention{whose} that changes the decision was found in ", texts, f"{enough}{stays}."]
