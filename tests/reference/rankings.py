"""Rank correlations from their definitions, pair by pair; p-values by enumeration of permutations."""

import math
from itertools import combinations, pairwise, permutations


def merge_ties(values, tie_tolerance=1e-6):
    order = sorted(range(len(values)), key=lambda t: values[t])
    ranks, rank = [0] * len(values), 0
    for before, after in pairwise(order):
        a, b = values[before], values[after]
        if a != b and b - a > tie_tolerance * max(abs(a), abs(b)):
            rank += 1
        ranks[after] = rank
    return ranks


def pair_counts(x, y):
    """Concordant, discordant, tied in x alone, tied in y alone, tied in both."""
    counts = [0, 0, 0, 0, 0]
    for i, j in combinations(range(len(x)), 2):
        if x[i] == x[j]:
            counts[4 if y[i] == y[j] else 2] += 1
        elif y[i] == y[j]:
            counts[3] += 1
        else:
            counts[0 if (x[i] < x[j]) == (y[i] < y[j]) else 1] += 1
    return counts


def kendall_tau_b(x, y):
    p, q, in_x, in_y, _ = pair_counts(x, y)
    root = math.sqrt((p + q + in_x) * (p + q + in_y))
    return (p - q) / root if root else math.nan


def average_ranks(values):
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


def spearman(x, y):
    a, b = average_ranks(x), average_ranks(y)
    mean = (len(x) + 1) / 2
    product = sum((i - mean) * (j - mean) for i, j in zip(a, b, strict=True))
    squares = [sum((i - mean) ** 2 for i in ranks) for ranks in (a, b)]
    return product / math.sqrt(squares[0] * squares[1]) if min(squares) else math.nan


def exact_p(measure, x, y):
    """Share of the orders of y that correlate at least as strongly, in either direction."""
    observed = abs(measure(x, y))
    orders = list(permutations(y))
    return sum(abs(measure(x, order)) >= observed - 1e-9 for order in orders) / len(orders)


def kendall_normal_p(x, y):
    """Normal approximation: the variance of P - Q over all orders, given the tie groups (Kendall 1970, chapter 5)."""
    n = len(x)
    p, q, *_ = pair_counts(x, y)
    groups = [[list(values).count(v) for v in set(values)] for values in (x, y)]
    single = [sum(t * (t - 1) * (2 * t + 5) for t in sizes) for sizes in groups]
    twos = [sum(t * (t - 1) for t in sizes) for sizes in groups]
    threes = [sum(t * (t - 1) * (t - 2) for t in sizes) for sizes in groups]
    variance = (n * (n - 1) * (2 * n + 5) - single[0] - single[1]) / 18
    variance += twos[0] * twos[1] / (2 * n * (n - 1))
    variance += threes[0] * threes[1] / (9 * n * (n - 1) * (n - 2))
    return math.erfc(abs(p - q) / math.sqrt(2 * variance))


def top_k(values, k):
    return set(sorted(range(len(values)), key=lambda t: (-values[t], t))[:k])


def overlap(x, y, k):
    """Only where no tie crosses the last place."""
    return len(top_k(x, k) & top_k(y, k)) / min(k, len(x))


def top_k_share(values, k):
    """How surely each item is among the first k: over every order of the items, ties broken by that order."""
    counts, orders = [0] * len(values), list(permutations(range(len(values))))
    for order in orders:
        for t in sorted(order, key=lambda t: -values[t])[:k]:
            counts[t] += 1
    return [count / len(orders) for count in counts]


def top_k_kendall(x, y, k, p=0.5):
    """The formula at the end of the fixtures' README."""
    k = min(k, len(x))
    in_x, in_y = top_k(x, k), top_k(y, k)
    common = sorted(in_x & in_y)
    tau = kendall_tau_b([x[t] for t in common], [y[t] for t in common])
    total = 0 if math.isnan(tau) else (1 - (tau / 2 + 0.5)) * len(common) ** 2
    for c in common:
        total += sum(x[c] < x[a] for a in in_x - in_y) + sum(y[c] < y[b] for b in in_y - in_x)
    left = k - len(common)
    return (total + 2 * p * left * (left - 1) / 2) / len(in_x | in_y) ** 2


def top_k_tau(x, y, k, p=0.5):
    """Fagin, Kumar and Sivakumar's four cases, for lists without ties."""
    in_x, in_y = top_k(x, k), top_k(y, k)
    cost, pairs = 0.0, 0
    for i, j in combinations(sorted(in_x | in_y), 2):
        pairs += 1
        present = (i in in_x, j in in_x, i in in_y, j in in_y)
        if all(present):
            cost += (x[i] < x[j]) != (y[i] < y[j])
        elif present[:2] == (True, True) and any(present[2:]):
            one, other = (i, j) if i in in_y else (j, i)
            cost += x[one] < x[other]
        elif present[2:] == (True, True) and any(present[:2]):
            one, other = (i, j) if i in in_x else (j, i)
            cost += y[one] < y[other]
        elif (i in in_x) != (j in in_x):
            cost += 1
        else:
            cost += p
    return 1 - 2 * cost / pairs
