"""The tangent of a norm at a point of a set, and how far the norm is off it: near where the set is small.

Scales of norms that are free within an interval leave a gap in proportion to the size of a set, tangents one in
proportion to its square: they are what branching ends with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful.functional.tail import Norm
from attn_faithful.functional.tail_forms import OUTWARDS, UNIT, Form, largest
from attn_faithful.functional.tail_lengths import Errors, length_range


@dataclass(frozen=True)
class Tangent:
    """``x r(x) = scale x - pull (at . x) at + constant + e`` with ``|e| <= error``, r being the scale of a norm.

    Attributes:
        at: where it touches, (N, D).
        scale, pull: (N,).
        constant, error: (N, D).

    Example:
        >>> from attn_faithful.functional.tail_forms import Sets
        >>> norm = Norm(0, torch.ones(2).double(), torch.zeros(2).double(), 1e-5, centred=False)
        >>> point = Sets(torch.tensor([[1.0, 1.0]]).double(), torch.zeros(1, 1, 1, 2).double())
        >>> tangent = Tangent.of(norm, Form.of(point), None)
        >>> tangent.scale.round(decimals=4), bool((tangent.error < 1e-9).all())
        (tensor([1.], dtype=torch.float64), True)
    """

    at: Tensor
    scale: Tensor
    pull: Tensor
    constant: Tensor
    error: Tensor

    @classmethod
    def of(cls, step: Norm, form: Form, errors: Errors | None) -> Tangent:
        """That at the middle of a set.

        With ``d = x - at``, g the largest scale and X the largest x in the set: the second derivative of ``x r(x)``
        along d is at most ``2 g^2 |d| |d_i| / sqrt(D) + 2 X_i g^3 |d|^2 / D`` in number i; half of it bounds e.

        Args:
            step: the norm.
            form: what it centres, centred; with one end.
            errors: of the form; None for none.
        """
        whole = form.whole()
        at = whole.constant[:, 0] + whole.slopes[:, 0].mean(2).sum(1)  # (N, D)
        width = at.shape[-1]
        length = at.norm(dim=-1)
        scale = step.scale(length)
        pull = scale**3 / width
        constant = (pull * length.square())[:, None] * at
        low, high = whole.lower()[:, 0], whole.upper()[:, 0]
        if errors is not None:
            low = low - errors.each[:, 0]
            high = high + errors.each[:, 0]
        shortest, longest = length_range(form, errors)
        _, reach = length_range(whole.shifted(-at), errors)
        most = step.scale(shortest)  # (N,)
        farthest = torch.maximum((low - at).abs(), (high - at).abs())  # (N, D)
        size = torch.maximum(low.abs(), high.abs())
        by_move = (most.square() * reach / width**0.5)[:, None] * farthest
        by_place = (most**3 * reach.square() / width)[:, None] * size
        added = scale[:, None] * (size + at.abs()) + (scale.square() * longest / width**0.5)[:, None] * at.abs()
        return cls(at, scale, pull, constant, (by_move + by_place) * (1 + OUTWARDS) + OUTWARDS * added)

    @property
    def size(self) -> float:
        """The largest sum of a row's absolute numbers in the matrix of the tangent."""
        of_sets = self.scale + self.pull * self.at.abs().sum(-1) * self.at.abs().amax(-1)
        return largest(of_sets) * (1 + OUTWARDS)

    def matrix_times(self, values: Tensor) -> Tensor:
        """``scale x - pull (at . x) at`` of values x (N or 1, ..., D)."""
        shape = (len(self.at), *[1] * (values.dim() - 2))
        at = self.at.view(*shape, -1)
        along = (values * at).sum(-1, keepdim=True) * self.pull.view(*shape, 1)
        return self.scale.view(*shape, 1) * values - along * at

    def form(self, form: Form) -> Form:
        """The tangent of a form."""
        added = (form.constant.shape[-1] + 8) * UNIT * self.size * form.size
        turned = replace(
            form,
            offset=self.matrix_times(form.offset),
            constant=self.matrix_times(form.constant),
            slopes=self.matrix_times(form.slopes),
            noise=form.noise * self.size + added,
        )
        return turned.shifted(self.constant)
