"""Which items does the decision depend on, and does attention rank them first? (Serrano and Smith 2019, extended)

Items are removed from the attention along a ranking until the decision changes, and are compared with the smallest set
that changes it. A ranking that needs many more items than that set is no explanation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.aopc_scores import BEAM_BUDGET, check_beam
from attn_faithful.evaluators.attention_removal import OPERATORS
from attn_faithful.evaluators.base import EVALUATORS, RANKED, Block, Evaluator, LabelTest, MetricSpec, sources_of
from attn_faithful.evaluators.flip_aopc import add_aopc
from attn_faithful.evaluators.flip_case import FlipCase, FlipCurve, where_flips
from attn_faithful.evaluators.flip_core import CORE, add_core
from attn_faithful.evaluators.flip_facts import flip_facts
from attn_faithful.evaluators.flip_metrics import (
    AT_LAST,
    DIFFERENCE,
    FRACTION,
    LATER,
    MASS,
    METRICS,
    NEVER_FLIPS,
    OPTIMAL,
    RATIO,
    SIZE,
    SOONER,
    SPREAD,
    TRIED,
)
from attn_faithful.evaluators.flip_single import add_single_removals
from attn_faithful.evaluators.score_rows import ScoreRows, VariantColumns
from attn_faithful.functional.flip_set import smallest_flip_set
from attn_faithful.functional.readout import first_least
from attn_faithful.functional.reasons import NEVER
from attn_faithful.functional.searched_flip_set import BUDGET, searched_flip_set

RANDOM, SMALLEST, GREEDY = "random_ranking", "smallest_set", "greedy_set"
NO_RANKING = (RANDOM, SMALLEST, GREEDY, CORE)  # names beside those of sources


@dataclass(frozen=True)
class FlipSettings:
    """Which rankings are compared.

    Attributes:
        rankings: sources that items are removed by, the largest value first; "attention" among them.
        single: those whose top item is also removed alone, beside a random other one; None for all of them.
        random: draws of random rankings; 0 for none.
        operator: "renormalize" divides the remaining weights by their sum, "recompute" projects the remaining scores
            again. For softmax the two are the same.
        greedy: where the read-out is not affine, search a small set greedily: an upper bound of the smallest.
        budget: removals that this search tries for a text at most; one of 160 items takes about 300.
        beam: where the limits of AOPC are not exact, the sets of each size that a beam search for them keeps; 0 for no
            AOPC there.
        beam_budget: removals that this search asks for, of a text, at most; n items take about n^2.
    """

    rankings: list[str] = field(default_factory=lambda: list(RANKED))
    single: list[str] | None = None
    random: int = 5
    operator: str = "renormalize"
    greedy: bool = True
    budget: int = BUDGET
    beam: int = 1
    beam_budget: int = BEAM_BUDGET

    def __post_init__(self) -> None:
        check_choice("operator", self.operator, OPERATORS)
        if self.random < 0:
            raise InputError(f"random must be at least 0, but is {self.random}.")
        if self.budget < 1:
            raise InputError(f"budget must be at least 1, but is {self.budget}.")
        check_beam(self.beam, self.beam_budget)
        if not self.rankings:
            raise InputError("rankings must name one source at least, such as attention.")
        for name in self.rankings:
            if self.rankings.count(name) > 1 or name in NO_RANKING:
                raise InputError(
                    f"rankings: {name!r} stands twice, or is no source; random rankings have a setting random."
                )
        for name in self.single or ():
            check_choice("single", name, self.rankings)


@dataclass(frozen=True)
class FlipSet:
    """The smallest set that changes the decision, or the smallest that was found.

    Attributes:
        name: "smallest_set" or "greedy_set".
        curve: its size, fraction and mass.
        removed: (B, T) bool, the items in it; none where the decision never changes.
        tried: (B,), removals that were tried to find it; None where it is computed.
    """

    name: str
    curve: FlipCurve
    removed: Tensor
    tried: Tensor | None = None


def run(block: Block, settings: FlipSettings) -> ScoreRows:
    """Remove items by every ranking, and find the smallest set that changes the decision and the core that proves it.

    Values of texts of one item and of texts that a ranking never flips are NaN with a reason.

    Args:
        block: examples at a site; an item is removed from all slots of an example at once.
        settings: see `FlipSettings`.
    """
    rows = ScoreRows()
    case = FlipCase.of(block, settings.operator)
    orders = {name: case.order(name) for name in settings.rankings}
    random_orders = [case.random_order(draw) for draw in range(settings.random)]
    all_orders = [*orders.values(), *random_orders]
    all_curves = case.curves(all_orders)
    curves = dict(zip(orders, all_curves, strict=False))
    if settings.random:
        drawn = all_curves[len(orders) :]
        curves[RANDOM] = FlipCurve.mean(drawn)
        fractions = torch.stack([curve.fraction for curve in drawn])  # (draws, B)
        spread = fractions.std(0, correction=0)
        case.add(rows, {SPREAD: spread}, source=RANDOM, otherwise=NEVER)
    fewest = None
    smallest = _smallest_set(case, settings, _best_prefix(case, all_orders, all_curves))
    if smallest is not None:
        curves[smallest.name] = smallest.curve
        fewest = _fewest(curves)
        _add_sets(rows, case, smallest)
        if smallest.tried is not None:
            case.add(rows, {TRIED: smallest.tried}, source=smallest.name)
    for name, curve in curves.items():
        values = _values(name, curve, case.counts, fewest)
        case.add(rows, values, source=name, otherwise=NEVER)
    rankings = {name: [order] for name, order in orders.items()}
    if settings.random:
        rankings[RANDOM] = random_orders
    add_core(rows, block, rankings)
    single = settings.rankings if settings.single is None else settings.single
    orders_of_single = {name: orders[name] for name in single}
    add_single_removals(rows, case, orders_of_single)
    add_aopc(rows, case, rankings, settings.beam, settings.beam_budget)
    if "attention" in curves:
        for name, curve in curves.items():
            if name not in ("attention", SMALLEST, GREEDY):
                pair = _pair_values(curve, curves["attention"], case.counts)
                case.add(rows, pair, source=f"{name}~attention", otherwise=NEVER)
    return rows


def _best_prefix(case: FlipCase, orders: Sequence[Tensor], curves: Sequence[FlipCurve]) -> Tensor:
    """The fewest items (B, T) bool that an order (B, T) removes until the decision changes; none where none does."""
    sizes = torch.stack([curve.size for curve in curves]).nan_to_num(0.0)  # (O, B)
    best = first_least(torch.where(sizes > 0, sizes, math.inf).T)  # (B,)
    rank = torch.stack(list(orders)).argsort(-1)  # (O, B, T)
    text = torch.arange(len(best), device=best.device)
    return case.items & (rank[best, text] < sizes[best, text][:, None])


def _smallest_set(case: FlipCase, settings: FlipSettings, known: Tensor) -> FlipSet | None:
    """The smallest set that changes the decision, or the smallest that is found; None where none is sought.

    Args:
        case: the block.
        settings: whether a set is searched, and by how many removals.
        known: (B, T) bool, a set that changes the decision; none where none is known.
    """
    removal = case.removal
    tried = None
    if case.block.encoded.multi_label:
        return None
    if removal.exact:
        name = SMALLEST
        exact = smallest_flip_set(removal.log_weights, removal.items, *removal.readout)
        size, removed = exact.size, exact.removed
    elif settings.greedy:
        name = GREEDY
        found = searched_flip_set(
            removal.after,
            lambda keep, text: removal.slopes(keep, text, case.decision),
            removal.encoded.attention.detach(),
            removal.items,
            case.decision,
            known,
            settings.budget,
        )
        size, removed, tried = found.size, found.removed, found.tried
    else:
        return None
    removed_weight = (removal.weights * removed).sum(1)  # (B,)
    mass = removed_weight / removal.weights.sum(1).clamp(min=1e-300)
    mass = torch.where(size.isnan(), math.nan, mass)
    curve = FlipCurve(size, size / case.counts, mass)
    return FlipSet(name, curve, removed, tried)


def _fewest(curves: Mapping[str, FlipCurve]) -> Tensor:
    """The fewest items (B,) that are known to change the decision; inf where none are."""
    known = [curve.size for name, curve in curves.items() if name != RANDOM]
    sizes = torch.stack(known)  # (rankings, B)
    return torch.where(sizes.isnan(), math.inf, sizes).amin(0)


def _add_sets(rows: ScoreRows, case: FlipCase, smallest: FlipSet) -> None:
    """Add the sets themselves as alternatives, by the places of their items among the items."""
    places = []
    for removed, items in zip(smallest.removed.cpu(), case.items.cpu(), strict=True):
        places.append(removed[items].nonzero()[:, 0].tolist())
    further = {"removed": places, "exact": [case.removal.exact] * len(places)}
    exists = smallest.removed.any(1)  # (B,)
    alternative = VariantColumns("flips", smallest.name, exists, further)
    rows.add_variants(case.block, [alternative])


def _values(
    name: str,
    curve: FlipCurve,
    counts: Tensor,
    fewest: Tensor | None,
) -> dict[MetricSpec, Tensor]:
    """The metrics (B,) of a ranking or set; those that compare with the fewest items only where these are known."""
    values = {FRACTION: curve.fraction, MASS: curve.mass, SIZE: curve.size}
    if name not in NO_RANKING:
        values[AT_LAST] = where_flips(curve.size, curve.size == counts)
    if fewest is not None and name != SMALLEST:
        values[RATIO] = curve.size / fewest
        values[OPTIMAL] = where_flips(curve.size, curve.size <= fewest)
    values[NEVER_FLIPS] = curve.size.isnan()
    return values


def _pair_values(first: FlipCurve, second: FlipCurve, counts: Tensor) -> dict[MetricSpec, Tensor]:
    """The metrics (B,) of two rankings; NaN where one of them never changes the decision."""
    difference = first.size - second.size  # NaN where either is
    return {
        SOONER: where_flips(difference, first.size < second.size),
        LATER: where_flips(difference, first.size > second.size),
        # of sizes, since 3 / 10 - 2 / 10 is not 1 / 10 and would break a tie
        DIFFERENCE: difference / counts,
    }


EVALUATORS.register("flips")(
    Evaluator(
        "flips",
        "Serrano and Smith 2019, sections 4 and 5",
        metrics=METRICS,
        run=run,
        settings=FlipSettings,
        sources=sources_of,
        facts=flip_facts,
        under_controls=False,
        by_label=LabelTest(METRICS, run),
    )
)
