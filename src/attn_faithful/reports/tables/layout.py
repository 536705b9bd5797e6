"""A table in any width of a terminal: names never go, numbers are never cut or wrapped.

As a grid where it fits; else in parts below one another, each with the names and the columns that matter most in the
first; else a block a row, a line a cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Literal

from attn_faithful.reports.characters import writable

_WHOLE = 32  # letters up to which a cell that is no name stays on one line
_BORDER = 3  # columns that a border and its padding take beside each cell; one more closes the row
_NUMBER_STAYS = re.compile(r"\s+(?![\d±+])")  # a number stays with the word before it: "negative 250"
_SEPARATED = re.compile(r"[^/\\_.,:;~|-]*[/\\_.,:;~|-]+|[^/\\_.,:;~|-]+")


@dataclass(frozen=True)
class Column:
    """One column as text that can be written.

    Attributes:
        head: its title.
        cells: one a row.
        name: whether it names the rows.
    """

    head: str
    cells: Sequence[str]
    name: bool

    @property
    def side(self) -> Literal["left", "right"]:
        """Numbers stand at the right, so that their points stand under one another."""
        longest = max(map(len, self.cells), default=0)
        if self.name or longest > _WHOLE:
            return "left"
        return "right"

    @cached_property
    def natural(self) -> int:
        """The width at which nothing is wrapped."""
        return max(map(_width, (self.head, *self.cells)))

    @cached_property
    def least(self) -> int:
        """The smallest width at which no word and no number is broken."""
        head = max(map(_width, _words(self.head)))
        return max(head, *map(self._least_of, self.cells), 1)

    def _least_of(self, cell: str) -> int:
        if not self.name and len(cell) <= _WHOLE:
            return _width(cell)
        return max(map(_width, _words(cell)))


@dataclass(frozen=True)
class TableLayout:
    """What `rich` prints of a table, in the width that it is given.

    Attributes:
        title, head, rows, notes: of the table.
        best: (row, column) of the cells that are marked.
        names: how many columns, from the left, are names.
        first: heads of the columns that come first where not all fit side by side; () for the order as it is.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    best: set[tuple[int, int]]
    names: int
    first: Sequence[str] = ()

    @property
    def order(self) -> list[int]:
        """The places of the columns where not all fit side by side: names, those that matter most, the others."""
        important = [place for head in self.first for place, own in enumerate(self.head) if own == head]
        return list(dict.fromkeys([*range(self.names), *important, *range(len(self.head))]))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        def shown(text: str) -> str:
            return writable(text, options.encoding)

        yield Text(shown(self.title), style="italic")
        columns = []
        for i, head in enumerate(self.head):
            cells = [shown(row[i]) for row in self.rows]
            columns.append(Column(shown(head), cells, i < self.names))
        best = self.best
        if _fit(columns, range(len(columns)), options.max_width) is None:
            columns = [columns[place] for place in self.order]
            best = {(row, self.order.index(place)) for row, place in best}
        parts = _parts(columns, options.max_width, even=not self.first)
        if parts is None:
            line = "-" if options.ascii_only else "\u2500"
            yield from _blocks(columns, options.max_width, best, line)
        else:
            for part in parts:
                yield _grid(columns, part, best)
        for note in self.notes:
            yield Text(shown(note), style="dim")


Part = dict[int, int]  # the columns of a grid, each with its width


def _parts(columns: Sequence[Column], width: int, even: bool) -> list[Part] | None:
    """The grids that show all columns; None where no grid is narrow enough, or its names would not tell rows apart.

    Args:
        columns: in the order in which they are shown.
        width: of the terminal.
        even: whether the grids get about the same width; else each holds as many columns as fit.
    """
    one_grid = _fit(columns, range(len(columns)), width)
    if one_grid is not None:
        return [one_grid]
    names: list[int] = []
    others: list[int] = []
    for i, column in enumerate(columns):
        if column.name:
            names.append(i)
        else:
            others.append(i)
    names_of_rows = set(zip(*(columns[i].cells for i in names), strict=True))
    if len(names_of_rows) < len(columns[0].cells) or not others:
        return None
    groups = _groups(columns, names, others, width)
    if groups is None:
        return None
    narrow = width
    while even and narrow > 1:
        narrower = _groups(columns, names, others, narrow - 1)
        if narrower is None or len(narrower) > len(groups):
            break
        groups, narrow = narrower, narrow - 1
    parts = []
    for group in groups:
        part = _fit(columns, [*names, *group], width)
        if part is not None:
            parts.append(part)
    return parts


def _groups(
    columns: Sequence[Column], names: Sequence[int], others: Sequence[int], width: int
) -> list[list[int]] | None:
    """The other columns in as few groups as fit beside the names, in their order."""
    groups: list[list[int]] = [[]]
    for i in others:
        if _fit(columns, [*names, *groups[-1], i], width) is not None:
            groups[-1].append(i)
        elif groups[-1] and _fit(columns, [*names, i], width) is not None:
            groups.append([i])
        else:
            return None
    return groups


def _fit(columns: Sequence[Column], chosen: Sequence[int], width: int) -> Part | None:
    """The widths of columns that fit together, as near to the natural ones as can be; None where they do not."""
    room = width - _BORDER * len(chosen) - 1
    if sum(columns[i].least for i in chosen) > room:
        return None
    widths = {i: columns[i].natural for i in chosen}
    while sum(widths.values()) > room:
        can_shrink = [i for i in chosen if widths[i] > columns[i].least]
        widest = max(can_shrink, key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _grid(columns: Sequence[Column], part: Part, best: set[tuple[int, int]]) -> Any:
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable()
    for i, width in part.items():
        head = "\n".join(wrapped(columns[i].head, width))
        grid.add_column(Text(head), justify=columns[i].side, no_wrap=True, min_width=width)
    for row in range(len(columns[0].cells)):
        cells = []
        for i, width in part.items():
            text = "\n".join(wrapped(columns[i].cells[row], width))
            cells.append(Text(text, style="bold" if (row, i) in best else ""))
        grid.add_row(*cells)
    return grid


def _blocks(columns: Sequence[Column], width: int, best: set[tuple[int, int]], line: str) -> Iterator[Any]:
    """Every row as lines of "head  cell", between rules."""
    from rich.text import Text

    rule = Text(line * width, style="dim")
    side = min(max(_width(column.head) for column in columns), width // 3)
    for row in range(len(columns[0].cells)):
        yield rule
        for i, column in enumerate(columns):
            heads = wrapped(column.head, side)
            cells = wrapped(column.cells[row], max(1, width - side - 2))
            for head, cell in zip_longest(heads, cells, fillvalue=""):
                text = Text(head + " " * (side - _width(head) + 2))
                text.append(cell, style="bold" if (row, i) in best else "")
                yield text
    yield rule


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many columns; broken at blanks, what is longer at separators, what is longer still anywhere.

    Example:
        >>> wrapped("negative 250 / positive 250", 14), wrapped("runs/mock-1-mlp/model", 10), wrapped("abcdef", 4)
        (['negative 250 /', 'positive 250'], ['runs/mock-', '1-mlp/', 'model'], ['abcd', 'ef'])
    """
    return _filled(text, width, (_words, str.split, _SEPARATED.findall, list))


def _filled(text: str, width: int, splits: Sequence[Callable[[str], list[str]]]) -> list[str]:
    if _width(text) <= width or not splits:
        return [text]
    split, *finer = splits
    joint = " " if split in (_words, str.split) else ""
    lines: list[str] = []
    for piece in split(text):
        if lines and _width(lines[-1]) + _width(joint + piece) <= width:
            lines[-1] += joint + piece
        else:
            lines += _filled(piece, width, finer)
    return lines


def _words(text: str) -> list[str]:
    """The parts between blanks, a number with the word before it."""
    return _NUMBER_STAYS.split(text.strip())


def _width(text: str) -> int:
    """Columns of a terminal that a text takes: two for a Chinese character."""
    from rich.cells import cell_len

    return cell_len(text)
