"""What comes after the attention of one row of a model, as data: a vector linear in the weights, and steps from it.

`Tail.logits` is exact. `tail_bounds` bounds the logits over all attention, `tail_attack` searches the attention that
changes the decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.activations import CURVES


class TailUnknownError(InputError):
    """What comes after an attention is not known as data, or cannot be bounded.

    Args:
        message: why.
        why: the same in a few words, for tables; None for the message.

    Example:
        >>> TailUnknownError("MyModel: the function sort after the attention is not understood.", "MyModel, sort").why
        'MyModel, sort'
    """

    def __init__(self, message: str, why: str | None = None) -> None:
        super().__init__(message)
        self.why = message if why is None else why


@dataclass(frozen=True)
class _OfOne:
    """A step that reads one earlier value.

    Attributes:
        of: its number.
    """

    of: int

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.of,)


@dataclass(frozen=True)
class _OfTwo:
    """A step that reads two earlier values.

    Attributes:
        one, other: their numbers.
    """

    one: int
    other: int

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.one, self.other)


@dataclass(frozen=True)
class Linear(_OfOne):
    """``W x + b`` of an earlier value x.

    Attributes:
        of: the number of x.
        weight: W, (O, I).
        bias: b, (O,).
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@dataclass(frozen=True)
class Norm(_OfOne):
    """``r (x - mean x) * weight + bias`` with ``r = 1 / sqrt(mean (x - mean x)^2 + eps)``.

    Attributes:
        of: the number of x.
        weight, bias: (D,).
        eps: above 0.
        centred: whether the mean is subtracted (LayerNorm) or not (RMSNorm).
    """

    weight: Tensor
    bias: Tensor
    eps: float
    centred: bool = True

    def centre(self, x: Tensor) -> Tensor:
        """``x - mean x``, or x itself."""
        if self.centred:
            return x - x.mean(-1, keepdim=True)
        return x

    def scale(self, length: Tensor) -> Tensor:
        """r of the length of the centred x."""
        return (length.square() / len(self.weight) + self.eps).rsqrt()

    def __call__(self, x: Tensor) -> Tensor:
        centred = self.centre(x)
        scale = self.scale(centred.norm(dim=-1, keepdim=True))
        return centred * scale * self.weight + self.bias


@dataclass(frozen=True)
class Activation(_OfOne):
    """A function of each number of an earlier value.

    Attributes:
        of: the number of the value.
        name: one of `CURVES`.
    """

    name: str

    def __call__(self, x: Tensor) -> Tensor:
        return CURVES[self.name].value(x)


@dataclass(frozen=True)
class Sum(_OfTwo):
    """The sum of two earlier values."""

    def __call__(self, one: Tensor, other: Tensor) -> Tensor:
        return one + other


@dataclass(frozen=True)
class Product(_OfTwo):
    """The product of two earlier values, number by number: a gate."""

    def __call__(self, one: Tensor, other: Tensor) -> Tensor:
        return one * other


Step = Linear | Norm | Activation | Sum | Product


@dataclass(frozen=True)
class Tail:
    """What comes after the attention: ``z(A) = base + sum_s sum_t A_st values_st``, and the steps from z to the logits.

    Value 0 is z; step i makes value i + 1 of earlier values. The last value is the logits, (C,).

    Attributes:
        base: (B, D), float64.
        values: what weight 1 on an item in a slot adds, (B, S, T, D).
        steps: shared by all texts; none for a read-out that is affine in the attention.

    Example:
        >>> values = torch.tensor([[[[2.0, 0.0], [0.0, 1.0]]]])  # one text, one slot, two items
        >>> tail = Tail(torch.zeros(1, 2), values, (Activation(0, "relu"),))
        >>> tail.logits(torch.tensor([[[[0.5, 0.5]]]]))
        tensor([[[1.0000, 0.5000]]])
    """

    base: Tensor
    values: Tensor
    steps: tuple[Step, ...]

    def vectors(self, attention: Tensor) -> Tensor:
        """z (B, K, D) of attention (B, K, S, T)."""
        check_shape("attention", attention, "B K S T")
        flat_attention = attention.to(self.base.dtype).flatten(2)  # (B, K, S * T)
        return self.base[:, None] + flat_attention @ self.values.flatten(1, 2)

    def logits(self, attention: Tensor) -> Tensor:
        """Logits (B, K, C) under attention (B, K, S, T)."""
        return self.after(self.vectors(attention))

    def after(self, vectors: Tensor) -> Tensor:
        """Logits (..., C) of vectors z (..., D)."""
        return last_value(self.steps, vectors)

    def to(self, target: torch.dtype | torch.device | str) -> Tail:
        """The same in another precision, or on another device."""
        steps = tuple(_converted(step, target) for step in self.steps)
        return Tail(self.base.to(target), self.values.to(target), steps)

    def rows(self, texts: Tensor) -> Tail:
        """That of some texts (R,)."""
        return replace(self, base=self.base[texts], values=self.values[texts])


def _converted(step: Step, target: torch.dtype | torch.device | str) -> Step:
    if isinstance(step, Linear | Norm):
        return replace(step, weight=step.weight.to(target), bias=step.bias.to(target))
    return step


def last_value(steps: Sequence[Step], vectors: Tensor) -> Tensor:
    """What steps make in the end of vectors (..., D); the vectors themselves without steps.

    Example:
        >>> last_value([Activation(0, "relu"), Sum(0, 1)], torch.tensor([-1.0, 2.0]))
        tensor([-1.,  4.])
    """
    made = [vectors]
    for step in steps:
        sources = [made[number] for number in step.sources]
        made.append(step(*sources))
    return made[-1]


def check_steps(steps: Sequence[Step]) -> None:
    """Raise unless every step reads earlier values, all weights are finite and the eps of norms is above 0.

    Raises:
        InputError: a weight that is NaN or infinite, an eps of 0 or less, or a step that reads a value that is not
            there yet.

    Example:
        >>> check_steps([Activation(0, "tanh")])
    """
    for number, step in enumerate(steps):
        if any(source > number for source in step.sources):
            raise InputError(f"Expected step {number} to read values up to {number}, but it reads {step.sources}.")
        if not isinstance(step, Linear | Norm):
            continue
        if isinstance(step, Norm) and not step.eps > 0:
            raise InputError(f"Expected a norm's eps above 0, but step {number} after the attention has {step.eps}.")
        for name, parameter in (("weight", step.weight), ("bias", step.bias)):
            if not bool(parameter.isfinite().all()):
                kind = type(step).__name__
                raise InputError(
                    f"The {name} of {kind} (step {number} after the attention) is not finite; nothing can be certified."
                )
