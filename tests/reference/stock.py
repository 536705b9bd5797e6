"""A stock model whose attention is replaced layer by layer: transformers' own eager function, weights from a list.

The model is run once more for every layer that is replaced, so that the rows that stay are what they become.
"""

import sys

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

NAME = "eager_with_a_list"
_GIVEN, _SEEN = [], []  # weights by call, None for the model's own; the model's own weights by call


def _eager_with_a_list(module, query, key, value, mask, **kwargs):
    eager = sys.modules[type(module).__module__].eager_attention_forward
    output, weights = eager(module, query, key, value, mask, **kwargs)
    _SEEN.append(weights.detach().numpy().copy())
    given = _GIVEN[len(_SEEN) - 1] if len(_SEEN) <= len(_GIVEN) else None
    if given is None:
        return output, weights
    groups = weights.shape[1] // value.shape[1]
    rows = [torch.as_tensor(given[:, h]).to(value) @ value[:, h // groups] for h in range(weights.shape[1])]
    return torch.stack(rows, dim=2), weights


AttentionInterface.register(NAME, _eager_with_a_list)
AttentionMaskInterface.register(NAME, eager_mask)


@torch.no_grad()
def run(model, inputs, given=()):
    """Logits (B, C), and what each attention call's own weights (B, H, Q, T) were, when some are ``given`` by call."""
    before = model.config._attn_implementation
    _GIVEN[:], _SEEN[:] = given, []
    model.set_attn_implementation(NAME)
    try:
        logits = model(**inputs).logits
    finally:
        model.set_attn_implementation(before)
    return logits.numpy(), list(_SEEN)


def logits_under(model, inputs, changes):
    """Logits (B, C) where ``changes[call](own weights (B, H, Q, T))`` stand in for the weights of some calls."""
    given = [None] * (max(changes) + 1)
    for call in sorted(changes):
        _, own = run(model, inputs, given)
        given[call] = changes[call](own[call])
    return run(model, inputs, given)[0]


def key_of(t, last, shifted):
    """Where a layer holds a text's position: one later in a decoder, whose own first token goes to the text's end."""
    if not shifted or t > last:
        return t
    return 0 if t == last else t + 1


def slots(own, rows, reading, heads, shifted):
    """What is read of one text's weights (H, Q, T): (S, T).

    ``rows``: the queries that are read, of which there is one if ``reading`` is "token".
    """
    own = own[..., [key_of(t, rows[-1], shifted) for t in range(own.shape[-1])]]
    if reading == "token":
        return np.stack([own[h, rows[0]] for h in heads])
    if reading == "mean":
        return np.stack([sum(own[h, q] for q in rows) / len(rows) for h in heads])
    return np.stack([own[h, q] if q in rows else np.zeros_like(own[h, q]) for h in heads for q in range(own.shape[1])])


def replaced(own, new, mean, allowed, rows, reading, heads, shifted):
    """One text's weights (H, Q, T) when its slots are ``new`` (S, T).

    ``mean``: (S, T), what the slots were in the unchanged model; ``allowed``: (Q, T), by key.
    """
    found, size = own.copy(), own.shape[-1]
    for at, h in enumerate(heads):
        for q in rows:
            row = [0.0] * size
            for t in range(size):
                key = key_of(t, rows[-1], shifted)
                if not allowed[q, key]:
                    continue
                if reading == "token":
                    row[key] = new[at, t]
                elif reading == "all":
                    row[key] = new[at * own.shape[1] + q, t]
                elif mean[at, t] > 0:
                    row[key] = own[h, q, key] * new[at, t] / mean[at, t]
                else:
                    row[key] = new[at, t]
            total = sum(row)
            found[h, q] = [w / total if reading == "mean" and total > 0 else w for w in row]
    return found
