"""What a model decides where each slot deals all of its items' weight to one of them, every choice asked alone."""

import itertools

import numpy as np


def dealt(attention, items, choice):
    """Attention (S, T) in which a slot's items give their weight to the chosen one; None leaves a slot as it is."""
    other = attention.copy()
    for slot, item in enumerate(choice):
        if item is not None:
            other[slot, items[slot]] = 0.0
            other[slot, item] = attention[slot, items[slot]].sum()
    return other


def leads(scores, decision):
    """By how much the decision leads its best rival, (N,) of logits (N, C)."""
    return scores[:, decision] - np.delete(scores, decision, 1).max(1)


def joint_leads(logits_of, attention, items, decision):
    """The lead at every vertex of all slots together; logits_of gives logits (N, C) of attention (N, S, T)."""
    choices = [np.flatnonzero(row) if row.any() else [None] for row in items]
    others = [dealt(attention, items, choice) for choice in itertools.product(*choices)]
    return leads(logits_of(np.stack(others)), decision)


def single_leads(logits_of, attention, items, decision):
    """The least lead of each slot alone, the others as they are; infinite for one without an item."""
    slots = len(items)
    least = np.full(slots, np.inf)
    for slot in range(slots):
        for item in np.flatnonzero(items[slot]):
            choice = [None] * slots
            choice[slot] = item
            other = dealt(attention, items, choice)
            least[slot] = min(least[slot], leads(logits_of(other[None]), decision)[0])
    return least
