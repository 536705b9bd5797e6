"""The farthest attention of a region, between two bounds: branch and bound for a separable convex maximum.

JSD is a sum over tokens of convex functions of their weights. Over a box each of them lies below its chord, so a linear
program over the box and the region's outer polytope bounds the JSD from above (Falk and Soland 1969). Where the chord
errs most the box is split in two. Every program's solution is also where a search for a far attention begins: its steps
follow the tangent of the JSD, which a convex function nowhere falls below, within the region's forms near the point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.special import xlogy

from attn_faithful.functional.adversary_region import Array, Region, Rows

NODES = 5  # boxes that are split; three times as many where the bounds are far apart still
CLOSE = 5e-4  # nats between the bounds that are as good as none
OPEN = 0.02  # nats between the bounds that are worth further starts
_DIRECTIONS = 8  # of these starts at most
_PARTS = (1.0, 0.5, 0.2, 0.05)  # of a step that are tried until one gains
_CLIMB = 1  # steps of the search from each box
_POLISH = 6  # steps from the best point of all
_GRID, _ROUNDS = 64, 5  # points of a line that are tried at once, and times that the line is made finer
_FLOOR = 1e-3  # share of the observed attention mixed in where the tangent is taken: at 0 it has none
_INSIDE = 0.2  # of a box that a split leaves on either side at least


@dataclass(frozen=True, eq=False)
class Box:
    """Limits (T,) on each token's weight, what bounds the JSD there, and the point at which that bound is reached."""

    low: Array
    high: Array
    bound: float
    point: Array


@dataclass(frozen=True)
class Farthest:
    """A point of the region, its JSD, and what no point of the region exceeds."""

    point: Array
    jsd: float
    upper: float


def farthest(own: Array, region: Region, nodes: int) -> Farthest:
    """The largest JSD from ``own`` (T,), of 2 tokens at least, within a region: what was found of it, and a bound.

    Args:
        own: the observed attention, which lies within.
        region: see :class:`~.adversary_region.Region`.
        nodes: boxes that are split; up to three times as many where the bounds are more than 0.02 nats apart.

    Returns:
        :class:`Farthest`, nats.

    Reference:
        Falk and Soland (1969), An algorithm for separable nonconvex programming problems.

    Example:
        >>> from .adversary_region import DecisionRegion
        >>> logits = np.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
        >>> region = DecisionRegion.of(logits, np.zeros(3), decision=0)
        >>> farthest(np.array([0.7, 0.3]), region, NODES).point.round(6).tolist()
        [1.0, 0.0]
    """
    search = _Search(own, region)
    search.try_tokens()
    boxes = [_root(own, region.outer)]
    for node in range(3 * nodes):
        box = max(boxes, key=_bound_of)
        search.climb(box)
        enough = CLOSE if node < nodes else OPEN
        if box.bound <= search.jsd + enough:
            break
        boxes.remove(box)
        for half in _halves(own, region.outer, box):
            if half.bound > search.jsd:
                boxes.append(half)
        if not boxes:
            break
    upper = max((box.bound for box in boxes), default=search.jsd)
    if upper > search.jsd + OPEN:
        search.try_directions()
    search.polish()
    return Farthest(search.point, search.jsd, max(upper, search.jsd))


def _bound_of(box: Box) -> float:
    return box.bound


class _Search:
    """The farthest point found so far, and ways to find a farther one.

    Every point that is kept lies within the region: one that does not is drawn back along the straight line to the
    observed attention, on which JSD only falls; one that does is pushed out along it.
    """

    def __init__(self, own: Array, region: Region) -> None:
        self.own = own
        self.region = region
        self.point = own
        self.jsd = 0.0
        self.near_own = region.near(own)

    def try_tokens(self) -> None:
        """All attention on one token, wherever that lies within."""
        alone = np.eye(len(self.own))
        within = self.region.holds(alone)
        if within.any():
            least_attended = np.where(within, self.own, np.inf).argmin()  # the less attended the farther
            self._record(alone[least_attended])

    def climb(self, box: Box) -> None:
        """From where the bound of a box is reached, and from where it would be by the forms near the observed point."""
        self._ascend(box.point, _CLIMB)
        if self.region.holds(box.point[None])[0]:
            return
        slope, _ = _chords(self.own, box.low, box.high)
        point, _ = _program(slope, self.near_own, box.low, box.high)
        if point is not None:
            self._ascend(point, _CLIMB)

    def try_directions(self) -> None:
        """Along tangents at random distributions, as far as the forms near the observed attention allow."""
        low, high = np.zeros(len(self.own)), np.ones(len(self.own))
        generator = np.random.default_rng(0)  # the directions depend on the number of tokens alone
        for _ in range(_DIRECTIONS):
            toward = generator.dirichlet(np.full(len(self.own), 0.3))
            slope = _tangent(toward, self.own)
            point, _ = _program(slope, self.near_own, low, high)
            if point is not None:
                self._ascend(point, _POLISH)

    def polish(self) -> None:
        """From the best point to where no step gains."""
        self._ascend(self.point, _POLISH)

    def _ascend(self, point: Array, steps: int) -> None:
        """Steps along the tangent until none gains; each ends at the region's edge."""
        low, high = np.zeros(len(point)), np.ones(len(point))
        point = self._to_the_edge(point)
        reached = self._record(point)
        for _ in range(steps):
            slope = _tangent(point, self.own)
            target, _ = _program(slope, self.region.near(point), low, high)
            if target is None:
                return
            edge = self._farther_edge(point, target, reached)
            if edge is None:
                return
            point, reached = edge

    def _farther_edge(self, point: Array, target: Array, reached: float) -> tuple[Array, float] | None:
        """The first edge point towards a target that lies farther than ``reached``, with its JSD."""
        for part in _PARTS:  # where the region is curved a whole step may end short of where it began
            stepped = _distribution(point + part * (target - point))
            edge = self._to_the_edge(stepped)
            jsd_of_edge = self._record(edge)
            if jsd_of_edge > reached + 1e-7:
                return edge, jsd_of_edge
        return None

    def _to_the_edge(self, point: Array) -> Array:
        """The last point within, seen from the observed attention towards and past this one."""
        away = point - self.own
        falling = away < 0
        if not falling.any():
            return self.own
        # at the highest length the first weight is 0
        low = 0.0
        high = float((self.own[falling] / -away[falling]).min())
        for _ in range(_ROUNDS):
            lengths = np.linspace(low, high, _GRID)
            points = self._along(away, lengths)  # (K, T)
            within = np.flatnonzero(self.region.holds(points))
            last = int(within[-1]) if len(within) else 0
            low, high = lengths[last], lengths[min(last + 1, _GRID - 1)]
            if low == high:
                break
        edge: Array = self._along(away, np.array([low]))[0]
        return edge

    def _along(self, away: Array, lengths: Array) -> Array:
        """Distributions (K, T) at these lengths of a line from the observed attention."""
        return _distribution(self.own + lengths[:, None] * away)

    def _record(self, point: Array) -> float:
        """The JSD of a point, which is kept if it is the farthest so far."""
        jsd = float(_distance(point, self.own).sum())
        if jsd > self.jsd:
            self.point, self.jsd = point, jsd
        return jsd


def _root(own: Array, outer: Rows) -> Box:
    """The box of all that the forms allow each token when the others do their best for it."""
    matrix, limits = outer
    least = matrix.min(axis=1, keepdims=True)  # (R, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        where_others_help = (limits[:, None] - least) / (matrix - least)
    most = np.where(matrix > limits[:, None], where_others_help, 1.0)
    least_of_rows = most.min(axis=0, initial=1.0)  # (T,)
    high = np.clip(least_of_rows + 1e-9, own, 1.0)
    low = np.zeros(len(own))
    bound, point = _bound(own, outer, low, high)
    return Box(low, high, bound, own if point is None else point)


def _halves(own: Array, outer: Rows, box: Box) -> list[Box]:
    """The box cut at the token whose chord errs most; halves that hold nothing of the polytope are left out."""
    slope, base = _chords(own, box.low, box.high)
    chord = slope * (box.point - box.low) + base
    error = chord - _distance(box.point, own)
    token = int(error.argmax())
    low, high = box.low[token], box.high[token]
    edge = _INSIDE * (high - low)
    cut = float(np.clip(box.point[token], low + edge, high - edge))
    high_of_lower, low_of_upper = box.high.copy(), box.low.copy()
    high_of_lower[token] = cut
    low_of_upper[token] = cut
    halves = []
    for low, high in ((box.low, high_of_lower), (low_of_upper, box.high)):
        bound, point = _bound(own, outer, low, high)
        if point is not None:
            halves.append(Box(low, high, min(bound, box.bound), point))
    return halves


def _bound(own: Array, outer: Rows, low: Array, high: Array) -> tuple[float, Array | None]:
    """What no JSD in a box exceeds, and the point where its chords reach that; None where the box holds no point.

    By weak duality any multipliers of at least 0 give a bound; those of the solver give a good one, and how precise the
    solver is does not matter to its truth.
    """
    slope, base = _chords(own, low, high)
    point, multipliers = _program(slope, outer, low, high)
    matrix, limits = outer
    reduced = slope - multipliers @ matrix
    order = np.argsort(-reduced, kind="stable")
    room = (high - low)[order]
    before = np.cumsum(room) - room
    filled = np.clip(1 - low.sum() - before, 0.0, room)  # the best that a distribution in the box does without rows
    most = filled @ reduced[order] + low @ reduced + multipliers @ limits
    return float(most + (base - slope * low).sum()), point


def tangent_step(own: Array, point: Array, region: Region, slots: Array) -> Array | None:
    """Where the JSD's tangent at a point (T,) is largest by what bounds a region near it; None without such a place.

    ``slots`` (S, T), 0 or 1, says which weights keep their sum. At ``own`` itself, where the tangent is flat, the
    chords to the ends stand for it.

    Example:
        >>> from .adversary_region import DecisionRegion
        >>> region = DecisionRegion.of(np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 0.0]]), np.zeros(2), decision=0)
        >>> own = np.array([0.7, 0.1, 0.2])
        >>> tangent_step(own, own, region, np.ones((1, 3))).round(6).tolist()
        [0.0, 0.2, 0.8]
    """
    totals = slots @ own
    low, high = np.zeros(len(own)), totals @ slots
    if np.array_equal(point, own):
        slope, _ = _chords(own, low, high)
    else:
        slope = _tangent(point, own)
    target, _ = _program(slope, region.near(point), low, high, (slots, totals))
    return target


def _program(
    slope: Array,
    rows: Rows,
    low: Array,
    high: Array,
    sums: Rows | None = None,
) -> tuple[Array | None, Array]:
    """The distribution in a box that maximises a linear form within the rows (None without one), and multipliers."""
    matrix, limits = rows
    tokens = len(slope)
    slots, totals = sums or (np.ones((1, tokens)), np.ones(1))
    if not len(matrix):
        matrix = np.zeros((0, tokens))
    further = matrix.shape[1] - tokens  # variables >= 0 behind the tokens
    lowest = np.concatenate([low, np.zeros(further)])
    highest = np.concatenate([high, np.full(further, np.inf)])
    costs = np.concatenate([-slope, np.zeros(further)])
    no_sums = np.zeros((len(slots), further))
    solution = linprog(
        costs,
        A_ub=matrix if len(matrix) else None,
        b_ub=limits if len(matrix) else None,
        A_eq=np.concatenate([slots, no_sums], axis=1),
        b_eq=totals,
        bounds=np.stack([lowest, highest], axis=1),
        method="highs",
    )
    if solution.status != 0:
        return None, np.zeros(len(matrix))
    multipliers = np.zeros(0)
    if len(matrix):
        multipliers = np.maximum(-solution.ineqlin.marginals, 0.0)
    point = np.clip(solution.x[:tokens], 0.0, None)
    correction = totals / (slots @ point)
    return point * (correction @ slots), multipliers


def _chords(own: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Slopes (T,) of the chords of each token's part of the JSD over a box, and their values (T,) at its lower end."""
    base = _distance(low, own)
    width = high - low
    wide = width > 1e-12
    rise = np.where(wide, _distance(high, own) - base, 0.0)
    slope = rise / np.where(wide, width, 1.0)
    return slope, base


def _tangent(point: Array, own: Array) -> Array:
    """Slopes (T,) of the JSD at a point."""
    mixed = (1 - _FLOOR) * point + _FLOOR * own + 1e-12
    slope: Array = 0.5 * np.log(2 * mixed / (mixed + own + 1e-12))
    return slope


def _distance(point: Array, own: Array) -> Array:
    """Each token's part of the JSD, (T,): ``0.5 (x ln(2x / (x + a)) + a ln(2a / (x + a)))``."""
    both = point + own
    twice_parts: Array = xlogy(point, point) + xlogy(own, own) - xlogy(both, both / 2)
    return 0.5 * twice_parts


def _distribution(point: Array) -> Array:
    """Weights of at least 0, divided by their sum."""
    weights: Array = np.clip(point, 0.0, None)
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
