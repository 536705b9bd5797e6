"""The certified core over all subsets of items, in exact arithmetic, from its definition."""

import itertools
import math
from fractions import Fraction


def exact(values):
    """Floats as the fractions that they are."""
    return [Fraction(value) for value in values]


def margins_by_class(attention, token_logits, bias):
    """By how much the decision leads each other class that counts, at each item alone."""
    a = exact(attention)
    counts = [c for c, b in enumerate(bias) if b != -math.inf]
    z = {c: exact(row[c] for row in token_logits) for c in counts}
    b = {c: Fraction(bias[c]) for c in counts}
    logits = {c: sum(w * x for w, x in zip(a, z[c], strict=True)) + b[c] for c in counts}
    y = max(counts, key=lambda c: (logits[c], -c))
    return [[p - q + b[y] - b[c] for p, q in zip(z[y], z[c], strict=True)] for c in counts if c != y]


def least_lead(attention, margins, believed):
    """The least lead of the decision over any class with what the set does not hold on one item outside.

    These are the corners of all ways to deal it; a set of all items leaves nothing to deal.
    """
    a = exact(attention)
    outside = [t for t in range(len(a)) if t not in believed]
    left = sum(a[t] for t in outside)
    least = math.inf
    for m in margins:
        held = sum(a[t] * m[t] for t in believed)
        worst = min((left * m[t] for t in outside), default=0)
        least = min(least, held + worst)
    return least


def stands(attention, margins, believed):
    """Whether the decision stands however what the set does not hold is dealt to the items outside."""
    return least_lead(attention, margins, believed) >= 0


def smallest_cores(attention, token_logits, bias):
    """All cores of the smallest size, as tuples of places."""
    margins = margins_by_class(attention, token_logits, bias)
    places = range(len(attention))
    for size in range(len(attention) + 1):
        found = [chosen for chosen in itertools.combinations(places, size) if stands(attention, margins, chosen)]
        if found:
            return found
    return []
