"""Tokens as parts of words: the word that each belongs to, its share of a word's value, and how it is shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import category

from attn_faithful.data.normalization import Span
from attn_faithful.data.segments import Segments

if TYPE_CHECKING:
    from tokenizers import Encoding


def word_ids(encoding: Encoding, texts: Sequence[str]) -> list[int]:
    """The word of each token, numbered from 0 over the whole sequence without gaps, -1 for special tokens.

    Words are those that the tokenizer cuts a text into before it looks for tokens. Some (Llama's, Gemma's) do not cut
    at all: their words end at white space. A piece that is a blank alone goes with the word behind it. Scripts without
    blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan), which tokenizers of bytes leave whole,
    are cut into words by ICU, and marks stay with their letter; see `segments`. A token that reaches over the border of
    two words belongs to the one that it begins in.

    Args:
        encoding: of a fast tokenizer.
        texts: one, or the two of a pair.

    """
    ids: list[int] = []
    segments = [Segments(text) for text in texts]
    word = -1
    previous: tuple[int | None, int | None] | None = None  # sequence and word of the tokenizer's, of the token before
    word_end: int | None = None  # where the word so far ends; None while it is blank
    n_blanks = 0  # tokens that are a blank alone, just before
    segment = 0  # of the word so far
    columns = (encoding.special_tokens_mask, encoding.sequence_ids, encoding.word_ids, encoding.offsets)
    for special, sequence, tokenizer_word, span in zip(*columns, strict=True):
        if special:
            ids.append(-1)
            previous = None
            continue
        text, borders = texts[sequence or 0], segments[sequence or 0]
        start, end = _trimmed(text, span)
        if (sequence, tokenizer_word) != previous:
            touches = previous is not None and previous[0] == sequence and word_end == start
            previous = (sequence, tokenizer_word)
            if not touches or not borders.go_on(start):
                word += 1
                word_end, n_blanks = None, 0
        if start == end:
            n_blanks += 1
        else:
            segment_here = borders.before(start)
            if word_end is not None and (text[word_end:start].isspace() or segment_here > segment):
                word += 1
                ids[len(ids) - n_blanks :] = [word] * n_blanks
            word_end, n_blanks, segment = end, 0, segment_here
        ids.append(word)
    return ids


def _trimmed(text: str, span: Span) -> Span:
    """A span without the blanks around it; an empty one at its end where it is blank."""
    start, end = span
    piece = text[start:end]
    first = start + len(piece) - len(piece.lstrip())
    return first, max(first, start + len(piece.rstrip()))


def aligned(
    values: Sequence[Any] | None, text: str, n_tokens: int | None, find_spans: Callable[[], Sequence[Span] | None]
) -> list[Any] | None:
    """Values of a text's white-space words, one for each of its tokens; None if they cannot be aligned.

    Args:
        values: one a word.
        text: what the words and the tokens stand in.
        n_tokens: how many there are, special ones not counted; None where unknown.
        find_spans: gives (start, end) of each of them, or None; asked only where words are not tokens.

    Example:
        >>> aligned([5, 7], "don't stop", 3, lambda: [(0, 3), (3, 5), (5, 10)])
        [5, 5, 7]
    """
    words = text.split()
    if values is None or len(values) != len(words):
        return None
    if n_tokens == len(words) and all(map(str.isprintable, words)):  # a word of invisible characters is no token
        return list(values)
    spans = find_spans()
    if spans is None or len(spans) != n_tokens:
        return None
    if not words:
        return [0] * len(spans)
    starts = _word_starts(text, words)
    token_values = []
    for _, end in spans:
        # by the last character: the tokens of byte-level tokenizers begin with the blank before them
        word = max(bisect_right(starts, end - 1) - 1, 0)
        token_values.append(values[word])
    return token_values


def _word_starts(text: str, words: Sequence[str]) -> list[int]:
    starts = []
    end = 0
    for word in words:
        start = text.index(word, end)
        starts.append(start)
        end = start + len(word)
    return starts


def filled(values: list[Any], other: Sequence[int], from_left: bool) -> list[Any]:
    """Values of the tokens that truncation left, 0 at those of ``other`` (special tokens, and those of a query)."""
    if from_left:
        n_own = len(other) - sum(other)
        values = values[len(values) - n_own :]
    own_values = iter(values)
    return [0 if is_other else next(own_values) for is_other in other]


def shown_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans of tokens in a text without blanks around them, no character twice.

    Pieces of one character (bytes of an emoji) all have its span: the last one is shown as the character, the others
    as nothing. So is a piece that is a blank alone. Marks that a tokenizer drops stay with their letter.

    Example:
        >>> shown_spans("a !", [(0, 1), (1, 3), (2, 3)])
        [(0, 1), (2, 2), (2, 3)]
    """
    shown = []
    limit = len(text)
    for start, end in reversed(spans):
        end = min(end, limit)
        start = min(start, end)
        while start < end < limit and category(text[end]).startswith("M"):
            end += 1
        shown.append(_trimmed(text, (start, end)))
        limit = start
    return shown[::-1]
