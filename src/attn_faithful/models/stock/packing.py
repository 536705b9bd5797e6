"""Which texts are run together: of nearly one length, and as many as a processor's cache holds.

A forward of a transformer takes time in proportion to its cells, padding included, so padding is time lost. Parts are
made from lengths alone: numbers do not depend on what else is measured, or on how fast the machine is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Load:
    """What is run together on a kind of device.

    Attributes:
        activations: numbers that the widest layer gives, at most, in one forward.
        padding: cells of padding in one forward, at most: about what starting another forward costs.
    """

    activations: int
    padding: int


# measured with MiniLM: a token takes the same time in forwards of 200 to 8,000 tokens, and starting a forward takes
# that of 30 tokens; accelerators need many more to be busy, and start forwards no faster
CPU = Load(activations=2**22, padding=32)
ACCELERATOR = Load(activations=2**26, padding=4096)


def load_of(device: torch.device) -> Load:
    """The load of a device."""
    if device.type == "cpu":
        return CPU
    return ACCELERATOR


def widest(model: nn.Module) -> int:
    """The most numbers that a linear layer of a model gives for a token."""
    sizes = [1]
    for module in model.modules():
        width = getattr(module, "out_features", None) or getattr(module, "nf", None)  # nf: GPT-2's own linear layer
        if isinstance(width, int):
            sizes.append(width)
    return max(sizes)


def lengths_of(mask: Tensor) -> Tensor:
    """How many places each text of a mask (B, T) takes up to its last token, (B,).

    Example:
        >>> lengths_of(torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0]]))
        tensor([2, 3, 0])
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    if not len(places):
        return places.new_zeros(len(mask))
    return (places * mask.bool()).amax(1)


def packed(
    lengths: Tensor,
    most: Callable[[int], int],
    padding: int,
    shared: Tensor | None = None,
) -> list[Tensor]:
    """Parts of texts that are run together: those that share least first, the longest of them first.

    Args:
        lengths: tokens of each text, (R,).
        most: how many texts of so many places a part may have.
        padding: places of a part that hold nothing to be run, at most.
        shared: how many of its first tokens need not be run where those of the part's other texts need not either,
            (R,): a part is run from the least of them on. None for all tokens to be run.

    Returns:
        of each part the places of its texts, (P,).

    Example:
        >>> packed(torch.tensor([3, 9, 3, 8, 9]), most=lambda length: 20 // length, padding=1)
        [tensor([1, 4]), tensor([3]), tensor([0, 2])]
        >>> packed(torch.tensor([9, 9, 9]), lambda length: 9, padding=1, shared=torch.tensor([7, 0, 6]))
        [tensor([1]), tensor([2, 0])]
    """
    if shared is None:
        shared = torch.zeros_like(lengths)
    order = torch.argsort(lengths, descending=True, stable=True)
    order = order[torch.argsort(shared[order], stable=True)]
    ends = lengths[order].tolist()
    starts = shared[order].tolist()
    parts = []
    first = 0
    while first < len(ends):
        end = _end_of_part(starts, ends, first, most, padding)
        parts.append(order[first:end])
        first = end
    return parts


def _end_of_part(
    starts: list[int],
    ends: list[int],
    first: int,
    most: Callable[[int], int],
    padding: int,
) -> int:
    """Where the part ends whose first text is ``first``, of texts that are run from rising ``starts`` to ``ends``."""
    longest = 0
    needed = 0
    for place in range(first, len(ends)):
        longest = max(longest, ends[place] - starts[first])
        needed += ends[place] - starts[place]
        count = place + 1 - first
        is_alone = count == 1
        fits = count <= most(max(1, longest)) and count * longest - needed <= padding
        if not (is_alone or fits):
            return place
    return len(ends)
