"""Whether texts with items erased were still such as the model was trained on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attn_faithful.reports.answer.wording import Sentence
from attn_faithful.reports.numbers import percent
from attn_faithful.reports.scores import Scores

_DONE = {"deleted_outside": "deleted", "masked_outside": "masked"}


def erased_sentences(scores: Scores) -> Iterator[Sentence]:
    """How many of the texts that items were erased from in attention's order are unusual to the model, by operator."""
    parts = []
    n = 0
    for metric, done in _DONE.items():
        values = scores.values(metric)
        known = int(np.isfinite(values).sum())
        if known:
            texts = "those" if parts else "the texts"
            share = percent(float(np.nanmean(values)))
            parts.append(f"of {texts} with {scores.noun}s {done} {share}")
            n = max(n, known)
    if parts:
        told = ", ".join(parts)
        yield [
            f"{told[0].upper()}{told[1:]} are unlike what the model was trained on, means over {scores.over(n)} "
            "(5% by chance)."
        ]
