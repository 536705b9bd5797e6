"""Numbers as text: a dash where they are undefined, never -0, and no 0 or 100% for what is neither."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 3) -> str:
    """Three digits after the point; a dash for an undefined value, never -0.

    Example:
        >>> number(0.51234), number(float("nan")), number(-0.0001)
        ('0.512', '-', '0.000')
    """
    if value is None or not math.isfinite(value):
        return "-"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        return text.lstrip("-")
    return text


def interval(low: float, high: float) -> str:
    """The ends of an interval; a dash where there is none.

    Example:
        >>> interval(0.25, 0.75), interval(float("nan"), float("nan"))
        ('[0.250, 0.750]', '-')
    """
    if math.isnan(low):
        return "-"
    return f"[{number(low)}, {number(high)}]"


def p_value(value: float) -> str:
    """A p-value: three digits, or the power of ten where it is small; "-" where there is none.

    Example:
        >>> p_value(0.0321), p_value(1e-9), p_value(0.0), p_value(float("nan"))
        ('0.032', '1e-09', '<1e-300', '-')
    """
    if math.isnan(value):
        return "-"
    if value >= 0.001:
        return f"{value:.3f}"
    if value > 0:
        return f"{value:.0e}"
    return "<1e-300"


def small(value: float) -> str:
    """Two digits, and not 0 for what is above it.

    Example:
        >>> small(0.104), small(0.002), small(0.0)
        ('0.10', 'less than 0.01', '0.00')
    """
    if 0 < value < 0.005:
        return "less than 0.01"
    return number(value, 2)


def percent(share: float) -> str:
    """A share in percent; 100% and 0% only where it is all or none.

    Example:
        >>> percent(0.614), percent(0.9999), percent(1.0), percent(0.001)
        ('61%', 'over 99%', '100%', 'under 1%')
    """
    if 0 < share < 0.005:
        return "under 1%"
    if 0.995 <= share < 1:
        return "over 99%"
    return f"{100 * share:.0f}%"


def counted(n: float, noun: str) -> str:
    """A number of items in words.

    Example:
        >>> counted(1, "word"), counted(2.5, "word"), counted(1200, "text")
        ('1 word', '2.5 words', '1,200 texts')
    """
    digits = f"{n:,g}" if isinstance(n, float) else f"{n:,}"
    if n == 1:
        return f"{digits} {noun}"
    return f"{digits} {noun}s"
