"""Gradient search for adversarial attention (Jain and Wallace 2019, section 4.2.2), for any model that can decode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful.evaluators.base import Block
from attn_faithful.functional.divergences import jsd, multilabel_tvd, tvd
from attn_faithful.models.protocol import probabilities

PRESETS = ("paper", "code")


@dataclass(frozen=True)
class SearchSettings:
    """How alternatives are searched.

    Attributes:
        k: alternatives that are searched together and pushed apart.
        eps: largest change of the prediction, TVD.
        steps: of Adam (amsgrad); the last iterate counts.
        learning_rate: of Adam.
        weight: of the penalty on a change above the limit.
        spread: standard deviation of the noise that the scores begin with.
        preset: "paper": ``sum_k JSD(a_k, a) + 1/(k(k-1)) sum_{i<j} JSD(a_i, a_j) - weight/k sum_k [TVD_k - eps]+``;
            "code": what its authors ran, ``1/k^2`` over all pairs, the penalty without 1/k and on the summed change
            of their outputs above 0.01, whatever `eps`.
    """

    k: int = 5
    eps: float = 0.01
    steps: int = 500
    learning_rate: float = 0.01
    weight: float = 500.0
    spread: float = 3.0
    preset: str = "paper"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PRESETS)


def starting_noise(block: Block, k: int) -> Tensor:
    """Standard normal noise (B, k, S, T) on the items, by seed and text, 0 elsewhere."""
    items = block.items.cpu()
    noise = torch.zeros(len(block), k, *items.shape[1:])
    for row, held in enumerate(items):
        generator = block.generator(row, "adversarial attention")
        noise[row, :, held] = torch.randn(k, int(held.sum()), generator=generator)
    return noise.to(block.items.device)


def search(block: Block, settings: SearchSettings, noise: Tensor | None = None) -> Tensor:
    """Alternatives (B, k, S, T) that lie far from the observed attention and leave the prediction where it was.

    Args:
        block: positions that are no items keep the model's weight.
        settings: see `SearchSettings`.
        noise: standard normal (B, k, S, T); None draws it by seed and text.

    Returns:
        the last iterates, float32; whether each keeps the limit is for the caller to see.
    """
    noise = starting_noise(block, settings.k) if noise is None else noise
    encoded, items = block.encoded, block.items
    attention = encoded.attention.detach()
    mass = (attention * items).sum(-1, keepdim=True)[:, None]  # what items hold together
    # the paper begins at log(1/L) plus noise: the same, since a softmax does not see what all tokens share
    scores = (settings.spread * noise).to(attention.dtype).requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=settings.learning_rate, amsgrad=True)
    before = encoded.probabilities.detach()
    for _ in range(settings.steps):
        found = _attention(scores, attention, items, mass)
        optimizer.zero_grad()
        loss = _loss(found, attention, before, block, settings)
        (scores.grad,) = torch.autograd.grad(loss, scores)
        optimizer.step()
    with torch.no_grad():
        return _attention(scores, attention, items, mass)


def _attention(scores: Tensor, attention: Tensor, items: Tensor, mass: Tensor) -> Tensor:
    held = items[:, None]
    shares = scores.masked_fill(~held, float("-inf")).softmax(-1).masked_fill(~held, 0.0)  # NaN without any item
    return torch.where(held, shares * mass, attention[:, None])


def _loss(found: Tensor, attention: Tensor, before: Tensor, block: Block, settings: SearchSettings) -> Tensor:
    k, encoded = found.shape[1], block.encoded
    away = _divergence(block, found, attention[:, None])  # (B, K)
    after = probabilities(encoded.decode(found), encoded.multi_label)
    if settings.preset == "paper":
        change, limit = output_change(after, before[:, None], encoded.multi_label), settings.eps
        pairs, penalty = 1 / max(1, 2 * k * (k - 1)), settings.weight / k  # every pair is met twice
    else:
        change, limit = _summed_change(after, before[:, None], encoded.multi_label), 0.01
        pairs, penalty = 1 / k**2, settings.weight
    apart = _divergence(block, found[:, :, None], found[:, None]).sum((1, 2))
    return (-away + penalty * (change - limit).relu()).sum() - (pairs * apart).sum()


def _divergence(block: Block, p: Tensor, q: Tensor) -> Tensor:
    """JSD averaged over slots; written out, since its gradient must stay finite at zeros."""
    return block.over_slots(jsd(p, q, eps=1e-10))


def output_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """TVD (...) of class probabilities; the mean over labels where they are independent."""
    return multilabel_tvd(after, before) if multi_label else tvd(after, before)


def _summed_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """The sum over the originals' outputs: one for two classes, all for more or for labels."""
    change = (after - before).abs()
    return change[..., 1] if after.shape[-1] == 2 and not multi_label else change.sum(-1)
