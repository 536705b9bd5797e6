"""Numbers that follow from attention, as nodes: what is affine in the attention is folded, the rest is steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.tail import Linear, Norm, Product, Step, Sum


@dataclass(frozen=True, eq=False)
class Attended:
    """A vector affine in what the heads give: ``matrix @ given + shift``, in float64.

    Attributes:
        numbers: of each text, (R, D).
        matrix: (D, H * V), V numbers a head; None for the identity.
        shift: (R, D).
    """

    numbers: Tensor
    matrix: Tensor | None
    shift: Tensor

    @property
    def dense(self) -> Tensor:
        """The matrix, (D, H * V)."""
        if self.matrix is not None:
            return self.matrix
        return torch.eye(self.shift.shape[1], dtype=self.shift.dtype, device=self.shift.device)


@dataclass(frozen=True, eq=False)
class Fixed:
    """A vector that does not depend on the attention, such as a residual stream from before it.

    Attributes:
        numbers: of each text, (R, D).
    """

    numbers: Tensor


@dataclass(frozen=True, eq=False)
class Made:
    """A vector that a step makes of others, in float64.

    Attributes:
        numbers: of each text, (R, D).
        step: whose sources are not numbered yet.
        sources: of the step, in order.
    """

    numbers: Tensor
    step: Step
    sources: tuple[Node | Fixed, ...]


Start = Attended | Fixed  # what value 0 holds
Node = Attended | Made  # what depends on the attention


def made(step: Step, *sources: Node | Fixed) -> Made:
    """What a step makes."""
    numbers = step(*(source.numbers for source in sources))
    return Made(numbers, step, sources)


def linear(node: Node, weight: Tensor, bias: Tensor) -> Node:
    """``weight @ x + bias``, weight (O, D), bias (O,)."""
    if isinstance(node, Made):
        return made(Linear(0, weight, bias), node)
    matrix = weight if node.matrix is None else weight @ node.matrix  # (O, H * V)
    return Attended(F.linear(node.numbers, weight, bias), matrix, F.linear(node.shift, weight, bias))


def chosen(node: Node, index: Tensor) -> Node:
    """The numbers at an index (O,)."""
    size = node.numbers.shape[1]
    if len(index) == size and bool((index == torch.arange(size, device=index.device)).all()):
        return node
    if isinstance(node, Attended):
        return Attended(node.numbers[:, index], node.dense[index], node.shift[:, index])
    step = node.step
    if isinstance(step, Linear):
        return made(Linear(0, step.weight[index], step.bias[index]), *node.sources)
    rows = torch.eye(size, dtype=node.numbers.dtype, device=index.device)[index]  # (O, D)
    return made(Linear(0, rows, rows.new_zeros(len(index))), node)


def scaled(node: Node, scale: Tensor) -> Node | None:
    """``x * scale``, scale (R, D); None where it is not the same for all texts."""
    if not _same_for_all(scale):
        return None
    of_all = scale[0]  # (D,)
    if isinstance(node, Attended):
        return Attended(node.numbers * scale, node.dense * of_all[:, None], node.shift * scale)
    step = node.step
    if isinstance(step, Linear):
        return made(Linear(0, step.weight * of_all[:, None], step.bias * of_all), *node.sources)
    if isinstance(step, Norm):
        return made(replace(step, weight=step.weight * of_all, bias=step.bias * of_all), *node.sources)
    return made(Linear(0, of_all.diag(), torch.zeros_like(of_all)), node)


def shifted(node: Node, shift: Tensor) -> Node:
    """``x + shift``, shift (R, D): one for all texts goes into the step before, others are a vector of their own."""
    if isinstance(node, Attended):
        return Attended(node.numbers + shift, node.matrix, node.shift + shift)
    step = node.step
    if _same_for_all(shift) and isinstance(step, Linear | Norm):
        return made(replace(step, bias=step.bias + shift[0]), *node.sources)
    return made(Sum(0, 0), node, Fixed(shift))


def sum_of(one: Node, other: Node) -> Node:
    """``x + y``."""
    if isinstance(one, Attended) and isinstance(other, Attended):
        return Attended(one.numbers + other.numbers, one.dense + other.dense, one.shift + other.shift)
    return made(Sum(0, 0), one, other)


def product_of(one: Node, other: Node) -> Node:
    """``x * y``, number by number."""
    return made(Product(0, 0), one, other)


def _same_for_all(values: Tensor) -> bool:
    """Whether all texts have the same numbers (R, D)."""
    return bool((values == values[:1]).all())


def in_order(last: Node) -> tuple[list[Start], tuple[Step, ...]]:
    """The vectors that are no step's and that a node needs, and the numbered steps from these, one behind another.

    Value 0 holds these vectors one behind another; of several each is taken from it by a step of its own.
    """
    starts: list[Start] = []
    others: list[Made] = []
    _collect(last, starts, others, set())
    numbers: dict[int, int] = {}
    steps: list[Step] = []
    if len(starts) == 1:
        numbers[id(starts[0])] = 0
    else:
        for start, step in zip(starts, _parts(starts), strict=True):
            steps.append(step)
            numbers[id(start)] = len(steps)
    for node in others:
        sources = [numbers[id(source)] for source in node.sources]
        steps.append(_reading(node.step, sources))
        numbers[id(node)] = len(steps)
    return starts, tuple(steps)


def _collect(node: Node | Fixed, starts: list[Start], others: list[Made], seen: set[int]) -> None:
    """Nodes that a node needs and then itself, each once, behind those that it is made of."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Attended | Fixed):
        starts.append(node)
        return
    for source in node.sources:
        _collect(source, starts, others, seen)
    others.append(node)


def _parts(starts: Sequence[Start]) -> list[Linear]:
    """Steps that take each vector from all of them one behind another."""
    widths = [start.numbers.shape[1] for start in starts]
    first = starts[0].numbers
    everything = torch.eye(sum(widths), dtype=first.dtype, device=first.device)
    return [Linear(0, rows, rows.new_zeros(len(rows))) for rows in everything.split(widths)]


def _reading(step: Step, sources: Sequence[int]) -> Step:
    """A step that reads the values of these numbers."""
    if isinstance(step, Sum | Product):
        one, other = sources
        return replace(step, one=one, other=other)
    (of,) = sources
    return replace(step, of=of)


def gap_of(numbers: Tensor, others: Tensor) -> float:
    """The largest difference in shares of the largest number, or of 1 where none is as large; inf where one is NaN."""
    numbers = numbers.double()
    others = others.double()
    both_nan = numbers.isnan() & others.isnan()
    difference = torch.where(both_nan, 0.0, (numbers - others).abs())
    equal = (numbers == others) | both_nan  # of two infinite numbers there is no difference
    difference = torch.where(equal, 0.0, difference).nan_to_num(torch.inf)
    size = others.abs().nan_to_num(0.0, posinf=0.0).max().clamp(min=1.0)
    return float(difference.max() / size)
