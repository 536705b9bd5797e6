"""Gradient search for adversarial attention (Jain and Wallace 2019, section 4.2.2), for any model that can decode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.predictions import output_change
from attn_faithful.functional.divergences import jsd
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
    for row, inside in enumerate(items):
        generator = block.generator(row, "adversarial attention")
        count = int(inside.sum())
        noise[row, :, inside] = torch.randn(k, count, generator=generator)
    return noise.to(block.items.device)


@dataclass(frozen=True)
class Freedom:
    """What the search may move of a block's attention.

    Attributes:
        attention: (B, S, T), the model's.
        items: (B, S, T) bool.
        mass: (B, 1, S, 1), what the items of a slot hold together.
    """

    attention: Tensor
    items: Tensor
    mass: Tensor

    @classmethod
    def of(cls, block: Block) -> Freedom:
        attention = block.encoded.attention.detach()
        mass = (attention * block.items).sum(-1, keepdim=True)[:, None]  # (B, 1, S, 1)
        return cls(attention, block.items, mass)

    def attention_of(self, scores: Tensor) -> Tensor:
        """The attention (B, K, S, T) in which the items hold the softmax of scores (B, K, S, T)."""
        items = self.items[:, None]  # (B, 1, S, T)
        shares = scores.masked_fill(~items, float("-inf")).softmax(-1)  # (B, K, S, T)
        # NaN without any item, and so filled again
        shares = shares.masked_fill(~items, 0.0)
        return torch.where(items, shares * self.mass, self.attention[:, None])


@dataclass(frozen=True)
class Loss:
    """What a search minimises.

    Attributes:
        value: the loss.
        distance: (B, K), divergence of each alternative from the model's attention.
        change: (B, K), of the prediction under it.
    """

    value: Tensor
    distance: Tensor
    change: Tensor


def search(block: Block, settings: SearchSettings, noise: Tensor | None = None) -> Tensor:
    """Alternatives (B, k, S, T) that lie far from the observed attention and leave the prediction where it was.

    Args:
        block: positions that are no items keep the model's weight.
        settings: see `SearchSettings`.
        noise: standard normal (B, k, S, T); None draws it by seed and text.

    Returns:
        one iterate of each alternative, see `SearchSettings.keep`; the caller checks whether it is within the limit.
    """
    if noise is None:
        noise = starting_noise(block, settings.k)
    freedom = Freedom.of(block)
    # the paper begins at log(1/L) plus noise: the same, since a softmax does not see what all tokens share
    scores = (settings.spread * noise).to(freedom.attention.dtype).requires_grad_()  # (B, k, S, T)
    optimizer = torch.optim.Adam([scores], lr=settings.learning_rate, amsgrad=True)
    farthest = torch.full(scores.shape[:2], -torch.inf, dtype=scores.dtype, device=scores.device)  # (B, k)
    best = torch.zeros_like(scores)
    for _ in range(settings.steps):
        with torch.enable_grad():  # the caller may have none
            alternatives = freedom.attention_of(scores)
            loss = _loss(alternatives, freedom.attention, block, settings)
        (scores.grad,) = torch.autograd.grad(loss.value, scores)
        if settings.keep == "best":
            is_farther = (loss.change <= settings.eps) & (loss.distance > farthest)
            farthest = torch.where(is_farther, loss.distance, farthest).detach()
            best = torch.where(is_farther[..., None, None], alternatives, best).detach()
        optimizer.step()
    with torch.no_grad():
        last = freedom.attention_of(scores)
    return torch.where(farthest.isfinite()[..., None, None], best, last)


def _loss(
    alternatives: Tensor,
    attention: Tensor,
    block: Block,
    settings: SearchSettings,
) -> Loss:
    encoded = block.encoded
    k = alternatives.shape[1]
    distance = _divergence(block, alternatives, attention[:, None])  # (B, K)
    before = encoded.probabilities.detach()[:, None]  # (B, 1, C)
    after = probabilities(encoded.decode(alternatives), encoded.multi_label)  # (B, K, C)
    change = output_change(after, before, encoded.multi_label)
    if settings.preset == "paper":
        excess = (change - settings.eps).relu()
        pair_weight = 1 / max(1, 2 * k * (k - 1))  # every pair is met twice
        penalty = settings.weight / k
    else:
        excess = (_summed_change(after, before, encoded.multi_label) - 0.01).relu()
        pair_weight = 1 / k**2
        penalty = settings.weight
    between_pairs = _divergence(block, alternatives[:, :, None], alternatives[:, None])  # (B, K, K)
    apart = between_pairs.sum((1, 2))
    value = (-distance + penalty * excess).sum() - (pair_weight * apart).sum()
    return Loss(value, distance, change)


def _divergence(block: Block, p: Tensor, q: Tensor) -> Tensor:
    """JSD averaged over slots; written out, since its gradient must stay finite at zeros."""
    by_slot = jsd(p, q, eps=1e-10, validate_args=False)
    return block.over_slots(by_slot, empty=0.0)


def _summed_change(after: Tensor, before: Tensor, multi_label: bool) -> Tensor:
    """The sum over the originals' outputs: one for two classes, all for more or for labels."""
    change = (after - before).abs()
    if after.shape[-1] == 2 and not multi_label:
        return change[..., 1]
    return change.sum(-1)
