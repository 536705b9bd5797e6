"""Logits of a model without some of its attention at one site, computed the fastest exact way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.asked_sets import AskedSets
from attn_faithful.evaluators.base import CELLS, Block
from attn_faithful.functional.attention_removal import (
    first_flip,
    prefix_logits,
    recompute_prefix_logits,
    removal_order,
    single_removals,
)
from attn_faithful.functional.readout import first_true, lead
from attn_faithful.functional.removal_rounds import first_flips
from attn_faithful.models.row_decoding import decode_rows

OPERATORS = ("renormalize", "recompute")


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
        after: ``after(keep (R, T) bool, text (R,)) -> logits (R, C)``, float64, with the items in ``keep`` alone.
        exact: whether the read-out is affine in one attention, so that the smallest flip set is known.

    Raises:
        InputError: "recompute" at a site whose scores are unknown.
    """

    def __init__(self, block: Block, operator: str) -> None:
        encoded = block.encoded
        self.encoded = encoded
        self.slots = encoded.attention.shape[1]
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
        self.after = AskedSets(self._ask, len(self.items))

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
        logits = self.in_full().nan_to_num(-torch.inf)  # (B, C)
        return first_true(logits == logits.amax(-1, keepdim=True)).long()

    def in_full(self) -> Tensor:
        """Logits (B, C), float64, with everything kept; they round as those without some items do."""
        if self.affine is None:
            return self.encoded.logits.double()
        order = removal_order(torch.zeros_like(self.weights), self.items)
        return self.path(order)[:, 0]

    def first_flips(self, orders: Sequence[Tensor], decision: Tensor) -> list[Tensor]:
        """How many items of each order (B, T) go until the decision (B,) changes.

        Returns:
            (B,), float64, an order: NaN where it never does.
        """
        if self.affine is not None:
            return [first_flip(self.path(order), decision) for order in orders]
        sizes = first_flips(self.after, torch.stack(list(orders)), self.items, decision)  # (O, B)
        return list(sizes.unbind(0))

    def path(self, order: Tensor) -> Tensor:
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
        texts, alternatives = places.shape
        every_place = torch.arange(self.items.shape[1], device=places.device)
        keep = every_place != places[..., None]  # (B, K, T)
        text = torch.arange(texts, device=places.device).repeat_interleave(alternatives)  # (B * K,)
        keep = keep.flatten(0, 1) | ~self.items[text]
        return self.after(keep, text).view(texts, alternatives, -1)

    def slopes(self, keep: Tensor, text: Tensor, decision: Tensor) -> Tensor:
        """How the decision's lead grows with each weight (R, S, T), of texts (R,) with ``keep`` (R, T) alone.

        The lead is over the best other class; it is that of the decision (B,) of each text.
        """
        with torch.enable_grad():
            weights = self._left(keep, text).requires_grad_()  # (R, S, T)
            logits = self._decode(weights, text)  # (R, C)
            (slopes,) = torch.autograd.grad(lead(logits, decision[text]).sum(), weights)
        return slopes

    def _ask(self, keep: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C), float64, of texts (R,) with ``keep`` (R, T) alone, which is True outside the items."""
        slots, tokens = self.encoded.attention.shape[1:]
        rows = max(1, CELLS // max(1, slots * tokens))
        logits = []
        with torch.no_grad():
            for kept, texts in zip(keep.split(rows), text.split(rows), strict=True):
                logits.append(self._decode(self._left(kept, texts), texts).double())
        return torch.cat(logits)

    def _decode(self, attention: Tensor, text: Tensor) -> Tensor:
        return decode_rows(self.encoded.decode, attention, text, len(self.items))

    def _left(self, keep: Tensor, text: Tensor) -> Tensor:
        """The attention (R, S, T) of texts (R,) with ``keep`` (R, T) alone."""
        encoded = self.encoded
        own_attention = encoded.attention[text]  # (R, S, T)
        kept = keep[:, None]  # (R, 1, T)
        if self.projects_again or encoded.log_weights is not None:
            allowed = encoded.allowed[text] & kept  # (R, S, T)
            attention = encoded.project(encoded.scores[text], allowed)
        else:
            attention = own_attention * kept
            mass = attention.sum(-1, keepdim=True)  # (R, S, 1)
            attention = attention / torch.where(mass > 0, mass, 1.0)
        return attention.detach().to(own_attention.dtype)
