"""Documents as sentences, for hierarchical models: where each sentence stands, and which one a token belongs to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

Span = tuple[int, int]

_BREAK = re.compile(r"\s*\n\s*|\s*(?:<br\s*/?>\s*)+", re.IGNORECASE)


def sentence_spans(text: str) -> list[Span]:
    """The (start, end) of every sentence of a text, in characters, in order; together they hold all but blanks.

    Lines and ``<br />`` end a sentence, and so do the terminators of many scripts, with the closing quotes and brackets
    behind them; abbreviations, initials and decimals do not (sentencex). A tag belongs to the sentence before it.

    Example:
        >>> text = "Dr. Who paid $3.50. why?<br /><br />no idea ."
        >>> [text[start:end] for start, end in sentence_spans(text)]
        ['Dr. Who paid $3.50.', 'why?<br /><br />', 'no idea .']
    """
    from sentencex import segment

    spans: list[Span] = []
    start = 0
    for end in [*(found.end() for found in _BREAK.finditer(text)), len(text)]:
        at = start
        for piece in segment("en", text[start:end]):
            spans.append((at, at + len(piece)))
            at += len(piece)
        start = end
    trimmed = []
    for start, end in spans:
        piece = text[start:end]
        if piece.strip():
            trimmed.append((start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())))
    return _tags_back(text, trimmed)


def _tags_back(text: str, spans: Sequence[Span]) -> list[Span]:
    """Pieces of tags alone become the end of the sentence before them; the first sentence keeps its own."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and not _BREAK.sub("", text[start:end]).strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def sentence_of(spans: Sequence[Span], tokens: Sequence[Span], special: Sequence[int]) -> np.ndarray:
    """The sentence of each token, from 0; sentences without a token are not counted.

    Args:
        spans: of `sentence_spans`.
        tokens: (start, end) of each token in the same text.
        special: 1 at special tokens, which take the sentence of the token before them, 0 at the start.
    """
    starts = [start for start, _ in spans]
    found, at = [], 0
    for (_, end), is_special in zip(tokens, special, strict=True):
        # by the last character: the tokens of byte-level tokenizers begin with the blank before them
        at = at if is_special else max(bisect_right(starts, max(end - 1, 0)) - 1, 0)
        found.append(at)
    content = [s for s, is_special in zip(found, special, strict=True) if not is_special]
    number = {sentence: i for i, sentence in enumerate(sorted(set(content)))}
    ids, last = [], 0
    for sentence, is_special in zip(found, special, strict=True):
        last = last if is_special else number[sentence]
        ids.append(last)
    return np.asarray(ids, dtype=np.int32)
