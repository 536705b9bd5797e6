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


def packed(lengths: Tensor, most: Callable[[int], int], padding: int) -> list[Tensor]:
    """Parts of texts that are run together, longest first.

    Args:
        lengths: tokens of each text, (R,).
        most: how many texts of a length a part may have.
        padding: cells of a part without a token, at most.

    Returns:
        of each part the places of its texts, (P,).

    Example:
        >>> packed(torch.tensor([3, 9, 3, 8, 9]), most=lambda length: 20 // length, padding=1)
        [tensor([1, 4]), tensor([3]), tensor([0, 2])]
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    sizes = lengths[order].tolist()
    parts = []
    start = 0
    while start < len(sizes):
        end = _end_of_part(sizes, start, most(max(1, sizes[start])), padding)
        parts.append(order[start:end])
        start = end
    return parts


def _end_of_part(sizes: list[int], start: int, most: int, padding: int) -> int:
    """Where the part ends that starts at a place of the falling lengths ``sizes``."""
    end = start + 1
    empty = 0
    while end < len(sizes) and end - start < most:
        empty += sizes[start] - sizes[end]
        if empty > padding:
            break
        end += 1
    return end
