"""Conicity and the distance of tied states, from the papers' formulas, text by text; None where undefined."""

import numpy as np


def conicity(states):
    """``mean_t |cos(h_t, mean_s h_s)|`` of a text's content states, (n, N) (Mohankumar et al. 2020, section 3.1)."""
    directed = [state for state in states if state.any()]  # 0 has no direction
    if len(directed) < 2:
        return None
    mean = sum(directed) / len(directed)
    if not mean.any():
        return None
    total = 0.0
    for state in directed:
        total += abs(np.dot(state, mean) / (np.linalg.norm(state) * np.linalg.norm(mean)))
    return total / len(directed)


def mean_conicity(slots):
    """Mean of the conicity over the attentions of a text, each with the states (n, N) that it weighs."""
    values = [conicity(states) for states in slots]
    values = [value for value in values if value is not None]
    if not values:
        return None
    return sum(values) / len(values)


def tying_distance(states, embedded):
    """``mean_t ||h_t - e_t||^2`` (Tutek and Snajder 2020, section 3)."""
    if not len(states):
        return None
    total = 0.0
    for state, embedding in zip(states, embedded, strict=True):
        total += np.linalg.norm(state - embedding) ** 2
    return total / len(states)
