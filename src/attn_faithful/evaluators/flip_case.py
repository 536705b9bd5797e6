"""A block whose items are removed until its decisions change, and how a ranking changes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.evaluators.score_rows import UNDEFINED, ScoreRows, nan_where
from attn_faithful.functional.attention_removal import removal_order, removed_mass
from attn_faithful.functional.reasons import MULTI_LABEL, NAN_SCORES, NO_TOKEN, ONE_ITEM, first_reasons


@dataclass(frozen=True)
class FlipCurve:
    """The items that are removed until the decision changes; NaN where it never does.

    Attributes:
        size: (B,), how many.
        fraction: (B,), their share of the items.
        mass: (B,), their share of the attention on all items.
    """

    size: Tensor
    fraction: Tensor
    mass: Tensor

    @classmethod
    def mean(cls, curves: Sequence[FlipCurve]) -> FlipCurve:
        """The mean of several rankings; NaN where one of them never changes the decision."""
        return cls(
            torch.stack([curve.size for curve in curves]).mean(0),
            torch.stack([curve.fraction for curve in curves]).mean(0),
            torch.stack([curve.mass for curve in curves]).mean(0),
        )


@dataclass(frozen=True)
class FlipCase:
    """A block whose items are removed.

    Attributes:
        block: examples at a site; an item is removed from all slots of an example at once.
        removal: removes them.
        decision: (B,), the class with everything kept.
        counts: (B,), items.
        reasons: why the metrics of an example are undefined; None where they are defined.
    """

    block: Block
    removal: Removal
    decision: Tensor
    counts: Tensor
    reasons: Sequence[str | None]

    @classmethod
    def of(cls, block: Block, operator: str) -> FlipCase:
        removal = Removal(block, operator)
        counts = removal.items.sum(1)
        decision = removal.decided()
        reasons = _reasons(block, removal, counts)
        return cls(block, removal, decision, counts, reasons)

    @property
    def items(self) -> Tensor:
        """(B, T) bool."""
        return self.removal.items

    def order(self, source: str) -> Tensor:
        """Places (B, T) of the items from the most important on, by a source of importance."""
        if source == "attention":
            return removal_order(self.removal.log_weights, self.items)
        importance = self.block.sources[source].to(self.items.device)
        return removal_order(importance, self.items)

    def random_order(self, draw: int) -> Tensor:
        """Places (B, T) of the items in a random order, by seed and text."""
        values = torch.zeros(self.items.shape, dtype=torch.float64)  # (B, T)
        for row, inside in enumerate(self.items.cpu()):
            generator = self.block.generator(row, "random ranking", draw)
            count = int(inside.sum())
            values[row, inside] = torch.rand(count, generator=generator, dtype=torch.float64)
        return removal_order(values.to(self.items.device), self.items)

    def curves(self, orders: Sequence[Tensor]) -> list[FlipCurve]:
        """What must be removed along each order (B, T) of the items."""
        curves = []
        for order, size in zip(orders, self.removal.first_flips(orders, self.decision), strict=True):
            mass = removed_mass(self.removal.weights.log(), order, self.items, size)
            curves.append(FlipCurve(size, size / self.counts, mass))
        return curves

    def add(
        self,
        rows: ScoreRows,
        values: Mapping[MetricSpec, Tensor],
        source: str,
        otherwise: str = UNDEFINED,
    ) -> None:
        """Add metrics (B,), NaN for examples that have a reason."""
        columns = {}
        for metric, column in values.items():
            columns[metric] = nan_where(self.reasons, column.double())
        rows.add(self.block, columns, self.reasons, source, otherwise)


def _reasons(block: Block, removal: Removal, counts: Tensor) -> list[str | None]:
    if block.encoded.multi_label:
        return [MULTI_LABEL] * len(block)
    has_nan = block.encoded.logits.isnan().any(1) | removal.weights.isnan().any(1)  # (B,)
    return first_reasons({NAN_SCORES: has_nan, NO_TOKEN: counts == 0, ONE_ITEM: counts == 1})


def where_flips(size: Tensor, flags: Tensor) -> Tensor:
    """Flags (B,) as numbers, NaN where the decision never changes."""
    return torch.where(size.isnan(), math.nan, flags.double())
