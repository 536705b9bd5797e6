"""Agreement with human rationales, example by example, from ERASER's definitions."""

import math
from itertools import permutations


def average_precision(importance, rationale, content):
    """Sum over thresholds from the highest down of the step in recall times the precision; NaN without positives."""
    kept = [(s, bool(r)) for s, r, inside in zip(importance, rationale, content, strict=True) if inside]
    total = sum(r for _, r in kept)
    if total == 0 or any(math.isnan(s) for s, _ in kept):
        return math.nan
    value, recall = 0.0, 0.0
    for threshold in sorted({s for s, _ in kept}, reverse=True):
        above = [r for s, r in kept if s >= threshold]
        value += (sum(above) / total - recall) * sum(above) / len(above)
        recall = sum(above) / total
    return value


def expected_average_precision(n, m):
    """Over all orders of n tokens of which m are in the rationale."""
    orders = list(permutations([True] * m + [False] * (n - m)))
    return sum(average_precision(range(n, 0, -1), order, [True] * n) for order in orders) / len(orders)


def scores(hits, selected, marked):
    """(precision, recall, f1), NaN where one of the two sides is empty."""
    if selected == 0 or marked == 0:
        return math.nan, math.nan, math.nan
    precision, recall = hits / selected, hits / marked
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0


def tokens(selected, rationale):
    mine = {t for t, chosen in enumerate(selected) if chosen}
    theirs = {t for t, marked in enumerate(rationale) if marked}
    return scores(len(mine & theirs), len(mine), len(theirs))


def runs(mask):
    """The runs of consecutive positions, as sets."""
    found, current = [], set()
    for t, inside in enumerate([*mask, False]):
        if inside:
            current.add(t)
        elif current:
            found.append(current)
            current = set()
    return found


def spans(selected, rationale, threshold):
    """A selected span is a hit by the best of its overlaps with the rationale's spans."""
    mine, theirs = runs(selected), runs(rationale)
    hits = sum(max((len(s & r) / len(s | r) for r in theirs), default=0.0) >= threshold for s in mine)
    return scores(hits, len(mine), len(theirs))
