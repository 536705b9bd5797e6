"""A histogram as inline SVG: bars in the colour of their card, each with its count on hover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup

from attn_faithful.reports.numbers import number

BINS = 18
WIDTH, HEIGHT, FOOT = 220, 56, 12
_STEP = WIDTH / BINS  # width of a bin

_BAR = Markup('<rect class="bar" rx="1" {}><title>{}</title></rect>')
_OUTLINE = Markup('<path class="beside" d="M0 {} {} V{}"><title>{}</title></path>')
_RULE = Markup(f'<line class="rule" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>')
_MARK = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
_FRAME = Markup('<svg class="histogram" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>')


def histogram(
    values: Sequence[float], low: float, high: float, axis: str, *, beside: Sequence[float] = (), name: str = ""
) -> Markup:
    """The distribution of values over a fixed range; values outside are counted in the outer bars.

    Args:
        values: NaN is left out.
        low, high: of the axis.
        axis: what it says.
        beside: a second distribution, drawn as an outline.
        name: of that second one.

    Returns:
        an ``<svg>``; empty where fewer than two values are defined, which say nothing about a distribution.

    Example:
        >>> histogram([0.1, 0.2], 0, 1, "share").count("<rect"), histogram([0.1], 0, 1, "share")
        (2, Markup(''))
    """
    defined, others = _defined(values), _defined(beside)
    if len(defined) < 2:
        return Markup("")
    counts, edges = np.histogram(defined.clip(low, high), bins=BINS, range=(low, high))
    other_counts, _ = np.histogram(others.clip(low, high), bins=BINS, range=(low, high))
    top = max(counts.max(), other_counts.max())
    shapes = list(_bars(counts.tolist(), edges, top))
    if len(others) > 1:
        shapes.append(_OUTLINE.format(HEIGHT, _steps(other_counts.tolist(), top), HEIGHT, name))
    quartiles = ", ".join(number(value, 2) for value in np.percentile(defined, (25, 50, 75)))
    label = f"Distribution of {axis}: {len(defined):,} texts, quartiles {quartiles}"
    ends = ((0, "start", f"{low:.3g}"), (WIDTH / 2, "middle", axis), (WIDTH, "end", f"{high:.3g}"))
    marks = [_MARK.format(f"{x:g}", HEIGHT + FOOT - 2, anchor, text) for x, anchor, text in ends]
    return _FRAME.format(WIDTH, HEIGHT + FOOT, label, _RULE, Markup("").join(shapes), Markup("").join(marks))


def _defined(values: Sequence[float]) -> np.ndarray:
    return np.asarray([value for value in values if math.isfinite(value)], dtype=float)


def _bars(counts: Sequence[int], edges: np.ndarray, top: int) -> Iterator[Markup]:
    for i, count in enumerate(counts):
        if count == 0:
            continue
        height = max(1.0, HEIGHT * count / top)
        x, y = f"{i * _STEP + 0.5:.1f}", f"{HEIGHT - height:.1f}"
        place = Markup(f'x="{x}" y="{y}" width="{_STEP - 1:.1f}" height="{height:.1f}"')
        yield _BAR.format(place, f"{number(edges[i], 2)} to {number(edges[i + 1], 2)}: {count:,} texts")


def _steps(counts: Sequence[int], top: int) -> Markup:
    """The path along the tops of bars."""
    steps = []
    for i, count in enumerate(counts):
        steps.append(f"H{i * _STEP:.1f} V{HEIGHT - HEIGHT * count / top:.1f} H{(i + 1) * _STEP:.1f}")
    return Markup(" ".join(steps))
