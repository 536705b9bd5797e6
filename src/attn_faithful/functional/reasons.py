"""Why a value is undefined: the texts that stand in tables beside a NaN, and the first of several that applies.

Imports nothing, so that reports can use it as well as kernels and evaluators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

# of one example
NO_TOKEN = "no content token"
ONE_ITEM = "one item"
TOO_SHORT = "n<2"
NAN_SCORES = "nan in scores"
NAN_ATTENTION = "nan in attention"
NAN_STATES = "nan in states"
NAN_PROBABILITIES = "nan in probabilities"
NO_MASS = "no mass"
CONSTANT_ATTENTION = "constant attention"
NO_PERMUTATION = "no permutation"
NO_ALTERNATIVE = "no alternative"
NEVER = "never flips"
ATTENTION_PROOF = "attention-proof"
NO_RATIONALE = "no rationale token"
NOTHING_SELECTED = "no selected token"
NOTHING_IMPERMISSIBLE = "no impermissible token"
UNDEFINED_DIVERGENCE = "undefined divergence"
NO_SUPPORT = "no item is ranked as support"
FIXED = "known of the whole text alone"
NO_SECOND_WORD = "no other word to exchange"
NEVER_MOVED = "twin attention never moved"
ALIKE = "all orders alike"
OVER_BUDGET = "too long for the beam's budget"
ZERO_LOSES_NOTHING = "embeddings of 0 lose nothing"
NO_DIRECTION = "states or their mean are 0"

# of a whole data set
NO_EXAMPLE = "no defined example"
NO_EXAMPLE_OF_2 = "no defined example of 2 tokens"
NO_EXAMPLE_OF_5 = "no defined example of 5 tokens"

# of a model or a data set that a test cannot judge
MULTI_LABEL = "labels are independent"
CANNOT_DELETE = "model cannot delete tokens"
CANNOT_MASK = "tokenizer has no mask token"
NO_EMBEDDINGS = "model takes no embeddings"
NOT_AFFINE = "read-out is not affine"
NO_TAIL = "not known what follows the attention"
NOT_PROVED = "proofs were left out"
UNLABELLED = "no known label"
NOT_SEARCHED = "not searched under a control"
NO_BOUND = "no bound for the gradient search"
MORE_CLASSES = "more than two classes"
WHERE_NO_MASS = "mass where the model has none"
NOTHING_MARKED = "no rationale in the data"
NO_IMPERMISSIBLE_WORDS = "no impermissible words in the data"
NO_WEIGHTS = "no weights known"
NO_STATES = "no states known"
FEW_TEXTS = "too few texts to compare with"


Reasons = list[str | None]  # for each example why it is undefined, None where it is defined


class Flags(Protocol):
    """Booleans of B examples: a tensor (B,) or an array (B,)."""

    def tolist(self) -> list[bool]: ...


def first_reasons(flags_by_reason: Mapping[str, Flags]) -> Reasons:
    """For each of B examples the first reason whose flag is set, None where none is.

    Args:
        flags_by_reason: reason -> a tensor or array of booleans (B,); the order decides which reason comes first.

    Returns:
        B reasons.

    Example:
        >>> import numpy as np
        >>> first_reasons({"no content token": np.array([True, False]), "n<2": np.array([True, False])})
        ['no content token', None]
    """
    columns = [flags.tolist() for flags in flags_by_reason.values()]
    reasons = list(flags_by_reason)
    return [_first(reasons, flags) for flags in zip(*columns, strict=True)]


def _first(reasons: Sequence[str], flags: Sequence[bool]) -> str | None:
    for reason, flag in zip(reasons, flags, strict=True):
        if flag:
            return reason
    return None


def or_else(first: Sequence[str | None], second: Sequence[str | None]) -> Reasons:
    """For each of B examples its first reason, or else its second.

    Example:
        >>> or_else(["no content token", None], ["n<2", "n<2"])
        ['no content token', 'n<2']
    """
    return [reason or other for reason, other in zip(first, second, strict=True)]
