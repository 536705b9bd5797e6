"""A table of text: a title, a head, rows and notes, for a terminal, Markdown, LaTeX, HTML or CSV."""

from __future__ import annotations

import csv
import io
import itertools
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from attn_faithful.reports.escaping import latex, markdown, preamble
from attn_faithful.reports.tables.layout import TableLayout

_LONG = 60  # letters of a name, from which its column is set in several lines
_WHOLE = 32  # letters of a number with its interval, up to which it stays on one line
_WIDE = r"p{0.4\linewidth}"

# a notebook's table: its ground and ink are the notebook's, which may be light or dark
_FRAME = Markup(
    '<div style="overflow-x:auto;margin:.4em 0 1em"><table style="border-collapse:collapse">'
    '<caption style="caption-side:top;text-align:left;font-weight:bold;color:inherit;padding:0 0 4px">{}</caption>'
    "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>{}"
)
_HEAD = '<th scope="col" style="text-align:{};vertical-align:bottom;padding:2px 10px">{}</th>'
_CELL = '<td style="text-align:{};white-space:{};vertical-align:top;padding:2px 10px">{}</td>'
_ROW = "<tr>{}</tr>"
_NOTE = '<p style="opacity:.8;font-size:.9em;margin:0 0 .3em;max-width:60em">{}</p>'
_BEST = Markup("<b>{}</b>")


@dataclass
class Table:
    """A title, a head, rows of text and notes below.

    Attributes:
        title, head, rows, notes: as a person reads them. Columns whose head begins with a small letter are names.
        name: of its files.
        best: (row, column) of the cells that are marked.
        data: head and rows for CSV where these hold more than the shown rows: unrounded numbers.
        named: how many columns, from the left, are names; None for those whose head begins with a small letter.
        first: heads of the columns that a narrow terminal shows first.
    """

    title: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    name: str = ""
    best: set[tuple[int, int]] = field(default_factory=set)
    data: tuple[list[str], list[list[Any]]] | None = None
    named: int | None = None
    first: tuple[str, ...] = ()

    @property
    def names(self) -> int:
        """How many of the columns, from the left, are names."""
        if self.named is not None:
            return self.named
        lower_case = itertools.takewhile(lambda name: name[:1].islower(), self.head)
        return len(list(lower_case))

    def markdown(self) -> str:
        """The table in Markdown; whatever a cell holds is text and no markup."""
        sides = ["---"] * self.names + ["--:"] * (len(self.head) - self.names)
        rows = [map(markdown, self.head), sides, *self._marked(markdown, "**{}**")]
        lines = [f"**{markdown(self.title)}**", "", *map(_markdown_row, rows), ""]
        for note in self.notes:
            lines.append(f"{markdown(note)}\n")
        return "\n".join(lines) + "\n"

    def html(self) -> Markup:
        """The table for a notebook; whatever a cell holds is text and no markup."""
        rows, notes = Markup(""), Markup("")
        for i, row in enumerate(self.rows):
            rows += Markup(_ROW).format(self._html_cells(i, row))
        for note in self.notes:
            notes += Markup(_NOTE).format(note)
        return _FRAME.format(self.title, self._html_head(), rows, notes)

    def _html_head(self) -> Markup:
        cells = [Markup(_HEAD).format(self._html_side(i), head) for i, head in enumerate(self.head)]
        return Markup("").join(cells)

    def _html_cells(self, i: int, row: list[str]) -> Markup:
        cells = Markup("")
        for j, cell in enumerate(row):
            shown = _BEST.format(cell) if (i, j) in self.best else cell
            wrapping = "normal" if j < self.names or len(cell) > _WHOLE else "nowrap"
            cells += Markup(_CELL).format(self._html_side(j), wrapping, shown)
        return cells

    def _html_side(self, column: int) -> str:
        """Names and long text stand at the left; numbers at the right, their points under one another."""
        longest = max((len(row[column]) for row in self.rows), default=0)
        if column < self.names or longest > _WHOLE:
            return "left"
        return "right"

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return as_text(self.rich())

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; whatever a cell holds is text and no markup."""
        body = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex(self.title)}}}",
            rf"\begin{{tabular}}{{{self._latex_columns()}}}",
            r"\toprule",
            latex_row(map(latex, self.head)),
            r"\midrule",
            *map(latex_row, self._marked(latex, r"\textbf{{{}}}")),
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\smallskip{{\footnotesize {latex(note)}\par}}" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join([*preamble(body), *body]) + "\n"

    def _latex_columns(self) -> str:
        sides = ""
        for i, head in enumerate(self.head[: self.names]):
            cells = [head, *(row[i] for row in self.rows)]
            longest = max(map(len, cells))
            sides += _WIDE if longest > _LONG else "l"
        return sides + "r" * (len(self.head) - self.names)

    def csv(self) -> str:
        """The head and rows as CSV."""
        head, rows = self.data or (self.head, self.rows)
        text = io.StringIO()
        csv.writer(text).writerows([head, *rows])
        return text.getvalue()

    def rich(self) -> TableLayout:
        """The table for a terminal of any width."""
        return TableLayout(self.title, self.head, self.rows, self.notes, self.best, self.names, self.first)

    def _marked(self, escape: Callable[[str], str], mark: str) -> list[list[str]]:
        """The cells escaped, the best ones in a mark."""
        rows = [list(map(escape, row)) for row in self.rows]
        for i, j in self.best:
            rows[i][j] = mark.format(rows[i][j])
        return rows


class Tables(list[Table]):
    """Some tables in the order of reading, which show themselves."""

    def _repr_html_(self) -> str:
        return str(Markup("").join(table.html() for table in self))

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


def as_text(layout: Any) -> str:
    """What a terminal of the present width shows, without colours."""
    from rich.console import Console

    text = io.StringIO()
    width = shutil.get_terminal_size().columns
    Console(file=text, width=width, color_system=None, force_jupyter=False).print(layout)
    return text.getvalue().rstrip("\n")


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def latex_row(cells: Iterable[str]) -> str:
    r"""A row; what follows ``\\`` or a rule and begins with "[" or "*" would be taken for its argument."""
    row = " & ".join(cells) + r" \\"
    if row[0] in "[*":
        return "{}" + row
    return row
