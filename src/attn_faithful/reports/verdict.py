"""May this attention be shown as an explanation? Answered only where every test that ran says the same.

The rule is stated for readers in docs/reading.md, section "The verdict".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

AGAINST, FOR, OPEN = "against", "for", "open"
ENOUGH = 30  # texts, below which a test says nothing here

TAU_LINE = 0.5  # mean tau-b of attention with the gradient
SHARE_LINE = 0.5  # of the texts
SHUFFLE_LINE = 0.1  # mean over texts of the median change of p
TWIN_LINE = 0.1  # AtteFa
DIFFERENT = 0.9  # share of the largest JSD within reach from which on an attention counts as completely different


@dataclass(frozen=True)
class Answer:
    """What one test says.

    Attributes:
        test: its name.
        says: "against" or "for" attention as an explanation; "open" where the interval of its number holds the line.
    """

    test: str
    says: str


@dataclass(frozen=True)
class Verdict:
    """What the tests say together.

    Attributes:
        key: "against", "for" or "mixed".
        text: in words.
    """

    key: str
    text: str


TEXTS = {
    AGAINST: "not a faithful explanation",
    FOR: "no test speaks against it",
    "mixed": "mixed evidence",
}


def answer(test: str, low: float | None, high: float | None, n: int, line: float, faithful: str) -> Answer | None:
    """What an interval says of a line.

    Args:
        test: its name.
        low, high: the 95% interval of its number.
        n: texts it rests on.
        line: between the two answers.
        faithful: "above" or "below": on which side of the line faithful attention lies.

    Returns:
        None where fewer than 30 texts stand behind it, or the interval is undefined.

    Example:
        >>> answer("correlation", 0.36, 0.40, 500, TAU_LINE, "above").says
        'against'
        >>> answer("correlation", 0.36, 0.40, 12, TAU_LINE, "above") is None
        True
    """
    if n < ENOUGH or low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    if low <= line <= high:
        return Answer(test, OPEN)
    return Answer(test, FOR if (low > line) == (faithful == "above") else AGAINST)


def verdict(answers: Sequence[Answer | None]) -> Verdict | None:
    """The verdict of the tests that ran; None where fewer than two of them say anything.

    Example:
        >>> verdict([Answer("correlation", "against"), Answer("permutation", "against")]).text
        'not a faithful explanation'
        >>> verdict([Answer("correlation", "against"), Answer("permutation", "open")]).key
        'mixed'
        >>> verdict([Answer("correlation", "against"), None]) is None
        True
    """
    said = [found.says for found in answers if found is not None]
    if len(said) < 2:
        return None
    key = said[0] if said[0] != OPEN and len(set(said)) == 1 else "mixed"
    return Verdict(key, TEXTS[key])
