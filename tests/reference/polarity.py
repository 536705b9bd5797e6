"""Polarity by the definition: probabilities of the text and of the text without one item."""

import numpy as np
from scipy.special import softmax


def violated(before, after, decision):
    """Whether the decision's probability does not fall; logits (C,) each."""
    return bool(softmax(before)[decision] <= softmax(after)[decision])


def first(importance):
    """The place of the largest value, the first of equal ones, and whether it is above 0; NaN is passed over."""
    best, place = -np.inf, 0
    for t, value in enumerate(importance):
        if not np.isnan(value) and value > best:
            best, place = value, t
    return place, best > 0


def without(attention, token_logits, bias, place):
    """Logits without one item of an affine read-out, the rest renormalized."""
    kept = np.array(attention, dtype=float)
    kept[place] = 0
    mass = kept.sum()
    context = kept @ token_logits / mass if mass > 0 else np.zeros(len(bias))
    return context + bias
