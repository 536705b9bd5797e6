"""What is decided without some weights, for one list of weights, step by step; and the smallest set by trying all."""

import math
from itertools import combinations


def decision(logits):
    return logits.index(max(logits))


def kept_logits(weights, kept, token_logits, bias):
    """The logits of the renormalized weights in ``kept``; the bias where they are 0."""
    mass = sum(weights[t] for t in kept)
    if mass == 0:
        return list(bias)
    return [sum(weights[t] / mass * token_logits[t][c] for t in kept) + b for c, b in enumerate(bias)]


def from_logs(log_weights, kept, token_logits, bias):
    """The same for logarithms of weights."""
    top = max((log_weights[t] for t in kept), default=-math.inf)
    if top == -math.inf:
        return list(bias)
    weights = {t: math.exp(log_weights[t] - top) for t in kept}
    return kept_logits(weights, kept, token_logits, bias)


def removal_order(importance):
    """Descending, the first position first on ties, NaN behind all."""
    positions = range(len(importance))
    known = [t for t in positions if not math.isnan(importance[t])]
    return sorted(known, key=lambda t: -importance[t]) + [t for t in positions if math.isnan(importance[t])]


def prefix_logits(log_weights, order, token_logits, bias):
    return [from_logs(log_weights, order[k:], token_logits, bias) for k in range(len(order) + 1)]


def recomputed_prefix_logits(scores, project, order, token_logits, bias):
    """``project(scores) -> weights`` of what is left in the text's order."""
    rows = []
    for k in range(len(order) + 1):
        kept = sorted(order[k:])
        weights = dict(zip(kept, project([scores[t] for t in kept]) if kept else [], strict=True))
        rows.append([sum(weights[t] * token_logits[t][c] for t in kept) + b for c, b in enumerate(bias)])
    return rows


def first_flip(logits_after):
    before = decision(logits_after[0])
    return next((k for k in range(1, len(logits_after)) if decision(logits_after[k]) != before), math.nan)


def decided_of(weights, kept, token_logits, bias):
    """The decision without a division: whole numbers stay whole, so ties are exact."""
    if sum(weights[t] for t in kept) == 0:
        return decision(list(bias))
    return decision(
        [
            -math.inf if b == -math.inf else sum(weights[t] * (token_logits[t][c] + b) for t in kept)
            for c, b in enumerate(bias)
        ]
    )


def smallest_flip_sets(weights, token_logits, bias):
    """All smallest sets of positions without which the decision is another, each with it: a dictionary.

    Every subset is tried, by size.
    """
    everything = set(range(len(weights)))
    before = decided_of(weights, sorted(everything), token_logits, bias)
    for size in range(1, len(weights) + 1):
        found = {}
        for removed in combinations(sorted(everything), size):
            after = decided_of(weights, sorted(everything - set(removed)), token_logits, bias)
            if after != before:
                found[removed] = after
        if found:
            return found
    return {}


def greedy(after, n):
    """Removed positions, in order, until the decision changes; None if it never does. ``after(kept) -> logits``."""
    y = decision(after(list(range(n))))
    removed = []
    while len(removed) < n:
        leads = []
        for t in range(n):
            if t not in removed:
                logits = after([u for u in range(n) if u != t and u not in removed])
                leads.append((logits[y] - max(x for c, x in enumerate(logits) if c != y), t))
        removed.append(min(leads)[1])
        if decision(after([u for u in range(n) if u not in removed])) != y:
            return removed
    return None


def decision_flip(importance, attention, token_logits, bias):
    """Fraction removed, mass, whether one item is enough, smallest fraction, ratio, optimal; NaN if it never flips."""
    n, order = len(attention), removal_order(importance)
    logs = [math.log(a) if a > 0 else -math.inf for a in attention]
    size = first_flip(prefix_logits(logs, order, token_logits, bias))
    single = 1.0 if size == 1 else 0.0
    if math.isnan(size):
        return math.nan, math.nan, single, math.nan, math.nan, math.nan
    smallest = len(next(iter(smallest_flip_sets(attention, token_logits, bias))))
    mass = sum(attention[t] for t in order[:size])
    return size / n, mass, single, smallest / n, size / smallest, float(size == smallest)
