"""The remaining time of work, from the time that its first part took."""

from __future__ import annotations

import time

_SURE = 1.0  # seconds of work, below which nothing can be said of the rest


def duration(seconds: float) -> str:
    """Seconds in words, in two units at most.

    Example:
        >>> [duration(s) for s in (0.2, 59.6, 100, 3_900, 86_400 * 2.5)]
        ['1 s', '1 min', '2 min', '1 h 5 min', '2 d 12 h']
    """
    if round(seconds) < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


class Stopwatch:
    """Seconds left, from the share of the work that is done and the time that it took."""

    def __init__(self) -> None:
        self.start, self.first = time.monotonic(), 0.0

    @property
    def taken(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def begin(self, share: float) -> None:
        """Start the clock here; the share that is done already does not count for the pace."""
        self.start, self.first = time.monotonic(), share

    def left(self, share: float) -> float | None:
        """Seconds left; None where too little is done for an estimate."""
        if share >= 1:
            return 0.0
        if share <= self.first or self.taken < _SURE:
            return None
        return self.taken * (1 - share) / (share - self.first)
