"""What permutations of one list of weights can do, by going through all of them."""

from itertools import pairwise, permutations

from tests.reference.flip_distance import decision


def values(weights, margins):
    """``sum_t a_pi(t) s_t`` of every permutation."""
    return [sum(a * s for a, s in zip(dealt, margins, strict=True)) for dealt in permutations(weights)]


def extremes(weights, margins):
    found = values(weights, margins)
    return min(found), max(found)


def moments(weights, margins):
    found = values(weights, margins)
    mean = sum(found) / len(found)
    return mean, sum((v - mean) ** 2 for v in found) / len(found)


def certificate(weights, token_logits, bias):
    now = decision(weights, token_logits, bias)
    return all(decision(dealt, token_logits, bias) == now for dealt in permutations(weights))


def constant(weights, tolerance=1e-6):
    """Whether each weight is equal to the next larger one up to rounding."""
    ordered = sorted(weights)
    return all(b - a <= tolerance * max(abs(a), abs(b)) for a, b in pairwise(ordered))
