"""Which items of two cuts of a text belong together, character by character."""

import math


def groups(first, second):
    """Sets of items that share characters, directly or through others: (0 or 1, item), in the order of the text."""
    items = [(0, i, span) for i, span in enumerate(first)] + [(1, i, span) for i, span in enumerate(second)]
    found = [{(which, i)} for which, i, _ in items]
    characters = {(which, i): set(range(*span)) for which, i, span in items}
    merged = True
    while merged:
        merged = False
        for a in found:
            for b in found:
                touching = any(characters[x] & characters[y] for x in a for y in b)
                if a is not b and touching:
                    found = [group for group in found if group not in (a, b)] + [a | b]
                    merged = True
                    break
            if merged:
                break
    return sorted(found, key=lambda group: min(min(characters[item]) for item in group))


def shares(grouped, weights):
    """The attention of both over the groups in which both have an item, each as shares of 1."""
    both = [group for group in grouped if {which for which, _ in group} == {0, 1}]
    found = []
    for which in (0, 1):
        sums = [sum(weights[which][i] for side, i in group if side == which) for group in both]
        found.append([value / sum(sums) for value in sums])
    return found


def entropy(distribution):
    return -sum(p * math.log(p) for p in distribution if p > 0)
