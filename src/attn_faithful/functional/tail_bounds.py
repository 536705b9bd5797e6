"""Proven bounds of what a model says under all attention of one row: linear bounds through the steps of its tail.

The attention is the input, so no softmax has to be relaxed, and a linear form over a product of simplices has its least
value at a vertex of each: both are exact. What is relaxed are activations (two parallel lines), products (the product
of two intervals around their middle) and the scale of each norm (an interval; bounds are taken at its ends, which is
exact for a scale that is free). Everything is rounded outwards: what float64 may have lost is added up and subtracted.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Linear, Norm, Product, Step, Sum
from attn_faithful.functional.tail_errors import Chain, Curved, ErrorsBelow, Relaxed
from attn_faithful.functional.tail_forms import OUTWARDS, UNIT, Form, Sets, largest
from attn_faithful.functional.tail_lengths import Errors, length_range
from attn_faithful.functional.tail_lines import Lines, Parabola
from attn_faithful.functional.tail_squares import Squares, least_with_squares
from attn_faithful.functional.tail_tangents import Tangent


def lowest_leads(sets: Sets, chain: Chain, margins: Tensor, bins: int = 1, tangents: bool = False) -> Tensor:
    """A proven lower bound (N, R) of ``margins @ logits`` over each set.

    Args:
        sets: of vectors z, see `Sets`.
        chain: the steps from z to the logits.
        margins: rows (N, R, C) of the logits, such as the decision's less each rival's.
        bins: parts into which the interval of the first norm's scale is split; more are tighter and cost as much more.
        tangents: whether norms are bounded by tangents in place of intervals of their scale, which is tighter for small
            sets; without bins.

    Raises:
        InputError: sets in another precision than float64.

    Example:
        >>> sets = Sets(torch.zeros(1, 2).double(), torch.eye(2).double()[None, None])
        >>> chain = Chain([Activation(0, "relu")])
        >>> lowest_leads(sets, chain, torch.tensor([[[1.0, -1.0]]]).double()).round(decimals=6)
        tensor([[-1.]], dtype=torch.float64)
    """
    if sets.centre.dtype != torch.float64:
        raise InputError(f"Expected sets in float64, but got {sets.centre.dtype}; pass tail.to(torch.float64).")
    if tangents:
        return _Bounds(sets, chain, None).least(margins)
    if not any(isinstance(step, Norm) for step in chain.steps):
        bins = 1
    edges = [part / bins for part in range(bins + 1)]
    of_bins = []
    for low, high in pairwise(edges):
        of_bins.append(_Bounds(sets, chain, (low, high)).least(margins))
    return torch.stack(of_bins).amin(0)


class _Bounds:
    """The values of a tail over sets, one step after another.

    Args:
        sets: N of them.
        chain: the steps.
        part: of the interval of the first norm's scale, as two shares of it; None for tangents of norms.
    """

    def __init__(self, sets: Sets, chain: Chain, part: tuple[float, float] | None) -> None:
        self.sets = sets
        self.chain = chain
        self.part = part
        self.tangents = part is None
        self.relaxed = Relaxed()
        self.forms = [Form.of(sets)]
        for number, step in enumerate(chain.steps, start=1):
            if any(source in self.relaxed.uncertain for source in step.sources):
                self.relaxed.uncertain.add(number)
            self.forms.append(self._form(number, step))

    def least(self, margins: Tensor) -> Tensor:
        """The lower bound (N, R) of rows (N, R, C) of the last value."""
        last = len(self.chain.steps)
        return self._lowest(last, self.forms[last].along(margins), margins)

    def _lowest(self, value: int, form: Form, rows: Tensor, noise: float = 0.0) -> Tensor:
        """The lower bound (N, R) of rows (N, R, D) of a value.

        Args:
            value: its number.
            form: the rows of its linear form.
            rows: of the value.
            noise: what rounding may have added to each number of the rows.
        """
        least = form.lower()  # (N, E, R)
        if value not in self.relaxed.uncertain:
            return least.amin(1)
        spread, squares, rest = self._below(value).squares(rows, noise)
        by_errors = (least - spread).amin(1)
        if not squares:
            return by_errors
        # between the ends each bound holds by itself: the better one at each end would not
        by_squares = (least_with_squares(form, squares) + rest).amin(1)
        return torch.maximum(by_errors, by_squares)

    def _form(self, number: int, step: Step) -> Form:
        if isinstance(step, Linear):
            return self.forms[step.of].linear(step.weight, step.bias, self.chain.row_sums[number])
        if isinstance(step, Sum):
            return self.forms[step.one].plus(self.forms[step.other])
        if isinstance(step, Norm):
            return self._normed(number, step)
        if isinstance(step, Activation):
            return self._bent(number, step)
        return self._gated(number, step)

    def _below(self, value: int) -> ErrorsBelow:
        return ErrorsBelow(self.chain, self.relaxed, value, self.forms[value].ends)

    def _interval(self, value: int) -> tuple[Tensor, Tensor]:
        """The least and the largest (N, D) that each number of a value can be."""
        form = self.forms[value]
        low = form.lower()
        high = form.upper()
        if value in self.relaxed.uncertain:
            spread = self._spread(value)
            low = low - spread
            high = high + spread
        return low.amin(1), high.amax(1)

    def _spread(self, value: int) -> Tensor:
        """What errors add to each number of a value, (N, E, D)."""
        step = self.chain.steps[value - 1]
        if isinstance(step, Linear):  # rows of the identity would be multiplied by the weight
            return self._below(step.of).spread(step.weight, key=("weight", value))
        form = self.forms[value]
        identity = torch.eye(form.constant.shape[-1], dtype=form.constant.dtype)
        return self._below(value).spread(identity, key=("identity",))

    def _normed(self, number: int, step: Norm) -> Form:
        """A norm at the least and the largest scale that it can have."""
        form = self.forms[step.of]
        centred = form.centred() if step.centred else form
        if self.tangents:
            return self._touched(number, step, centred)
        shortest, longest = length_range(centred, self._errors(step))
        # (N,) each
        lowest = step.scale(longest) * (1 - OUTWARDS)
        highest = step.scale(shortest) * (1 + OUTWARDS)
        if self.part is not None:
            start, end = self.part
            width = highest - lowest
            lowest, highest = lowest + start * width, (lowest + end * width) * (1 + OUTWARDS)
            self.part = None  # of the first norm alone
        ends = form.ends
        of_low = lowest[:, None].expand(-1, ends)
        of_high = highest[:, None].expand(-1, ends)
        scale = torch.cat([of_low, of_high], dim=1)  # (N, 2 E)
        self.relaxed.scales[number] = scale
        return centred.by_number(step.weight[None]).scaled(scale).shifted(step.bias[None])

    def _touched(self, number: int, step: Norm, centred: Form) -> Form:
        """A norm by its tangent."""
        tangent = Tangent.of(step, centred, self._errors(step))
        self.relaxed.tangents[number] = tangent
        self.relaxed.errors[number] = tangent.error * step.weight.abs() * (1 + OUTWARDS)
        self.relaxed.uncertain.add(number)
        return tangent.form(centred).by_number(step.weight[None]).shifted(step.bias[None])

    def _errors(self, step: Norm) -> Errors | None:
        """What errors add to the vector that a norm centres; None for none."""
        if step.of not in self.relaxed.uncertain:
            return None
        identity = torch.eye(len(step.weight), dtype=step.weight.dtype)
        centring = step.centre(identity)
        below = self._below(step.of)

        def rounding(rows: Tensor) -> float:
            return (len(step.weight) + 4) * UNIT * largest(rows)

        def along(rows: Tensor) -> Tensor:
            return below.spread(step.centre(rows), noise=rounding(rows))

        def least(form: Form, rows: Tensor) -> Tensor:
            return self._lowest(step.of, form, step.centre(rows), rounding(rows))

        key = ("centred", step.centred)
        return Errors(below.spread(centring, key), below.length(centring, key), along, least)

    def _bent(self, number: int, step: Activation) -> Form:
        """An activation between two parallel lines."""
        low, high = self._interval(step.of)
        curve = CURVES[step.name]
        lines = Lines.around(curve, low, high)
        form = self.forms[step.of]
        if step.of not in self.relaxed.uncertain and curve.bend is not None and Squares.fits(form):
            self.relaxed.curved[number] = Curved(form, Parabola.around(curve, lines, low, high))
        self.relaxed.slopes[number] = lines.slope
        self.relaxed.errors[number] = lines.error
        self.relaxed.uncertain.add(number)
        return form.by_number(lines.slope).shifted(lines.middle)

    def _gated(self, number: int, step: Product) -> Form:
        """A product around the middles of its factors: ``a b = m_b a + m_a b - m_a m_b + (a - m_a)(b - m_b)``."""
        low_one, high_one = self._interval(step.one)
        low_other, high_other = self._interval(step.other)
        middle_one = (low_one + high_one) / 2
        middle_other = (low_other + high_other) / 2
        # half of each width, and how far off rounding may have put the middle
        width_one = (high_one - low_one) / 2 + 2 * UNIT * largest(middle_one)
        width_other = (high_other - low_other) / 2 + 2 * UNIT * largest(middle_other)
        error = width_one * width_other
        self.relaxed.gates[number] = (middle_other, middle_one)
        self.relaxed.errors[number] = error * (1 + OUTWARDS) + OUTWARDS
        self.relaxed.uncertain.add(number)
        one = self.forms[step.one].by_number(middle_other)
        other = self.forms[step.other].by_number(middle_one)
        return one.plus(other).shifted(-middle_one * middle_other)
