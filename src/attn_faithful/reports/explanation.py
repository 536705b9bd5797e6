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
        run: that the texts are of.
        holder: referred to as long as the explanation is: a temporary folder is removed with it.
    """

    def __init__(self, run: Run, holder: Any = None) -> None:
        self.run = run
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
        return self.answer.statements

    def save(self, path: str | Path) -> Path:
        """Write the page: one HTML file, see `reports.html.page.write_page`."""
        return write_page(self.run, path)

    def _first_texts(self) -> Sequence[Heatmap]:
        return [self[place] for place in range(min(SHOWN, len(self)))]

    @property
    def _rest(self) -> list[str]:
        """A line on the texts that are not shown; none where all are."""
        if len(self) <= SHOWN:
            return []
        return [f"... and {len(self) - SHOWN:,} more; save(path) writes all of them."]

    def _repr_html_(self) -> str:
        parts = [self.answer.html()]
        for text in self._first_texts():
            parts.append(text.html())
        for rest in self._rest:
            parts.append(Markup("<p>{}</p>").format(rest))
        return str(Markup("").join(parts))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        yield self.answer
        for text in self._first_texts():
            yield Text("")
            yield text
        for rest in self._rest:
            yield Text(rest)

    def __str__(self) -> str:
        parts = [str(self.answer), *map(str, self._first_texts()), *self._rest]
        return "\n\n".join(filter(None, parts))

    def __repr__(self) -> str:
        texts = "1 text" if len(self) == 1 else f"{len(self)} texts"
        return f"Explanation({str(self.path)!r}, {texts})"
