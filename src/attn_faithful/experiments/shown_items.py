"""How the items of a text are shown: tokens, words or sentences as they are written in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from attn_faithful.data.rows import Rows
from attn_faithful.data.source_file import SourceItems
from attn_faithful.data.token_spans import in_pieces, span_finder
from attn_faithful.data.tokenized import tokenize
from attn_faithful.data.words import Span, shown_spans

SPECIAL = "special_tokens_mask"
SENTENCE = "sentence"  # the site whose items are sentences


class ItemTexts(NamedTuple):
    """The items of an example.

    Attributes:
        strings: of each item.
        offsets: where they are in the text: [start, end, start, end, ...]; None where that is not known.
    """

    strings: list[str]
    offsets: list[int] | None

    @property
    def spans(self) -> list[Span] | None:
        """(start, end) of each item; None where that is not known."""
        if self.offsets is None:
            return None
        return list(zip(self.offsets[::2], self.offsets[1::2], strict=True))


class ShownItems:
    """The items of the texts of a split: its content tokens, and what attention reaches at a site.

    Put together, tokens are the text but for blanks: the pieces of one character are "", all but the last. With slow
    tokenizers, and where special tokens are kept, the tokenizer's own strings are shown, and there are no offsets.

    Args:
        tokenizer: that of the rows.
        texts: one a row.
        rows: encoded examples; with ``word_ids`` their items are words.
        queries: of pairs that were joined: the query's tokens come after the text's, and there are no offsets.
    """

    def __init__(
        self,
        tokenizer: Any,
        texts: Sequence[str],
        rows: Rows,
        queries: Sequence[str] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.texts = texts
        self.rows = rows
        self.queries = queries
        self._spans: Callable[[int, list[str]], list[list[Span]]] | None = None
        if not tokenizer.is_fast or self._special_are_items():
            return
        if in_pieces(tokenizer):
            self._spans = self._piece_spans
        else:
            self._find_words = span_finder(tokenizer)
            self._spans = self._word_spans

    def _special_are_items(self) -> bool:
        adds_special = self.tokenizer.num_special_tokens_to_add() > 0
        return adds_special and SPECIAL not in self.rows.column_names

    # tokens

    def tokens(self, place: int) -> ItemTexts:
        """The content tokens of an example by its place."""
        if self._spans is None:
            ids = _of_content(self.rows, "input_ids", place).tolist()
            return ItemTexts(self.tokenizer.convert_ids_to_tokens(ids), None)
        texts = self._texts_of(place)
        spans = self._spans(place, texts)
        strings = []
        for text, text_spans in zip(texts, spans, strict=True):
            strings += [text[start:end] for start, end in text_spans]
        if self.queries is not None:
            return ItemTexts(strings, None)
        return ItemTexts(strings, _flat(spans[0]))

    def _texts_of(self, place: int) -> list[str]:
        """The text of an example, and its query where pairs were joined."""
        if self.queries is None:
            return [self.texts[place]]
        return [self.texts[place], self.queries[place]]

    def _piece_spans(self, place: int, texts: list[str]) -> list[list[Span]]:
        """Where the tokens of an example are in its text, and in its query."""
        encoding = self._encoding(place, texts)
        spans: list[list[Span]] = [[] for _ in texts]
        columns = (encoding.special_tokens_mask, encoding.sequence_ids, encoding.offsets)
        for special, text_number, span in zip(*columns, strict=True):
            if not special:
                spans[text_number or 0].append(span)
        return [shown_spans(text, text_spans) for text, text_spans in zip(texts, spans, strict=True)]

    def _word_spans(self, place: int, texts: list[str]) -> list[list[Span]]:
        """The same for tokenizers of whole words, whose own offsets their digit rule makes wrong."""
        counts = [len(self.rows["input_ids"][place])]
        if len(texts) > 1:
            sequence_ids = self._encoding(place, texts).sequence_ids
            counts = [sequence_ids.count(number) for number in range(len(texts))]
        spans = []
        for text, count in zip(texts, counts, strict=True):
            words = self._find_words(text) or []
            if self.tokenizer.truncation_side == "left":
                spans.append(words[len(words) - count :])
            else:
                spans.append(words[:count])
        return spans

    def _encoding(self, place: int, texts: list[str]) -> Any:
        """The encoding that a row was made of."""
        limit = None
        if self.rows["truncated"][place]:
            limit = len(self.rows["input_ids"][place])
        columns = [[text] for text in texts]
        return tokenize(self.tokenizer, *columns, max_length=limit, offsets=True).encodings[0]

    # items

    def at(self, site: str, place: int) -> ItemTexts:
        """What attention reaches at a site in an example: content tokens, words or sentences."""
        if site == SENTENCE:
            return self._joined(self.tokens(place), place, "sentence_ids", " ")
        return self.words(place)

    def words(self, place: int) -> ItemTexts:
        """The words of an example where words are what is tested, else its content tokens."""
        tokens = self.tokens(place)
        if "word_ids" in self.rows.column_names:
            return self._joined(tokens, place, "word_ids", "")
        return tokens

    def for_source_file(self, shortened: bool = False) -> SourceItems:
        """What importance from a file is joined to: the words of all examples, or their content tokens.

        Args:
            shortened: see `SourceItems`.
        """
        found = [self.words(place) for place in range(len(self.rows))]
        return SourceItems(
            examples=list(self.rows.examples),
            texts=self.texts,
            tokens=[items.strings for items in found],
            spans=[items.spans for items in found],
            shortened=shortened,
        )

    def _joined(
        self,
        tokens: ItemTexts,
        place: int,
        column: str,
        separator: str,
    ) -> ItemTexts:
        """Tokens of one number as one item; the separator stands between them where there are no offsets."""
        numbers = _of_content(self.rows, column, place)
        strings: list[str] = []
        spans: list[Span] = []
        for number in np.unique(numbers):
            members = np.flatnonzero(numbers == number)
            if tokens.offsets is None:
                strings.append(separator.join(tokens.strings[t] for t in members))
                continue
            # the first pieces of a character are "" and have no place of their own
            shown = [t for t in members if tokens.strings[t]] or members[:1]
            start, end = tokens.offsets[2 * shown[0]], tokens.offsets[2 * shown[-1] + 1]
            strings.append(self.texts[place][start:end])
            spans.append((start, end))
        if tokens.offsets is None:
            return ItemTexts(strings, None)
        return ItemTexts(strings, _flat(spans))


def _of_content(rows: Rows, column: str, place: int) -> np.ndarray:
    """The values of a column at the content tokens of an example."""
    values = np.asarray(rows[column][place], dtype=np.int64)
    if SPECIAL not in rows.column_names:
        return values
    special = np.asarray(rows[SPECIAL][place], dtype=bool)
    return values[~special]


def _flat(spans: Sequence[Span]) -> list[int]:
    return list(chain.from_iterable(spans))
