"""A histogram as inline SVG: bars in the colour of their card, each with its count on hover."""

from __future__ import annotations

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
    counts, edges = _counts(defined, low, high)
    other_counts, _ = _counts(others, low, high)
    top = max(counts.max(), other_counts.max())
    shapes = list(_bars(counts.tolist(), edges, top))
    if len(others) > 1:
        steps = _steps(other_counts.tolist(), top)
        shapes.append(_OUTLINE.format(HEIGHT, steps, HEIGHT, name))
    quartiles = [number(value, 2) for value in np.percentile(defined, (25, 50, 75))]
    label = f"Distribution of {axis}: {len(defined):,} texts, quartiles {', '.join(quartiles)}"
    return _FRAME.format(WIDTH, HEIGHT + FOOT, label, _RULE, Markup("").join(shapes), _marks(low, high, axis))


def _defined(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return array[np.isfinite(array)]


def _counts(values: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """How many values lie in each bin, and the edges of the bins."""
    return np.histogram(values.clip(low, high), bins=BINS, range=(low, high))


def _bars(counts: Sequence[int], edges: np.ndarray, top: int) -> Iterator[Markup]:
    """A bar a bin that holds something."""
    for i, count in enumerate(counts):
        if count == 0:
            continue
        height = max(1.0, HEIGHT * count / top)
        x, y = i * _STEP + 0.5, HEIGHT - height
        place = Markup(f'x="{x:.1f}" y="{y:.1f}" width="{_STEP - 1:.1f}" height="{height:.1f}"')
        title = f"{number(edges[i], 2)} to {number(edges[i + 1], 2)}: {count:,} texts"
        yield _BAR.format(place, title)


def _steps(counts: Sequence[int], top: int) -> Markup:
    """The path along the tops of bars."""
    steps = []
    for i, count in enumerate(counts):
        left, right = i * _STEP, (i + 1) * _STEP
        y = HEIGHT - HEIGHT * count / top
        steps.append(f"H{left:.1f} V{y:.1f} H{right:.1f}")
    return Markup(" ".join(steps))


def _marks(low: float, high: float, axis: str) -> Markup:
    """The ends of the axis, and its name between them."""
    y = HEIGHT + FOOT - 2
    marks = (
        _MARK.format("0", y, "start", f"{low:.3g}"),
        _MARK.format(f"{WIDTH / 2:g}", y, "middle", axis),
        _MARK.format(WIDTH, y, "end", f"{high:.3g}"),
    )
    return Markup("").join(marks)
