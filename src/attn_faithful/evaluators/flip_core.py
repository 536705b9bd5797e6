"""Which items' attention must be believed for the decision to stand, and whether a ranking puts these items first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.flip_metrics import CORE_IS_TOP, CORE_LOWER, CORE_SHARE, CORE_SIZE
from attn_faithful.evaluators.movable_attention import Movable, movable_of
from attn_faithful.evaluators.score_rows import ScoreRows, VariantColumns
from attn_faithful.functional.certified_core import CertifiedCore, certified_core, core_is_top
from attn_faithful.functional.reasons import ATTENTION_PROOF, first_reasons, or_else

CORE = "certified_core"  # a name beside those of sources


def add_core(rows: ScoreRows, block: Block, orders: Mapping[str, Sequence[Tensor]]) -> None:
    """Add the certified core, and of each ranking whether its top items are one as small; none for other read-outs.

    Positions that are no items keep their weight, and need not be believed.

    Args:
        rows: where the scores go.
        block: examples at a site.
        orders: ranking -> places (B, T) of the items from the most important on, of random rankings one a draw.
    """
    movable = movable_of(block)
    if movable is None:
        return
    readout = movable.shares, movable.items, movable.token_logits, movable.bias
    found = certified_core(*readout)
    counts = movable.items.sum(1)
    values = {CORE_SIZE: found.size, CORE_LOWER: found.lower, CORE_SHARE: found.size / counts}
    rows.add(block, values, found.reason, source=CORE)
    needs_none = first_reasons({ATTENTION_PROOF: found.size == 0})
    reasons = or_else(found.reason, needs_none)
    for name, orders_of_name in orders.items():
        is_top = torch.stack([core_is_top(*readout, order, found.size) for order in orders_of_name])  # (draws, B)
        rows.add(block, {CORE_IS_TOP: is_top.mean(0)}, reasons, source=name)
    _add_items(rows, block, movable, found)


def _add_items(rows: ScoreRows, block: Block, movable: Movable, found: CertifiedCore) -> None:
    """Add the cores themselves, by the places of their items among the items."""
    places = []
    for core, items in zip(found.core.cpu(), movable.items.cpu(), strict=True):
        places.append(core[items].nonzero()[:, 0].tolist())
    exists = ~found.size.isnan()  # (B,)
    further = {"core": places, "exact": (found.size == found.lower).tolist()}
    rows.add_variants(block, [VariantColumns("flips", CORE, exists, further)])
