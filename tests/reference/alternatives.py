"""What alternative attention does to predictions, example by example and alternative by alternative."""

import math
from statistics import median

from tests.reference.divergences import jsd, tvd


def decision(p):
    best = 0
    for c, value in enumerate(p):
        if value > p[best]:
            best = c
    return best


def permutation(predictions, references):
    """Median TVD and share of other decisions of every example; NaN without a permutation."""
    medians, flips = [], []
    for rows, own in zip(predictions, references, strict=True):
        if not rows:
            medians.append(math.nan)
            flips.append(math.nan)
            continue
        medians.append(median([tvd(row, own) for row in rows]))
        flips.append(sum(decision(row) != decision(own) for row in rows) / len(rows))
    return medians, flips


def reachable(own):
    """The best over every corner of the simplex."""
    corners = [[float(i == j) for j in range(len(own))] for i in range(len(own))]
    return max(jsd(corner, own) for corner in corners)


def adversarial(predictions, references, prediction_attentions, reference_attentions, eps):
    """(eps-max JSD, reachable JSD, TVD of the best, how many are within eps) of every example, for defined ones."""
    found = []
    columns = (predictions, references, prediction_attentions, reference_attentions)
    for rows, own, attentions, attention in zip(*columns, strict=True):
        # where nothing is within eps there is still the model's own attention, which keeps every limit
        pairs = [(jsd(other, attention), tvd(row, own)) for row, other in zip(rows, attentions, strict=True)]
        within = [(far, change) for far, change in pairs if change <= eps + 1e-6]
        candidates = within or [(0.0, 0.0)]
        best = max(far for far, _ in candidates)
        cost = min(change for far, change in candidates if far >= best - 1e-12)
        found.append((best, reachable(attention), cost, len(within)))
    return found


def mean_and_std(values):
    defined = [value for value in values if not math.isnan(value)]
    mean = sum(defined) / len(defined)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in defined) / len(defined))
