"""What a source says of each text of a run, as other tools take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.run import ATTENTION, Run
from attn_faithful.reports.site_columns import SiteColumns, one_an_item

_NO_SOURCES = ("example", "site", "slot", "tokens", "offsets", "informative")


@dataclass(frozen=True)
class ExplainedText:
    """What a source says of one text.

    Attributes:
        words: the items of the text.
        pieces: the same, with the blank behind each that has one.
        scores: (T,) one a word, NaN where undefined.
        predicted: index of the predicted class, -1 where the model could not read the text.
        label: index of the gold class, -1 where it is unknown.
        probabilities: (C,).
    """

    words: list[str]
    pieces: list[str]
    scores: np.ndarray
    predicted: int
    label: int
    probabilities: np.ndarray


def explained_texts(run: Run, source: str = ATTENTION) -> list[ExplainedText]:
    """What a source says of every text of a run, at the site nearest to the output.

    Args:
        run: finished.
        source: "attention", or a source of importance that the run computed.

    Raises:
        InputError: the run has no such source, or judges several labels of a text.
    """
    examples = Examples(run)
    columns = SiteColumns(run, "tokens", examples.site)
    known = [name for name in columns.names if name not in _NO_SOURCES]
    check_choice(f"source of {run.path}", source, known)
    row_of = {str(example): row for row, example in enumerate(columns.values("example"))}
    scores = columns.lists(source)
    texts = []
    for place, example in enumerate(run.ids):
        label = run.labels[place]
        if not isinstance(label, int):
            raise InputError("Expected a run of one label a text, but this one has several.")
        words = examples.words(place)
        row = row_of[example]
        of_text = one_an_item(scores[row], len(words)) if scores.there[row] else None
        texts.append(
            ExplainedText(
                words=words,
                pieces=_pieces(words, examples.joined(place)),
                scores=np.full(len(words), np.nan) if of_text is None else of_text,
                predicted=int(run.predicted[place]),
                label=label,
                probabilities=run.probabilities[place],
            )
        )
    return texts


def _pieces(words: Sequence[str], joined: Sequence[bool]) -> list[str]:
    """Words with the blanks behind them.

    Args:
        words: of a text.
        joined: of each whether no blank stands before it.
    """
    blanks = ["" if no_blank else " " for no_blank in [*joined[1:], True]]
    return [word + blank for word, blank in zip(words, blanks, strict=False)]
