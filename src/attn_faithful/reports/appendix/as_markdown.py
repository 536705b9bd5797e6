"""An appendix as Markdown: formulas between dollars, works by their authors and year."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.reports.appendix.bibliography import line, short
from attn_faithful.reports.appendix.document import Cited, Grid, Line, Maths, Name, Part, Section, cited
from attn_faithful.reports.escaping import markdown


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The whole text, with its references last."""
    parts = [f"# {markdown(title)}"]
    for section in sections:
        parts.append(f"## {section.title}")
        for block in section.blocks:
            if isinstance(block, Grid):
                parts.append("\n".join(_grid(block)))
            else:
                parts.append(_line(block.line))
    parts.append("## References")
    references = [f"- {markdown(line(key))}" for key in sorted(cited(sections))]
    parts.append("\n".join(references))
    return "\n\n".join(parts) + "\n"


def _grid(grid: Grid) -> Iterator[str]:
    yield _row(map(markdown, grid.head))
    yield _row("--:" if width is None else "---" for width in grid.widths)
    for row in grid.rows:
        yield _row(map(_line, row))


def _row(cells: object) -> str:
    return "| " + " | ".join(cells) + " |"  # type: ignore[arg-type]


def _line(parts: Line) -> str:
    return "".join(map(_part, parts))


def _part(part: Part) -> str:
    if isinstance(part, Maths):
        return f"${part.tex}$"
    if isinstance(part, Cited):
        names = [short(key) for key in part.keys]
        return f"({markdown('; '.join(names))})"
    if isinstance(part, Name):
        return markdown(part.text)
    return _text(part)


def _text(text: str) -> str:
    """Text of ours, whose blanks at either end count."""
    inner = text.strip()
    if not inner:
        return text
    before, after = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{before}{markdown(inner)}{after}"
