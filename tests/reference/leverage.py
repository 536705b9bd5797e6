"""Leverage of one text from its definition, token by token; None where it is undefined."""

import math

from tests.reference.flip_distance import decision, margins_by_class


def leverage_parts(a0, token_logits, bias):
    """The margin of even attention's two best probabilities, squared, and the unused share of the lead's reach."""
    tokens = range(len(a0))
    if len(a0) < 2 or sum(b != -math.inf for b in bias) < 2:
        return None
    y = decision(a0, token_logits, bias)
    margins = margins_by_class(token_logits, bias, y)
    even_lead = min(sum(m) / len(m) for m in margins.values())
    p = 1 / (1 + math.exp(-even_lead))
    sure = max(0.0, p - (1 - p))
    rival = min(margins, key=lambda c: sum(a0[t] * margins[c][t] for t in tokens))
    m = margins[rival]
    if max(m) == min(m):
        return sure**2, 0.0
    own = sum(a0[t] * m[t] for t in tokens)
    return sure**2, (max(m) - own) / (max(m) - min(m))


def leverage_loss(a0, token_logits, bias):
    parts = leverage_parts(a0, token_logits, bias)
    return None if parts is None else sum(parts)


def slopes_of_attention(a0, token_logits, bias):
    """The derivative in each weight: the unused share of the reach if all attention were on the token."""
    y = decision(a0, token_logits, bias)
    margins = margins_by_class(token_logits, bias, y)
    rival = min(margins, key=lambda c: sum(a * x for a, x in zip(a0, margins[c], strict=True)))
    m = margins[rival]
    return [(max(m) - x) / (max(m) - min(m)) for x in m]


def slopes_of_logits(a0, token_logits, bias, step=1e-6):
    """The derivative of the even part in each token's logits, by central differences; the other part holds them."""
    slopes = []
    for t, logits in enumerate(token_logits):
        row = []
        for c in range(len(logits)):
            around = []
            for sign in (1, -1):
                moved = [list(z) for z in token_logits]
                moved[t][c] += sign * step
                around.append(leverage_parts(a0, moved, bias)[0])
            row.append((around[0] - around[1]) / (2 * step))
        slopes.append(row)
    return slopes
