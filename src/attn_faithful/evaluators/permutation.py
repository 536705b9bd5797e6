"""Does the prediction change when the attention weights are dealt to other tokens? (Jain and Wallace 2019, 4.2.1)"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, Found, MetricSpec
from attn_faithful.evaluators.removal import CELLS
from attn_faithful.evaluators.search import output_change
from attn_faithful.functional.permutations import (
    permutable,
    permutation_certificate,
    permutation_extremes,
    permuted_indices,
)
from attn_faithful.models.protocol import probabilities

MEDIAN = MetricSpec(
    "attention_permutation", "median TVD", "median change of the prediction over random permutations of the weights",
    0.0, 1.0, "higher", "probability",
)  # fmt: skip
LARGEST = MetricSpec("largest_attention", "largest weight", "the largest attention weight of the text", 0.0, 1.0)
FLIPS = MetricSpec(
    "permutation_flips", "flips", "share of the random permutations that change the decision", 0.0, 1.0, "higher"
)
EXTREME = MetricSpec(
    "permutation_largest", "largest TVD", "largest change of the prediction over all permutations, exact; two classes",
    0.0, 1.0, "higher", "probability",
)  # fmt: skip
CERTIFIED = MetricSpec(
    "permutation_certified", "no flip", "whether it is certain that no permutation at all changes the decision",
    0.0, 1.0, "lower",
)  # fmt: skip

NOT_AFFINE = "read-out is not affine"


@dataclass(frozen=True)
class PermutationSettings:
    """How many permutations are drawn.

    Attributes:
        permutations: a text; each deals the weights of all content tokens.
    """

    permutations: int = 100

    def __post_init__(self) -> None:
        if self.permutations < 1:
            raise InputError(f"permutations must be at least 1, but is {self.permutations}.")


def run(block: Block, settings: PermutationSettings) -> Found:
    """Permute the attention weights of the content tokens with the encoder's states as they are.

    Where there are several slots the weights of each are dealt within it, in all at once. Texts whose attention no
    permutation can change (fewer than two content tokens, equal weights) say nothing: their values are NaN with the
    reason.

    Args:
        block: examples at a site.
        settings: see `PermutationSettings`.
    """
    encoded, items = block.encoded, block.items
    possible, reasons = _permutable(encoded.attention.double(), items)
    changes, flips = _sampled(block, settings.permutations)
    largest, certified = _exact(block, encoded.attention[:, 0].double(), items[:, 0])
    weights = torch.where(items.any(1), encoded.over_items.double(), -math.inf).amax(-1)
    median = changes.quantile(0.5, dim=1)  # the mean of the middle two, as in the paper's code
    found = Found()
    for row, reason in enumerate(reasons):
        for metric, values, undefined in (
            (MEDIAN, median, None),
            (FLIPS, flips, None),
            (EXTREME, largest, "more than two classes" if encoded.affine is not None else NOT_AFFINE),
            (CERTIFIED, certified, NOT_AFFINE),
        ):
            value = float(values[row]) if bool(possible[row]) else math.nan
            found.score(block, row, metric.name, value, reason or undefined)
        empty = not bool(items[row].any())
        found.score(block, row, LARGEST.name, math.nan if empty else float(weights[row]), reason)
        if bool(possible[row]):
            found.variant(
                block, row, "permutation", block.attention, changes=changes[row].tolist(),
                output_tvd=float(median[row]),
            )  # fmt: skip
    return found


def _permutable(attention: Tensor, items: Tensor) -> tuple[Tensor, list[str | None]]:
    """Whether any slot of an example can be dealt anew (B,), and why not: what holds of its slot of most items."""
    whole, reasons = permutable(attention.flatten(0, 1), items.flatten(0, 1))
    slots = items.shape[1]
    possible = whole.view(-1, slots).any(1)
    longest = items.sum(-1).argmax(1).tolist()
    held = [reasons[row * slots + slot] for row, slot in enumerate(longest)]
    return possible, [None if p else reason for p, reason in zip(possible.tolist(), held, strict=True)]


def _sampled(block: Block, k: int) -> tuple[Tensor, Tensor]:
    """Change of the prediction under each permutation (B, K), and the share that change the decision (B,)."""
    encoded, items = block.encoded, block.items
    dealt = {}  # (row, slot) -> places, and those whose weights they get, (K, places)
    for row, slots in enumerate(items):
        for slot, held in enumerate(slots):
            places = held.nonzero()[:, 0]
            if len(places) > 1:
                purpose = ("permutation", slot) if slot else ("permutation",)
                order = permuted_indices(len(places), k, block.generator(row, *purpose)).to(items.device)
                dealt[row, slot] = places, places[order]
    together = max(1, CELLS // max(1, encoded.attention.numel()))
    logits = []
    for drawn in torch.arange(k, device=items.device).split(together):
        permuted = encoded.attention[:, None].repeat(1, len(drawn), 1, 1)  # (B, K, S, T)
        for (row, slot), (places, from_places) in dealt.items():
            permuted[row, :, slot, places] = encoded.attention[row, slot, from_places[drawn]]
        with torch.no_grad():
            logits.append(encoded.decode(permuted))
    logits = torch.cat(logits, dim=1)
    after = probabilities(logits.double(), encoded.multi_label)
    before = probabilities(encoded.logits.double(), encoded.multi_label)[:, None]
    same = _decided(logits, encoded.multi_label) == _decided(encoded.logits, encoded.multi_label)[:, None]
    return output_change(after, before, encoded.multi_label), (~same.flatten(2).all(-1)).double().mean(1)


def _decided(logits: Tensor, multi_label: bool) -> Tensor:
    """(..., 1) the class, or (..., C) which labels."""
    return logits > 0 if multi_label else logits.argmax(-1, keepdim=True)


def _exact(block: Block, attention: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """The largest change over all permutations (B,), and whether no permutation changes the decision (B,)."""
    encoded = block.encoded
    nothing = torch.full((len(block),), math.nan, dtype=torch.float64)
    if encoded.affine is None or encoded.multi_label:
        return nothing, nothing
    token_logits, bias = encoded.affine.token_logits.double(), encoded.affine.bias.double()
    fixed = torch.where(items, 0.0, attention)[:, None] @ token_logits  # what keeps its weight adds to the bias
    bias = bias + fixed[:, 0]
    moved = torch.where(items, attention, 0.0)
    certified = permutation_certificate(moved, items, token_logits, bias).double()
    if token_logits.shape[-1] != 2:
        return nothing, certified
    margin = (bias[:, 1] - bias[:, 0])[:, None]
    ends = torch.stack(permutation_extremes(moved, items, token_logits[..., 1] - token_logits[..., 0]), dim=-1) + margin
    now = encoded.logits.double()
    return (ends.sigmoid() - (now[:, 1] - now[:, 0])[:, None].sigmoid()).abs().amax(-1), certified


EVALUATORS.register("permutation")(
    Evaluator(
        "permutation", "Jain and Wallace 2019, section 4.2.1", (MEDIAN, LARGEST, FLIPS, EXTREME, CERTIFIED), run,
        PermutationSettings,
    )
)  # fmt: skip
