"""Figures in a notebook, drawn when they are shown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

from attn_faithful._checks import check_choice, did_you_mean
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.run import Run


class Picture(bytes):
    """A figure as png; a notebook shows it, with how to read it.

    Args:
        png: its bytes.
        figure: what it shows.
    """

    figure: Any

    def __new__(cls, png: bytes, figure: Any) -> Picture:
        picture = super().__new__(cls, png)
        picture.figure = figure
        return picture

    def __repr__(self) -> str:
        return f"Picture({self.figure.name!r}, png of {len(self):,} bytes)"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        return figure_html(self.figure, self)


class Figures(Mapping[str, Picture]):
    """The figures of some runs: name -> png; in a notebook all of them, with how to read each.

    Args:
        runs: finished runs.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)

    @cached_property
    def cells(self) -> list[Any]:
        """The models of the runs, each over its seeds."""
        from attn_faithful.reports.figures import cells

        return cells(aggregate(self.runs))

    @cached_property
    def _panels(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The panels of the figures that can be drawn, and why the others cannot."""
        from attn_faithful.reports.figures import FIGURES, Missing

        panels, missing = {}, {}
        for name, figure in FIGURES.items():
            try:
                panels[name] = figure.read(self.cells)
            except Missing as reason:
                missing[name] = str(reason)
        return panels, missing

    @property
    def missing(self) -> dict[str, str]:
        """The figures that cannot be drawn from these runs, and why."""
        return dict(self._panels[1])

    def draw(self, name: str) -> Any:
        """A figure as an object of matplotlib, to be changed further."""
        from attn_faithful.reports.figures import FIGURES, common_title, draw, letters, style

        panels = self._panels[0][check_choice("figure", name, self)]
        with style(letters(self.cells)):
            return draw(FIGURES[name], panels, common_title(self.cells))

    def __getitem__(self, name: str) -> Picture:
        from attn_faithful.reports.figures import FIGURES, png

        panels, missing = self._panels
        if name not in panels:
            raise KeyError(missing.get(name) or f"Unknown figure {name!r}.{did_you_mean(name, panels)}")
        figure = FIGURES[name]
        return Picture(png(figure, panels[name], self.cells), figure)

    def __iter__(self) -> Iterator[str]:
        return iter(self._panels[0])

    def __len__(self) -> int:
        return len(self._panels[0])

    def __repr__(self) -> str:
        return f"Figures({', '.join(self)})"

    def _repr_html_(self) -> str:
        from attn_faithful.reports.figures import FIGURES

        parts = [picture._repr_html_() for picture in self.values()]
        if self.missing:
            parts += ["<p>Not drawn:</p>", "<ul>"]
            for name, why in self.missing.items():
                parts.append(f"<li>{escape(FIGURES[name].title)} {escape(why)}</li>")
            parts.append("</ul>")
        return "\n".join(parts)


def figure_html(figure: Any, png: bytes) -> str:
    """A figure as HTML: the picture, and how to read it."""
    title = escape(figure.title)
    caption = f"{title} {escape(figure.reading)} ({escape(figure.paper)})"
    content = b64encode(png).decode()
    picture = f'<img alt="{title}" src="data:image/png;base64,{content}">'
    return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
