"""What the items of each slot may share among them: the product of simplices over which a tail is attacked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.tail import Tail

_TOLERANCE = 1e-6  # of a sum of shares


@dataclass(frozen=True)
class Deal:
    """Attention as what the items of each slot hold together, how they share it, and what stays: float64.

    Attributes:
        kept: (B, S, T), the weights outside the items; 0 at the items.
        mass: (B, S, 1), what a slot's items hold together.
        shares: (B, S, T), of the mass; even over the items of a slot without mass, 0 outside the items.
    """

    kept: Tensor
    mass: Tensor
    shares: Tensor

    @classmethod
    def of(cls, attention: Tensor, items: Tensor) -> Deal:
        """That of attention (B, S, T) over items (B, S, T).

        Example:
            >>> Deal.of(torch.tensor([[[0.2, 0.6, 0.2]]]).double(), torch.tensor([[[True, True, False]]])).shares
            tensor([[[0.2500, 0.7500, 0.0000]]], dtype=torch.float64)
        """
        weights = torch.where(items, attention.double(), 0.0)
        kept = torch.where(items, 0.0, attention.double())
        mass = weights.sum(-1, keepdim=True)
        even = items / items.sum(-1, keepdim=True).clamp(min=1)
        shares = torch.where(mass > 0, weights / torch.where(mass > 0, mass, 1.0), even)
        return cls(kept, mass, shares)


@dataclass(frozen=True)
class Simplices:
    """All vectors ``origin + sum_s sum_t q_st moves_st`` of each text, q in a product of simplices over the items.

    Attributes:
        origin: (B, D), float64.
        moves: (B, S, T, D), what all of a slot's mass on one item adds.
        items: (B, S, T), bool; a slot may have none.
        shares: (B, S, T), the model's own q: sums to 1 over a slot's items, 0 elsewhere.

    Raises:
        InputError: other shapes, ``items`` that is not bool, shares that are no distribution.
    """

    origin: Tensor
    moves: Tensor
    items: Tensor
    shares: Tensor

    def __post_init__(self) -> None:
        check_shape("moves", self.moves, "B S T D")
        b, s, t, d = self.moves.shape
        shapes = (("origin", self.origin, (b, d)), ("items", self.items, (b, s, t)), ("shares", self.shares, (b, s, t)))
        for name, value, shape in shapes:
            if tuple(value.shape) != shape:
                raise InputError(
                    f"Expected `{name}` of shape {shape} beside `moves` {(b, s, t, d)}, but got {tuple(value.shape)}."
                )
        if self.items.dtype != torch.bool:
            raise InputError(f"Expected `items` of type torch.bool, but got {self.items.dtype}; pass items.bool().")
        expected = self.items.any(-1).double()  # (B, S)
        off = (self.shares.sum(-1) - expected).abs() > _TOLERANCE
        off |= (self.shares < 0).any(-1)
        off |= (self.shares.masked_fill(self.items, 0.0) != 0).any(-1)
        off |= self.shares.isnan().any(-1)
        if bool(off.any()):
            text, slot = off.nonzero()[0].tolist()
            raise InputError(
                "Expected `shares` of at least 0 that sum to 1 over a slot's items and are 0 elsewhere, but slot "
                f"{slot} of text {text} has {self.shares[text, slot].tolist()!s:.80}."
            )

    @classmethod
    def of(cls, tail: Tail, attention: Tensor, items: Tensor) -> Simplices:
        """Those of attention (B, S, T) whose items (B, S, T) share what they have together; the rest stays.

        A slot whose items have no weight at all has even shares, which move nothing.

        Example:
            >>> tail = Tail(torch.zeros(1, 2), torch.eye(2)[None, None], ())
            >>> half = torch.tensor([[[0.1, 0.4]]]).double()
            >>> Simplices.of(tail, half, torch.ones(1, 1, 2, dtype=torch.bool)).shares
            tensor([[[0.2000, 0.8000]]], dtype=torch.float64)
        """
        deal = Deal.of(attention, items)
        origin = tail.to(torch.float64).vectors(deal.kept[:, None])[:, 0]
        return cls(origin, deal.mass[..., None] * tail.values, items, deal.shares)
