"""Two parallel lines around the curve of an activation on an interval, or two parabolas, which are nearer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.activations import Curve
from attn_faithful.functional.tail_forms import OUTWARDS, largest

_POINTS = 24  # of an interval at which a smooth activation is looked at


@dataclass(frozen=True)
class Lines:
    """Lines ``slope * x + middle + error`` and ``slope * x + middle - error``, between which a curve lies.

    Attributes:
        slope, middle, error: (N, D).

    Example:
        >>> from attn_faithful.functional.activations import CURVES
        >>> lines = Lines.around(CURVES["relu"], torch.tensor([[-1.0]]).double(), torch.tensor([[1.0]]).double())
        >>> lines.slope.item(), round(lines.middle.item(), 6), round(lines.error.item(), 6)
        (0.5, 0.25, 0.25)
    """

    slope: Tensor
    middle: Tensor
    error: Tensor

    @classmethod
    def around(cls, curve: Curve, low: Tensor, high: Tensor) -> Lines:
        """Those of the curve's chords on the intervals from ``low`` (N, D) to ``high`` (N, D)."""
        width = (high - low).clamp(min=1e-12)
        end = low + width
        slope = (curve.value(end) - curve.value(low)) / width
        if curve.bend is None:  # straight but for its kink at 0
            kink = torch.zeros_like(low).maximum(low).minimum(end)
            places = [low, kink, end]
            between = torch.zeros_like(low)
        else:
            step = width / (_POINTS - 1)
            places = [low + point * step for point in range(_POINTS)]
            between = curve.bend * step.square() / 8  # a chord is no farther from a curve of that bend
        heights = [curve.value(place) - slope * place for place in places]
        top, bottom = _extremes(heights)
        rounding = OUTWARDS * (1 + largest(top) + largest(bottom) + largest(end))
        return cls(slope, (top + bottom) / 2, (top - bottom) / 2 + between + rounding)


@dataclass(frozen=True)
class Parabola:
    """A curve is a chord's line plus ``bend * (x - centre)^2 + shift``, at most ``error`` off.

    Attributes:
        centre, bend, shift, error: (N, D).

    Example:
        >>> from attn_faithful.functional.activations import CURVES
        >>> low, high = torch.tensor([[-1.0]]).double(), torch.tensor([[1.0]]).double()
        >>> lines = Lines.around(CURVES["gelu"], low, high)
        >>> parabola = Parabola.around(CURVES["gelu"], lines, low, high)
        >>> round(lines.error.item(), 3), round(parabola.bend.item(), 3), round(parabola.error.item(), 3)
        (0.171, 0.341, 0.008)
    """

    centre: Tensor
    bend: Tensor
    shift: Tensor
    error: Tensor

    @classmethod
    def around(cls, curve: Curve, lines: Lines, low: Tensor, high: Tensor) -> Parabola:
        """Those through the curve at the ends and the middle of the intervals from ``low`` (N, D) to ``high`` (N, D).

        Args:
            curve: smooth.
            lines: around it on the intervals.
            low, high: the intervals.

        Raises:
            InputError: a curve with a kink.
        """
        if curve.bend is None:
            raise InputError("Expected a smooth curve, but got one with a kink; Lines.around bounds it.")
        half = ((high - low) / 2).clamp(min=1e-6)
        centre = (low + high) / 2
        start = centre - half
        chord = (curve.value(start) + curve.value(centre + half)) / 2
        bend = (chord - curve.value(centre)) / half.square()
        step = 2 * half / (_POINTS - 1)
        rests = []
        for point in range(_POINTS):
            away = point * step - half
            place = centre + away
            rests.append(curve.value(place) - lines.slope * place - lines.middle - bend * away.square())
        top, bottom = _extremes(rests)
        between = (curve.bend + 2 * bend.abs()) * step.square() / 8
        rounding = 8 * OUTWARDS * (1 + largest(lines.middle) + largest(lines.slope * centre) + largest(high))
        return cls(centre, bend, (top + bottom) / 2, (top - bottom) / 2 + between + rounding)


def _extremes(values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The largest and the least (N, D) of several."""
    top = bottom = values[0]
    for value in values[1:]:
        top = torch.maximum(top, value)
        bottom = torch.minimum(bottom, value)
    return top, bottom
