"""Tails of all kinds of steps, sets of vectors before them, and points of the sets where a lead is small."""

import numpy as np
import torch

from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Linear, Norm, Product, Sum, Tail
from attn_faithful.functional.tail_forms import Sets

KINDS = ("linear", "norm", "activation", "activation", "sum", "product")
MOST_NORMS = 3
EPS = (1e-24, 1e-12, 1e-5, 1e-1)


def drawn(generator, *shape):
    return torch.from_numpy(np.asarray(generator.standard_normal(shape)))


def linear(generator, of, out, width, size):
    return Linear(of, size * drawn(generator, out, width), size * drawn(generator, out))


def norm(generator, of, width, eps=1e-5, centred=True):
    return Norm(of, 1 + 0.5 * drawn(generator, width), 0.5 * drawn(generator, width), eps, centred)


def joinable(one, other):
    """Whether two values (width, norms below) may be summed: of one width, and below the same norms but for more."""
    shorter = min(len(one[1]), len(other[1]))
    return one[0] == other[0] and one[1][:shorter] == other[1][:shorter]


def any_steps(generator, width):
    """One to eight steps of any kind that read any earlier values, most often the last; then a classifier."""
    values = [(width, ())]
    steps = []
    for _ in range(generator.integers(1, 9)):
        kind = generator.choice(KINDS)
        of = len(values) - 1
        if generator.random() < 0.3:
            of = int(generator.integers(len(values)))
        size, norms = values[of]
        number = len(steps) + 1
        if kind == "linear":
            out = int(generator.choice([1, 2, 3, width]))
            steps.append(linear(generator, of, out, size, 10 ** generator.uniform(-2, 1)))
            values.append((out, norms))
        elif kind == "norm" and len(norms) < MOST_NORMS:
            steps.append(norm(generator, of, size, float(generator.choice(EPS)), bool(generator.random() < 0.6)))
            values.append((size, (*norms, number)))
        elif kind == "activation":
            steps.append(Activation(of, str(generator.choice(list(CURVES)))))
            values.append((size, norms))
        elif kind in ("sum", "product"):
            others = [other for other in range(len(values)) if joinable(values[of], values[other])]
            other = int(generator.choice(others))
            steps.append(Sum(of, other) if kind == "sum" else Product(of, other))
            values.append((size, max(norms, values[other][1], key=len)))
    steps.append(linear(generator, len(values) - 1, int(generator.integers(2, 4)), values[-1][0], 1.0))
    return tuple(steps)


def post_norm(generator, width, hidden=5, classes=2, size=1.0, curve="gelu"):
    """Those of a BERT: norm, MLP with residual, norm, pooler, classifier."""
    return (
        norm(generator, 0, width),
        linear(generator, 1, hidden, width, size),
        Activation(2, curve),
        linear(generator, 3, width, hidden, size),
        Sum(1, 4),
        norm(generator, 5, width),
        linear(generator, 6, width, width, size),
        Activation(7, "tanh"),
        linear(generator, 8, classes, width, size),
    )


def pre_norm(generator, width, hidden=5, classes=3, size=1.0, curve="relu"):
    """Those of two layers of a GPT-2 whose first has only an MLP: each with a residual around its norm; a last norm."""
    return (
        norm(generator, 0, width),
        linear(generator, 1, hidden, width, size),
        Activation(2, curve),
        linear(generator, 3, width, hidden, size),
        Sum(0, 4),
        norm(generator, 5, width, centred=False),
        linear(generator, 6, width, width, size),
        Sum(5, 7),
        norm(generator, 8, width),
        linear(generator, 9, classes, width, size),
    )


def gated(generator, width, hidden=4, classes=2, size=1.0, curve="silu"):
    """Those of a Llama: the residual around a norm without a mean and a gated MLP."""
    return (
        norm(generator, 0, width, centred=False),
        linear(generator, 1, hidden, width, size),
        Activation(2, curve),
        linear(generator, 1, hidden, width, size),
        Product(3, 4),
        linear(generator, 5, width, hidden, size),
        Sum(0, 6),
        norm(generator, 7, width, centred=False),
        linear(generator, 8, classes, width, size),
    )


def steps_of(generator, width):
    """Steps of a model's order, or of any."""
    curve = str(generator.choice(list(CURVES)))
    size = 10 ** generator.uniform(-1.5, 0.7)
    order = generator.choice([any_steps, any_steps, post_norm, pre_norm, gated])
    if order is any_steps:
        return any_steps(generator, width)
    return order(generator, width, size=size, curve=curve)


def sets_of(generator, width, count=2):
    """Sets of up to three groups of up to four vertices: from tiny to large, with equal ones, with length 0 inside."""
    groups = int(generator.integers(1, 4))
    items = int(generator.integers(1, 5))
    centre = 10 ** generator.uniform(-2, 1) * drawn(generator, count, width)
    vertices = 10 ** generator.uniform(-2.5, 1) * drawn(generator, count, groups, items, width)
    if generator.random() < 0.2:
        vertices[:, 0] = vertices[:, 0, :1]
    if generator.random() < 0.3:
        shares = torch.from_numpy(generator.dirichlet(np.ones(items), (count, groups)))
        centre = -(shares[..., None] * vertices).sum((1, 2))
    if generator.random() < 0.15:
        centre, vertices = 1e-10 * centre, 1e-10 * vertices
    return Sets(centre, vertices)


def vectors(sets, shares):
    """Vectors (N, K, D) of shares (N, K, F, V)."""
    return sets.centre[:, None] + shares.flatten(2) @ sets.vertices.flatten(1, 2)


def points(generator, sets, count):
    """Shares (N, K, F, V) of the sets: vertices, faces, heavy-tailed and smooth ones."""
    n, groups, items, _ = sets.vertices.shape
    kinds = []
    for concentration in (0.03, 0.3, 1.0):
        raw = generator.gamma(concentration, size=(n, count, groups, items)) + 1e-300
        kinds.append(raw / raw.sum(-1, keepdims=True))
    one = generator.integers(items, size=(n, count, groups))
    kinds.append(np.eye(items)[one])
    on_face = np.where(generator.random((n, count, groups, items)) < 0.5, kinds[2], 0.0) + 1e-9 * kinds[3]
    on_face[on_face < 1e-7] = 0.0
    on_face += (on_face.sum(-1, keepdims=True) == 0) * kinds[3]
    kinds.append(on_face / on_face.sum(-1, keepdims=True))
    return torch.from_numpy(np.concatenate(kinds, 1))


def leads(sets, steps, margins, shares):
    """``margins @ logits`` (N, K, R) at shares (N, K, F, V)."""
    tail = Tail(sets.centre, sets.vertices, steps)
    return tail.after(vectors(sets, shares)) @ margins.transpose(1, 2)


def lowest_found(generator, sets, steps, margins, count=60, rounds=8):
    """The shares (N, R, F, V) where each margin is least of many points and of lines from the best to vertices.

    Each round goes along the gradient to the vertex of each group, and of all together, that it names.
    """
    shares = points(generator, sets, count)
    best = shares.gather(
        1, leads(sets, steps, margins, shares).argmin(1)[..., None, None].expand(-1, -1, *shares.shape[2:])
    )
    for _ in range(rounds):
        best = _improved(sets, steps, margins, best)
    return best


def _improved(sets, steps, margins, best):
    """No worse shares (N, R, F, V) for each margin."""
    _, rows, groups, items = best.shape
    given = best.clone().requires_grad_(True)
    of_rows = leads(sets, steps, margins, given).diagonal(dim1=1, dim2=2)  # (N, R)
    (slope,) = torch.autograd.grad(of_rows.sum(), given)
    vertex = torch.eye(items, dtype=best.dtype)[slope.nan_to_num().argmin(-1)]  # (N, R, F, V)
    tried = [best]
    for share in (1.0, 0.5, 0.2, 0.05, 0.01, 1e-3, 1e-5):
        together = best + share * (vertex - best)
        tried.append(together)
        for group in range(groups):
            alone = best.clone()
            alone[:, :, group] = together[:, :, group]
            tried.append(alone)
    tried = torch.stack(tried, 2)  # (N, R, K, F, V)
    of_tried = torch.stack(
        [leads(sets, steps, margins, tried[:, row])[..., row] for row in range(rows)], 1
    )  # (N, R, K)
    place = of_tried.nan_to_num(nan=float("inf")).argmin(-1)[..., None, None, None]
    return tried.gather(2, place.expand(-1, -1, 1, groups, items))[:, :, 0]


def as_arrays(steps):
    """The same steps as the slow reference reads them."""
    found = []
    for step in steps:
        if isinstance(step, Linear):
            found.append(("linear", step.of, step.weight.numpy(), step.bias.numpy()))
        elif isinstance(step, Norm):
            found.append(("norm", step.of, step.weight.numpy(), step.bias.numpy(), step.eps))
        elif isinstance(step, Activation):
            found.append((step.name, step.of))
        else:
            found.append(("sum", step.one, step.other))
    return found
