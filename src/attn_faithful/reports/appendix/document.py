"""A text with mathematics, citations and tables, before it is LaTeX or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Maths:
    """A formula within a line, in LaTeX's mathematics."""

    tex: str


@dataclass(frozen=True)
class Cited:
    """Works, by their keys."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class Name:
    """What a user or a machine named, such as a label, a path or a digest: it may be long, and breaks anywhere."""

    text: str


Part = str | Maths | Cited | Name
Line = tuple[Part, ...]


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    line: Line


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        head: of the columns.
        rows: a line a cell.
        widths: share of the page that a column takes; None for one as wide as its numbers, which stand to the right.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[Line, ...], ...]
    widths: tuple[float | None, ...]


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Paragraph | Grid, ...] = field(default=())


def cited(sections: Sequence[Section]) -> list[str]:
    """The keys of all works that are cited, each once, in the order of the text."""
    keys: dict[str, None] = {}
    for part in _parts(sections):
        if isinstance(part, Cited):
            keys.update(dict.fromkeys(part.keys))
    return list(keys)


def _parts(sections: Sequence[Section]) -> Iterator[Part]:
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Paragraph):
                yield from block.line
            else:
                for row in block.rows:
                    for line in row:
                        yield from line
