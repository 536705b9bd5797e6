"""The ways to erase items from a text, and what the test `erasure` calls its numbers by each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attn_faithful.evaluators.aopc_scores import AopcMetrics
from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.functional.reasons import CANNOT_DELETE, CANNOT_MASK

Erase = Callable[[Tensor], Tensor]  # of `Block.without` and `Block.masked`


@dataclass(frozen=True)
class Operator:
    """One way to erase items.

    Attributes:
        name: "delete" or "mask", as in the setting `operators`.
        comprehensiveness, sufficiency: rows of the metric table.
        aopc: those about AOPC.
        outside: how many of the erased texts are unusual to the model.
        missing: why texts are undefined where a model's cannot be erased so.
    """

    name: str
    comprehensiveness: MetricSpec
    sufficiency: MetricSpec
    aopc: AopcMetrics
    outside: MetricSpec
    missing: str

    @property
    def metrics(self) -> tuple[MetricSpec, ...]:
        return (self.comprehensiveness, self.sufficiency, *self.aopc.all, self.outside)

    def of(self, block: Block) -> Erase | None:
        """What erases items of a block's texts; None where nothing does."""
        return block.masked if self.name == "mask" else block.without

    def variant(self, ranking: str) -> str:
        """What a ranking's row of the table "variants" is called."""
        return ranking if self.name == "delete" else f"{ranking}, {self.name}"


def _operator(name: str, erased: str, prefix: str, by: str, how: str, aopc: AopcMetrics, missing: str) -> Operator:
    """An operator.

    Args:
        name: of it.
        erased: what happens to items, the beginning of the names of metrics that have no other.
        prefix: of the names of its metrics.
        by: what stands behind their titles.
        how: what its texts are without the top items, and with them alone, in words.
        aopc, missing: see `Operator`.
    """
    return Operator(
        name=name,
        comprehensiveness=MetricSpec(
            f"{prefix}comprehensiveness",
            f"comprehensiveness{by}",
            f"what the predicted class loses without the top items{how}, mean over shares",
            low=-1.0,
            direction="higher",
            unit="probability",
        ),
        sufficiency=MetricSpec(
            f"{prefix}sufficiency",
            f"sufficiency{by}",
            f"what the predicted class loses with the top items alone{how}, mean over shares",
            low=-1.0,
            direction="lower",
            unit="probability",
        ),
        aopc=aopc,
        outside=MetricSpec(
            f"{erased}_outside",
            f"outside, {erased}",
            f"share of the texts with top items, or all others, {erased} that are unusual to the model (MaSF, p < "
            ".05); by chance 5%",
        ),
        missing=missing,
    )


DELETE = _operator(
    "delete",
    "deleted",
    prefix="",
    by="",
    how="",
    aopc=AopcMetrics.named("", "", "deleted from the text"),
    missing=CANNOT_DELETE,
)
MASK = _operator(
    "mask",
    "masked",
    prefix="mask_",
    by=", masks",
    how=", mask tokens in the place of the others",
    aopc=AopcMetrics.named("_mask", ", masks", "masked in the text"),
    missing=CANNOT_MASK,
)
OPERATORS = {operator.name: operator for operator in (DELETE, MASK)}
