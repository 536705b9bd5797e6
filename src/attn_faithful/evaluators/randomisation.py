"""Does an importance change when the model's weights do? (Adebayo et al. 2018, section 3)

The weights are drawn anew, as before training, part by part from the output down (cascading) and one part at a time
(single). An importance that then ranks the items as before says nothing of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_choice
from attn_faithful._seeds import seed_for
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, sources_of
from attn_faithful.evaluators.randomisation_metrics import BY_STEP, CASCADING, METRICS, MODES, OF_DRAW, TAU
from attn_faithful.evaluators.rereading import Rereading
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows
from attn_faithful.functional.block_correlations import BlockTau, block_tau
from attn_faithful.functional.block_ranks import BlockRanks, Items
from attn_faithful.functional.rankings import TIE_TOLERANCE
from attn_faithful.functional.reasons import NO_WEIGHTS, Reasons, or_else
from attn_faithful.models.model_parts import ModelPart, parts_from_top, weights_of
from attn_faithful.models.modes import altering
from attn_faithful.models.randomised import Weights, drawn_weights, of_weights, replaced

NAME = "randomisation"
ALL = "all"  # the mode of a change of all weights

Columns = list[ScoreColumn]
Taus = dict[tuple[range, str], BlockTau]  # parts that are new, and a source -> its tau-b with itself (B,)


@dataclass(frozen=True)
class RandomisationSettings:
    """Which importances are computed again, and after which draws of weights.

    Attributes:
        rankings: sources of importance, "attention" among them. Each is computed again for every draw and step, so that
            leave_one_out, which runs a text once a token, is no default.
        draws: how often weights are drawn.
        modes: "cascading": the weights of a part and of all above it; "single": those of one part alone.
        steps: the parts, by name, that the model is altered down to, or in; empty for all of them. All weights at once
            are drawn anew whatever they are.
        tie_tolerance: relative gap up to which sorted neighbours count as tied.
    """

    rankings: list[str] = field(
        default_factory=lambda: ["attention", "attention_x_gradient", "input_x_gradient", "random"]
    )
    draws: int = 3
    modes: list[str] = field(default_factory=lambda: list(MODES))
    steps: list[str] = field(default_factory=list)
    tie_tolerance: float = TIE_TOLERANCE

    def __post_init__(self) -> None:
        if not self.rankings or len(set(self.rankings)) != len(self.rankings):
            raise InputError(f"rankings must name different sources, such as attention, but are {self.rankings}.")
        if self.draws < 1:
            raise InputError(f"draws must be at least 1, but is {self.draws}.")
        for mode in self.modes:
            check_choice("mode", mode, MODES)


@dataclass(frozen=True)
class Change:
    """Parts whose weights are drawn anew together.

    Attributes:
        mode: of `MODES`, or `ALL` for all parts.
        step: the name of the part that it comes to.
        parts: by their number from the top.
    """

    mode: str
    step: str
    parts: range


def run(block: Block, settings: RandomisationSettings) -> ScoreRows:
    """Correlate every importance with itself, computed again after each change of the weights.

    Args:
        block: `rereading` reads the texts again; without it, and of models that hold no weights, all is undefined.
        settings: see `RandomisationSettings`.

    Returns:
        scores whose source is that of the importance, of a step "<source>@<part>", of a draw "<source>@<number>".
    """
    columns: Columns = []
    rereading = block.rereading
    network = None if rereading is None else weights_of(rereading.model)
    if rereading is None or network is None:
        undefined = np.full(len(block), math.nan)
        for name in settings.rankings:
            columns.append(ScoreColumn(TAU.name, undefined, otherwise=NO_WEIGHTS, source=name))
    else:
        with altering(network):
            columns = _columns(block, rereading, network, settings)
    rows = ScoreRows()
    rows.add_columns(block, columns)
    return rows


def _columns(block: Block, rereading: Rereading, network: nn.Module, settings: RandomisationSettings) -> Columns:
    """The metrics of a model that no other thread uses."""
    parts = parts_from_top(rereading.model, rereading.batch)
    changes = changes_of([part.name for part in parts], settings)
    ranks = Ranks.of(block, settings)
    draws: list[Taus] = []
    for number in range(settings.draws):
        drawn = drawn_weights(network, seed_for(block.seed, "weights", number))
        draws.append(_taus(ranks, rereading, parts, changes, drawn))
    columns: Columns = []
    for name in settings.rankings:
        columns += _columns_of(name, changes, draws)
    return columns


def changes_of(names: Sequence[str], settings: RandomisationSettings) -> list[Change]:
    """All changes: of each mode one a step from the top, then that of all weights.

    Args:
        names: of the parts from the top.
        settings: which modes and steps.

    Raises:
        InputError: the model has no such part.

    Example:
        >>> for change in changes_of(["readout", "encoder"], RandomisationSettings(modes=["single"])):
        ...     print(change)
        Change(mode='single', step='readout', parts=range(0, 1))
        Change(mode='single', step='encoder', parts=range(1, 2))
        Change(mode='all', step='encoder', parts=range(0, 2))
    """
    for step in settings.steps:
        check_choice("step", step, names)
    changes = []
    for mode in settings.modes:
        for number, name in enumerate(names):
            first = 0 if mode == CASCADING else number
            if not settings.steps or name in settings.steps:
                changes.append(Change(mode, name, range(first, number + 1)))
    return [*changes, Change(ALL, names[-1], range(len(names)))]


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of the items of a block by every source, before any change.

    Attributes:
        items: of the texts.
        of_source: by name.
        tie_tolerance: relative gap up to which sorted neighbours count as tied.
    """

    items: Items
    of_source: Mapping[str, BlockRanks]
    tie_tolerance: float

    @classmethod
    def of(cls, block: Block, settings: RandomisationSettings) -> Ranks:
        items = Items.of(block.items.any(1).cpu().numpy())  # an item of some slot
        of_source = {}
        for name in settings.rankings:
            values = block.importance(name).double().cpu().numpy()  # (B, T)
            of_source[name] = BlockRanks.of(name, values, items, settings.tie_tolerance)
        return cls(items, of_source, settings.tie_tolerance)

    def tau_with(self, name: str, after: Tensor) -> BlockTau:
        """tau-b of a source with what it gives after a change, (B, T)."""
        values = after.double().cpu().numpy()
        ranks = BlockRanks.of(f"{name} of new weights", values, self.items, self.tie_tolerance)
        return block_tau(self.of_source[name], ranks)


def _taus(
    ranks: Ranks,
    rereading: Rereading,
    parts: Sequence[ModelPart],
    changes: Sequence[Change],
    drawn: Weights,
) -> Taus:
    """tau-b of every source with itself after each change by one draw; two changes of the same parts are one."""
    names = list(ranks.of_source)
    taus: Taus = {}
    for numbers in dict.fromkeys(change.parts for change in changes):
        weights = chain.from_iterable(parts[number].weights for number in numbers)
        with replaced(of_weights(drawn, weights)):
            reading = rereading.again(names)
        for name in names:
            taus[numbers, name] = ranks.tau_with(name, reading.sources[name])
    return taus


def _columns_of(name: str, changes: Sequence[Change], draws: Sequence[Taus]) -> Columns:
    """The metrics of one source: by step, of all weights, and of each draw of these."""
    columns: Columns = []
    for change in changes:
        of_draws = [taus[change.parts, name] for taus in draws]
        mean, reasons = _mean(of_draws)
        if change.mode != ALL:
            metric = BY_STEP[change.mode]
            columns.append(ScoreColumn(metric.name, mean, reasons, source=f"{name}@{change.step}"))
            continue
        columns.append(ScoreColumn(TAU.name, mean, reasons, source=name))
        for number, tau in enumerate(of_draws):
            columns.append(ScoreColumn(OF_DRAW.name, tau.value, tau.reasons, source=f"{name}@{number}"))
    return columns


def _mean(taus: Sequence[BlockTau]) -> tuple[np.ndarray, Reasons]:
    """The mean (B,) over the draws in which tau is defined, and why it is in none."""
    values = np.stack([tau.value for tau in taus])  # (draws, B)
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(0)
    count = known.sum(0)
    mean = np.where(count > 0, total / np.maximum(count, 1), math.nan)
    reasons: Reasons = [None] * values.shape[1]
    for tau in taus:
        reasons = or_else(reasons, tau.reasons)
    return mean, reasons


EVALUATORS.register(NAME)(
    Evaluator(
        NAME,
        "Adebayo et al. 2018, section 3",
        metrics=METRICS,
        run=run,
        settings=RandomisationSettings,
        sources=sources_of,
        under_controls=False,
        by_default=False,
    )
)
