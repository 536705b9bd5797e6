"""How long sources of importance took, a text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from attn_faithful.experiments.processes import ProcessGroup

_SIGNED = "signed_"  # sources of this kind share what they compute with those of the same name without it


class SourceTimes:
    """Seconds that each source took, and on how many texts.

    Example:
        >>> times = SourceTimes()
        >>> with times.measured("random", 4):
        ...     pass
        >>> list(times.a_text())
        ['random']
    """

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._texts: Counter[str] = Counter()

    @contextmanager
    def measured(self, name: str, texts: int) -> Iterator[None]:
        """Add the seconds that the body takes for so many texts."""
        start = time.perf_counter()
        yield
        self._seconds[name] += time.perf_counter() - start
        self._texts[name] += texts

    def gathered(self, processes: ProcessGroup) -> SourceTimes:
        """Those of all processes together."""
        together = SourceTimes()
        for seconds, texts in processes.all_gather([(dict(self._seconds), dict(self._texts))]):
            together._seconds.update(seconds)
            together._texts.update(texts)
        return together

    def a_text(self) -> dict[str, float]:
        """Seconds a text by source; a signed source costs what it shares with its magnitude as well."""
        seconds = {}
        for name, texts in self._texts.items():
            if texts:
                seconds[name] = self._seconds[name] / texts
        for name in list(seconds):
            magnitude = name.removeprefix(_SIGNED)
            if magnitude != name:
                seconds[name] = max(seconds[name], seconds.get(magnitude, 0.0))
        return seconds
