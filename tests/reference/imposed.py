"""An MLP under an attention that is imposed (Wiegreffe and Pinter 2019, section 3.4), one number at a time."""

import math


def probabilities(embedded, attention, weights):
    """The sigmoid of an affine map of the states' mean, weighed by an attention over the tokens; of two classes.

    Args:
        embedded: a list of numbers a token.
        attention: a number a token.
        weights: of the MLP: its matrix and bias, the read-out's row and bias.
    """
    matrix, bias, (readout,), (logit,) = weights
    context = [0.0] * len(bias)
    for vector, weight in zip(embedded, attention, strict=True):
        for unit, (row, shift) in enumerate(zip(matrix, bias, strict=True)):
            total = shift
            for value, factor in zip(vector, row, strict=True):
                total += value * factor
            context[unit] += weight * math.tanh(total)
    for value, factor in zip(context, readout, strict=True):
        logit += value * factor
    positive = 1 / (1 + math.exp(-logit))
    return [1 - positive, positive]
