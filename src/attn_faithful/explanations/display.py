"""Explanations of other tools in a notebook: each text with its scored stretches in shades."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from attn_faithful.data.normalization import Span

SHOWN = 20  # texts that a notebook shows
_DEPTH = 0.45  # opacity of the largest score: ink is read on it in light and in dark
_COLOUR = "58,124,168"  # that of importance from elsewhere, see reports.palette
_STRETCH = Markup('<span style="background:rgba({},{:.3f});border-radius:4px{}" title="{}">{}</span>')
_TEXT = Markup('<p dir="auto" style="text-align:start;line-height:1.75;margin:.2em 0">{}{}</p>')
_TARGET = Markup('<b title="the class that the scores speak for">{}</b>: ')


def text_html(text: str, spans: Sequence[Span], scores: Sequence[float], target: str | None) -> Markup:
    """One text: scores as shades, those against the class underlined, values on hover; all of it is escaped.

    Args:
        text: raw.
        spans: (start, end) of each stretch in characters; what two of them hold is shown with the first.
        scores: one a stretch, NaN where there is none.
        target: the class; None for none.
    """
    largest = max((abs(score) for score in scores if not math.isnan(score)), default=0.0)
    parts, shown = Markup(""), 0
    for (start, end), score in sorted(zip(spans, scores, strict=True), key=lambda pair: pair[0]):
        start = max(start, shown)
        if end > start:
            parts += escape(text[shown:start]) + _stretch(text[start:end], score, largest)
            shown = end
    parts += escape(text[shown:])
    title = "" if target is None else _TARGET.format(target)
    return _TEXT.format(title, parts)


def _stretch(piece: str, score: float, largest: float) -> Markup:
    if math.isnan(score):
        return _STRETCH.format(_COLOUR, 0.0, "", "undefined", piece)
    share = abs(score) / largest if largest > 0 else 0.0
    line = ";text-decoration:underline dotted" if score < 0 and share > 0.01 else ""
    return _STRETCH.format(_COLOUR, _DEPTH * share, line, f"{score:.3g}", piece)


def texts_html(tool: str, texts: Sequence[Markup]) -> Markup:
    """Some texts of a tool, the first of them where they are many."""
    head = Markup("<p>{} of {:,} texts</p>").format(tool, len(texts))
    rest = Markup("")
    if len(texts) > SHOWN:
        rest = Markup("<p>... and {:,} more</p>").format(len(texts) - SHOWN)
    return head + Markup("").join(texts[:SHOWN]) + rest
