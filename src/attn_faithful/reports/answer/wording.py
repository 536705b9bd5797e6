"""Sentences with figures that are linked to the cards of the page."""

from __future__ import annotations

from collections.abc import Sequence

from attn_faithful.reports.numbers import percent
from attn_faithful.reports.scores import Scores

Part = str | tuple[str, str]  # words, or (key of a card, figure that is linked to it)
Sentence = Sequence[Part]


def plain(sentence: Sentence) -> str:
    """A sentence without its links.

    Example:
        >>> plain(["In ", ("move", "84% of 50 texts"), " it does."])
        'In 84% of 50 texts it does.'
    """
    text = ""
    for part in sentence:
        if isinstance(part, str):
            text += part
        else:
            _, figure = part
            text += figure
    return text


def share_of(scores: Scores, share: float, n: int, metric: str | None = None) -> str:
    """A share of n texts in words, with the count behind it.

    Example: "none of the 60 texts", "all 60 texts", "37 of 60 texts (62%)".
    """
    texts = scores.over(n, metric)
    if share == 0:
        return f"none of the {texts}"
    if share == 1:
        return f"all {texts}" if n > 1 else f"the {texts}"
    count = round(share * n)
    return f"{count:,} of {texts} ({percent(share)})"
