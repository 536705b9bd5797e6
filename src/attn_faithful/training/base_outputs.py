"""The base's predictions and attention as columns of a data set, so that the base runs once and not every step."""

from __future__ import annotations

from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.models.inference import Outputs

SPECIAL = "special_tokens_mask"


def with_base(dataset: Any, base: Outputs) -> Any:
    """The data set with the columns ``base_attention`` (over all tokens) and ``base_probabilities``."""
    if len(dataset) != len(base):
        raise InputError(f"Expected the base's outputs of {len(dataset)} examples, but got {len(base)}.")
    attention = list(base.attention)
    if SPECIAL in dataset.column_names:
        pairs = zip(attention, dataset[SPECIAL], strict=True)
        attention = [_over_all_tokens(weights, np.asarray(special, dtype=bool)) for weights, special in pairs]
    return dataset.with_columns(base_attention=attention, base_probabilities=list(base.probabilities))


def _over_all_tokens(weights: np.ndarray, special: np.ndarray) -> np.ndarray:
    """Weights of the content tokens as weights (T,) of all tokens; those of special tokens are 0."""
    over_all = np.zeros(len(special))
    over_all[~special] = weights
    return over_all


def base_of(dataset: Any) -> Outputs:
    """The base's outputs from the columns of `with_base`: attention over the content tokens."""
    attention = list(dataset["base_attention"])
    if SPECIAL in dataset.column_names:
        pairs = zip(attention, dataset[SPECIAL], strict=True)
        attention = [weights[~np.asarray(special, dtype=bool)] for weights, special in pairs]
    return Outputs(np.asarray(dataset["base_probabilities"]), attention)
