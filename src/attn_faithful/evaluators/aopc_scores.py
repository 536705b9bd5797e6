"""AOPC of rankings between the limits of all orders, as rows of a test: by removal or by deletion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows, nan_where
from attn_faithful.functional.naopc import AopcLimits, normalized_aopc
from attn_faithful.functional.reasons import Reasons, or_else

BEAM_BUDGET = 3000  # sets that a beam asks for, of a text; with ten rankings one of 50 items has a beam of one set

EXACT, SEARCHED = "exact_orders", "beam_orders"  # sources of the limits: by how they are known

FLOAT32 = 1e-6  # AOPC that rounding alone gives, of a model that was asked
FLOAT64 = 1e-12  # of one that was computed


@dataclass(frozen=True)
class AopcMetrics:
    """The rows of the metric table about AOPC of one way to take items away.

    Attributes:
        normalized, width, aopc: of a ranking.
        best, worst: of the orders that are the limits.
        asked: how many sets the model was asked for.
    """

    normalized: MetricSpec
    width: MetricSpec
    aopc: MetricSpec
    best: MetricSpec
    worst: MetricSpec
    asked: MetricSpec

    @classmethod
    def named(cls, suffix: str, by: str, how: str) -> AopcMetrics:
        """Those whose names end so.

        Args:
            suffix: "" or "_removal".
            by: what stands behind their titles, such as ", removal".
            how: "deleted from the text", say.
        """
        return cls(
            normalized=MetricSpec(
                f"naopc{suffix}",
                f"NAOPC{by}",
                f"what the decision's probability loses while the items are {how} along the ranking, between the worst "
                "order (0) and the best (1) of the same items",
                direction="higher",
            ),
            width=MetricSpec(
                f"naopc{suffix}_width",
                f"NAOPC within{by}",
                "how far apart the values of NAOPC are that exact limits leave possible",
                direction="lower",
                shown=False,
            ),
            aopc=MetricSpec(
                f"aopc{suffix}",
                f"AOPC{by}",
                f"what the decision's probability loses while the items are {how} along the ranking, mean over 1 to "
                "n - 1 items",
                low=-1.0,
                unit="probability",
                shown=False,
            ),
            best=MetricSpec(
                f"aopc{suffix}_best",
                f"best AOPC{by}",
                "AOPC that no order of the items exceeds, or that of the best order that was found",
                low=-1.0,
                unit="probability",
                shown=False,
            ),
            worst=MetricSpec(
                f"aopc{suffix}_worst",
                f"worst AOPC{by}",
                "AOPC that no order of the items falls below, or that of the worst order that was found",
                low=-1.0,
                unit="probability",
                shown=False,
            ),
            asked=MetricSpec(
                f"naopc{suffix}_tried",
                f"sets asked{by}",
                "number of sets of items that the model was asked for to find the limits of AOPC, where they are "
                "searched",
                high=math.inf,
                shown=False,
            ),
        )

    @property
    def all(self) -> tuple[MetricSpec, ...]:
        return (self.normalized, self.width, self.aopc, self.best, self.worst, self.asked)


@dataclass(frozen=True)
class AopcScores:
    """AOPC of rankings, and its limits.

    Attributes:
        aopc: ranking -> (D, B), of each of its draws; of a ranking without chance there is one.
        limits: over all orders, these among them.
        asked: (B,), sets that the model was asked for; None where the limits are exact.
    """

    aopc: Mapping[str, Tensor]
    limits: AopcLimits
    asked: Tensor | None = None

    @classmethod
    def of_orders(
        cls, names: Sequence[str], aopc: Tensor, limits: AopcLimits, asked: Tensor | None = None
    ) -> AopcScores:
        """Of orders (O, B), which belong to the rankings of these names (O,); several of one name are draws."""
        rows_of: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows_of.setdefault(name, []).append(row)
        by_ranking = {name: aopc[rows] for name, rows in rows_of.items()}
        return cls(by_ranking, limits.including(aopc), asked)

    def add(
        self,
        rows: ScoreRows,
        block: Block,
        metrics: AopcMetrics,
        reasons: Reasons,
        reasons_of: Mapping[str, Reasons] | None = None,
    ) -> None:
        """Add the metrics of every ranking, and those of the limits.

        Args:
            rows: where the scores go.
            block: the examples.
            metrics: the rows of the metric table.
            reasons: why an example is undefined beside what the limits say; None where it is not.
            reasons_of: ranking -> why it is undefined for an example, where rankings may be.
        """
        reasons = or_else(reasons, self.limits.reason)
        alike = FLOAT64 if self.asked is None else FLOAT32
        for name, aopc in self.aopc.items():
            by_draw = [normalized_aopc(draw, self.limits, alike) for draw in aopc]
            values = {metrics.normalized: torch.stack([draw.value for draw in by_draw]).mean(0)}
            if self.asked is None:
                values[metrics.width] = torch.stack([draw.width for draw in by_draw]).mean(0)
            of_ranking = reasons
            if reasons_of is not None:
                of_ranking = or_else(reasons, reasons_of[name])
            _add(rows, block, values, or_else(of_ranking, by_draw[0].reason), name)
            _add(rows, block, {metrics.aopc: aopc.mean(0)}, of_ranking, name)
        values = {metrics.best: self.limits.best, metrics.worst: self.limits.worst}
        source = EXACT
        if self.asked is not None:
            values[metrics.asked] = self.asked
            source = SEARCHED
        _add(rows, block, values, reasons, source)


def add_undefined(
    rows: ScoreRows,
    block: Block,
    metrics: AopcMetrics,
    rankings: Iterable[str],
    reasons: Reasons,
) -> None:
    """Add the metrics of every ranking where nothing can be taken away: NaN, each example with its reason."""
    nothing = torch.full((len(block),), math.nan)
    for name in rankings:
        _add(rows, block, {metrics.normalized: nothing, metrics.aopc: nothing}, reasons, name)


def check_beam(beam: int, budget: int) -> None:
    """Raise unless the settings of a beam search are numbers that it can be run with, or none."""
    if beam < 0:
        raise InputError(f"beam must be at least 0, but is {beam}.")
    if budget < 1:
        raise InputError(f"beam_budget must be at least 1, but is {budget}.")


def _add(
    rows: ScoreRows,
    block: Block,
    values: Mapping[MetricSpec, Tensor],
    reasons: Reasons,
    source: str,
) -> None:
    """Add metrics (B,), NaN for examples that have a reason."""
    columns = {metric: nan_where(reasons, column.double()) for metric, column in values.items()}
    rows.add(block, columns, reasons, source)
