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
        attention = []
        for weights, special in zip(base.attention, dataset[SPECIAL], strict=True):
            # (T,): special tokens have no weight
            over_all_tokens = np.zeros(len(special))
            over_all_tokens[~np.asarray(special, dtype=bool)] = weights
            attention.append(over_all_tokens)
    probabilities = list(base.probabilities)
    return dataset.with_columns(base_attention=attention, base_probabilities=probabilities)


def base_of(dataset: Any) -> Outputs:
    """The base's outputs from the columns of `with_base`: attention over the content tokens."""
    attention = list(dataset["base_attention"])
    if SPECIAL in dataset.column_names:
        attention = []
        for weights, special in zip(dataset["base_attention"], dataset[SPECIAL], strict=True):
            is_content = ~np.asarray(special, dtype=bool)
            attention.append(weights[is_content])
    probabilities = np.asarray(dataset["base_probabilities"])
    return Outputs(probabilities, attention)
