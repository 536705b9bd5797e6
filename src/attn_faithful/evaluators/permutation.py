"""Does the prediction change when the attention weights are dealt to other tokens? (Jain and Wallace 2019, 4.2.1)"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.adversarial_search import output_change
from attn_faithful.evaluators.attention_removal import CELLS
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.permutations import (
    joint_permutations,
    permutable,
    permutation_certificate,
    permutation_extremes,
)
from attn_faithful.functional.reasons import MORE_CLASSES, MULTI_LABEL, NOT_AFFINE
from attn_faithful.models.protocol import probabilities

MEDIAN = MetricSpec(
    "attention_permutation",
    "median TVD",
    "median change of the prediction over permutations of the weights",
    0.0,
    1.0,
    "higher",
    "probability",
)
LARGEST = MetricSpec("largest_attention", "largest weight", "the largest attention weight of the text", 0.0, 1.0)
FLIPS = MetricSpec(
    "permutation_flips", "flips", "share of the permutations that change the decision", 0.0, 1.0, "higher"
)
EXTREME = MetricSpec(
    "permutation_largest",
    "largest TVD",
    "largest change of the prediction over all permutations, exact; two classes",
    0.0,
    1.0,
    "higher",
    "probability",
)
CERTIFIED = MetricSpec(
    "permutation_certified",
    "no flip",
    "whether it is certain that no permutation at all changes the decision",
    0.0,
    1.0,
    "lower",
)


@dataclass(frozen=True)
class PermutationSettings:
    """Which permutations of the weights are tried.

    Attributes:
        permutations: drawn for a text of six content tokens or more, without the identity; each deals the weights of
            all content tokens. Of a shorter text all permutations but the identity are tried, whatever the seed: 1, 5,
            23 and 119 for two to five tokens. Where the attention has several slots (heads, sentences) this holds of
            the permutations of all slots together: all where there are at most 120.
        identity: whether to draw so many for every text, the identity among them, as Jain and Wallace's code does. A
            short text's median then depends on the seed: half of the draws of two tokens change nothing.
    """

    permutations: int = 100
    identity: bool = False

    def __post_init__(self) -> None:
        if self.permutations < 1:
            raise InputError(f"permutations must be at least 1, but is {self.permutations}.")


def run(block: Block, settings: PermutationSettings) -> ScoreRows:
    """Permute the attention weights of the content tokens with the encoder's states as they are.

    Where there are several slots the weights of each are dealt within it, in all at once. A permutation is one of
    places: of three tokens of which two have equal weights all five permutations are tried, and the one that exchanges
    the equal weights changes nothing. Texts whose attention no permutation can change (fewer than two content tokens,
    equal weights) say nothing: their values are NaN with the reason.

    Args:
        block: examples at a site.
        settings: see `PermutationSettings`.
    """
    encoded, items = block.encoded, block.items
    possible, reasons = _permutable(encoded.attention.double(), items)
    changes, flips, tried = _sampled(block, settings)
    largest, certified = _exact(block, encoded.attention[:, 0].double(), items[:, 0])
    weights = torch.where(items.any(1), encoded.over_items.double(), -math.inf).amax(-1)
    median = [_median(own[:n]) for own, n in zip(changes, tried, strict=True)]
    no_largest = NOT_AFFINE if encoded.affine is None else MORE_CLASSES
    if encoded.multi_label:
        no_largest = MULTI_LABEL
    found = ScoreRows()
    for row, reason in enumerate(reasons):
        for metric, values, undefined in (
            (MEDIAN, median, None),
            (FLIPS, flips, None),
            (EXTREME, largest, no_largest),
            (CERTIFIED, certified, MULTI_LABEL if encoded.multi_label else NOT_AFFINE),
        ):
            value = float(values[row]) if bool(possible[row]) else math.nan
            found.score(block, row, metric.name, value, reason or undefined)
        empty = not bool(items[row].any())
        found.score(block, row, LARGEST.name, math.nan if empty else float(weights[row]), reason)
        if bool(possible[row]):
            own = changes[row, : tried[row]].tolist()
            found.variant(block, row, "permutation", block.attention, changes=own, output_tvd=median[row])
    return found


def run_decision(block: Block, settings: PermutationSettings) -> ScoreRows:
    """The metrics of `run` that are about the decision, of a block of one label."""
    found = run(block, settings).without_metrics({MEDIAN.name, LARGEST.name})
    found.variants = ScoreRows().variants
    return found


def _permutable(attention: Tensor, items: Tensor) -> tuple[Tensor, list[str | None]]:
    """Whether any slot of an example can be dealt anew (B,), and why not: what holds of its slot of most items."""
    whole, reasons = permutable(attention.flatten(0, 1), items.flatten(0, 1))
    slots = items.shape[1]
    possible = whole.view(-1, slots).any(1)
    longest = items.sum(-1).argmax(1).tolist()
    held = [reasons[row * slots + slot] for row, slot in enumerate(longest)]
    return possible, [None if p else reason for p, reason in zip(possible.tolist(), held, strict=True)]


def _median(changes: Tensor) -> float:
    """Of changes (K,) the mean of the middle two, as in the paper's code; NaN for none."""
    return float(changes.quantile(0.5)) if len(changes) else math.nan


def _sampled(block: Block, settings: PermutationSettings) -> tuple[Tensor, Tensor, list[int]]:
    """Change of the prediction under each permutation (B, K), the share that change the decision (B,), and how many
    of the K there are of each text."""
    encoded, items = block.encoded, block.items
    orders = _orders(block, settings)
    tried = [0] * len(block)
    for (row, _), (_, from_places) in orders.items():
        tried[row] = len(from_places)
    k = max([1, *tried])
    inside = (torch.arange(k) < torch.tensor(tried)[:, None]).to(items.device)  # (B, K)
    together = max(1, CELLS // max(1, encoded.attention.numel()))
    logits = []
    for drawn in torch.arange(k, device=items.device).split(together):
        permuted = encoded.attention[:, None].repeat(1, len(drawn), 1, 1)  # (B, K, S, T)
        for (row, slot), (places, from_places) in orders.items():
            own = from_places[drawn[0] : drawn[-1] + 1]
            permuted[row, : len(own), slot, places] = encoded.attention[row, slot, own]
        with torch.no_grad():
            logits.append(encoded.decode(permuted))
    logits = torch.cat(logits, dim=1)
    after = probabilities(logits.double(), encoded.multi_label)
    before = probabilities(encoded.logits.double(), encoded.multi_label)[:, None]
    changes = output_change(after, before, encoded.multi_label)
    same = _decided(logits, encoded.multi_label) == _decided(encoded.logits, encoded.multi_label)[:, None]
    changed = ~same.flatten(2).all(-1) & inside
    return changes, changed.double().sum(1) / inside.sum(1), tried


def _orders(block: Block, settings: PermutationSettings) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """(row, slot) -> the places of its items, and for each permutation those whose weights they get (K, places)."""
    orders = {}
    for row, slots in enumerate(block.items):
        places = {slot: held.nonzero()[:, 0] for slot, held in enumerate(slots) if int(held.sum()) > 1}
        generators = [block.generator(row, "permutation", *([slot] if slot else [])) for slot in places]
        counts = [len(held) for held in places.values()]
        dealt = joint_permutations(counts, settings.permutations, generators, settings.identity)
        for (slot, held), order in zip(places.items(), dealt, strict=True):
            orders[row, slot] = held, held[order.to(held.device)]
    return orders


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
        "permutation",
        "Jain and Wallace 2019, section 4.2.1",
        (MEDIAN, LARGEST, FLIPS, EXTREME, CERTIFIED),
        run=run,
        settings=PermutationSettings,
        by_label=LabelTest((FLIPS, EXTREME, CERTIFIED), run_decision),
    )
)
