"""Tokens as parts of words: the word that each belongs to, its share of a word's value, and how it is shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import category

from attn_faithful.data.segments import Segments

if TYPE_CHECKING:
    from tokenizers import Encoding

Span = tuple[int, int]


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
    numbers: list[int] = []
    segments = [Segments(text) for text in texts]
    word, before, end_of_word, blanks, segment = -1, None, None, 0, 0
    columns = (encoding.special_tokens_mask, encoding.sequence_ids, encoding.word_ids, encoding.offsets)
    for special, sequence, own, (start, end) in zip(*columns, strict=True):
        if special:
            numbers.append(-1)
            before = None
            continue
        text = texts[sequence or 0]
        piece = text[start:end]
        bare = piece.strip()
        first = start + len(piece) - len(piece.lstrip())
        cut = segments[sequence or 0]
        if (sequence, own) != before:
            near = before is not None and before[0] == sequence and end_of_word == first
            before = (sequence, own)
            if not near or not cut.go_on(first):
                end_of_word, blanks = None, 0
                word += 1
        if not bare:
            blanks += 1
        else:
            reached = cut.before(first)
            apart = end_of_word is not None and (text[end_of_word:first].isspace() or reached > segment)
            if apart:
                word += 1
                numbers[len(numbers) - blanks :] = [word] * blanks
            end_of_word, blanks, segment = first + len(bare), 0, reached
        numbers.append(word)
    return numbers


def aligned(
    values: Sequence[Any] | None, text: str, tokens: int | None, find: Callable[[], Sequence[Span] | None]
) -> list[Any] | None:
    """Values of a text's white-space words, one for each of its tokens; None if they cannot be aligned.

    Args:
        values: one a word.
        text: what the words and the tokens stand in.
        tokens: how many there are, special ones not counted; None where unknown.
        find: gives (start, end) of each of them, or None; asked only where words are not tokens.

    Example:
        >>> aligned([5, 7], "don't stop", 3, lambda: [(0, 3), (3, 5), (5, 10)])
        [5, 5, 7]
    """
    words = text.split()
    if values is None or len(values) != len(words):
        return None
    if tokens == len(words) and all(map(str.isprintable, words)):  # no word of invisible characters, which is no token
        return list(values)
    spans = find()
    if spans is None or len(spans) != tokens:
        return None
    starts, at = [], 0
    for word in words:
        starts.append(text.index(word, at))
        at = starts[-1] + len(word)
    # by the last character: the tokens of byte-level tokenizers begin with the blank before them
    return [values[max(bisect_right(starts, end - 1) - 1, 0)] if words else 0 for _, end in spans]


def filled(values: list[Any], other: Sequence[int], from_left: bool) -> list[Any]:
    """Values of the tokens that truncation left, 0 at those of ``other`` (special tokens, and those of a query)."""
    kept = len(other) - sum(other)
    own = iter(values[len(values) - kept :] if from_left else values)
    return [0 if o else next(own) for o in other]


def shown_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans of tokens in a text without blanks around them, no character twice.

    Pieces of one character (bytes of an emoji) all have its span: the last one is shown as the character, the others
    as nothing. So is a piece that is a blank alone. Marks that a tokenizer drops stay with their letter.

    Example:
        >>> shown_spans("a !", [(0, 1), (1, 3), (2, 3)])
        [(0, 1), (2, 2), (2, 3)]
    """
    shown, limit = [], len(text)
    for start, end in reversed(spans):
        end = min(end, limit)
        start = min(start, end)
        while start < end < limit and category(text[end]).startswith("M"):
            end += 1
        piece, limit = text[start:end], start
        first = start + len(piece) - len(piece.lstrip())
        shown.append((first, max(first, start + len(piece.rstrip()))))
    return shown[::-1]
