"""Values of a tail in numbers of 60 digits, a loop a step: what a proven bound has to stay below."""

from mpmath import mp

from attn_faithful.functional.tail import Activation, Linear, Norm, Product, Sum

CURVES = {
    "relu": lambda x: max(x, mp.mpf(0)),
    "gelu": lambda x: x * mp.ncdf(x),
    "gelu_tanh": lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))),
    "quick_gelu": lambda x: x / (1 + mp.exp(mp.mpf(-1.702) * x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
}


def exact(values):
    """A list of numbers of 60 digits."""
    return [mp.mpf(float(value)) for value in values]


def dot(one, other):
    return mp.fsum(a * b for a, b in zip(one, other, strict=True))


def vector(centre, vertices, shares):
    """``centre + sum_f sum_v p_fv vertices_fv`` with shares (F, V) that are made to sum to 1 exactly."""
    found = exact(centre)
    for group, weights in zip(vertices, shares, strict=True):
        weights = exact(weights)
        total = mp.fsum(weights)
        for weight, vertex in zip(weights, group, strict=True):
            found = [a + weight / total * b for a, b in zip(found, exact(vertex), strict=True)]
    return found


def last(steps, start):
    """The last value, a list, of a start of 60 digits."""
    made = [start]
    for step in steps:
        if isinstance(step, Linear):
            rows = [exact(row) for row in step.weight]
            made.append([dot(row, made[step.of]) + b for row, b in zip(rows, exact(step.bias), strict=True)])
        elif isinstance(step, Norm):
            made.append(normed(step, made[step.of]))
        elif isinstance(step, Activation):
            made.append([CURVES[step.name](x) for x in made[step.of]])
        elif isinstance(step, Sum):
            made.append([a + b for a, b in zip(made[step.one], made[step.other], strict=True)])
        elif isinstance(step, Product):
            made.append([a * b for a, b in zip(made[step.one], made[step.other], strict=True)])
    return made[-1]


def normed(step, x):
    if step.centred:
        mean = mp.fsum(x) / len(x)
        x = [a - mean for a in x]
    scale = 1 / mp.sqrt(dot(x, x) / len(x) + mp.mpf(step.eps))
    return [a * scale * w + b for a, w, b in zip(x, exact(step.weight), exact(step.bias), strict=True)]


def lead(steps, centre, vertices, shares, margin):
    """``margin @ logits`` of one point of a set: centre (D,), vertices (F, V, D), shares (F, V), margin (C,)."""
    with mp.workdps(60):
        return dot(exact(margin), last(steps, vector(centre, vertices, shares)))
