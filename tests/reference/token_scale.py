"""Lin-TaSc from the paper's formula, for one text: ``W sum_t a_t s_t h_t + b`` with ``s_t = sum_d (u_w e_td)``."""

import numpy as np


def logits(attention, states, scales, embedded, weight, bias):
    """Logits (C,) of attention (n,), states (n, N), scales u (n,), embeddings (n, E), and the read-out."""
    context = np.zeros(weight.shape[1])
    for a, state, u, embedding in zip(attention, states, scales, embedded, strict=True):
        scaled_embedding = u * embedding
        context += a * scaled_embedding.sum() * state
    return weight @ context + bias
