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
from attn_faithful.reports.palette import HUES, OTHER, Hue, between, tint
from attn_faithful.reports.tables.table import number

FAINT, STRONG = 0.3, 0.8  # tints of a terminal's ground: of the smallest weight that is shaded, and of the largest
DEPTH, WEAKEST = 0.45, 0.4  # in a notebook: of the largest weight, and the share of it that the smallest has
SHADED = 0.08  # share of the line's largest weight from which on a word is shaded
_UNDEFINED = "dim italic"  # style of a word without a value
_TOP = 5  # words that a plain line names


@dataclass(frozen=True)
class Heatmap:
    """One text and its lines.

    Attributes:
        title: what the model said of it.
        words: the items, in order; equal ones stay apart.
        joined: of each whether no blank stands before it.
        lines: what to show under one another.
        query: of pairs, the text that asks.
    """

    title: str
    words: Sequence[str]
    joined: Sequence[bool]
    lines: Sequence[Line]
    query: str | None = None

    def _repr_html_(self) -> str:
        return str(self.html())

    def html(self) -> Markup:
        """A fragment with its own styles, everything escaped; values stand on hover."""
        rows = []
        for line in self.lines:
            pieces = [
                Markup("{}{}").format("" if joined else " ", _span(word, i, line))
                for i, (word, joined) in enumerate(zip(self.words, self.joined, strict=True))
            ]
            row = Markup(
                '<tr><th style="text-align:start;vertical-align:top;line-height:1.75;white-space:nowrap;'
                'padding:2px 14px 2px 0">{}</th>'
                '<td dir="auto" style="text-align:start;line-height:1.75;padding:2px 0">{}</td>'
                '<td style="text-align:start;vertical-align:top;line-height:1.75;opacity:.7;'
                'padding:2px 0 2px 14px">{}</td></tr>'
            )
            rows.append(row.format(line.kind.title, Markup("").join(pieces), line.note))
        asked = "" if self.query is None else Markup('<div dir="auto" style="opacity:.7">asked: {}</div>')
        frame = Markup(
            '<div style="margin:.4em 0 1em"><div><b>{}</b></div>{}<table style="border-collapse:collapse"><tbody>{}'
            "</tbody></table></div>"
        )
        return frame.format(self.title, asked.format(self.query) if asked else "", Markup("").join(rows))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.table import Table
        from rich.text import Text

        def shown(text: str) -> str:
            return writable(text, options.encoding)

        yield Text(shown(self.title), style="bold")
        if self.query is not None:
            yield Text(shown(f"asked: {self.query}"), style="dim")
        label = max((len(line.kind.title) for line in self.lines), default=0)
        note = min(34, options.max_width // 4)
        width = max(20, options.max_width - label - note - 4)
        words = [shown(word) for word in self.words]
        texts = [self._text(words, line).wrap(console, width) for line in self.lines]
        table = Table.grid(padding=(0, 2))
        for size in (label, width, note):
            table.add_column(width=size)
        held_before = False
        for part in range(max(map(len, texts), default=0)):
            # below the first part, lines of which it holds nothing are left out
            held = [
                (line, wrapped[part])
                for line, wrapped in zip(self.lines, texts, strict=True)
                if not part or _is_marked(wrapped[part])
            ]
            if part and (held or held_before):
                table.add_row("", "", "")
            for line, text in held:
                about = Text("" if part else shown(line.note), style="dim")
                table.add_row(Text(line.kind.title, style="bold"), text, about)
            if not held:
                table.add_row("", texts[0][part].plain, "")
            held_before = bool(held)
        yield table

    def _text(self, words: Sequence[str], line: Line) -> Any:
        from rich.text import Text

        text = Text()
        for i, (word, joined) in enumerate(zip(words, self.joined, strict=True)):
            text.append("" if joined or not i else " ")
            text.append(word, _style(i, line))
        return text

    def __str__(self) -> str:
        """Without colours: the words with the largest values, in the order of the text."""
        label = max((len(line.kind.title) for line in self.lines), default=0)
        asked = [] if self.query is None else [f"  asked: {self.query}"]
        said = [f"  {line.kind.title:<{label}}  {self._named(line)}" for line in self.lines]
        return "\n".join(map(visible, [self.title, *asked, *said]))

    def _named(self, line: Line) -> str:
        note = f"  ({line.note})" if line.note else ""
        if line.places is not None:
            return ", ".join(self.words[place] for place in line.places) + note
        values = line.values if line.values is not None else np.zeros(0)
        shares = np.array([_weight(i, line)[1] for i in range(len(self.words))])
        order = np.argsort(-shares, kind="stable")[: min(_TOP, int((shares >= SHADED).sum()))]
        return ", ".join(f"{self.words[i]} {number(values[i])}" for i in sorted(order.tolist())) + note


def heatmap(examples: Examples, i: int, kinds: Sequence[str] | None = None) -> Heatmap:
    """The heat map of one text.

    Args:
        examples: of a run.
        i: its place.
        kinds: keys of the lines; None for those that are shown at first.
    """
    lines = [line for line in examples.lines(i) if (line.kind.shown if kinds is None else line.kind.key in kinds)]
    return Heatmap(_title(examples, i), examples.words(i), examples.joined(i), lines, examples.query(i))


def _title(examples: Examples, i: int) -> str:
    run = examples.run
    names, chances, label = run.label_names, run.probabilities[i], run.labels[i]
    if isinstance(label, list):
        told = ", ".join(f"{name} {chance:.2f}" for name, chance in zip(names, chances, strict=True) if chance >= 0.5)
        return f"#{i + 1}, predicted {told or 'none'}"
    if run.predicted[i] < 0:
        return f"#{i + 1}, not predicted"
    gold = f" (gold {names[label]})" if label is not None and 0 <= label < len(names) else ""
    return f"#{i + 1}, predicted {names[run.predicted[i]]} {chances[run.predicted[i]]:.2f}{gold}"


def _hue(line: Line) -> Hue:
    return HUES.get(line.kind.hue, OTHER)


def _weight(i: int, line: Line) -> tuple[float, float]:
    """A word's value, and its magnitude as a share of the largest of the line."""
    values = line.values
    if values is None or i >= len(values):
        return math.nan, 0.0
    largest = float(np.fmax.reduce(np.abs(values)))  # NaN where all are
    value = float(values[i])
    return value, abs(value) / largest if largest > 0 and value == value else 0.0


def _span(word: str, i: int, line: Line) -> Markup:
    colour = between(_hue(line))
    if line.places is not None:
        outline = "box-shadow:inset 0 0 0 1.5px currentcolor;" if i in line.places else ""
        style = f"{outline}border-radius:4px;padding:0 2px"
        return Markup('<span style="{}">{}</span>').format(style, word)
    value, share = _weight(i, line)
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    style = f"background:rgba({red},{green},{blue},{_depth(share):.3f});border-radius:4px;padding:0 2px"
    style += ";text-decoration:underline dotted" if value < 0 else ""
    said = "undefined" if value != value else f"{value:.3g}"
    return Markup('<span style="{}" title="{}: {}">{}</span>').format(style, word, said, word)


def _depth(share: float) -> float:
    """How much of its colour a word has in a notebook; what counts can be told from nothing."""
    if share < SHADED:
        return DEPTH * share
    return DEPTH * (WEAKEST + (1 - WEAKEST) * share)


def _is_marked(text: Any) -> bool:
    """Whether a word of a terminal's line stands out."""
    return any(span.style and span.style != _UNDEFINED for span in text.spans)


def _style(i: int, line: Line) -> str:
    """Of a word in a terminal whose ground may be dark or light: so the ground is set wherever the ink is."""
    if line.places is not None:
        return "bold underline" if i in line.places else ""
    value, share = _weight(i, line)
    if value != value:
        return _UNDEFINED
    if share < SHADED:
        return ""
    ground = tint(_hue(line).light, FAINT + (STRONG - FAINT) * share)
    return f"#000000 on {ground}" + (" underline" if value < 0 else "")
