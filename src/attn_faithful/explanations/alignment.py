"""Where the tokens of a tool stand in a text: by the tokenizer that made them, else by a search from left to right."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.normalization import Aligned, Span
from attn_faithful.data.token_spans import in_pieces, token_spans
from attn_faithful.explanations.readings import READINGS, Reading, bare

NOWHERE: Span = (0, 0)
_UNKNOWN = ("[UNK]", "<unk>", "<UNK>", "UNK")
_SPECIAL = re.compile(
    r"\[(CLS|SEP|PAD|MASK|BOS|EOS)\]|</?s>|<(pad|mask|bos|eos|cls|sep|BOS|EOS)>|<\|[^|]*\|>|"
    r"<(start|end)_of_(turn|text)>|"
)


@dataclass(frozen=True)
class _Strictness:
    """What a search allows.

    Attributes:
        gaps: text between two tokens that no token stands for; the token behind it then begins a word.
        inside: whether the token behind an unknown one may begin inside a word, and at once.
    """

    gaps: bool
    inside: bool


_STRICTNESS = (_Strictness(False, False), _Strictness(False, True), _Strictness(True, False))


def find_spans(text: str, tokens: Sequence[str], tokenizer: Any = None) -> list[Span]:
    """The (start, end) of each token in a text, in characters; (0, 0) for special tokens.

    Where the tokenizer cuts the text into these tokens, its own offsets are taken; the tokens may be cut off at the
    end or the beginning. Else they are searched for from left to right: as they are written, without the marks of
    pieces (``##``, ``Ġ``, ``▁``, ``</w>``), without case and accents, and as bytes. An unknown token stands for what
    is between its neighbours. Where nothing else fits, text may be left out between tokens, before one that begins a
    word.

    Args:
        text: raw.
        tokens: a tool's, in order.
        tokenizer: that made them, if known.

    Raises:
        InputError: a token is not found, by name.

    Example:
        >>> text = "Caf\u00e9s, caf\u00e9s"
        >>> spans = find_spans(text, ["[CLS]", "cafe", "##s", ",", "[UNK]", "[SEP]"])
        >>> [text[start:end] for start, end in spans]
        ['', 'Caf\u00e9', 's', ',', 'caf\u00e9s', '']
    """
    spans = _by_tokenizer(text, list(tokens), tokenizer)
    if spans is not None:
        return spans
    furthest = 0
    for strictness in _STRICTNESS:
        for reading in READINGS:
            search = _Search(text, reading, strictness)
            place = search.run(tokens)
            if place is None:
                return search.spans
            furthest = max(furthest, place)
    raise InputError(
        f"Expected the tokens of the explanation in the text {text!r:.80}, but token {furthest}, {tokens[furthest]!r}, "
        "is not found there behind those before it; give the tokenizer that made them, or the very text."
    )


def _by_tokenizer(text: str, tokens: list[str], tokenizer: Any) -> list[Span] | None:
    """By the offsets of a fast tokenizer that cuts the text into these tokens; None for any other."""
    if tokenizer is None or not tokenizer.is_fast:
        return None
    if in_pieces(tokenizer):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        own_spans = [tuple(span) for span in encoded["offset_mapping"]]
    else:
        encoded = tokenizer(text, verbose=False)
        own_spans = token_spans(tokenizer, text) or []
    own = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
    special = {*tokenizer.all_special_tokens} - {tokenizer.unk_token}
    first, last = 0, len(tokens)
    while first < last and (tokens[first] in special or not tokens[first]):
        first += 1
    while last > first and (tokens[last - 1] in special or not tokens[last - 1]):
        last -= 1
    n = last - first
    starts = [0, len(own) - n]
    if tokenizer.truncation_side == "left":
        starts.reverse()
    for start in starts:
        if start >= 0 and _same(tokens[first:last], own[start : start + n]):
            spans = own_spans[start : start + n]
            return [NOWHERE] * first + spans + [NOWHERE] * (len(tokens) - last)
    return None


def _same(tokens: Sequence[str], own: Sequence[str]) -> bool:
    """Whether tokens are the tokenizer's own, but for marks of pieces and blanks that a tool takes off."""
    if len(tokens) != len(own):
        return False
    return all(one == other or bare(one) == bare(other) for one, other in zip(tokens, own, strict=True))


@dataclass
class _Search:
    """One search of tokens in a text.

    Attributes:
        raw: the text.
        reading: how both are read.
        strictness: what is allowed.
        spans: of the tokens found so far.
    """

    raw: str
    reading: Reading
    strictness: _Strictness
    spans: list[Span] = field(default_factory=list)

    def run(self, tokens: Sequence[str]) -> int | None:
        """Find all tokens; the place of the first that is not there, None where all are."""
        text = self.reading.text(self.raw)
        end = 0  # of the last token found, in the text as it is read
        unknown: list[int] = []  # tokens that await their place
        blank: list[int] = []  # those of blanks alone, or of marks that this reading leaves out
        for place, token in enumerate(tokens):
            self.spans.append(NOWHERE)
            if token in _UNKNOWN and token not in self.raw:
                unknown.append(place)
                continue
            read = self.reading.token(token)
            if _SPECIAL.fullmatch(token) and not (read and token in self.raw and text.text.startswith(read, end)):
                continue
            if read is None:
                return place
            if not read:
                blank.append(place)
                continue
            start = self._next(text, read, end, bool(unknown), token.startswith("##"))
            if start is None:
                return place
            self._place_unknown(text, unknown, end, start)
            self._place_blank(text, blank if not unknown else [], end, start)
            unknown, blank = [], []
            end = start + len(read)
            self.spans[place] = (text.starts[start], text.ends[end - 1])
        if unknown:
            self._place_unknown(text, unknown, end, None)
        return None

    def _next(self, text: Aligned, read: str, end: int, behind_unknown: bool, continues: bool) -> int | None:
        """Where a token begins; None where it is not found."""
        if not behind_unknown:
            if text.text.startswith(read, end):
                return end
            if not self.strictness.gaps:
                return None
        # an unknown token may be a blank, which is not among the characters that are compared
        start = text.text.find(read, end if self.strictness.inside else end + behind_unknown)
        while start >= 0:
            if self.strictness.inside or continues or self._begins_word(text, start):
                return start
            start = text.text.find(read, start + 1)
        return None

    def _begins_word(self, text: Aligned, start: int) -> bool:
        """Whether a word may begin at a place of the text as it is read."""
        place = text.starts[start]
        if start and text.starts[start - 1] == place:  # inside a character
            return False
        character = self.raw[place]
        if place == 0 or unicodedata.category(character) == "Lo":
            return True
        return not (character.isalnum() and self.raw[place - 1].isalnum())

    def _place_blank(self, text: Aligned, blank: Sequence[int], end: int, start: int) -> None:
        """Give blank tokens what stands before the token behind them, or its first character where nothing does."""
        before = text.ends[end - 1] if end else 0
        behind = text.starts[start]
        span = (before, behind) if before < behind else (behind, text.ends[start])
        for place in blank:
            self.spans[place] = span

    def _place_unknown(self, text: Aligned, unknown: Sequence[int], start: int, end: int | None) -> None:
        """Give unknown tokens what stands between their neighbours: a word each where as many do, else all of it."""
        words: list[Span] = []
        stop = len(text.text) if end is None else end
        for place in range(start, stop):
            if words and words[-1][1] == text.starts[place]:
                words[-1] = (words[-1][0], text.ends[place])
            elif words and words[-1] == (text.starts[place], text.ends[place]):
                continue  # a character that is read as several
            else:
                words.append((text.starts[place], text.ends[place]))
        if end is None:
            words = words[: len(unknown)]
        if not words:
            return
        whole = (words[0][0], words[-1][1])
        for number, place in enumerate(unknown):
            self.spans[place] = words[number] if len(words) == len(unknown) else whole
