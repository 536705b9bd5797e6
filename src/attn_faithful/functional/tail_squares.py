"""A linear form plus weighted squares of another, bounded from below over a product of simplices.

The errors of a thousand curved units, each at its worst, add up to far more than any one attention makes of them: they
are nearly squares, their weights have both signs, and most of them cancel. Here squares are added up before the least
value is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.functional.tail_forms import UNIT, Form, largest

_MOST = 800  # vertices of all groups together, above which squares would cost more than they are worth
_CELLS = 2**22  # numbers of pairs in memory at once: 32 MB


@dataclass(frozen=True)
class Squares:
    """``factor * sum_d weights_d (x_d - centre_d)^2``.

    Attributes:
        form: x, which holds exactly, see `fits`.
        centre: (N, D).
        weights: (N, K, R, D), K being 1 or E.
        factor: (N, E), positive.
        noise: what rounding may have added to each weight.
    """

    form: Form
    centre: Tensor
    weights: Tensor
    factor: Tensor
    noise: float

    @staticmethod
    def fits(form: Form) -> bool:
        """Whether squares of a form are bounded: of few vertices, with one norm below at most that scales all of it."""
        _, of_ends, groups, vertices, _ = form.slopes.shape
        return form.ends <= 2 and of_ends == 1 and groups * vertices <= _MOST

    def bound(self) -> tuple[Tensor, Tensor]:
        """A constant (N, E, R) and slopes (N, E, R, F, V), with which the squares under shares p are no lower than
        ``constant + sum_fv p_fv slopes_fv``.

        With ``x - centre = u + s sum_fv p_fv d_fv`` for a scale s, the squares are ``w u^2``, plus ``2 s w u d`` along
        p, plus ``s^2 w d d'`` for pairs; each vertex is given its least pair in every group.
        """
        slopes = self.form.slopes[:, 0]  # (N, F, V, D)
        groups, vertices = slopes.shape[1:3]
        middle = slopes.mean(2)  # (N, F, D)
        around = slopes - middle[:, :, None]
        moves = around.flatten(1, 2)  # (N, F * V, D)
        inside = self.form.constant[:, 0] + middle.sum(1)  # (N, D)
        times = self.factor.shape[1] // self.form.ends
        scale = self.form.factor  # (N, ends of x)
        start = self.form.offset + scale[..., None] * inside[:, None] - self.centre[:, None]
        start = start.repeat(1, times, 1)  # (N, E, D)
        scale = scale.repeat(1, times)  # (N, E)

        constant = (self.weights @ start.square()[..., None])[..., 0]  # (N, E, R)
        along = (self.weights * start[:, :, None]) @ moves[:, None].transpose(2, 3)  # (N, E, R, F * V)
        by_scale = scale[..., None, None]
        bound = 2 * by_scale * along + by_scale.square() * self._least_pairs(moves)
        reach = around.abs().amax(2).sum(1)  # (N, D)
        size = largest(start) + largest(scale) * largest(reach)
        constant = constant - self._gap() - self._rounding(size)
        factor = self.factor[..., None]
        by_vertex = (factor[..., None] * bound).view(*bound.shape[:3], groups, vertices)
        return factor * constant, by_vertex

    def _least_pairs(self, moves: Tensor) -> Tensor:
        """For each vertex the sum over groups of its least ``sum_d w_d d_d d'_d``, (N, K, R, F * V)."""
        groups, vertices = self.form.slopes.shape[2:4]
        n, k, rows, _ = self.weights.shape
        at_once = max(1, _CELLS // (groups * vertices) ** 2)
        parts = []
        for start in range(0, n, at_once):
            some = slice(start, start + at_once)
            of_rows = []
            for weights in self.weights[some].flatten(1, 2).unbind(1):  # (n, D) each
                pairs = (moves[some] * weights[:, None]) @ moves[some].transpose(1, 2)  # (n, F * V, F * V)
                by_group = pairs.view(*pairs.shape[:2], groups, vertices)
                of_rows.append(by_group.amin(3).sum(2))
            parts.append(torch.stack(of_rows, dim=1))
        return torch.cat(parts).view(n, k, rows, groups * vertices)

    def _gap(self) -> Tensor:
        """How far squares may lie below the line between the ends of their scale, (N, K, R) or 0.

        Along the scale s they are a parabola of second derivative ``2 sum_d w_d y_d^2`` with ``x = offset + s y``.
        """
        if self.form.ends == 1:
            return torch.zeros_like(self.weights[..., 0])
        constant = self.form.constant[:, 0]
        slopes = self.form.slopes[:, 0]
        low = constant + slopes.amin(2).sum(1)
        high = constant + slopes.amax(2).sum(1)
        farthest = torch.maximum(low.abs(), high.abs()) * (1 + 1e-9) + self.form.total_noise  # (N, D)
        bend = self.weights.clamp(min=0) @ farthest.square()[:, None, :, None]  # (N, K, R, 1)
        half = (self.form.factor[:, 1] - self.form.factor[:, 0]) / 2  # (N,)
        return bend[..., 0] * (half.square() * (1 + 1e-9))[:, None, None]

    def _rounding(self, size: float) -> Tensor:
        """What rounding may have added to the bound, (N, K, R).

        Args:
            size: of the largest ``|u| + s sum_f max_v |d_fv|``.
        """
        groups, _, width = self.form.slopes.shape[2:]
        of_weights = self.weights.abs().sum(-1)  # (N, K, R)
        off = self.form.total_noise + (groups + 8) * UNIT * (size + largest(self.centre) + largest(self.form.offset))
        by_value = 4 * size * off + off**2
        by_sums = 8 * (width + 4 * groups + 24) * UNIT * size**2
        return of_weights * (by_value + by_sums) + self.noise * width * (size + off) ** 2


def least_with_squares(linear: Form, squares: Sequence[Squares]) -> Tensor:
    """A lower bound (N, E, R) of a form (N, E, R) plus squares.

    Example:
        >>> from attn_faithful.functional.tail_forms import Sets
        >>> x = Form.of(Sets(torch.zeros(1, 1).double(), torch.tensor([[[[-1.0], [1.0]]]]).double()))
        >>> one = torch.ones(1, 1, 1, 1).double()
        >>> squares = Squares(x, torch.zeros(1, 1).double(), -one, one[..., 0, 0], 0.0)
        >>> least_with_squares(x, [squares]).round(decimals=6)
        tensor([[[-2.]]], dtype=torch.float64)
    """
    whole = linear.whole()
    constant = whole.constant
    slopes = whole.slopes.permute(0, 1, 4, 2, 3)  # (N, E, R, F, V)
    for each in squares:
        of_squares, along = each.bound()
        constant = constant + of_squares
        slopes = slopes + along
    least: Tensor = constant + slopes.amin(4).sum(3)
    groups = slopes.shape[3]
    rounding = (groups + 4) * UNIT * (largest(constant) + groups * largest(slopes))
    return least - whole.total_noise - rounding
