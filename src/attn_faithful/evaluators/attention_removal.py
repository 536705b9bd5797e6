"""Logits of a model without some of its attention at one site, computed the fastest exact way."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import Block
from attn_faithful.functional.attention_removal import (
    first_flip,
    prefix_logits,
    recompute_prefix_logits,
    removal_order,
    single_removals,
)
from attn_faithful.functional.readout import first_true, flipped

OPERATORS = ("renormalize", "recompute")
FIRST = 8  # items of a ranking that are removed before the texts that have flipped are left alone


class Removal:
    """Removes items from the attention of a block's examples, each from all slots at once.

    "renormalize" divides the remaining weights of a slot by their sum; "recompute" projects the remaining scores again.
    For softmax, which is computed from its scores, the two are the same. A slot without remaining weight is zero.

    Args:
        block: examples at a site.
        operator: "renormalize" or "recompute".

    Attributes:
        items: (B, T) bool.
        weights: (B, T) float64, attention to them; of a site of several slots the weight over all (`over_items`).
        exact: whether the read-out is affine in one attention, so that the smallest flip set is known.

    Raises:
        InputError: "recompute" at a site whose scores are unknown.
    """

    def __init__(self, block: Block, operator: str) -> None:
        encoded = block.encoded
        self.encoded = encoded
        self.slots = encoded.attention.shape[1]
        self.chunk_size = block.chunk_size
        self.items = block.items.any(1)
        self.weights = torch.where(self.items, encoded.over_items.double(), 0.0)
        is_softmax = encoded.log_weights is not None
        # a softmax that is projected again is the softmax renormalized
        self.projects_again = operator == "recompute" and not is_softmax
        if self.projects_again and (encoded.scores is None or encoded.project is None):
            raise InputError(
                f"The operator 'recompute' needs the scores at the site {block.site!r}; take 'renormalize'."
            )
        # no position keeps its weight whatever is removed
        all_items = bool((block.items | ~encoded.allowed).all())
        known = self.slots == 1 and all_items and not encoded.multi_label
        self.affine = encoded.affine if known else None
        self.exact = self.affine is not None and not self.projects_again

    @property
    def log_weights(self) -> Tensor:
        """(B, T), the logarithm of the attention up to a constant, also of weights too small for their type.

        At a site of several slots it is that of the weight over all.
        """
        if self.slots > 1:
            return self.weights.log()
        if self.encoded.log_weights is None:
            return self.encoded.attention.double().log()[:, 0]
        return self.encoded.log_weights.double()[:, 0]

    @property
    def readout(self) -> tuple[Tensor, Tensor]:
        """Logits of each item (B, T, C) and the bias (B, C) of an affine read-out, float64."""
        return self.affine.token_logits.double(), self.affine.bias.double()

    def decided(self) -> Tensor:
        """The class (B,) with everything kept."""
        if self.affine is None:
            return self.encoded.logits.argmax(-1)
        # the path begins with everything kept, in logits that round as all others of it do
        order = removal_order(torch.zeros_like(self.weights), self.items)
        logits = self._path(order)[:, 0].nan_to_num(-torch.inf)  # (B, C)
        return first_true(logits == logits.amax(-1, keepdim=True)).long()

    def first_flip(self, order: Tensor, decision: Tensor) -> Tensor:
        """How many items of an order (B, T) go until the decision (B,) changes, (B,) float64; NaN where it never does.

        Where the model must be run, it is run for a few items more at a time, and only for texts not yet flipped.
        """
        if self.affine is not None:
            return first_flip(self._path(order), decision)
        rank = order.argsort(1)  # (B, T)
        count = self.items.sum(1, keepdim=True)  # (B, 1)
        size = torch.full((len(order),), torch.nan, dtype=torch.float64, device=order.device)
        start = 1
        steps = min(FIRST, self.chunk_size)
        sought = size.isnan() & (count[:, 0] >= start)  # (B,)
        while bool(sought.any()):
            removed = torch.arange(start, start + steps, device=order.device)  # (K,)
            is_run = sought[:, None] & (removed <= count)  # (B, K)
            # nothing is removed from the others
            stays = rank[:, None] >= removed[:, None]  # (B, K, T)
            keep = stays | ~self.items[:, None] | ~is_run[:, :, None]
            flips = is_run & flipped(self.after(keep), decision)  # (B, K)
            size = torch.where(sought, start + first_true(flips), size)
            start += steps
            steps = min(2 * steps, self.chunk_size)
            sought = size.isnan() & (count[:, 0] >= start)
        return size

    def _path(self, order: Tensor) -> Tensor:
        """Logits (B, T + 1, C) without the first 0, 1, 2, ... items of an order, of an affine read-out."""
        if not self.projects_again:
            return prefix_logits(self.log_weights, order, self.items, *self.readout)
        scores = self.encoded.scores[:, 0].double()
        return recompute_prefix_logits(scores, self.encoded.project, order, self.items, *self.readout)

    def without(self, places: Tensor) -> Tensor:
        """Logits (B, K, C), float64, without each of the items at ``places`` (B, K), one at a time."""
        if self.exact:
            logits = single_removals(self.log_weights, self.items, *self.readout)  # (B, T, C)
            index = places[..., None].expand(-1, -1, logits.shape[-1])
            return logits.gather(1, index)
        every_place = torch.arange(self.items.shape[1], device=places.device)
        keep = every_place != places[..., None]  # (B, K, T)
        parts = keep.split(self.chunk_size, dim=1)
        return torch.cat([self.after(part) for part in parts], dim=1)

    def after(self, keep: Tensor) -> Tensor:
        """Logits (B, K, C), float64, with the items in ``keep`` (B, K, T) alone."""
        encoded = self.encoded
        keep = (keep | ~self.items[:, None])[:, :, None]  # (B, K, 1, T)
        if self.projects_again or encoded.log_weights is not None:
            keep = encoded.allowed[:, None] & keep  # (B, K, S, T)
            scores = encoded.scores[:, None].expand(keep.shape)
            attention = encoded.project(scores, keep)
        else:
            attention = encoded.attention[:, None] * keep
            mass = attention.sum(-1, keepdim=True)  # (B, K, S, 1)
            attention = attention / torch.where(mass > 0, mass, 1.0)
        with torch.no_grad():
            return encoded.decode(attention.to(encoded.attention.dtype)).double()
