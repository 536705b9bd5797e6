"""How many items' attention must be believed for the decision, and whether those with most attention are these."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_faithful.reports.answer.wording import Sentence, share_of
from attn_faithful.reports.numbers import counted, percent
from attn_faithful.reports.scores import CORE, Scores

REST = "the rest of the map may be anything"
_FEW, _FEW_IN_WORDS = 2, "two"
_CARD = "remove"
_OF_LABELS = "core_is_top"  # of attention, by which it is known whether labels were asked one by one


def core_sentences(scores: Scores) -> Iterator[Sentence]:
    """In how many texts a few items prove the decision; then how many it takes, and whether attention's top do."""
    sizes = scores.of_questions("core_size", CORE)
    known = np.isfinite(sizes)
    n = int(known.sum())
    if not n:
        return
    if scores.single and not scores.by_label(_OF_LABELS):
        yield from _of_one_text(scores, float(sizes[known][0]))
        return
    few = float((sizes[known] <= _FEW).mean())
    texts = (_CARD, share_of(scores, few, n, _OF_LABELS))
    rest = f"; {REST} there" if few else ""
    yield [f"At most {_FEW_IN_WORDS} {scores.noun}s' weights prove the decision in ", texts, f"{rest}."]
    yield from _of_texts_that_need_some(scores, sizes)


def _of_one_text(scores: Scores, size: float) -> Iterator[Sentence]:
    if size:
        yield [(_CARD, proved_by(size, scores.noun)), f" this decision; {REST}."]
    elif not np.isfinite(scores.of_questions("attention_proof")).any():  # which says it itself
        none = (_CARD, f"No {scores.noun}'s weight")
        yield [none, " has to be believed: no attention at all could change this decision."]


def proved_by(size: float, noun: str) -> str:
    """A number of items as the subject of a sentence.

    Example:
        >>> proved_by(1, "word"), proved_by(2, "word")
        ('The weight of 1 word proves', 'The weights of 2 words prove')
    """
    if size == 1:
        return f"The weight of 1 {noun} proves"
    return f"The weights of {counted(size, noun)} prove"


def _of_texts_that_need_some(scores: Scores, sizes: np.ndarray) -> Iterator[Sentence]:
    needed = sizes > 0  # False for NaN
    n = int(needed.sum())
    if not n:
        return
    median = (_CARD, f"a median of {counted(float(np.median(sizes[needed])), scores.noun)}")
    yield [f"Of {scores.over(n, _OF_LABELS)} in which any must be believed, ", median, f" must{_of_top(scores)}."]


def _of_top(scores: Scores) -> str:
    """In how many of these texts as many items from the top of attention are enough; empty where it is not known."""
    is_top = scores.of_questions(_OF_LABELS)
    if not np.isfinite(is_top).any():
        return ""
    count, share = int(np.nansum(is_top)), float(np.nanmean(is_top))
    some = f"{count:,} ({percent(share)})"
    where = {0.0: "none of them", 1.0: "all of them"}.get(share, some)
    return f"; as many with most attention are enough in {where}"
