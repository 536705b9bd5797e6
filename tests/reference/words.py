"""Attention over the words of one text, token by token: sums of its tokens' weights, and new ones dealt back."""

import math


def items_of(allowed, content, word_ids):
    """The tokens of each item: the words, then every other position that attention reaches in some slot."""
    words = [[] for _ in range(max((w for w, c in zip(word_ids, content, strict=True) if c), default=-1) + 1)]
    apart = []
    for t, word in enumerate(word_ids):
        if content[t]:
            words[word].append(t)
        elif any(slot[t] for slot in allowed):
            apart.append([t])
    return words + apart


def summed(values, items):
    """Of each slot the sums of its items, (S, T) -> (S, items)."""
    return [[math.fsum(slot[t] for t in tokens) for tokens in items] for slot in values]


def log_summed(logs, items):
    return [[_log_sum([slot[t] for t in tokens]) for tokens in items] for slot in logs]


def dealt(weights, own, allowed, items):
    """Weights of items (S, items) as those of tokens (S, T): as ``own`` (S, T) stand to one another, or evenly."""
    tokens = [[0.0] * len(slot) for slot in own]
    for s, slot in enumerate(weights):
        for weight, held in zip(slot, items, strict=True):
            held = [t for t in held if allowed[s][t]]
            whole = math.fsum(own[s][t] for t in held)
            for t in held:
                tokens[s][t] = weight * own[s][t] / whole if whole > 0 else weight / len(held)
    return tokens


def _log_sum(values):
    top = max(values, default=-math.inf)
    return -math.inf if top == -math.inf else top + math.log(math.fsum(math.exp(v - top) for v in values))
