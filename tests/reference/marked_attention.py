"""Attention on marked tokens, from the formulas, text by text, lists of content tokens; None where undefined."""

import math


def marked_mass(shares, marked):
    """The sum over the impermissible tokens (Pruthi et al. 2020, section 3.1)."""
    if not any(marked):
        return None
    return sum(share for share, mark in zip(shares, marked, strict=True) if mark)


def hidden_mass_loss(attention, marked):
    """``-log(1 - sum of attention on impermissible tokens)`` (their equation 1)."""
    if not attention:
        return None
    mass = sum(weight for weight, mark in zip(attention, marked, strict=True) if mark)
    return -math.log(1 - mass)


def rationale_divergence(attention, marked):
    """``KL(r || a) = sum_t r_t log(r_t / a_t)``, r equal over the marked tokens."""
    if not any(marked):
        return None
    share = 1 / sum(marked)
    total = 0.0
    for weight, mark in zip(attention, marked, strict=True):
        if mark:
            total += share * math.log(share / weight)
    return total
