"""Scores of stretches of a text, laid on the items that a model attends to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from attn_faithful.data.normalization import Span

NO_SCORE = "no token of the explanation stands there"
NO_NUMBER = "the explanation's score is no number"


@dataclass(frozen=True)
class LaidScores:
    """Scores of the items of a text.

    Attributes:
        values: one an item, NaN where it has none.
        reasons: why an item has none; None where it has one.
        n_unplaced: scores other than 0 of stretches that hold no character of an item, such as those of special tokens
            and of text that the model does not read.
    """

    values: list[float]
    reasons: list[str | None]
    n_unplaced: int


def lay_scores(spans: Sequence[Span], scores: Sequence[float], items: Sequence[Span]) -> LaidScores:
    """Scores of stretches of a text as scores of its items: those that share an item are summed.

    ``s_i = sum_t s_t |t and i| / |t|``, with |t| the characters of stretch t that stand in some item: a stretch over
    several items is shared by characters, so that the sum of the scores is kept. A stretch that holds no character of
    an item, such as a blank, goes with the item that begins where it ends. Stretches that are the items, one by one,
    give theirs as they are.

    Args:
        spans: (start, end) of each scored stretch in the text, in characters; empty for what has no place there.
        scores: one a stretch.
        items: (start, end) of each item, none over another.

    Returns:
        a score an item, with the unit and the sign of `scores`.

    Example:
        >>> laid = lay_scores([(0, 0), (0, 5), (5, 7), (8, 12)], [0.25, 1.0, 0.5, -1.0], [(0, 7), (8, 12), (13, 15)])
        >>> laid.values, laid.reasons[2], laid.n_unplaced
        ([1.5, -1.0, nan], 'no token of the explanation stands there', 1)
    """
    scores = [float(score) for score in scores]
    if list(spans) == list(items):
        return _laid(dict(enumerate(scores)), len(scores), 0)
    owner = _owners(items)
    beginning = {start: item for item, (start, end) in enumerate(items) if start < end}
    sums: dict[int, float] = {}
    n_unplaced = 0
    for (start, end), score in zip(spans, scores, strict=True):
        shares = Counter(owner[place] for place in range(start, end) if place in owner)
        if not shares and start < end and end in beginning:
            shares[beginning[end]] = 1
        n_unplaced += not shares and score != 0
        n_characters = shares.total()
        for item, n in shares.items():
            sums[item] = sums.get(item, 0.0) + score * (n / n_characters)
    return _laid(sums, len(items), n_unplaced)


def _owners(items: Sequence[Span]) -> dict[int, int]:
    """The item of each character that stands in one."""
    owner = {}
    for item, (start, end) in enumerate(items):
        owner |= dict.fromkeys(range(start, end), item)
    return owner


def _laid(sums: dict[int, float], n: int, n_unplaced: int) -> LaidScores:
    values: list[float] = []
    reasons: list[str | None] = []
    for item in range(n):
        value = sums.get(item)
        if value is None:
            reasons.append(NO_SCORE)
        elif value - value != 0:  # NaN and the infinities
            reasons.append(NO_NUMBER)
        else:
            reasons.append(None)
        values.append(float("nan") if reasons[-1] else float(value or 0.0))
    return LaidScores(values, reasons, n_unplaced)
