"""What the test `randomisation` says of each importance, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from attn_faithful.reports.answer.wording import Sentence
from attn_faithful.reports.numbers import number
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.randomisation import TAU, ignoring
from attn_faithful.reports.scores import Scores


def randomisation_sentences(scores: Scores) -> Iterator[Sentence]:
    """How alike each importance stays once all weights are drawn anew, over the texts where all are defined."""
    sources = scores.run.sources(TAU, scores.site)
    columns = {source: scores.values(TAU, source) for source in sources}  # (B,) each
    defined = {source: values for source, values in columns.items() if np.isfinite(values).any()}
    if not defined:
        return
    common = np.isfinite(np.stack(list(defined.values()))).all(0)  # (B,)
    n = int(common.sum())
    if not n:
        return
    ignorant = ignoring(scores.run.records, scores.site)
    changing = [source for source in defined if source not in ignorant]
    kept = []
    for place, source in enumerate(changing):
        keeps = "keeps a tau of " if place == 0 else ""
        value = float(defined[source][common].mean())
        kept.append(f"{title_of(source)} {keeps}{number(value, 2)}{'' if keeps == '' else ' with itself'}")
    texts = "" if scores.single else f", over {scores.over(n)}"
    parts = [", ".join(kept), _ignorance(ignorant)]
    yield ["With all weights drawn anew ", ("weights", "; ".join(filter(None, parts))), texts, "."]


def _ignorance(sources: Sequence[str]) -> str:
    """Which sources ignore the model."""
    names = [title_of(source) for source in sources]
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} ignores the model (1.00)"
    return f"{', '.join(names[:-1])} and {names[-1]} ignore the model (1.00)"
