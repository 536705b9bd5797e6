"""Farther attention for read-outs that are not affine: steps along their tangents that end within the limit.

The logits are linear in the attention near a point, and JSD is convex: each step solves a linear program of the JSD's
tangent (as the bounds of affine read-outs do), and is then drawn back, or pushed on, along the line from the model's
own attention, on which JSD only grows, to the last point at which the model itself stays within the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.predictions import predictions_under
from attn_faithful.functional.adversary_bounds import tangent_step
from attn_faithful.functional.adversary_region import TvdRegion
from attn_faithful.functional.divergences import jsd
from attn_faithful.models.row_decoding import decode_rows

STEPS = 3
_STARTS = 1  # of what a search found, the farthest, that steps are taken from
_GRID = 6  # points of a line that are tried at once
_SECANTS = 4  # further points where the line leaves the limit
_GAIN = 1e-6  # nats that are worth another step


def farther(block: Block, starts: Tensor, eps: float, steps: int = STEPS) -> Tensor:
    """Alternatives within a limit: others at its edge, and where steps from the farthest of them and from none lead.

    Args:
        block: positions that are no items keep the model's weight.
        starts: (B, K, S, T), such as a search found; they may be beyond the limit.
        eps: largest change of the prediction, TVD.
        steps: at most; of labels that are independent none are taken.

    Returns:
        (B, K + 1, S, T), float64; each moves the prediction by eps at most. First where the steps from the model's own
        attention lead, then where those from the farthest of the others lead, then the rest of them.
    """
    edges = to_the_edge(block, starts.double(), eps)  # (B, K, S, T)
    moved = _moved(block, edges)  # (B, K)
    order = moved.argsort(dim=1, descending=True, stable=True)
    edges = edges.gather(1, order[..., None, None].expand_as(edges))
    own_attention = _own_attention(block)[:, None]  # (B, 1, S, T)
    points = torch.cat([own_attention, edges[:, :_STARTS]], dim=1)  # (B, P, S, T)
    if not block.encoded.multi_label:
        points = _stepped(block, points, eps, steps)
    return torch.cat([points, edges[:, _STARTS:]], dim=1)


def _stepped(block: Block, points: Tensor, eps: float, steps: int) -> Tensor:
    """Where steps from points (B, P, S, T) lead, as long as they gain."""
    own_attention = _own_attention(block)[:, None]  # (B, 1, S, T)
    reached = _moved(block, points)  # (B, P), nats
    # a point that has not gained would be led to where it was led before
    gaining = torch.ones_like(reached, dtype=torch.bool)
    for _ in range(steps):
        ends = _tangent_ends(block, points, eps, gaining)
        # where the read-out bends the first may be far beyond the limit
        ends_again = _tangent_ends(block, ends, eps, gaining)
        both = torch.cat([ends, ends_again], dim=1)  # (B, 2 P, S, T)
        # the lines of the others are empty: all of their points are one
        asked = torch.where(gaining.repeat(1, 2)[..., None, None], both, own_attention)
        edges = to_the_edge(block, asked, eps)
        moved = _moved(block, edges)  # (B, 2 P)
        gained = torch.zeros_like(gaining)
        count = points.shape[1]
        for tried, moved_there in zip(edges.split(count, dim=1), moved.split(count, dim=1), strict=True):
            gains = gaining & (moved_there > reached + _GAIN)
            points = torch.where(gains[..., None, None], tried, points)
            reached = torch.where(gains, moved_there, reached)
            gained |= gains
        gaining = gained
        if not bool(gaining.any()):
            break
    return points


def to_the_edge(block: Block, others: Tensor, eps: float) -> Tensor:
    """The last points (B, K, S, T) within a limit, seen from the model's own attention towards and past these."""
    line = Line.through(block, others, eps)
    grid = torch.linspace(0, 1, _GRID, dtype=line.end.dtype, device=line.end.device)
    lengths = line.end[..., None] * grid  # (B, K, grid)
    # where a line begins nothing changes
    at_start = torch.full_like(line.end, -eps)[..., None]  # (B, K, 1)
    excess = torch.cat([at_start, line.excess(lengths[..., 1:])], dim=-1)  # (B, K, grid)
    places = torch.arange(_GRID, device=others.device)
    # (B, K, 1) all of these: the last point within the limit, and the one after it
    last = torch.where(excess <= 0, places, 0).amax(-1, keepdim=True)
    after = (last + 1).clamp(max=_GRID - 1)
    low = lengths.gather(-1, last)
    low_excess = excess.gather(-1, last).clamp(max=0.0)
    high = lengths.gather(-1, after)
    high_excess = excess.gather(-1, after)
    for _ in range(_SECANTS):
        between = (high_excess - low_excess).clamp(min=1e-300)
        share = (-low_excess / between).clamp(0.05, 0.95)  # a side that hardly moves would stop the search
        middle = low + share * (high - low)
        middle_excess = line.excess(middle)
        inside = middle_excess <= 0
        low = torch.where(inside, middle, low)
        low_excess = torch.where(inside, middle_excess, low_excess)
        high = torch.where(inside, high, middle)
        high_excess = torch.where(inside, high_excess, middle_excess)
    return line.at(low).squeeze(2).clamp(min=0.0)


@dataclass(frozen=True)
class Line:
    """Lines from the model's own attention through other points.

    Attributes:
        block: the examples.
        eps: largest change of the prediction, TVD.
        start: (B, 1, S, T).
        direction: (B, K, S, T).
        end: (B, K), the length at which the first weight is 0.
    """

    block: Block
    eps: float
    start: Tensor
    direction: Tensor
    end: Tensor

    @classmethod
    def through(cls, block: Block, others: Tensor, eps: float) -> Line:
        start = _own_attention(block)[:, None]  # (B, 1, S, T)
        # (B, K, S, T) all of these
        direction = (others - start) * block.items[:, None]
        falls = direction < 0
        speed = -direction.where(falls, -torch.ones_like(direction))
        empty_at = torch.where(falls, start / speed, torch.inf)
        end = empty_at.flatten(2).amin(-1)  # (B, K)
        end = torch.where(end.isfinite(), end, 0.0)  # a line along which nothing falls leads nowhere
        return cls(block, eps, start, direction, end)

    def at(self, lengths: Tensor) -> Tensor:
        """The points (B, K, L, S, T) at lengths (B, K, L)."""
        moved = lengths[..., None, None] * self.direction[:, :, None]
        return self.start[:, :, None] + moved

    def excess(self, lengths: Tensor) -> Tensor:
        """By how much the change of the prediction exceeds eps (B, K, L) at lengths (B, K, L)."""
        points = self.at(lengths).flatten(1, 2)  # (B, K * L, S, T)
        change = _change(self.block, points)  # (B, K * L)
        return change.view(lengths.shape) - self.eps


def _own_attention(block: Block) -> Tensor:
    """The model's (B, S, T), float64."""
    return block.encoded.attention.detach().double()


def _tangent_ends(block: Block, points: Tensor, eps: float, chosen: Tensor) -> Tensor:
    """Where the steps from points (B, K, S, T) lead by the tangents alone; a point that has no step stays.

    Args:
        chosen: (B, K) bool, the points from which steps are taken.
    """
    logits, slopes = _slopes(block, points, chosen)
    texts, numbers = chosen.cpu().nonzero().T.tolist()
    observed = _array(block.encoded.logits.detach())  # (B, C)
    own_attention = _array(_own_attention(block))  # (B, S, T)
    items = block.items.cpu().numpy()  # (B, S, T)
    ends = points.cpu().clone()  # (B, K, S, T)
    for place, (row, k) in enumerate(zip(texts, numbers, strict=True)):
        mass = (own_attention[row] * items[row]).sum(-1, keepdims=True)  # (S, 1)
        movable = items[row] & (mass > 0)  # (S, T)
        slot_of_item = np.repeat(np.eye(len(movable)), movable.sum(1), axis=1)  # (S, items), 0 and 1
        slots = slot_of_item[movable.any(1)]  # (slots with items, items)
        point = ends[row, k].numpy()  # (S, T), which shares its memory with the ends
        # classes that are no candidates have no finite logit
        known = np.isfinite(observed[row]) & np.isfinite(logits[place])  # (C,)
        slopes_here = slopes[place][:, movable][known]  # (C, items)
        nothing_moves = movable.sum() <= len(slots)  # each slot has one item, which holds all of its weight
        if nothing_moves or not np.isfinite(slopes_here).all():
            continue
        logits_here = logits[place][known]
        observed_here = observed[row][known]
        region = TvdRegion.around(point[movable], logits_here, slopes_here, observed_here, eps)
        end = tangent_step(own_attention[row][movable], point[movable], region, slots)
        if end is not None:
            point[movable] = end
    return ends.to(points.device)


def _slopes(block: Block, points: Tensor, chosen: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Logits (R, C) at the chosen points (B, K) of (B, K, S, T), and their slopes up to what all classes share.

    Returns:
        the logits, and slopes (R, C, S, T).
    """
    encoded = block.encoded
    text, _ = chosen.nonzero(as_tuple=True)  # (R,)
    with torch.enable_grad():
        weights = points[chosen].to(encoded.attention.dtype).requires_grad_()  # (R, S, T), a copy
        logits = decode_rows(encoded.decode, weights, text, len(chosen))  # (R, C)
        classes = logits.shape[-1]
        slopes = [torch.zeros_like(weights)]  # (R, S, T) a class
        for c in range(1, classes):
            ahead_of_first = (logits[..., c] - logits[..., 0]).sum()
            slopes += torch.autograd.grad(ahead_of_first, weights, retain_graph=c < classes - 1)
    return _array(logits.detach()), _array(torch.stack(slopes, dim=1))


def _array(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def _change(block: Block, others: Tensor) -> Tensor:
    """Change of the prediction (B, K) under other attention (B, K, S, T)."""
    changes = []
    for part in others.split(block.chunk_size, dim=1):
        _, change = predictions_under(block, part.clamp(min=0.0))
        changes.append(change)
    return torch.cat(changes, dim=1)


def _moved(block: Block, others: Tensor) -> Tensor:
    """JSD (B, K) of other attention from the model's own, averaged over slots."""
    by_slot = jsd(others, _own_attention(block)[:, None], validate_args=False)  # (B, K, S)
    return block.over_slots(by_slot)
