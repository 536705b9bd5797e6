"""May this attention be shown as an explanation? The lines between the answers, and what tests say together.

The rule is stated for readers in docs/reading.md, section "The verdict".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attn_faithful.records.twins import TwinRecord

AGAINST, FOR, OPEN, MIXED = "against", "for", "open", "mixed"
ENOUGH = 30  # texts, below which a test says nothing here

# set by AttentionBench: the value that tells best which models' attention explains, see docs/bench.md, "The verdict"
LEAVE_ONE_OUT_LINE = 0.65  # mean tau-b of attention with leave-one-out
TAU_LINE = 0.44  # mean tau-b with a gradient or another importance, where there is no leave-one-out
SHUFFLE_LINE = 0.29  # mean over texts of the median change of p
SHORT_LINE = 0.9  # share of the texts in which attention's order flips the decision with the fewest items
POLARITY_LINE = 0.1  # share of the texts in which the first item does not speak for the decision, by removal
# conventions
SHARE_LINE = 0.5  # of the texts
TWIN_LINE = 0.1  # AtteFa
DIFFERENT = 0.9  # share of the largest JSD within reach from which on an attention counts as completely different


@dataclass(frozen=True)
class Finding:
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
    MIXED: "mixed evidence",
}


def finding(test: str, low: float, high: float, n: int, line: float, faithful: str) -> Finding | None:
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
        >>> finding("correlation", 0.36, 0.40, 500, TAU_LINE, "above").says
        'against'
        >>> finding("correlation", 0.36, 0.40, 12, TAU_LINE, "above") is None
        True
    """
    if n < ENOUGH or not (math.isfinite(low) and math.isfinite(high)):
        return None
    if low <= line <= high:
        return Finding(test, OPEN)
    side = "above" if low > line else "below"
    if side == faithful:
        return Finding(test, FOR)
    return Finding(test, AGAINST)


def verdict(
    findings: Sequence[Finding | None], n: int, why_not: str | None = None, different: int | None = None
) -> tuple[Verdict | None, str]:
    """The verdict of the tests that ran, or why there is none.

    Args:
        findings: what each test says; None where it says nothing.
        n: texts.
        why_not: what forbids a verdict whatever the tests say: a model that does not predict.
        different: how many of the texts are different; None for all.

    Returns:
        the verdict and "", or None and the reason.

    Example:
        >>> verdict([Finding("correlation", "against"), Finding("permutation", "against")], 60)[0].text
        'not a faithful explanation'
        >>> verdict([Finding("correlation", "against"), Finding("permutation", "open")], 60)[0].key
        'mixed'
        >>> verdict([Finding("correlation", "against"), None], 60)
        (None, 'only the test correlation has something to say here, and a verdict takes two')
        >>> verdict([Finding("correlation", "against"), None], 12)
        (None, 'few texts, 12 of at least 30')
        >>> verdict([Finding("correlation", "against"), Finding("permutation", "against")], 60, different=2)
        (None, 'few texts, 2 different ones of at least 30')
    """
    if n < ENOUGH:
        return None, f"few texts, {n} of at least {ENOUGH}"
    if different is not None and different < ENOUGH:
        ones = "one" if different == 1 else "ones"
        return None, f"few texts, {different} different {ones} of at least {ENOUGH}"
    if why_not is not None:
        return None, why_not
    speaking = [each for each in findings if each is not None]
    if len(speaking) < 2:
        who = f"only the test {speaking[0].test} has" if speaking else "no test has"
        return None, f"{who} something to say here, and a verdict takes two"
    directions = {each.says for each in speaking}
    if len(directions) > 1 or OPEN in directions:
        return Verdict(MIXED, TEXTS[MIXED]), ""
    (key,) = directions
    return Verdict(key, TEXTS[key]), ""


def constant_base(twin: TwinRecord) -> bool:
    """Whether a twin's base is so nearly constant that a constant prediction alone lies below the twins' line."""
    return twin.constant_tvd < TWIN_LINE


def few(n: int) -> str:
    """The mark beside a number that rests on few texts; empty where they are enough.

    Example:
        >>> few(3), few(30)
        ('few texts', '')
    """
    if n >= ENOUGH:
        return ""
    return "few texts"
