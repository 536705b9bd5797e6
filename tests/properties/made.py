"""Inputs for the property tests: batches of any lengths, ties, zeros, one-hot rows, extremes, masks with holes.

Shapes and kinds are Hypothesis' choice; the numbers come from a generator that is seeded by it, which is many times
faster than drawing each. `PROPERTY_EXAMPLES=1000` searches at random in place of the same 25 examples every time.
"""

import math
import os

import numpy as np
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "25"))
SEARCH = "PROPERTY_EXAMPLES" in os.environ
DTYPES = (torch.float32, torch.float64)
KINDS = ("smooth", "ties", "sparse", "one-hot", "equal", "wide", "near")
EXTREMES = (0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e300, -1e300, 3.4e38, math.inf, -math.inf, math.nan)


def checked(share=1.0):
    """Settings of a property: the same examples in every run, unless a search was asked for."""
    return settings(
        max_examples=max(5, round(EXAMPLES * share)),
        deadline=None,
        derandomize=not SEARCH,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def seeds():
    return st.integers(0, 2**32 - 1)


def weights(generator, n, kind):
    """One distribution over n tokens, (n,) float64."""
    if n == 0:
        return np.zeros(0)
    if kind == "smooth":
        return generator.dirichlet(np.ones(n))
    if kind == "one-hot":
        return np.eye(n)[generator.integers(n)]
    if kind == "equal":
        return np.full(n, 1 / n)
    raw = {
        "ties": lambda: generator.integers(0, 4, n).astype(float),
        "sparse": lambda: generator.random(n) * (generator.random(n) < 0.4),
        "wide": lambda: np.exp(generator.uniform(-60, 0, n)),
        "near": lambda: 1 + 1e-12 * generator.integers(0, 3, n),
    }[kind]()
    return raw / raw.sum() if raw.sum() > 0 else np.full(n, 1 / n)


def scores(generator, n, kind):
    """Any finite numbers, (n,) float64."""
    raw = generator.standard_normal(n)
    return {
        "smooth": raw,
        "ties": np.round(2 * raw),
        "sparse": raw * (generator.random(n) < 0.4),
        "one-hot": raw * (np.arange(n) == (generator.integers(n) if n else 0)),
        "equal": np.full(n, raw[0] if n else 0.0),
        "wide": raw * np.exp(generator.uniform(-12, 12, n)),
        "near": 1 + 1e-12 * np.round(raw),
    }[kind]


def placed(rows, masks, fill=0.0):
    """Rows of numbers put where their masks (B, T) are true."""
    out = np.full((*masks.shape, *rows[0].shape[1:]) if len(rows) else masks.shape, fill)
    for i, row in enumerate(rows):
        out[i, masks[i]] = row
    return torch.from_numpy(out)


@st.composite
def masks(draw, longest=40, rows=4, least=0):
    """(B, T) bool, with padding on either side and holes; rows may be empty unless ``least`` says otherwise."""
    lengths = draw(st.lists(st.integers(least, longest), min_size=1, max_size=rows))
    padding = draw(st.integers(0, 3))
    width = max(lengths) + padding
    generator = np.random.default_rng(draw(seeds()))
    found = np.zeros((len(lengths), width), dtype=bool)
    for i, n in enumerate(lengths):
        found[i, np.sort(generator.permutation(width)[:n])] = True
    return found


@st.composite
def batches(draw, longest=40, rows=4, least=0, classes=(2, 5), dtype=torch.float64):
    """A read-out: attention (B, T), allowed (B, T), token logits (B, T, C), bias (B, C)."""
    allowed = draw(masks(longest, rows, least))
    kind, said = draw(st.sampled_from(KINDS)), draw(st.sampled_from(("smooth", "ties", "sparse", "wide", "equal")))
    c = draw(st.integers(*classes))
    generator = np.random.default_rng(draw(seeds()))
    attention = placed([weights(generator, int(m.sum()), kind) for m in allowed], allowed)
    logits = placed([np.stack([scores(generator, int(m.sum()), said) for _ in range(c)], -1) for m in allowed], allowed)
    bias = torch.from_numpy(np.round(generator.standard_normal((len(allowed), c)), 1))
    return attention.to(dtype), torch.from_numpy(allowed), logits.to(dtype), bias.to(dtype)


@st.composite
def vectors(draw, longest=40, least=0, extremes=True):
    """Two score vectors of one length, with ties, zeros and, where allowed, infinities."""
    n = draw(st.integers(least, longest))
    generator = np.random.default_rng(draw(seeds()))
    pair = []
    for _ in range(2):
        values = scores(generator, n, draw(st.sampled_from(KINDS)))
        if extremes and n and draw(st.integers(0, 3)) == 0:
            values[generator.integers(n)] = draw(st.sampled_from((math.inf, -math.inf, 1e300, 0.0, -0.0)))
        pair.append(values)
    return pair


def padded(tensor, before, after, fill=0.0):
    """The same tensor with ``fill`` on both sides of axis 1."""
    shape = list(tensor.shape)
    left, right = ([*shape[:1], k, *shape[2:]] for k in (before, after))
    return torch.cat([torch.full(left, fill).to(tensor), tensor, torch.full(right, fill).to(tensor)], 1)


def same(a, b, tolerance=1e-10):
    """Equal within a tolerance, NaN equal to NaN."""
    a, b = torch.as_tensor(a, dtype=torch.float64), torch.as_tensor(b, dtype=torch.float64)
    return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
