"""Linear forms over a product of simplices, of which the values of a tail are made, and what rounding adds to them.

A value of a tail is ``offset + factor * (constant + sum_f sum_v p_fv slopes_fv)`` for p in a product of simplices, plus
errors that `tail_errors` bounds. The factor is the scale of a norm, which is known within an interval alone. All that
follows is concave in the scale where it is bounded from below, so the ends of the interval are enough: every norm
doubles the axis E of ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

UNIT = 2.0**-53  # of rounding in float64
OUTWARDS = 1e-12  # relative, of numbers that a few operations make


@dataclass(frozen=True)
class Sets:
    """N sets of vectors, each a point plus one mixture of vertices from each of F groups.

    Attributes:
        centre: (N, D), float64.
        vertices: (N, F, V, D); a group with fewer than V has one of them several times.
        noise: what rounding may have added to each of these numbers.

    Example:
        >>> interval = Sets(torch.zeros(1, 1), torch.tensor([[[[-1.0], [2.0]]]]))
        >>> len(interval)
        1
    """

    centre: Tensor
    vertices: Tensor
    noise: float = 0.0

    def __len__(self) -> int:
        return len(self.centre)

    def rows(self, index: Tensor) -> Sets:
        """Some of them (R,)."""
        return replace(self, centre=self.centre[index], vertices=self.vertices[index])


@dataclass(frozen=True)
class Form:
    """A value as a linear form, at every combination of the ends of the scales below it.

    Attributes:
        offset: (N or 1, E or 1, D).
        factor: (N, E), positive; E is a multiple of I.
        constant: (N, I, D).
        slopes: (N, I, F, V, D).
        noise: what rounding may have added to each of these numbers.
    """

    offset: Tensor
    factor: Tensor
    constant: Tensor
    slopes: Tensor
    noise: float

    @classmethod
    def of(cls, sets: Sets) -> Form:
        """The vectors of sets themselves."""
        offset = torch.zeros_like(sets.centre[:, None])
        return cls(offset, torch.ones_like(offset[..., 0]), sets.centre[:, None], sets.vertices[:, None], sets.noise)

    @property
    def ends(self) -> int:
        return self.factor.shape[1]

    @property
    def total_noise(self) -> float:
        """What rounding may have added to a point of the form: to the offset, the constant and a mixture a group.

        And what it adds where these are put together.
        """
        groups = self.slopes.shape[2]
        factor = largest(self.factor)
        in_it = self.noise * (1 + factor * (1 + groups))
        terms = largest(self.constant) + groups * largest(self.slopes)
        return in_it + UNIT * (largest(self.offset) + (groups + 4) * factor * terms)

    @property
    def size(self) -> float:
        """The largest absolute number in it."""
        return max(largest(self.offset), largest(self.constant), largest(self.slopes))

    def whole(self) -> Form:
        """The same with the factor in the numbers, so that I is E."""
        factor = self.factor[..., None]  # (N, E, 1)
        times = self.ends // self.constant.shape[1]
        scaled = factor * self.constant.repeat(1, times, 1)
        constant = self.offset + scaled
        slopes = factor[..., None, None] * self.slopes.repeat(1, times, 1, 1, 1)
        size = max(1.0, largest(self.factor))
        form = Form(torch.zeros_like(constant[:, :1]), torch.ones_like(self.factor), constant, slopes, 0.0)
        added = UNIT * (largest(scaled) + 3 * form.size)
        return replace(form, noise=self.noise * (1 + size) + added)

    def scaled(self, factor: Tensor) -> Form:
        """Times a positive factor (N, E), E being a multiple of the ends of this value."""
        return replace(self.whole(), factor=factor)

    def by_number(self, factor: Tensor) -> Form:
        """Times a factor (N or 1, D) a number of the value."""
        offset = self.offset * factor[:, None]
        constant = self.constant * factor[:, None]
        slopes = self.slopes * factor[:, None, None, None]
        form = Form(offset, self.factor, constant, slopes, 0.0)
        return replace(form, noise=self.noise * largest(factor) + UNIT * form.size)

    def linear(self, weight: Tensor, bias: Tensor, row_sum: float) -> Form:
        """``W x + b`` with W (O, D) and b (O,).

        Args:
            weight, bias: W and b.
            row_sum: the largest sum of a row's absolute weights.
        """
        offset = self.offset @ weight.T + bias
        constant = self.constant @ weight.T
        slopes = self.slopes @ weight.T
        products = (weight.shape[1] + 4) * UNIT * row_sum * self.size
        noise = self.noise * row_sum + products + 2 * UNIT * largest(offset)
        return Form(offset, self.factor, constant, slopes, noise)

    def along(self, rows: Tensor) -> Form:
        """Rows (N, R, D) of the value: each a number of a new one."""
        transposed = rows.transpose(1, 2)  # (N, D, R)
        offset = self.offset @ transposed
        constant = self.constant @ transposed
        slopes = self.slopes @ transposed[:, None, None]
        row_sum = largest(rows.abs().sum(-1))
        products = (rows.shape[-1] + 4) * UNIT * row_sum * self.size
        return Form(offset, self.factor, constant, slopes, self.noise * row_sum + products)

    def centred(self) -> Form:
        """Less its mean over D."""
        offset = self.offset - self.offset.mean(-1, keepdim=True)
        constant = self.constant - self.constant.mean(-1, keepdim=True)
        slopes = self.slopes - self.slopes.mean(-1, keepdim=True)
        added = (self.constant.shape[-1] + 4) * UNIT * self.size
        return Form(offset, self.factor, constant, slopes, 2 * self.noise + added)

    def shifted(self, constant: Tensor) -> Form:
        """Plus a constant (N or 1, D) that one operation may have rounded."""
        offset = self.offset + constant[:, None]
        added = UNIT * (largest(offset) + largest(constant))
        return replace(self, offset=offset, noise=self.noise + added)

    def plus(self, other: Form) -> Form:
        """The sum of two; of values below the same norms, or below the first few of them."""
        one = self
        if one.factor is not other.factor:
            ends = max(one.ends, other.ends)
            one = one.whole().repeated(ends)
            other = other.whole().repeated(ends)
        form = Form(
            one.offset + other.offset, one.factor, one.constant + other.constant, one.slopes + other.slopes, 0.0
        )
        return replace(form, noise=one.noise + other.noise + UNIT * form.size)

    def repeated(self, ends: int) -> Form:
        """A whole form where more ends are told apart."""
        times = ends // self.ends
        constant = self.constant.repeat(1, times, 1)
        slopes = self.slopes.repeat(1, times, 1, 1, 1)
        return replace(self, factor=self.factor.repeat(1, times), constant=constant, slopes=slopes)

    def lower(self) -> Tensor:
        """The least of each number (N, E, D) over the sets."""
        least = self.constant + self.slopes.amin(3).sum(2)
        return self._at_factor(least) - self.total_noise

    def upper(self) -> Tensor:
        """The largest of each number (N, E, D) over the sets."""
        largest_sum = self.constant + self.slopes.amax(3).sum(2)
        return self._at_factor(largest_sum) + self.total_noise

    def _at_factor(self, values: Tensor) -> Tensor:
        """``offset + factor * values`` (N, E, D) of values (N, I, D)."""
        times = self.ends // values.shape[1]
        return self.offset + self.factor[..., None] * values.repeat(1, times, 1)


def largest(values: Tensor) -> float:
    """The largest absolute number of a tensor; 0 without any.

    Example:
        >>> largest(torch.tensor([1.0, -3.0]))
        3.0
    """
    if not values.numel():
        return 0.0
    low, high = torch.aminmax(values.detach())
    return max(-float(low), float(high))
