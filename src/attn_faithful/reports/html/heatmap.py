"""One text with its importances as shades: coloured words for a terminal, a fragment of HTML for a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from attn_faithful.reports.characters import visible, writable
from attn_faithful.reports.examples import Examples, Line
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import HUES, OTHER, Hue, between, channels, tint

FAINT, STRONG = 0.3, 0.8  # tints of a terminal's ground: of the smallest weight that is shaded, and of the largest
DEPTH, WEAKEST = 0.45, 0.4  # in a notebook: of the largest weight, and the share of it that the smallest has
SHADED = 0.08  # share of the line's largest weight from which on a word is shaded
_UNDEFINED = "dim italic"  # style of a word without a value
_TOP = 5  # words that a plain line names
_NOTE_WIDTH = 34  # letters of a note in a terminal

_ROW = Markup(
    '<tr><th style="text-align:start;vertical-align:top;line-height:1.75;white-space:nowrap;'
    'padding:2px 14px 2px 0">{}</th>'
    '<td dir="auto" style="text-align:start;line-height:1.75;padding:2px 0">{}</td>'
    '<td style="text-align:start;vertical-align:top;line-height:1.75;opacity:.7;'
    'padding:2px 0 2px 14px">{}</td></tr>'
)
_QUERY = Markup('<div dir="auto" style="opacity:.7">asked: {}</div>')
_ABOUT = Markup("<div>{}</div>")
_FRAME = Markup(
    '<div style="margin:.4em 0 1em"><div><b>{}</b></div>{}{}<table style="border-collapse:collapse"><tbody>{}'
    "</tbody></table></div>"
)
_WORD = Markup('<span style="{}">{}</span>')
_WEIGHTED_WORD = Markup('<span style="{}" title="{}: {}">{}</span>')


@dataclass(frozen=True)
class Heatmap:
    """One text and its lines.

    Attributes:
        title: the prediction, in words.
        words: the items, in order; equal ones stay apart.
        joined: of each whether no blank stands before it.
        lines: what to show under one another.
        query: of pairs, the text that asks.
        about: what is known of its attention, in words; empty where that is said elsewhere.
    """

    title: str
    words: Sequence[str]
    joined: Sequence[bool]
    lines: Sequence[Line]
    query: str | None = None
    about: str = ""

    def _repr_html_(self) -> str:
        return str(self.html())

    def html(self) -> Markup:
        """A fragment with its own styles, everything escaped; values stand on hover."""
        rows = []
        for line in self.lines:
            rows.append(_ROW.format(line.kind.title, self._spans(line), line.note))
        query = Markup("")
        if self.query is not None:
            query = _QUERY.format(self.query)
        about = Markup("")
        if self.about:
            about = _ABOUT.format(self.about)
        return _FRAME.format(self.title, query, about, Markup("").join(rows))

    def _spans(self, line: Line) -> Markup:
        spans = []
        for i, (word, joined) in enumerate(zip(self.words, self.joined, strict=True)):
            spans.append("" if joined else " ")
            spans.append(_span(word, i, line))
        return Markup("").join(spans)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.table import Table
        from rich.text import Text

        def shown(text: str) -> str:
            return writable(text, options.encoding)

        yield Text(shown(self.title), style="bold")
        if self.query is not None:
            yield Text(shown(f"asked: {self.query}"), style="dim")
        if self.about:
            yield Text(shown(self.about))
        title_width = self._title_width()
        note_width = min(_NOTE_WIDTH, options.max_width // 4)
        text_width = max(20, options.max_width - title_width - note_width - 4)
        words = [shown(word) for word in self.words]
        wrapped, notes = [], []
        for line in self.lines:
            wrapped.append(self._text(words, line).wrap(console, text_width))
            notes.append(shown(line.note))
        table = Table.grid(padding=(0, 2))
        for width in (title_width, text_width, note_width):
            table.add_column(width=width)
        self._add_rows(table, wrapped, notes)
        yield table

    def _add_rows(self, table: Any, wrapped: Sequence[Any], notes: Sequence[str]) -> None:
        """All lines of the text's first part, then of its second; below the first, only lines that mark a word."""
        from rich.text import Text

        marked_before = False
        n_parts = max(map(len, wrapped), default=0)
        for part in range(n_parts):
            marked = [i for i, text in enumerate(wrapped) if part == 0 or _is_marked(text[part])]
            if part and (marked or marked_before):
                table.add_row("", "", "")
            for i in marked:
                title = Text(self.lines[i].kind.title, style="bold")
                note = Text("" if part else notes[i], style="dim")
                table.add_row(title, wrapped[i][part], note)
            if not marked:
                table.add_row("", wrapped[0][part].plain, "")
            marked_before = bool(marked)

    def _text(self, words: Sequence[str], line: Line) -> Any:
        from rich.text import Text

        text = Text()
        for i, (word, joined) in enumerate(zip(words, self.joined, strict=True)):
            if i and not joined:
                text.append(" ")
            text.append(word, _style(i, line))
        return text

    def __str__(self) -> str:
        """Without colours: the words with the largest values, in the order of the text."""
        width = self._title_width()
        lines = [self.title]
        if self.query is not None:
            lines.append(f"  asked: {self.query}")
        if self.about:
            lines.append(f"  {self.about}")
        for line in self.lines:
            lines.append(f"  {line.kind.title:<{width}}  {self._named(line)}")
        return "\n".join(map(visible, lines))

    def _title_width(self) -> int:
        return max((len(line.kind.title) for line in self.lines), default=0)

    def _named(self, line: Line) -> str:
        note = f"  ({line.note})" if line.note else ""
        if line.places is not None:
            return ", ".join(self.words[place] for place in line.places) + note
        weights = [_weight(i, line) for i in range(len(self.words))]
        shares = np.array([share for _, share in weights])
        count = min(_TOP, int((shares >= SHADED).sum()))
        largest = np.argsort(-shares, kind="stable")[:count]
        names = []
        for i in sorted(largest.tolist()):
            value, _ = weights[i]
            names.append(f"{self.words[i]} {number(value)}")
        return ", ".join(names) + note


def heatmap(examples: Examples, i: int, kinds: Sequence[str] | None = None) -> Heatmap:
    """The heat map of one text.

    Args:
        examples: of a run.
        i: its place.
        kinds: keys of the lines; None for those that are shown at first.
    """
    lines = []
    for line in examples.lines(i):
        chosen = line.kind.shown if kinds is None else line.kind.key in kinds
        if chosen:
            lines.append(line)
    about = ""
    if len(examples) > 1:  # of one text the answer says it
        about = examples.about_heads(i)
    return Heatmap(_title(examples, i), examples.words(i), examples.joined(i), lines, examples.query(i), about)


def _title(examples: Examples, i: int) -> str:
    """The number of a text, its predicted classes with their probabilities, and the gold class."""
    run = examples.run
    names, probabilities, label = run.label_names, run.probabilities[i], run.labels[i]
    if isinstance(label, list):
        classes = []
        for name, probability in zip(names, probabilities, strict=True):
            if probability >= 0.5:
                classes.append(f"{name} {probability:.2f}")
        return f"#{i + 1}, predicted {', '.join(classes) or 'none'}"
    predicted = run.predicted[i]
    if predicted < 0:
        return f"#{i + 1}, not predicted"
    title = f"#{i + 1}, predicted {names[predicted]} {probabilities[predicted]:.2f}"
    if label is not None and 0 <= label < len(names):
        title += f" (gold {names[label]})"
    return title


def _hue(line: Line) -> Hue:
    return HUES.get(line.kind.hue, OTHER)


def _weight(i: int, line: Line) -> tuple[float, float]:
    """A word's value, and its magnitude as a share of the largest of the line."""
    values = line.values
    if values is None or i >= len(values):
        return math.nan, 0.0
    value = float(values[i])
    largest = float(np.fmax.reduce(np.abs(values)))  # NaN where all are
    if math.isnan(value) or not largest > 0:
        return value, 0.0
    return value, abs(value) / largest


def _span(word: str, i: int, line: Line) -> Markup:
    """A word of a notebook's line: outlined, or in a shade by its weight."""
    if line.places is not None:
        outline = "box-shadow:inset 0 0 0 1.5px currentcolor;" if i in line.places else ""
        return _WORD.format(f"{outline}border-radius:4px;padding:0 2px", word)
    value, share = _weight(i, line)
    red, green, blue = channels(between(_hue(line)))
    style = f"background:rgba({red},{green},{blue},{_depth(share):.3f});border-radius:4px;padding:0 2px"
    if value < 0:
        style += ";text-decoration:underline dotted"
    value_text = "undefined" if math.isnan(value) else f"{value:.3g}"
    return _WEIGHTED_WORD.format(style, word, value_text, word)


def _depth(share: float) -> float:
    """The opacity of a word's colour in a notebook; a step at `SHADED` sets larger weights apart."""
    if share < SHADED:
        return DEPTH * share
    return DEPTH * (WEAKEST + (1 - WEAKEST) * share)


def _is_marked(text: Any) -> bool:
    """Whether a word of a terminal's line stands out."""
    return any(span.style and span.style != _UNDEFINED for span in text.spans)


def _style(i: int, line: Line) -> str:
    """The style of a word in a terminal; it sets ground and ink, as the terminal may be dark or light."""
    if line.places is not None:
        return "bold underline" if i in line.places else ""
    value, share = _weight(i, line)
    if math.isnan(value):
        return _UNDEFINED
    if share < SHADED:
        return ""
    ground = tint(_hue(line).light, FAINT + (STRONG - FAINT) * share)
    style = f"#000000 on {ground}"
    return f"{style} underline" if value < 0 else style
