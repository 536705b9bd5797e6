"""One label of a multi-label model, written out: its decision is on which side of one half its probability lies."""

from __future__ import annotations

import itertools
import math

import numpy as np


def probability(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def logit(attention, kept, token_logits, bias) -> float:
    """The label's logit where the items in ``kept`` share the attention; the bias where nothing is left."""
    mass = sum(attention[t] for t in kept)
    if not mass:
        return bias
    return sum(attention[t] / mass * token_logits[t] for t in kept) + bias


def first_flip(order, attention, token_logits, bias) -> int | None:
    """How many items of an order go until the label's decision changes; None where it never does."""
    n = len(attention)
    yes = logit(attention, range(n), token_logits, bias) > 0
    for k in range(1, n + 1):
        kept = [t for t in range(n) if t not in order[:k]]
        if (logit(attention, kept, token_logits, bias) > 0) != yes:
            return k
    return None


def smallest_set(attention, token_logits, bias) -> int | None:
    """Over all sets of items."""
    n = len(attention)
    yes = logit(attention, range(n), token_logits, bias) > 0
    for k in range(1, n + 1):
        for gone in itertools.combinations(range(n), k):
            kept = [t for t in range(n) if t not in gone]
            if (logit(attention, kept, token_logits, bias) > 0) != yes:
                return k
    return None


def over_permutations(attention, token_logits, bias) -> tuple[float, bool]:
    """The largest change of the label's probability over all permutations, and whether none changes its decision."""
    now = logit(attention, range(len(attention)), token_logits, bias)
    largest, certified = 0.0, True
    for dealt in itertools.permutations(attention):
        z = logit(dealt, range(len(dealt)), token_logits, bias)
        largest = max(largest, abs(probability(z) - probability(now)))
        certified = certified and (z > 0) == (now > 0)
    return largest, certified


def side(z: float, yes: bool) -> float:
    """The probability of one side of the decision."""
    return probability(z) if yes else 1 - probability(z)


def comprehensiveness(run, n: int, importance, shares, yes: bool) -> float:
    """ERASER's, of one label: ``run(kept)`` is its logit with the items in ``kept`` alone, the text read again."""
    order = sorted(range(n), key=lambda t: (-importance[t], t))
    whole = side(run(list(range(n))), yes)
    lost = []
    for share in shares:
        gone = order[: math.ceil(share * n - 1e-9)]
        lost.append(whole - side(run([t for t in range(n) if t not in gone]), yes))
    return float(np.mean(lost))
