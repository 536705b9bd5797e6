"""The points among which an attack searches, the vectors that they make, and the decision's lead at those.

A point is one item for each slot (a vertex, given by indices) or shares of all items. What is searched is any function
of vectors that are linear in the shares: the tail of a model, or a whole model whose vectors are its attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.functional.readout import flipped, lead
from attn_faithful.functional.tail import Linear, Sum, Tail

_CELLS = 2**22  # numbers of a value in memory at once: 32 MB in float64


class Moves(Protocol):
    """What shares add to the vector of their text."""

    @property
    def width(self) -> int:
        """How many numbers a vertex takes while its vector is made."""

    def total(self, shares: Tensor) -> Tensor:
        """What shares (B, K, S, T), or differences of shares, add to the vector, (B, K, D)."""

    def of_vertices(self, index: Tensor) -> Tensor:
        """What vertices (B, K, S) add, (B, K, D)."""

    def by_share(self, gradient: Tensor) -> Tensor:
        """The slope (B, K, S, T) by each share, from that by the vector (B, K, D)."""

    def scaled(self, rho: Tensor) -> Moves:
        """The same times rho (B,)."""

    def rows(self, texts: Tensor | slice) -> Moves:
        """Those of some texts."""


class Readout(Protocol):
    """The logits that follow from vectors."""

    @property
    def is_affine(self) -> bool:
        """Whether they are known to be affine in the vectors."""

    @property
    def width(self) -> int:
        """How many numbers its widest value has for a vector."""

    def logits(self, vectors: Tensor, together: int) -> Tensor:
        """Logits (B, K, C) of vectors (B, K, D), without gradients.

        Args:
            vectors: of each text.
            together: how many vectors are asked at once, at most.
        """

    def traced(self, vectors: Tensor) -> Tensor:
        """The same with gradients, all at once."""

    def rows(self, texts: Tensor | slice) -> Readout:
        """That of some texts."""


@dataclass(frozen=True)
class VectorMoves:
    """Each item of each slot adds a vector.

    Attributes:
        vectors: (B, S, T, D), 0 where there is no item.
    """

    vectors: Tensor

    @property
    def width(self) -> int:
        return self.vectors.shape[1] * self.vectors.shape[3]

    def total(self, shares: Tensor) -> Tensor:
        return shares.to(self.vectors.dtype).flatten(2) @ self.vectors.flatten(1, 2)

    def of_vertices(self, index: Tensor) -> Tensor:
        b, s, t, _ = self.vectors.shape
        first = t * torch.arange(b * s, device=index.device).view(b, 1, s)  # of each slot's vectors
        return self.vectors.flatten(0, 2)[first + index].sum(2)

    def by_share(self, gradient: Tensor) -> Tensor:
        slopes = gradient @ self.vectors.flatten(1, 2).transpose(1, 2)  # (B, K, S * T)
        return slopes.view(*slopes.shape[:2], *self.vectors.shape[1:3])

    def scaled(self, rho: Tensor) -> VectorMoves:
        return VectorMoves(rho[:, None, None, None] * self.vectors)

    def rows(self, texts: Tensor | slice) -> VectorMoves:
        return VectorMoves(self.vectors[texts])


@dataclass(frozen=True)
class WeightMoves:
    """The vector is the attention itself, slot after slot: an item's share adds its part of the slot's mass there.

    Attributes:
        mass: what the items of a slot hold together, (B, S, 1).
        items: how many positions a slot has.
    """

    mass: Tensor
    items: int

    @property
    def width(self) -> int:
        return self.mass.shape[1] * self.items

    def total(self, shares: Tensor) -> Tensor:
        return (self.mass[:, None] * shares.to(self.mass.dtype)).flatten(2)

    def of_vertices(self, index: Tensor) -> Tensor:
        return self.total(F.one_hot(index, self.items))

    def by_share(self, gradient: Tensor) -> Tensor:
        return self.mass[:, None] * gradient.reshape(*gradient.shape[:2], -1, self.items)

    def scaled(self, rho: Tensor) -> WeightMoves:
        return WeightMoves(rho[:, None, None] * self.mass, self.items)

    def rows(self, texts: Tensor | slice) -> WeightMoves:
        return WeightMoves(self.mass[texts], self.items)


@dataclass(frozen=True)
class TailReadout:
    """The logits of a tail, which are the same function for all texts.

    Attributes:
        tail: of which the steps are used.
    """

    tail: Tail

    @property
    def is_affine(self) -> bool:
        return all(isinstance(step, Linear | Sum) for step in self.tail.steps)

    @property
    def width(self) -> int:
        return max([1, *(len(step.bias) for step in self.tail.steps if isinstance(step, Linear))])

    @property
    def weights(self) -> int:
        """How many weights the tail has, 1 at least."""
        return 1 + sum(step.weight.numel() for step in self.tail.steps if isinstance(step, Linear))

    def logits(self, vectors: Tensor, together: int) -> Tensor:
        parts = torch.split(vectors.flatten(0, 1), together)
        logits = torch.cat([self.tail.after(part) for part in parts])
        return logits.view(*vectors.shape[:2], -1)

    def traced(self, vectors: Tensor) -> Tensor:
        return self.tail.after(vectors)

    def rows(self, texts: Tensor | slice) -> TailReadout:
        return self


@dataclass(frozen=True)
class Space:
    """All vectors ``origin + sum_s sum_t q_st moves_st`` of each text, q in a product of simplices over the items.

    Attributes:
        readout: the logits of vectors.
        decision: (B,).
        origin: (B, D).
        moves: what shares add.
        items: (B, S, T), bool; a slot may have none.
        own: (B, S, T), float64, the model's own q.

    Example:
        >>> tail = Tail(torch.zeros(1, 2).double(), torch.zeros(1, 0, 0, 2).double(), ())  # the weights are the logits
        >>> items, own = torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor([[[0.75, 0.25]]]).double()
        >>> moves = WeightMoves(torch.tensor([[[0.8]]]).double(), 2)
        >>> space = Space(TailReadout(tail), torch.tensor([0]), torch.zeros(1, 2).double(), moves, items, own)
        >>> space.vectors(own[:, None]), space.leads_at_vertices(torch.tensor([[[1]]]))
        (tensor([[[0.6000, 0.2000]]], dtype=torch.float64), tensor([[-0.8000]], dtype=torch.float64))
    """

    readout: Readout
    decision: Tensor
    origin: Tensor
    moves: Moves
    items: Tensor
    own: Tensor

    def rows(self, texts: Tensor | slice) -> Space:
        """That of some texts (R,)."""
        return Space(
            readout=self.readout.rows(texts),
            decision=self.decision[texts],
            origin=self.origin[texts],
            moves=self.moves.rows(texts),
            items=self.items[texts],
            own=self.own[texts],
        )

    def near(self, rho: Tensor) -> Space:
        """The vectors of ``(1 - rho) own + rho q`` for rho (B,)."""
        rho = rho.to(self.origin.dtype)
        of_own = self.vectors(self.own[:, None])[:, 0] - self.origin
        return replace(self, origin=self.origin + (1 - rho[:, None]) * of_own, moves=self.moves.scaled(rho))

    def vectors(self, shares: Tensor) -> Tensor:
        """Vectors (B, K, D) of shares (B, K, S, T)."""
        return self.origin[:, None] + self.moves.total(shares)

    def at_vertices(self, index: Tensor) -> Tensor:
        """Vectors (B, K, D) of vertices (B, K, S)."""
        return self.origin[:, None] + self.moves.of_vertices(index)

    def shares_of(self, index: Tensor) -> Tensor:
        """Shares (B, K, S, T), float64, of vertices (B, K, S); 0 in slots without items."""
        one_hot = F.one_hot(index, self.items.shape[2]).double()
        return one_hot * self.items[:, None]

    def logits(self, vectors: Tensor) -> Tensor:
        """Logits (B, K, C) of vectors (B, K, D)."""
        return self.readout.logits(vectors, self.rows_at_once)

    def leads(self, vectors: Tensor) -> Tensor:
        """By how much the decision leads its best rival (B, K) at vectors (B, K, D)."""
        return self.lead(self.logits(vectors))

    def lead(self, logits: Tensor) -> Tensor:
        """By how much the decision leads its best rival (B, K) in logits (B, K, C); infinite without one, or of NaN."""
        leads = lead(logits, self.decision[:, None].expand(logits.shape[:2]))
        return torch.where(leads.isnan(), torch.inf, leads)

    def flips(self, vectors: Tensor) -> Tensor:
        """Whether the decision changes (B, K) at vectors (B, K, D)."""
        return flipped(self.logits(vectors), self.decision)

    def leads_at_vertices(self, index: Tensor) -> Tensor:
        """By how much the decision leads (B, K) at vertices (B, K, S)."""
        points = max(1, self.rows_at_once // len(index))
        parts = [self.leads(self.at_vertices(part)) for part in torch.split(index, points, dim=1)]
        return torch.cat(parts, dim=1)

    def slopes(self, vectors: Tensor) -> Tensor:
        """Slopes (B, K, S, T) of the lead over the best rival by each share at vectors (B, K, D); infinite outside."""
        return self.leads_and_slopes(vectors)[1]

    def leads_and_slopes(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The lead (B, K) at vectors (B, K, D), and its slopes."""
        points = max(1, self.rows_at_once // len(vectors))
        parts = [self._lead_and_gradient(part) for part in torch.split(vectors, points, dim=1)]
        leads, gradients = zip(*parts, strict=True)
        return torch.cat(leads, dim=1), self._by_share(torch.cat(gradients, dim=1))

    def _lead_and_gradient(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        vectors = vectors.detach().requires_grad_()
        with torch.enable_grad():
            leads = self.lead(self.readout.traced(vectors))
            total = leads.sum()
        (gradient,) = torch.autograd.grad(total, vectors)
        return leads.detach(), gradient

    def slopes_by_rival(self) -> Tensor:
        """Slopes (B, C - 1, S, T) of the lead over each other class at the own shares; infinite outside items."""
        own = self.vectors(self.own[:, None])  # (B, 1, D)
        classes = torch.arange(self.logits(own).shape[2], device=own.device)
        is_rival = classes != self.decision[:, None]  # (B, C)
        rivals = classes.expand_as(is_rival)[is_rival].view(len(own), -1, 1)  # (B, C - 1, 1)
        vectors = own.detach().repeat(1, rivals.shape[1], 1).requires_grad_()
        with torch.enable_grad():
            logits = self.readout.traced(vectors)  # (B, C - 1, C)
            of_decision = logits.gather(2, self.decision[:, None, None].expand_as(rivals))
            total = (of_decision - logits.gather(2, rivals)).sum()
        (gradient,) = torch.autograd.grad(total, vectors)
        return self._by_share(gradient)

    def _by_share(self, gradient: Tensor) -> Tensor:
        gradient = torch.where(gradient.isnan(), 0.0, gradient)  # where the logits are NaN no slope names an item
        return self.moves.by_share(gradient).masked_fill(~self.items[:, None], torch.inf)

    @property
    def rows_at_once(self) -> int:
        """How many vectors are asked at once, so that memory is bounded."""
        return max(1, _CELLS // max(self.moves.width, self.readout.width, 1))
