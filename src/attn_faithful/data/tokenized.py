"""Texts, and pairs of texts, through any tokenizer, and what is left of them within a length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError
from attn_faithful.data.normalization import Span

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerBase


@dataclass(frozen=True)
class EncodedText:
    """A text, or a text and its query as one sequence, as a tokenizer encodes it.

    Attributes:
        ids: of the tokens.
        special: 1 at special tokens.
        other: 1 at tokens that are not the text's own (special tokens, those of a query); None where that is unknown.
        types: token type ids; None where the tokenizer gives none.
        spans: (start, end) of each token; None where they were not asked for.
        encoding: of fast tokenizers.
    """

    ids: list[int]
    special: list[int]
    other: list[int] | None
    types: list[int] | None
    spans: list[Span] | None
    encoding: Encoding | None

    @property
    def n_own(self) -> int | None:
        """How many tokens are the text's own."""
        if self.other is None:
            return None
        return len(self.other) - sum(self.other)

    @property
    def own_spans(self) -> list[Span] | None:
        """The spans of the text's own tokens; None where they were not asked for."""
        if self.spans is None or self.other is None:
            return None
        return [span for span, other in zip(self.spans, self.other, strict=True) if not other]


@dataclass(frozen=True)
class EncodedBatch:
    """Some texts, or pairs, encoded.

    Attributes:
        pairs: (text,) or (text, query) of each.
        full: before truncation.
        kept: within the limit.
    """

    pairs: list[tuple[str, ...]]
    full: list[EncodedText]
    kept: list[EncodedText]

    @property
    def ids(self) -> list[list[int]]:
        return [text.ids for text in self.kept]

    @property
    def lengths(self) -> list[int]:
        """Tokens kept."""
        return [len(text.ids) for text in self.kept]

    @property
    def full_lengths(self) -> list[int]:
        """Tokens before truncation."""
        return [len(text.ids) for text in self.full]

    @property
    def truncated(self) -> list[bool]:
        return [full > kept for full, kept in zip(self.full_lengths, self.lengths, strict=True)]


def tokenize(
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    queries: list[str] | None = None,
    max_length: int | None = None,
    offsets: bool = False,
) -> BatchEncoding:
    """Encode texts, or texts with their queries as one sequence each; special tokens are marked.

    What a text says is text: a ``[SEP]`` in it becomes tokens that spell it and not the separator. A tokenizer with
    special tokens beside the usual ones (marks of entities, say) keeps them, and all others, as they are written.

    Args:
        tokenizer: of the model.
        texts: one at least.
        queries: one a text.
        max_length: cut what is longer, of a pair the longer of the two first; None cuts nothing.
        offsets: also tell where the tokens stand, which fast tokenizers can.
    """
    options: dict[str, Any] = {"return_special_tokens_mask": True, "return_offsets_mapping": offsets, "verbose": False}
    if tokenizer.is_fast:
        options["split_special_tokens"] = tokenizer.split_special_tokens or not tokenizer.extra_special_tokens
    if max_length is not None:
        options |= {"truncation": "longest_first", "max_length": max_length}
    return tokenizer(texts, queries, **options)


def encoded_batch(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    first_row: int,
    limit: int | None,
    *,
    queries: Sequence[str] | None = None,
    offsets: bool = False,
) -> EncodedBatch:
    """Texts before truncation and within the limit.

    Args:
        tokenizer: of the model.
        texts: of the batch.
        first_row: the number of the first text, for errors.
        limit: of tokens; None for none.
        queries: encoded behind the texts, each pair as one sequence.
        offsets: also tell where the tokens stand.

    Raises:
        InputError: a text that is no string, or a limit that the special tokens alone do not keep.
    """
    pairs: list[Any] = list(zip(texts))
    if queries is not None:
        pairs = list(zip(texts, queries, strict=True))
    for row, pair in enumerate(pairs, start=first_row):
        for text in pair:
            if not isinstance(text, str):
                raise InputError(f"Expected texts, but row {row} is {text!r}; drop or fill it.")
    full = _encoded(tokenizer, pairs, None, offsets)
    kept = list(full)
    if limit is None:
        return EncodedBatch(pairs, full, kept)
    long = [i for i, text in enumerate(full) if len(text.ids) > limit]
    cut = _encoded(tokenizer, [pairs[i] for i in long], limit, offsets)
    for i, text in zip(long, cut, strict=True):
        if len(text.ids) > limit:
            raise InputError(
                f"Expected a max_length that holds the tokenizer's special tokens and more, but got {limit}."
            )
        kept[i] = text
    return EncodedBatch(pairs, full, kept)


def _encoded(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, ...]], limit: int | None, offsets: bool
) -> list[EncodedText]:
    if not pairs:
        return []
    columns = [list(column) for column in zip(*pairs, strict=True)]
    batch = tokenize(tokenizer, *columns, max_length=limit, offsets=offsets)
    nothing = [None] * len(pairs)
    rows = zip(
        pairs,
        batch["input_ids"],
        batch["special_tokens_mask"],
        batch.get("token_type_ids", nothing),
        batch.get("offset_mapping", nothing),
        batch.encodings or nothing,
        strict=True,
    )
    texts = []
    for pair, ids, special, types, spans, encoding in rows:
        other = special
        if len(pair) > 1:
            other = _beside_the_text(encoding)
        texts.append(EncodedText(ids, special, other, types, spans, encoding))
    return texts


def _beside_the_text(encoding: Encoding | None) -> list[int] | None:
    """1 at tokens of a pair that are not the text's: special ones belong to no sequence, the query to the second."""
    if encoding is None:
        return None
    return [int(sequence != 0) for sequence in encoding.sequence_ids]
