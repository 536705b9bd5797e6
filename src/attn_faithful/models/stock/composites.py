"""What a module that is written out in several functions is: a norm or an activation, found by its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Norm, Step
from attn_faithful.models.stock.tail_nodes import gap_of

SIZES = (0.01, 0.1, 1.0, 3.0)  # of the random vectors; at the small ones the eps of a norm matters
NEAR = 1e-5  # of their size: two kinds of GELU are .0005 apart


@dataclass(frozen=True)
class Composite:
    """A module as a step.

    Attributes:
        step: what it does.
        gap: by how much its own numbers differ, as it may compute in float32; see `gap_of`.
    """

    step: Step
    gap: float


def composites_of(model: nn.Module) -> list[nn.Module]:
    """The modules that may be such: without others inside, and none of torch's, whose functions say what they do."""
    found = []
    for module in model.modules():
        of_torch = type(module).__module__.startswith("torch.")
        if not of_torch and not any(module.children()):
            found.append(module)
    return found


def recognised(module: nn.Module, forward: Callable[[Tensor], Tensor], like: Tensor) -> Composite | None:
    """The step that gives a module's numbers on random vectors; None where there is none.

    Args:
        module: whose parameters and numbers are tried.
        forward: of the module.
        like: what it is called with, (..., D).
    """
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(len(SIZES), *like.shape, generator=generator, dtype=torch.float64)
    vectors = [(size * direction).to(like) for size, direction in zip(SIZES, directions, strict=True)]
    outputs = [forward(vector) for vector in vectors]
    for output in outputs:
        if not isinstance(output, Tensor) or output.shape != like.shape:
            return None
    for step in (*_activations(), *_norms(module, forward, like)):
        pairs = zip(vectors, outputs, strict=True)
        gap = max(gap_of(step(vector.double()), output) for vector, output in pairs)
        if gap <= NEAR:
            return Composite(step, gap)
    return None


def _activations() -> list[Step]:
    return [Activation(0, name) for name in sorted(CURVES)]


def _norms(module: nn.Module, forward: Callable[[Tensor], Tensor], like: Tensor) -> list[Step]:
    """Norms with what a module has: numbers that may be its eps, vectors that may be its weight or lack 1 to it."""
    size = like.shape[-1]
    epsilons = [value for value in vars(module).values() if isinstance(value, float) and value > 0]
    ones = torch.ones(size, dtype=torch.float64, device=like.device)
    weights = [ones]
    for parameter in module.parameters():
        if parameter.shape == ones.shape:
            weights += [parameter.double(), 1 + parameter.double()]
    of_zero = forward(torch.zeros_like(like))  # the bias, as a norm of 0 is 0
    bias = of_zero.double().reshape(-1, size)[0]
    candidates = product(weights, epsilons, (False, True))
    return [Norm(0, weight, bias, eps, centred) for weight, eps, centred in candidates]
