"""What a model says once some of its attention is removed at one site, by the shortest exact way."""

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
FIRST = 8  # items of a ranking that are removed before it is asked which texts go on
CELLS = 2**22  # attention weights of alternatives that are decoded together


class Removal:
    """Removes items from the attention of a block's examples, each from all slots at once.

    "renormalize" divides what is left of a slot by its sum, "recompute" projects the scores that are left again; the
    same for softmax, which is worked out from its scores. A slot of which nothing is left is the zero vector.

    Args:
        block: examples at a site.
        operator: "renormalize" or "recompute".

    Attributes:
        items: (B, T) bool.
        weights: (B, T) float64, attention to them; of a site of several slots the weight over all (`over_items`).
        exact: whether the read-out is affine in one attention, and so the smallest set is known.

    Raises:
        InputError: "recompute" at a site whose scores are unknown.
    """

    def __init__(self, block: Block, operator: str) -> None:
        encoded = self.encoded = block.encoded
        self.slots = encoded.attention.shape[1]
        self.items = block.items.any(1)
        self.weights = torch.where(self.items, encoded.over_items.double(), 0.0)
        softmax = encoded.log_weights is not None
        self.again = operator == "recompute" and not softmax
        if self.again and (encoded.scores is None or encoded.project is None):
            raise InputError(
                f"The operator 'recompute' needs the scores at the site {block.site!r}; take 'renormalize'."
            )
        whole = bool((block.items | ~encoded.allowed).all())  # nothing keeps its weight whatever is removed
        self.affine = encoded.affine if self.slots == 1 and whole and not encoded.multi_label else None
        self.exact = self.affine is not None and not self.again

    @property
    def log_weights(self) -> Tensor:
        """(B, T), the logarithm of the attention up to a constant: of weights too small for their type it knows more.

        Of a site of several slots that of the weight over all.
        """
        if self.slots > 1:
            return self.weights.log()
        logs = self.encoded.log_weights
        return (self.encoded.attention.double().log() if logs is None else logs.double())[:, 0]

    @property
    def readout(self) -> tuple[Tensor, Tensor]:
        """What each item alone would say (B, T, C) and the bias (B, C), of an affine read-out, float64."""
        return self.affine.token_logits.double(), self.affine.bias.double()

    def decided(self) -> Tensor:
        """The class (B,) with everything kept."""
        if self.affine is None:
            return self.encoded.logits.argmax(-1)
        order = removal_order(torch.zeros_like(self.weights), self.items)
        whole = self._path(order)[:, 0].nan_to_num(-torch.inf)
        return first_true(whole == whole.amax(-1, keepdim=True)).long()

    def first_flip(self, order: Tensor, decision: Tensor) -> Tensor:
        """How many items of an order (B, T) go until the decision (B,) changes, (B,) float64; NaN where it never does.

        Where the model must be asked, it is asked for a few items more at a time, and only of texts not yet flipped.
        """
        if self.affine is not None:
            return first_flip(self._path(order), decision)
        rank, count = order.argsort(1), self.items.sum(1, keepdim=True)
        size = torch.full((len(order),), torch.nan, dtype=torch.float64, device=order.device)
        start, steps = 1, min(FIRST, self._together())
        while bool((sought := size.isnan() & (count[:, 0] >= start)).any()):
            k = torch.arange(start, start + steps, device=order.device)
            asked = sought[:, None] & (k <= count)  # of others nothing is removed
            kept = (rank[:, None] >= k[:, None]) | ~self.items[:, None] | ~asked[:, :, None]
            flips = asked & flipped(self.after(kept), decision[:, None].expand(kept.shape[:2]))
            size = torch.where(sought, start + first_true(flips), size)
            start, steps = start + steps, min(2 * steps, self._together())
        return size

    def _path(self, order: Tensor) -> Tensor:
        if not self.again:
            return prefix_logits(self.log_weights, order, self.items, *self.readout)
        return recompute_prefix_logits(
            self.encoded.scores[:, 0].double(), self.encoded.project, order, self.items, *self.readout
        )

    def without(self, places: Tensor) -> Tensor:
        """Logits (B, K, C), float64, without each of the items at ``places`` (B, K), one at a time."""
        if self.exact:
            every = single_removals(self.log_weights, self.items, *self.readout)
            return every.gather(1, places[..., None].expand(-1, -1, every.shape[-1]))
        at = torch.arange(self.items.shape[1], device=places.device)
        kept = at != places[..., None]
        return torch.cat([self.after(part) for part in kept.split(self._together(), dim=1)], dim=1)

    def after(self, keep: Tensor) -> Tensor:
        """Logits (B, K, C), float64, with the items in ``keep`` (B, K, T) alone."""
        keep = (keep | ~self.items[:, None])[:, :, None]
        encoded = self.encoded
        if self.again or encoded.log_weights is not None:
            kept = encoded.allowed[:, None] & keep
            left = encoded.project(encoded.scores[:, None].expand(kept.shape), kept)
        else:
            left = encoded.attention[:, None] * keep
            mass = left.sum(-1, keepdim=True)
            left = left / torch.where(mass > 0, mass, 1.0)
        with torch.no_grad():
            return encoded.decode(left.to(encoded.attention.dtype)).double()

    def _together(self) -> int:
        return max(1, CELLS // max(1, self.encoded.attention.numel()))
