"""Does the prediction change when the attention weights are dealt to other tokens? (Jain and Wallace 2019, 4.2.1)"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest, MetricSpec
from attn_faithful.evaluators.predictions import output_change
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows, VariantColumns, is_defined, nan_where
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
    direction="higher",
    unit="probability",
)
LARGEST = MetricSpec(
    "largest_attention",
    "largest weight",
    "the largest attention weight of the text",
)
FLIPS = MetricSpec(
    "permutation_flips",
    "flips",
    "share of the permutations that change the decision",
    direction="higher",
)
EXTREME = MetricSpec(
    "permutation_largest",
    "largest TVD",
    "largest change of the prediction over all permutations, exact; two classes",
    direction="higher",
    unit="probability",
)
CERTIFIED = MetricSpec(
    "permutation_certified",
    "no flip",
    "whether it is certain that no permutation at all changes the decision",
    direction="lower",
)
DECISION = (FLIPS, EXTREME, CERTIFIED)


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


@dataclass(frozen=True)
class Sampled:
    """What the sampled permutations of each example do.

    Attributes:
        changes: (B, K), change of the prediction under each; an example has the first of them, see `counts`.
        flips: (B,), share of an example's permutations that change the decision.
        counts: permutations of each example.
    """

    changes: Tensor
    flips: Tensor
    counts: list[int]

    def by_example(self) -> list[Tensor]:
        """The changes of each example, under its permutations alone."""
        pairs = zip(self.changes.cpu(), self.counts, strict=True)
        return [changes[:count] for changes, count in pairs]

    @cached_property
    def medians(self) -> Tensor:
        """Of each example's changes the mean of the middle two, as in the paper's code; NaN for none. (B,)"""
        counts = torch.tensor(self.counts, device=self.changes.device)
        medians = torch.full((len(counts),), math.nan, dtype=torch.float64)
        for count in set(self.counts) - {0}:
            rows = (counts == count).nonzero()[:, 0]
            medians[rows.cpu()] = self.changes[rows, :count].quantile(0.5, dim=1).double().cpu()
        return medians


def run(block: Block, settings: PermutationSettings) -> ScoreRows:
    """Permute the attention weights of the content tokens with the encoder's states as they are.

    Where there are several slots the weights of each are dealt within it, in all at once. A permutation is one of
    places: of three tokens of which two have equal weights all five permutations are tried, and the one that exchanges
    the equal weights changes nothing. Values of texts whose attention no permutation can change (fewer than two content
    tokens, equal weights) are NaN with the reason.

    Args:
        block: examples at a site.
        settings: see `PermutationSettings`.
    """
    reasons = _reasons(block)
    sampled = _sampled(block, settings)
    changes = sampled.by_example()
    has_item = block.items.flatten(1).any(1)  # (B,)
    weights = block.encoded.over_items.double()  # (B, T)
    largest = torch.where(block.items.any(1), weights, -math.inf).amax(-1)  # (B,)
    columns = [
        ScoreColumn(MEDIAN.name, nan_where(reasons, sampled.medians), reasons),
        *_decision_columns(block, sampled, reasons),
        ScoreColumn(LARGEST.name, largest.masked_fill(~has_item, math.nan), reasons),
    ]
    further = {
        "changes": [changes_of_text.tolist() for changes_of_text in changes],
        "output_tvd": sampled.medians,
    }
    alternative = VariantColumns("permutation", block.attention, is_defined(reasons), further)
    rows = ScoreRows()
    rows.add_columns(block, columns)
    rows.add_variants(block, [alternative])
    return rows


def run_decision(block: Block, settings: PermutationSettings) -> ScoreRows:
    """The metrics of `run` that are about the decision, of a block of one label."""
    sampled = _sampled(block, settings)
    reasons = _reasons(block)
    rows = ScoreRows()
    rows.add_columns(block, _decision_columns(block, sampled, reasons))
    return rows


def _decision_columns(
    block: Block,
    sampled: Sampled,
    reasons: Sequence[str | None],
) -> list[ScoreColumn]:
    largest, certified = _exact(block)
    no_largest, no_certificate = MORE_CLASSES, NOT_AFFINE
    if block.encoded.affine is None:
        no_largest = NOT_AFFINE
    if block.encoded.multi_label:
        no_largest = no_certificate = MULTI_LABEL
    return [
        ScoreColumn(FLIPS.name, nan_where(reasons, sampled.flips), reasons),
        ScoreColumn(EXTREME.name, nan_where(reasons, largest), reasons, no_largest),
        ScoreColumn(CERTIFIED.name, nan_where(reasons, certified), reasons, no_certificate),
    ]


def _reasons(block: Block) -> list[str | None]:
    """Why no slot of an example can be dealt anew: what holds of its slot of most items; None where one can."""
    slots = block.items.shape[1]
    attention = block.encoded.attention.double()
    possible, reasons = permutable(attention.flatten(0, 1), block.items.flatten(0, 1))
    possible_in_any = possible.view(-1, slots).any(1).tolist()  # one an example
    longest = block.items.sum(-1).argmax(1).tolist()
    reasons_of_examples: list[str | None] = []
    for row, slot in enumerate(longest):
        reason = None if possible_in_any[row] else reasons[row * slots + slot]
        reasons_of_examples.append(reason)
    return reasons_of_examples


def _sampled(block: Block, settings: PermutationSettings) -> Sampled:
    encoded = block.encoded
    orders = _orders(block, settings)
    counts = [0] * len(block)
    for order in orders:
        counts[order.row] = len(order.sources)
    most = max([1, *counts])
    chunks = []
    for start in range(0, most, block.chunk_size):
        end = min(start + block.chunk_size, most)
        sources = _sources(encoded.attention.shape, orders, slice(start, end)).to(encoded.attention.device)
        permuted = encoded.attention[:, None].expand(sources.shape).gather(-1, sources)  # (B, K, S, T)
        with torch.no_grad():
            chunks.append(encoded.decode(permuted))
    logits = torch.cat(chunks, dim=1)  # (B, K, C)
    after = probabilities(logits.double(), encoded.multi_label)
    before = probabilities(encoded.logits.double(), encoded.multi_label)[:, None]  # (B, 1, C)
    changes = output_change(after, before, encoded.multi_label)  # (B, K)
    own_decision = _decided(encoded.logits, encoded.multi_label)[:, None]
    same_decision = _decided(logits, encoded.multi_label) == own_decision  # (B, K, 1 or C)
    is_own = torch.arange(most) < torch.tensor(counts)[:, None]  # (B, K), not of a text with more permutations
    is_own = is_own.to(block.items.device)
    flips = ~same_decision.flatten(2).all(-1) & is_own  # (B, K)
    share = flips.double().sum(1) / is_own.sum(1)
    return Sampled(changes, share, counts)


@dataclass(frozen=True)
class SlotOrders:
    """The permutations of one slot of an example.

    Attributes:
        row, slot: which it is.
        places: (n,) of its items.
        sources: (K, n): for each permutation the places whose weights the items get.
    """

    row: int
    slot: int
    places: np.ndarray
    sources: np.ndarray


def _sources(shape: Sequence[int], orders: Sequence[SlotOrders], chosen: slice) -> Tensor:
    """(B, K, S, T) for some permutations the place whose weight each place gets: its own where nothing is dealt."""
    examples, slots, tokens = shape
    sources = np.empty((examples, chosen.stop - chosen.start, slots, tokens), dtype=np.int64)
    sources[:] = np.arange(tokens)
    for order in orders:
        of_slot = order.sources[chosen]  # (K, n)
        sources[order.row, : len(of_slot), order.slot][:, order.places] = of_slot
    return torch.from_numpy(sources)


def _orders(block: Block, settings: PermutationSettings) -> list[SlotOrders]:
    """The permutations of every slot that has two items or more."""
    orders = []
    for row, slots in enumerate(block.items.cpu().numpy()):
        places_by_slot = {}
        for slot, items in enumerate(slots):
            places = np.flatnonzero(items)
            if len(places) > 1:
                places_by_slot[slot] = places
        counts = {slot: len(places) for slot, places in places_by_slot.items()}
        dealt = _dealt(block, row, counts, settings)
        for (slot, places), order in zip(places_by_slot.items(), dealt, strict=True):
            orders.append(SlotOrders(row, slot, places, places[order]))
    return orders


def _dealt(
    block: Block,
    row: int,
    counts: Mapping[int, int],
    settings: PermutationSettings,
) -> list[np.ndarray]:
    """The permutations of the slots of an example by their items: the same ones under every control."""
    key = ("permutation", block.seed, row, block.keys[row], *counts.items(), settings)
    if key not in block.memory:
        generators = [_generator(block, row, slot) for slot in counts]
        items = list(counts.values())
        orders = joint_permutations(items, settings.permutations, generators, settings.identity)
        block.memory[key] = [order.numpy() for order in orders]
    return block.memory[key]


def _generator(block: Block, row: int, slot: int) -> torch.Generator:
    if slot == 0:  # the key of the first slot is that of models of one slot
        return block.generator(row, "permutation")
    return block.generator(row, "permutation", slot)


def _decided(logits: Tensor, multi_label: bool) -> Tensor:
    """(..., 1) the class, or (..., C) which labels."""
    if multi_label:
        return logits > 0
    return logits.argmax(-1, keepdim=True)


def _exact(block: Block) -> tuple[Tensor, Tensor]:
    """The largest change over all permutations (B,), and whether no permutation changes the decision (B,)."""
    encoded = block.encoded
    nothing = torch.full((len(block),), math.nan, dtype=torch.float64)
    if encoded.affine is None or encoded.multi_label:
        return nothing, nothing
    # (B, T) each
    attention = encoded.attention[:, 0].double()
    items = block.items[:, 0]
    token_logits = encoded.affine.token_logits.double()  # (B, T, C)
    bias = encoded.affine.bias.double()  # (B, C)
    # what keeps its weight adds to the bias
    fixed = torch.where(items, 0.0, attention)[:, None] @ token_logits  # (B, 1, C)
    bias = bias + fixed[:, 0]
    moved = torch.where(items, attention, 0.0)
    certified = permutation_certificate(moved, items, token_logits, bias).double()
    if token_logits.shape[-1] != 2:
        return nothing, certified
    token_margins = token_logits[..., 1] - token_logits[..., 0]  # (B, T)
    extremes = permutation_extremes(moved, items, token_margins)
    margins = torch.stack(extremes, dim=-1) + _margin(bias)  # (B, 2), the smallest and the largest
    observed = _margin(encoded.logits.double())  # (B, 1)
    largest = (margins.sigmoid() - observed.sigmoid()).abs().amax(-1)
    return largest, certified


def _margin(logits: Tensor) -> Tensor:
    """Margin (B, 1) of the second of two classes (B, 2)."""
    return logits[:, 1:] - logits[:, :1]


EVALUATORS.register("permutation")(
    Evaluator(
        "permutation",
        "Jain and Wallace 2019, section 4.2.1",
        metrics=(MEDIAN, LARGEST, *DECISION),
        run=run,
        settings=PermutationSettings,
        by_label=LabelTest(DECISION, run_decision),
    )
)
