"""A histogram as inline SVG: bars in the colour of what stands around it, each with its count on hover."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from attn_faithful.reports.tables.table import number

BINS = 18
WIDTH, HEIGHT, FOOT = 220, 56, 12


def histogram(
    values: Sequence[float], low: float, high: float, axis: str, *, beside: Sequence[float] = (), name: str = ""
) -> Markup:
    """The distribution of values over a fixed range; what lies outside stands in the outer bars.

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
    counts, edges = _counts(values, low, high)
    if counts.sum() < 2:
        return Markup("")
    others, _ = _counts(beside, low, high)
    step, top = WIDTH / BINS, max(counts.max(), others.max() if len(beside) else 0)
    parts = []
    for i, n in enumerate(counts.tolist()):
        if n:
            tall = max(1.0, HEIGHT * n / top)
            at = f'x="{i * step + 0.5:.1f}" y="{HEIGHT - tall:.1f}" width="{step - 1:.1f}" height="{tall:.1f}"'
            said = f"{number(edges[i], 2)} to {number(edges[i + 1], 2)}: {n:,} texts"
            parts.append(Markup('<rect class="bar" rx="1" {}><title>{}</title></rect>').format(Markup(at), said))
    if len(beside) and others.sum() > 1:
        path = " ".join(
            f"H{i * step:.1f} V{HEIGHT - HEIGHT * n / top:.1f} H{(i + 1) * step:.1f}"
            for i, n in enumerate(others.tolist())
        )
        outline = Markup('<path class="beside" d="M0 {} {} V{}"><title>{}</title></path>')
        parts.append(outline.format(HEIGHT, Markup(path), HEIGHT, name))
    defined = np.asarray([v for v in values if math.isfinite(v)])
    label = f"Distribution of {axis}: {len(defined):,} texts, quartiles " + ", ".join(
        number(q, 2) for q in np.percentile(defined, (25, 50, 75))
    )
    foot = HEIGHT + FOOT - 2
    ends = [(0, "start", f"{low:.3g}"), (WIDTH / 2, "middle", axis), (WIDTH, "end", f"{high:.3g}")]
    marks = [
        Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(f"{x:g}", foot, anchor, text)
        for x, anchor, text in ends
    ]
    frame = Markup('<svg class="histogram" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>')
    rule = Markup(f'<line class="rule" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"/>')
    return frame.format(WIDTH, HEIGHT + FOOT, label, rule, Markup("").join(parts), Markup("").join(marks))


def _counts(values: Sequence[float], low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    held = np.asarray([v for v in values if math.isfinite(v)], dtype=float)
    return np.histogram(held.clip(low, high), bins=BINS, range=(low, high))
