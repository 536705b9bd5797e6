"""Farther attention for read-outs that are not affine: steps along their tangents that end within the limit.

The logits are linear in the attention near a point, and JSD is convex: each step solves a linear program of the JSD's
tangent (as the bounds of affine read-outs do), and is then drawn back, or pushed on, along the line from the model's
own attention, on which JSD only grows, to the last point at which the model itself stays within the limit.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attn_faithful.evaluators.adversarial_search import output_change
from attn_faithful.evaluators.attention_removal import CELLS
from attn_faithful.evaluators.base import Block
from attn_faithful.functional.adversary_bounds import tangent_step
from attn_faithful.functional.adversary_region import TvdRegion
from attn_faithful.functional.divergences import jsd
from attn_faithful.models.protocol import probabilities

STEPS = 3
_STARTS = 1  # of what a search found, the farthest, that steps are taken from
_GRID, _SECANTS = 6, 4  # points of a line that are tried at once, and further ones where it leaves the limit
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
    own = block.encoded.attention.detach().double()
    edges = to_the_edge(block, starts.double(), eps)
    order = _moved(block, edges).argsort(dim=1, descending=True, stable=True)
    edges = edges.gather(1, order[..., None, None].expand_as(edges))
    points = torch.cat([own[:, None], edges[:, :_STARTS]], dim=1)  # (B, P, S, T)
    reached = _moved(block, points)
    for _ in range(0 if block.encoded.multi_label else steps):
        ends = _tangent_ends(block, points, eps)
        again = _tangent_ends(block, ends, eps)  # where the read-out bends the first may be far beyond the limit
        gained = torch.zeros_like(reached, dtype=torch.bool)
        for tried in (ends, again):
            tried = to_the_edge(block, tried, eps)
            moved = _moved(block, tried)
            gains = moved > reached + _GAIN
            points = torch.where(gains[..., None, None], tried, points)
            reached = torch.where(gains, moved, reached)
            gained |= gains
        if not bool(gained.any()):
            break
    return torch.cat([points, edges[:, _STARTS:]], dim=1)


def to_the_edge(block: Block, others: Tensor, eps: float) -> Tensor:
    """The last points (B, K, S, T) within a limit, seen from the model's own attention towards and past these."""
    own = block.encoded.attention.detach().double()[:, None]
    away = (others - own) * block.items[:, None]
    falling = away < 0
    empty = torch.where(falling, own / -away.where(falling, -torch.ones_like(away)), torch.inf)
    high = empty.flatten(2).amin(-1)  # there the first weight is 0
    high = torch.where(high.isfinite(), high, 0.0)
    grid = torch.linspace(0, 1, _GRID, dtype=high.dtype, device=high.device)
    lengths = high[..., None] * grid  # (B, K, grid)
    over = _over(block, own, away, lengths, eps)
    last = torch.where(over <= 0, torch.arange(_GRID, device=high.device), 0).amax(-1, keepdim=True)
    after = (last + 1).clamp(max=_GRID - 1)
    low, under = lengths.gather(-1, last), over.gather(-1, last).clamp(max=0.0)
    high, beyond = lengths.gather(-1, after), over.gather(-1, after)
    for _ in range(_SECANTS):  # (B, K, 1) each
        share = (-under / (beyond - under).clamp(min=1e-300)).clamp(0.05, 0.95)
        middle = low + share * (high - low)
        there = _over(block, own, away, middle, eps)
        inside = there <= 0
        low, under = torch.where(inside, middle, low), torch.where(inside, there, under)
        high, beyond = torch.where(inside, high, middle), torch.where(inside, beyond, there)
    return (own + low[..., None] * away).clamp(min=0.0)


def _over(block: Block, own: Tensor, away: Tensor, lengths: Tensor, eps: float) -> Tensor:
    """By how much the change of the prediction exceeds eps (B, K, L) at lengths (B, K, L) of lines."""
    points = own[:, :, None] + lengths[..., None, None] * away[:, :, None]
    return _change(block, points.flatten(1, 2)).view(lengths.shape) - eps


def _tangent_ends(block: Block, points: Tensor, eps: float) -> Tensor:
    """Where the steps from points (B, K, S, T) lead by the tangents alone; a point that has no step stays."""
    logits, slopes = _slopes(block, points)
    observed = block.encoded.logits.detach().double().cpu().numpy()
    own, items = block.encoded.attention.detach().double().cpu().numpy(), block.items.cpu().numpy()
    ends = points.cpu().clone()
    for row, k in np.ndindex(*points.shape[:2]):
        held = items[row] & ((own[row] * items[row]).sum(-1, keepdims=True) > 0)  # (S, T)
        slots = np.repeat(np.eye(len(held)), held.sum(1), axis=1)[held.any(1)]  # (slots, items)
        here = ends[row, k].numpy()
        known = np.isfinite(observed[row]) & np.isfinite(logits[row, k])
        bent = slopes[row, k][:, held][known]  # (C, items)
        if held.sum() <= len(slots) or not np.isfinite(bent).all():
            continue
        region = TvdRegion.around(here[held], logits[row, k][known], bent, observed[row][known], eps)
        end = tangent_step(own[row][held], here[held], region, slots)
        if end is not None:
            here[held] = end
    return ends.to(points.device)


def _slopes(block: Block, points: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Logits (B, K, C) at points (B, K, S, T), and their slopes (B, K, C, S, T) up to what all classes share."""
    encoded = block.encoded
    with torch.enable_grad():
        weights = points.to(encoded.attention.dtype, copy=True).requires_grad_()
        logits = encoded.decode(weights)
        classes = logits.shape[-1]
        slopes = [torch.zeros_like(weights)]
        for c in range(1, classes):
            ahead = (logits[..., c] - logits[..., 0]).sum()
            slopes += torch.autograd.grad(ahead, weights, retain_graph=c < classes - 1)
    return logits.detach().double().cpu().numpy(), torch.stack(slopes, dim=2).double().cpu().numpy()


def _change(block: Block, others: Tensor) -> Tensor:
    """Change of the prediction (B, K) under other attention (B, K, S, T)."""
    encoded = block.encoded
    together = max(1, CELLS // max(1, encoded.attention.numel()))
    before, found = encoded.probabilities.double()[:, None], []
    for part in others.split(together, dim=1):
        with torch.no_grad():
            logits = encoded.decode(part.clamp(min=0.0).to(encoded.attention.dtype))
        after = probabilities(logits.double(), encoded.multi_label)
        found.append(output_change(after, before, encoded.multi_label))
    return torch.cat(found, dim=1)


def _moved(block: Block, others: Tensor) -> Tensor:
    """JSD (B, K) of other attention from the model's own, averaged over slots."""
    own = block.encoded.attention.detach().double()[:, None]
    return block.over_slots(jsd(others, own, validate_args=False))
