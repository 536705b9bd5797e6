"""What does the decision hang on, and does attention say so? (Serrano and Smith 2019, and past it)

Items are removed from the attention along a ranking until the decision changes, and the smallest set that changes it
is worked out beside them. A ranking that needs many more items than that set is no explanation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.attention_removal import OPERATORS, Removal
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest, MetricSpec, sources_of
from attn_faithful.evaluators.flip_facts import flip_facts
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.attention_removal import removal_order, removed_mass
from attn_faithful.functional.divergences import LN2, jsd
from attn_faithful.functional.flip_set import greedy_flip_size, smallest_flip_set
from attn_faithful.functional.readout import flipped
from attn_faithful.functional.reasons import MULTI_LABEL, NAN_SCORES, NEVER, NO_TOKEN, ONE_ITEM
from attn_faithful.models.protocol import probabilities

RANDOM, SMALLEST, GREEDY = "random_ranking", "smallest_set", "greedy_set"

FRACTION = MetricSpec(
    "decision_flip",
    "fraction removed",
    "share of the items that must be removed, along the ranking, until the decision changes",
    0.0,
    1.0,
    "lower",
)
MASS = MetricSpec(
    "flip_mass",
    "mass removed",
    "share of the attention on all items that these items hold; what special tokens keep is no part of it",
    0.0,
    1.0,
    None,
    "probability",
)
SIZE = MetricSpec("flip_size", "items removed", "number of these items", 1.0, math.inf, "lower")
NEVER_FLIPS = MetricSpec(
    "flip_never", "never flips", "whether the ranking never changes the decision, to the last item", 0.0, 1.0
)
AT_LAST = MetricSpec(
    "flip_at_last",
    "only at the last",
    "whether the decision changes only once nothing at all is left",
    0.0,
    1.0,
    "lower",
)
RATIO = MetricSpec(
    "flip_ratio",
    "over smallest",
    "items removed over those of the smallest set that changes the decision (of the "
    "smallest that was found, where the read-out is not affine)",
    0.0,
    math.inf,
    "lower",
)
OPTIMAL = MetricSpec(
    "flip_optimal",
    "optimal",
    "whether no set that changes the decision is smaller (as far as is known, where the read-out is not affine)",
    0.0,
    1.0,
    "higher",
)
SPREAD = MetricSpec(
    "flip_spread", "spread of draws", "standard deviation of the fraction removed over the random rankings", 0.0, 1.0
)
SOONER = MetricSpec(
    "flips_sooner",
    "flips with fewer",
    "whether the first ranking needs fewer items than the second",
    0.0,
    1.0,
    shown=False,
)
LATER = MetricSpec(
    "flips_later",
    "flips with more",
    "whether the first ranking needs more items than the second",
    0.0,
    1.0,
    shown=False,
)
DIFFERENCE = MetricSpec(
    "flip_difference",
    "difference of fractions",
    "fraction removed by the first ranking minus that of the second",
    -1.0,
    1.0,
    shown=False,
)
CELLS = tuple(
    MetricSpec(name, title, f"whether {meaning}", 0.0, 1.0, shown=False)
    for name, title, meaning in (
        (
            "flip_both",
            "both flip",
            "removing the top item changes the decision, and so does a random other one",
        ),
        (
            "flip_top_only",
            "top only",
            "removing the top item changes the decision, and a random other one does not",
        ),
        ("flip_random_only", "random only", "only removing the random other item changes the decision"),
        ("flip_neither", "neither", "neither removal changes the decision"),
    )
)
SINGLE_JS = MetricSpec(
    "single_js", "JS without the top", "JSD of the prediction and that without the top item", 0.0, LN2, "higher", "nats"
)
JS_DIFFERENCE = MetricSpec(
    "js_difference",
    "delta JS",
    "JSD without the top item minus JSD without a random other item",
    -LN2,
    LN2,
    "higher",
    "nats",
)
NEGATIVE = MetricSpec(
    "js_negative", "delta JS < 0", "whether the random other item matters more than the top one", 0.0, 1.0, "lower"
)
ATTENTION_DIFFERENCE = MetricSpec(
    "attention_difference",
    "delta attention",
    "attention to the top item minus attention to the random other one",
    -1.0,
    1.0,
    shown=False,
)
SINGLE = (SINGLE_JS, JS_DIFFERENCE, NEGATIVE, ATTENTION_DIFFERENCE, *CELLS)
METRICS = (
    FRACTION,
    MASS,
    SIZE,
    RATIO,
    OPTIMAL,
    AT_LAST,
    NEVER_FLIPS,
    SPREAD,
    *SINGLE,
    SOONER,
    LATER,
    DIFFERENCE,
)


@dataclass(frozen=True)
class FlipSettings:
    """Which rankings are compared.

    Attributes:
        rankings: sources that items are removed by, the largest value first; "attention" among them.
        single: those whose top item is also removed alone, beside a random other one; None for all of them.
        random: draws of random rankings; 0 for none.
        operator: "renormalize" divides what is left by its sum, "recompute" projects the scores that are left again.
            The same for softmax.
        greedy: where the read-out is not affine, search a small set greedily: an upper bound of the smallest.
    """

    rankings: list[str] = field(default_factory=lambda: ["attention", "attention_gradient", "attention_x_gradient"])
    single: list[str] | None = None
    random: int = 5
    operator: str = "renormalize"
    greedy: bool = True

    def __post_init__(self) -> None:
        check_choice("operator", self.operator, OPERATORS)
        if self.random < 0:
            raise InputError(f"random must be at least 0, but is {self.random}.")
        if not self.rankings:
            raise InputError("rankings must name one source at least, such as attention.")
        for name in self.rankings:
            if self.rankings.count(name) > 1 or name in (RANDOM, SMALLEST, GREEDY):
                raise InputError(
                    f"rankings: {name!r} stands twice, or is no source; random rankings have a setting random."
                )
        for name in self.single or ():
            check_choice("single", name, self.rankings)


@dataclass(frozen=True)
class FlipCurve:
    """How a ranking changed the decisions: sizes (B,), NaN where it never does, their share and their mass."""

    size: Tensor
    fraction: Tensor
    mass: Tensor


def run(block: Block, settings: FlipSettings) -> ScoreRows:
    """Remove items by every ranking, and by none better.

    Texts of one item and texts that a ranking never flips are counted by their reason and stand in no mean.

    Args:
        block: examples at a site; an item is removed from all slots of an example at once.
        settings: see `FlipSettings`.
    """
    found = ScoreRows()
    removal = Removal(block, settings.operator)
    count = removal.items.sum(1)
    reasons = _reasons(block, removal, count)
    decision = removal.decided()
    rankings = {name: _importance(block, removal, name) for name in settings.rankings}
    orders = {name: removal_order(values, removal.items) for name, values in rankings.items()}
    draws = [removal_order(_drawn(block, removal, k), removal.items) for k in range(settings.random)]
    ways = {name: _way(removal, order, decision, count) for name, order in orders.items()}
    if draws:
        ways[RANDOM] = _mean_way(found, block, [_way(removal, order, decision, count) for order in draws], reasons)
    best = _smallest(found, block, removal, decision, count, ways, settings)
    for name, way in ways.items():
        _score_way(found, block, name, way, count, best, reasons)
    single = settings.rankings if settings.single is None else settings.single
    _score_single(found, block, removal, {name: orders[name] for name in single}, decision, reasons)
    if "attention" in ways:
        for name in ways:
            if name not in ("attention", SMALLEST, GREEDY):
                _score_pair(found, block, name, ways[name], ways["attention"], count, reasons)
    return found


def _reasons(block: Block, removal: Removal, count: Tensor) -> list[str | None]:
    """Why nothing can be said of an example; None where something can."""
    if block.encoded.multi_label:
        return [MULTI_LABEL] * len(block)
    broken = (block.encoded.logits.isnan().any(1) | removal.weights.isnan().any(1)).tolist()
    named = {0: NO_TOKEN, 1: ONE_ITEM}
    return [NAN_SCORES if b else named.get(n) for b, n in zip(broken, count.tolist(), strict=True)]


def _importance(block: Block, removal: Removal, name: str) -> Tensor:
    """A source's values of the items, (B, T)."""
    return removal.log_weights if name == "attention" else block.sources[name].to(removal.items.device)


def _drawn(block: Block, removal: Removal, draw: int) -> Tensor:
    values = torch.zeros(removal.items.shape, dtype=torch.float64)
    for row, held in enumerate(removal.items.cpu()):
        generator = block.generator(row, "random ranking", draw)
        values[row, held] = torch.rand(int(held.sum()), generator=generator, dtype=torch.float64)
    return values.to(removal.items.device)


def _way(removal: Removal, order: Tensor, decision: Tensor, count: Tensor) -> FlipCurve:
    size = removal.first_flip(order, decision)
    return FlipCurve(size, size / count, removed_mass(removal.weights.log(), order, removal.items, size))


def _mean_way(found: ScoreRows, block: Block, drawn: list[FlipCurve], reasons: list[str | None]) -> FlipCurve:
    """Means over the random rankings, and the spread of their fractions; NaN where one of them never flips."""
    fractions = torch.stack([way.fraction for way in drawn])
    for row, spread in enumerate(fractions.std(0, correction=0).tolist()):
        value = spread if reasons[row] is None else math.nan
        found.score(block, row, SPREAD.name, value, reasons[row] or NEVER, source=RANDOM)
    mean = (torch.stack([getattr(way, name) for way in drawn]).mean(0) for name in ("size", "fraction", "mass"))
    return FlipCurve(*mean)


def _smallest(
    found: ScoreRows,
    block: Block,
    removal: Removal,
    decision: Tensor,
    count: Tensor,
    ways: dict[str, FlipCurve],
    settings: FlipSettings,
) -> Tensor | None:
    """Size (B,) of the smallest set that changes the decision, or of the smallest that was found; None if not sought.

    It becomes one of the ways, and the sets themselves alternatives.
    """
    if block.encoded.multi_label:
        return None
    if removal.exact:
        name, exact = SMALLEST, smallest_flip_set(removal.log_weights, removal.items, *removal.readout)
        size, removed = exact.size, exact.removed
    elif settings.greedy:
        name = GREEDY
        size, removed = greedy_flip_size(removal.after, removal.items, decision)
    else:
        return None
    held = (removal.weights * removed).sum(1) / removal.weights.sum(1).clamp(min=1e-300)
    ways[name] = FlipCurve(size, size / count, torch.where(size.isnan(), math.nan, held))
    for row in range(len(block)):
        if bool(removed[row].any()):
            places = removed[row][removal.items[row]].nonzero()[:, 0].tolist()
            found.variant(block, row, "flips", name, removed=places, exact=removal.exact)
    known = torch.stack([way.size for other, way in ways.items() if other != RANDOM])
    return torch.where(known.isnan(), math.inf, known).amin(0)


def _score_way(
    found: ScoreRows,
    block: Block,
    name: str,
    way: FlipCurve,
    count: Tensor,
    best: Tensor | None,
    reasons: list[str | None],
) -> None:
    columns = {FRACTION: way.fraction, MASS: way.mass, SIZE: way.size}
    if name not in (RANDOM, SMALLEST, GREEDY):
        columns[AT_LAST] = torch.where(way.size.isnan(), math.nan, (way.size == count).double())
    if best is not None and name not in (SMALLEST,):
        columns[RATIO] = way.size / best
        columns[OPTIMAL] = torch.where(way.size.isnan(), math.nan, (way.size <= best).double())
    listed = {metric: values.tolist() for metric, values in columns.items()}
    for row, reason in enumerate(reasons):
        for metric, values in listed.items():
            found.score(block, row, metric.name, math.nan if reason else values[row], reason or NEVER, source=name)
        never = math.nan if reason else float(way.size[row].isnan())
        found.score(block, row, NEVER_FLIPS.name, never, reason, source=name)


def _score_single(
    found: ScoreRows,
    block: Block,
    removal: Removal,
    orders: Mapping[str, Tensor],
    decision: Tensor,
    reasons: list[str | None],
) -> None:
    """The top item of each ranking removed alone, beside a random other one."""
    if not orders or not removal.items.shape[1]:
        return
    pairs = {name: _top_and_other(block, removal, name, order) for name, order in orders.items()}
    after = removal.without(torch.cat(list(pairs.values()), dim=1))  # (B, 2 a ranking, C)
    for (name, places), logits in zip(pairs.items(), after.split(2, dim=1), strict=True):
        _score_top(found, block, removal, name, places, logits, decision, reasons)


def _top_and_other(block: Block, removal: Removal, name: str, order: Tensor) -> Tensor:
    """Places (B, 2) of the top item and of any other, each as likely."""
    rank = torch.zeros(len(block), dtype=torch.long)
    for row, n in enumerate(removal.items.sum(1).tolist()):
        if n > 1:
            rank[row] = 1 + int(torch.randint(n - 1, (), generator=block.generator(row, "other item", name)))
    return torch.stack([order[:, 0], order.gather(1, rank.to(order.device)[:, None])[:, 0]], dim=1)


def _score_top(
    found: ScoreRows,
    block: Block,
    removal: Removal,
    name: str,
    places: Tensor,
    after: Tensor,
    decision: Tensor,
    reasons: list[str | None],
) -> None:
    """What the logits (B, 2, C) without the items at ``places`` (B, 2) say of a ranking."""
    flips = flipped(after, decision[:, None].expand(after.shape[:2]))
    now = probabilities(block.encoded.logits.double(), False)[:, None]
    js = jsd(probabilities(after.nan_to_num(), False), now.expand(after.shape), validate_args=False)
    weights = removal.weights.gather(1, places)
    top, other = flips.unbind(1)
    columns: Mapping[MetricSpec, Tensor] = {
        SINGLE_JS: js[:, 0],
        JS_DIFFERENCE: js[:, 0] - js[:, 1],
        NEGATIVE: js[:, 0] < js[:, 1],
        ATTENTION_DIFFERENCE: weights[:, 0] - weights[:, 1],
        **dict(zip(CELLS, (top & other, top & ~other, ~top & other, ~top & ~other), strict=True)),
    }
    listed = {metric: values.double().tolist() for metric, values in columns.items()}
    for row, reason in enumerate(reasons):
        for metric, values in listed.items():
            found.score(block, row, metric.name, math.nan if reason else values[row], reason, source=name)


def _score_pair(
    found: ScoreRows,
    block: Block,
    name: str,
    first: FlipCurve,
    second: FlipCurve,
    count: Tensor,
    reasons: list[str | None],
) -> None:
    both = ~(first.size.isnan() | second.size.isnan())
    fewer = (first.size - second.size) / count  # of sizes, since 3 / 10 - 2 / 10 is not 1 / 10 and would break a tie
    columns = {SOONER: first.size < second.size, LATER: first.size > second.size, DIFFERENCE: fewer}
    listed = {m: torch.where(both, values.double(), math.nan).tolist() for m, values in columns.items()}
    for row, reason in enumerate(reasons):
        for metric, values in listed.items():
            value = math.nan if reason else values[row]
            found.score(block, row, metric.name, value, reason or NEVER, source=f"{name}~attention")


EVALUATORS.register("flips")(
    Evaluator(
        "flips",
        "Serrano and Smith 2019, sections 4 and 5",
        METRICS,
        run=run,
        settings=FlipSettings,
        sources=sources_of,
        under_controls=False,
        facts=flip_facts,
        by_label=LabelTest(METRICS, run),
    )
)
