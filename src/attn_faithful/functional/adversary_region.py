"""Which attentions leave a prediction over several classes where it was, for a read-out affine in the attention.

A region says of a point whether it lies within, gives linear forms that every point within keeps (an outer polytope,
for upper bounds), and those forms that bound it near a point (for the steps of a search).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, permutations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rows = tuple[Array, Array]  # matrix (R, T) and limits (R,): ``matrix @ attention <= limits``

EVERY_SUBSET = 6  # classes up to which every subset of them has a form; beyond, single classes have one
ROUNDING = 1e-7  # of linear programs: how far their points may lie beyond a limit


class Region(Protocol):
    """A set of attentions that holds the observed one, and with a point all that lie between the two or nearly so."""

    @property
    def outer(self) -> Rows:
        """Linear forms that every point within keeps."""

    def holds(self, points: Array) -> NDArray[np.bool_]:
        """Which of some distributions (K, T) lie within."""

    def near(self, point: Array) -> Rows:
        """Linear forms that bound the region near a point within; columns behind the tokens are free variables >= 0."""


@dataclass(frozen=True)
class DecisionRegion:
    """The attentions under which no other class overtakes the decision: a polytope, so its forms are exact."""

    outer: Rows

    @classmethod
    def of(cls, token_logits: Array, bias: Array, decision: int) -> DecisionRegion:
        """From logits (T, C) and bias (C,), all finite."""
        others = [c for c in range(len(bias)) if c != decision]
        leads = token_logits[:, others] - token_logits[:, [decision]]  # (T, C - 1)
        limits = bias[decision] - bias[others]
        return cls(_scaled(leads.T, limits))

    def holds(self, points: Array) -> NDArray[np.bool_]:
        matrix, limits = self.outer
        kept: NDArray[np.bool_] = points @ matrix.T <= limits + ROUNDING  # (K, R)
        return np.asarray(kept.all(axis=1))

    def near(self, point: Array) -> Rows:
        return self.outer


class TvdRegion:
    r"""The attentions under which class probabilities p stay within a TVD of eps of those observed, q.

    That is ``p(S) <= q(S) + eps`` for every set S of classes. In the logits these are differences of convex functions,
    so the region need not be convex. For disjoint sets S and U of classes, with ``q_d > eps`` on U,

    ``sum_S q_c / q(S) ln(p_c / q_c) <= ln(p(S) / q(S)) <= ln(1 + eps / q(S))`` by Jensen's inequality, and
    ``-sum_U q_d / q(U) ln(p_d / q_d) <= max_U q_d / q(U) ln(q_d / (q_d - eps))``, a convex function of the mass that
    the classes lose, at most eps together, and so largest where one of them loses all of it.

    In the sum of both the normaliser of the softmax cancels: a linear form in the logits, and so in the attention,
    that no point within exceeds. To first order in eps it is ``p(S) <= q(S) + eps`` itself where U is what is not in S.

    Args:
        before: (C,), ln q.
        shift: (C, T): ln p is ``before + shift @ attention`` up to a constant.
        eps: 0 to below 1.

    Example:
        >>> region = TvdRegion.of(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [-1.0, 0.0]]), np.zeros(2), eps=0.2)
        >>> region.holds(np.array([[0.6, 0.4], [1.0, 0.0]])).tolist()
        [True, False]
    """

    def __init__(self, before: Array, shift: Array, eps: float) -> None:
        self.before = before
        self.shift = shift
        self.eps = eps
        self.sets = _sets(len(before))

    @classmethod
    def of(cls, own: Array, token_logits: Array, bias: Array, eps: float) -> TvdRegion:
        """From the observed attention (T,), logits (T, C) and bias (C,), all finite."""
        observed = own @ token_logits  # (C,)
        before = _log_softmax(observed + bias)
        shift = (token_logits - observed).T
        return cls(before, shift, eps)

    @classmethod
    def around(
        cls,
        point: Array,
        logits: Array,
        slopes: Array,
        observed: Array,
        eps: float,
    ) -> TvdRegion:
        """By a read-out's tangent at a point (T,): the logits (C,) there, their slopes (C, T), and the model's own."""
        before = _log_softmax(observed)
        intercept = _log_softmax(logits) - before - slopes @ point  # (C,)
        # as a linear form, over weights of a constant sum
        shift = slopes + intercept[:, None] / point.sum()
        return cls(before, shift, eps)

    def holds(self, points: Array) -> NDArray[np.bool_]:
        after = np.exp(self._after(points))  # (K, C)
        moved = np.abs(after - np.exp(self.before))
        tvd = moved.sum(axis=1) / 2
        within: NDArray[np.bool_] = tvd <= max(self.eps, ROUNDING)
        return within

    def near(self, point: Array) -> Rows:
        """The log-odds of each set of classes, linear in the logits around the point's.

        Of many classes not every set is looked at; then the gains of all, as further variables, sum to eps at most.
        """
        matrix, limits = self._odds(point)
        classes = len(self.before)
        if classes <= EVERY_SUBSET:
            return _scaled(matrix, limits)
        log_after = self._after(point[None])[0]
        after = np.exp(log_after)  # (C,)
        slopes = after[:, None] * (self.shift - after @ self.shift)  # (C, T)
        gain_limits = np.exp(self.before) - after + slopes @ point
        no_gains = np.zeros((len(matrix), classes))
        no_tokens = np.zeros((1, matrix.shape[1]))
        sum_of_gains = np.ones((1, classes))
        forms = np.block([[matrix, no_gains], [slopes, -np.eye(classes)], [no_tokens, sum_of_gains]])
        all_limits = np.concatenate([limits, gain_limits, [self.eps]])
        return _scaled(forms, all_limits)

    def _odds(self, point: Array) -> Rows:
        """Of each set that can reach a limit: its log-odds as a linear form of the attention, and the limit."""
        log_p = self._after(point[None])[0]  # (C,)
        most = np.exp(_log_mass(self.before, self.sets)) + self.eps  # (R,)
        binding = most < 1
        sets, most = self.sets[binding], most[binding]
        log_inside = _log_mass(log_p, sets)
        log_outside = _log_mass(log_p, ~sets)
        log_share_inside = np.where(sets, log_p - log_inside[:, None], -np.inf)  # (R, C)
        log_share_outside = np.where(sets, -np.inf, log_p - log_outside[:, None])
        slopes = np.exp(log_share_inside) - np.exp(log_share_outside)
        matrix = slopes @ self.shift  # (R, T)
        log_odds = log_inside - log_outside
        largest_log_odds = np.log(most) - np.log1p(-most)
        return matrix, largest_log_odds - log_odds + matrix @ point

    def _after(self, points: Array) -> Array:
        """ln p (K, C) under attentions (K, T)."""
        return _log_softmax(self.before + points @ self.shift.T)

    @cached_property
    def outer(self) -> Rows:
        """The forms of all pairs of classes, and of the sets that are looked at with what is not in them."""
        q = np.exp(self.before)
        can_lose = q > self.eps if self.eps else np.ones(len(q), dtype=bool)
        pairs = permutations(np.eye(len(q), dtype=bool), 2)
        with_rest = ((chosen, ~chosen & can_lose) for chosen in self.sets)
        forms, limits = [], []
        for gains, loses in chain(pairs, with_rest):
            if not loses.any() or not can_lose[loses].all():
                continue
            share_of_gains = self._shares(gains)
            share_of_loses = self._shares(loses)
            forms.append(share_of_gains - share_of_loses)
            limits.append(self._limit(gains, q[loses], share_of_loses[loses]))
        forms_of_classes = np.array(forms).reshape(-1, len(q))  # (R, C)
        return _scaled(forms_of_classes @ self.shift, np.array(limits))

    def _limit(self, gains: NDArray[np.bool_], q: Array, shares: Array) -> float:
        """The most that a form reaches: what some classes gain in log-mass, and others of q and shares lose."""
        if not self.eps:
            return 0.0
        log_mass = _log_sum(self.before[gains])
        gained = np.logaddexp(log_mass, np.log(self.eps)) - log_mass
        lost = -shares * np.log1p(-self.eps / q)
        return float(gained + lost.max())

    def _shares(self, chosen: NDArray[np.bool_]) -> Array:
        """q within some classes, (C,), 0 elsewhere."""
        log_shares = self.before - _log_sum(self.before[chosen])
        return np.exp(np.where(chosen, log_shares, -np.inf))


def _sets(classes: int) -> NDArray[np.bool_]:
    """Sets of classes, neither none nor all, as rows (R, C)."""
    sizes: Iterable[int] = range(1, classes)
    if classes > EVERY_SUBSET:
        sizes = sorted({1, classes - 1})
    rows = []
    for size in sizes:
        for members in combinations(range(classes), size):
            row = np.zeros(classes, dtype=bool)
            row[list(members)] = True
            rows.append(row)
    return np.array(rows, dtype=bool).reshape(len(rows), classes)


def _scaled(matrix: Array, limits: Array) -> Rows:
    """The same rows with a largest coefficient of 1, so that a solver's tolerance means the same for each."""
    largest = np.abs(matrix).max(axis=1, initial=0.0)  # (R,)
    some = largest > 0  # a form that no token moves is kept by all
    scale = largest[some]
    return matrix[some] / scale[:, None], limits[some] / scale


def _log_softmax(logits: Array) -> Array:
    return logits - _log_sum(logits)[..., None]


def _log_mass(logs: Array, sets: NDArray[np.bool_]) -> Array:
    """The logarithm of the probability of each set, (R,)."""
    return _log_sum(np.where(sets, logs, -np.inf))


def _log_sum(logs: Array) -> Array:
    """``ln sum exp`` over the last axis, which has a finite entry; many times faster than scipy's for so few."""
    top = logs.max(axis=-1)
    scaled_sum = np.exp(logs - top[..., None]).sum(axis=-1)
    log_sum: Array = top + np.log(scaled_sum)
    return log_sum
