r"""An appendix as LaTeX for pdflatex: sections to \input, and a document around them that compiles by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attn_faithful.reports.appendix.document import Cited, Grid, Line, Maths, Name, Part, Section, cited
from attn_faithful.reports.escaping import latex, plain, preamble
from attn_faithful.reports.tables.table import latex_row

PACKAGES = ("amsmath", "array", "booktabs", "longtable")
SECTIONS, BIBLIOGRAPHY = "sections", "references"  # names of the files beside the document, without endings
_WORD = re.compile(r"[^-/_.:,= ]*[-/_.:,= ]|[^-/_.:,= ]+")  # with the separator after it
_PIECE = 12  # letters, after which a long name without separators may break
_BREAK = r"\allowbreak{}"


def as_sections(sections: Sequence[Section]) -> str:
    r"""The sections alone, for ``\input`` in a paper that loads `PACKAGES`."""
    lines = [f"% for \\input; needs the packages {', '.join(PACKAGES)}, and works cited from {BIBLIOGRAPHY}.bib"]
    body: list[str] = []
    for section in sections:
        body += [rf"\subsection*{{{latex(section.title)}}}", ""]
        for block in section.blocks:
            if isinstance(block, Grid):
                body += _grid(block)
            else:
                body.append(_line(block.line))
            body.append("")
    return "\n".join([*lines, *preamble(body), r"\begingroup\sloppy", *body, r"\endgroup"]) + "\n"


def as_document(title: str, sections: Sequence[Section]) -> str:
    """A document that sets the sections and their references."""
    works = cited(sections)
    ending = [rf"\bibliographystyle{{plain}}\bibliography{{{BIBLIOGRAPHY}}}"] if works else []
    heading = latex(title)
    lines = [
        f"% pdflatex appendix, bibtex appendix, pdflatex appendix twice; the text is in {SECTIONS}.tex",
        r"\documentclass[10pt,a4paper]{article}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[margin=2cm]{geometry}",
        *(rf"\usepackage{{{name}}}" for name in PACKAGES),
        *preamble([heading]),
        r"\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}",
        r"\begin{document}",
        rf"\section*{{{heading}}}",
        rf"\input{{{SECTIONS}}}",
        r"{\small",
        *ending,
        r"}",
        r"\end{document}",
    ]
    return "\n".join(lines) + "\n"


def _grid(grid: Grid) -> Iterator[str]:
    columns = "".join(map(_column, grid.widths))
    yield r"{\footnotesize\setlength{\tabcolsep}{3pt}\setlength{\LTpre}{2pt}\setlength{\LTpost}{4pt}"
    yield rf"\begin{{longtable}}[l]{{@{{}}{columns}@{{}}}}"
    yield r"\toprule"
    yield latex_row(map(latex, grid.head))
    yield r"\midrule\endhead"
    yield r"\bottomrule\endlastfoot"
    for row in grid.rows:
        yield latex_row(map(_line, row))
    yield r"\end{longtable}}"


def _column(width: float | None) -> str:
    if width is None:
        return "r"
    return rf">{{\raggedright\arraybackslash}}p{{{width}\linewidth}}"


def _line(line: Line) -> str:
    return "".join(map(_part, line))


def _part(part: Part) -> str:
    if isinstance(part, Maths):
        return f"${part.tex}$"
    if isinstance(part, Cited):
        return rf"\cite{{{','.join(part.keys)}}}"
    if isinstance(part, Name):
        return _breakable(part.text)
    return _text(part)


def _text(text: str) -> str:
    """Text of ours, whose blanks at either end count."""
    before = " " if text[:1].isspace() else ""
    after = " " if text[1:] and text[-1:].isspace() else ""
    return f"{before}{latex(text)}{after}"


def _breakable(text: str) -> str:
    """A name that may break after separators, and within what is long without any."""
    pieces: list[str] = []
    for word in _WORD.findall(plain(text)):
        if len(word) < 2 * _PIECE:
            pieces.append(word)
        else:
            pieces += [word[start : start + _PIECE] for start in range(0, len(word), _PIECE)]
    broken = ""
    for piece in pieces:
        escaped = _escaped(piece)
        broken += escaped if escaped.endswith(" ") else escaped + _BREAK
    return broken.removesuffix(_BREAK)


def _escaped(piece: str) -> str:
    """A piece as LaTeX sets it; `latex` drops blanks at the ends."""
    before = " " if piece[:1] == " " else ""
    after = " " if piece[1:] and piece[-1:] == " " else ""
    return f"{before}{latex(piece)}{after}"
