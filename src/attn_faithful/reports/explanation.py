"""What `attn_faithful.explain` gives back: it shows itself in a notebook and in a terminal, and saves its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful.reports.answer.answer import Answer, answer
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.html.heatmap import Heatmap, heatmap
from attn_faithful.reports.html.page import write_page
from attn_faithful.reports.run import Run

SHOWN = 20  # texts that a notebook and a terminal show


class Explanation:
    """The heat maps of some texts, and what the tests say of them.

    Args:
        path: of the run folder.
        holder: kept as long as the explanation is; a temporary folder goes with it.
    """

    def __init__(self, path: str | Path, holder: Any = None) -> None:
        self.run = Run(path)
        self._holder = holder

    @property
    def path(self) -> Path:
        """Of the run folder."""
        return self.run.path

    @cached_property
    def examples(self) -> Examples:
        """The texts, at the site that was tested (the last of several)."""
        return Examples(self.run)

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, place: int) -> Heatmap:
        if not -len(self) <= place < len(self):
            raise IndexError(f"There are {len(self)} texts, and none has the place {place}.")
        return heatmap(self.examples, place % len(self))

    def __iter__(self) -> Iterator[Heatmap]:
        return (self[place] for place in range(len(self)))

    @cached_property
    def answer(self) -> Answer:
        """What the tests say: of how many texts, how well the model predicts them, the verdict or why there is none."""
        return answer(self.run, self.examples.site)

    @property
    def sentences(self) -> list[str]:
        """What the tests say, in words."""
        return self.answer.said

    def save(self, path: str | Path) -> Path:
        """Write the page: one HTML file, see `reports.html.page.write_page`."""
        return write_page(self.run, path)

    def _shown(self) -> Sequence[Heatmap]:
        return [self[place] for place in range(min(SHOWN, len(self)))]

    @property
    def _rest(self) -> str | None:
        return f"... and {len(self) - SHOWN:,} more; save(path) writes all of them." if len(self) > SHOWN else None

    def _repr_html_(self) -> str:
        parts = [self.answer.html(), *(found.html() for found in self._shown())]
        return str(Markup("").join([*parts, *([Markup("<p>{}</p>").format(self._rest)] if self._rest else [])]))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield self.answer
        for found in self._shown():
            yield Text("")
            yield found
        if self._rest:
            yield Text(self._rest)

    def __str__(self) -> str:
        parts = [str(self.answer), *map(str, self._shown()), self._rest or ""]
        return "\n\n".join(part for part in parts if part)

    def __repr__(self) -> str:
        return f"Explanation({str(self.path)!r}, {len(self)} text{'' if len(self) == 1 else 's'})"
