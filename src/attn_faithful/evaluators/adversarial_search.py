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
KEPT = ("last", "best")


@dataclass(frozen=True)
class SearchSettings:
    """How alternatives are searched.

    Attributes:
        k: alternatives that are searched together and pushed apart.
        eps: largest change of the prediction, TVD.
        steps: of Adam (amsgrad).
        learning_rate: of Adam.
        weight: of the penalty on a change above the limit.
        spread: standard deviation of the noise that the scores begin with.
        preset: "paper": ``sum_k JSD(a_k, a) + 1/(k(k-1)) sum_{i<j} JSD(a_i, a_j) - weight/k sum_k [TVD_k - eps]+``;
            "code": what its authors ran, ``1/k^2`` over all pairs, the penalty without 1/k and on the summed change
            of their outputs above 0.01, whatever `eps`.
        keep: "last", the iterate that counts in the paper, or "best", the farthest one within the limit.
    """

    k: int = 5
    eps: float = 0.01
    steps: int = 500
    learning_rate: float = 0.01
    weight: float = 500.0
    spread: float = 3.0
    preset: str = "paper"
    keep: str = "last"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PRESETS)
        check_choice("keep", self.keep, KEPT)


# Where steps along tangents begin (`linear_steps`): with them it finds more than the paper's steps do, for a tenth of
# their work (tests/evaluators/test_adversarial_steps.py).
FAST = SearchSettings(k=2, steps=10, learning_rate=0.3, weight=20.0, keep="best")


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
        what is kept of each, float32; whether it is within the limit is for the caller to see.
    """
    noise = starting_noise(block, settings.k) if noise is None else noise
    encoded, items = block.encoded, block.items
    attention = encoded.attention.detach()
    mass = (attention * items).sum(-1, keepdim=True)[:, None]  # what items hold together
    # the paper begins at log(1/L) plus noise: the same, since a softmax does not see what all tokens share
    scores = (settings.spread * noise).to(attention.dtype).requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=settings.learning_rate, amsgrad=True)
    before = encoded.probabilities.detach()
    farthest = torch.full(scores.shape[:2], -torch.inf, dtype=scores.dtype, device=scores.device)
    best = torch.zeros_like(scores)
    for _ in range(settings.steps):
        with torch.enable_grad():  # the caller may have none
            found = _attention(scores, attention, items, mass)
            loss, away, change = _loss(found, attention, before, block, settings)
        (scores.grad,) = torch.autograd.grad(loss, scores)
        if settings.keep == "best":
            farther = (change <= settings.eps) & (away > farthest)
            farthest = torch.where(farther, away, farthest).detach()
            best = torch.where(farther[..., None, None], found, best).detach()
        optimizer.step()
    with torch.no_grad():
        last = _attention(scores, attention, items, mass)
    return torch.where(farthest.isfinite()[..., None, None], best, last)


def _attention(scores: Tensor, attention: Tensor, items: Tensor, mass: Tensor) -> Tensor:
    held = items[:, None]
    shares = scores.masked_fill(~held, float("-inf")).softmax(-1).masked_fill(~held, 0.0)  # NaN without any item
    return torch.where(held, shares * mass, attention[:, None])


def _loss(
    found: Tensor, attention: Tensor, before: Tensor, block: Block, settings: SearchSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """What is minimised, and of each alternative (B, K) its divergence and the change of the prediction."""
    k, encoded = found.shape[1], block.encoded
    away = _divergence(block, found, attention[:, None])  # (B, K)
    after = probabilities(encoded.decode(found), encoded.multi_label)
    change = output_change(after, before[:, None], encoded.multi_label)
    if settings.preset == "paper":
        over = (change - settings.eps).relu()
        pairs, penalty = 1 / max(1, 2 * k * (k - 1)), settings.weight / k  # every pair is met twice
    else:
        over = (_summed_change(after, before[:, None], encoded.multi_label) - 0.01).relu()
        pairs, penalty = 1 / k**2, settings.weight
    apart = _divergence(block, found[:, :, None], found[:, None]).sum((1, 2))
    return (-away + penalty * over).sum() - (pairs * apart).sum(), away, change


def _divergence(block: Block, p: Tensor, q: Tensor) -> Tensor:
    """JSD averaged over slots; written out, since its gradient must stay finite at zeros."""
    return block.over_slots(jsd(p, q, eps=1e-10, validate_args=False), empty=0.0)


def output_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """TVD (...) of class probabilities; the mean over labels where they are independent."""
    measure = multilabel_tvd if multi_label else tvd
    return measure(after, before, validate_args=False)


def _summed_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """The sum over the originals' outputs: one for two classes, all for more or for labels."""
    change = (after - before).abs()
    return change[..., 1] if after.shape[-1] == 2 and not multi_label else change.sum(-1)
