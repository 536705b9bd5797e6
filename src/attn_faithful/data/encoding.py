"""Encoded data sets: the texts of a split as token ids, with everything else that a model reads of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError
from attn_faithful.data.columns import list_columns
from attn_faithful.data.files.mapped_tables import Spill
from attn_faithful.data.normalization import Span
from attn_faithful.data.sentences import sentence_ids, sentence_spans
from attn_faithful.data.token_spans import in_pieces, span_finder
from attn_faithful.data.tokenized import EncodedBatch, EncodedText, encoded_batch
from attn_faithful.data.words import aligned, filled, word_ids
from attn_faithful.schema import MARKS

if TYPE_CHECKING:
    import datasets
    from transformers import PreTrainedTokenizerBase

SANE_LENGTH = 1_000_000  # a tokenizer without a limit reports 1e30
PLAIN = ("example", "label", "candidates")  # columns that encoding leaves as they are
_BATCH = 1000  # texts that are encoded at once
_ORDER = (  # of the columns; list columns of the source and special_tokens_mask follow
    "example",
    "input_ids",
    "labels",
    "length",
    "n_tokens",
    "truncated",
    "sentence_ids",
    "n_sentences",
    "query_input_ids",
    "n_query_tokens",
    "query_truncated",
    "candidates",
    "token_type_ids",
    "word_ids",
)
_INT32 = ("input_ids", "query_input_ids", "sentence_ids", "word_ids")  # lists of these types
_INT8 = ("special_tokens_mask", "token_type_ids", "candidates")


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    dataset: datasets.Dataset,
    max_length: int | None = None,
    sentences: bool = False,
    joined: bool = False,
) -> datasets.Dataset:
    """Encode the ``text`` column of a data set for a model; any tokenizer will do.

    The result holds ``input_ids``, ``length`` (tokens kept), ``n_tokens`` (tokens before truncation), ``truncated``,
    ``labels`` (from ``label``), ``example``, ``special_tokens_mask`` where the tokenizer adds special tokens, and each
    list column that has one value a white-space word, given to tokens: a token takes the value of its word, a special
    token 0. A list column that cannot be aligned in every row is left out. Lengths count special tokens. An empty text
    has length 0 unless special tokens are added. Fast tokenizers of pieces of words add ``word_ids`` (see
    ``words.word_ids``). Pairs add ``query_input_ids``, ``n_query_tokens`` (before truncation) and ``query_truncated``,
    with the same limit, and their ``candidates`` as they are.

    Args:
        tokenizer: of the model.
        dataset: with a column ``text``.
        max_length: for example the number of positions of the model; the tokenizer's own limit counts too.
        sentences: add ``sentence_ids``, for each token the place of its sentence among those that hold a token (see
            ``sentences.sentence_ids``), and ``n_sentences``, how many those are.
        joined: encode a text and its query as one sequence, of which the longer one is cut first, with
            ``token_type_ids`` where the tokenizer gives them. Lengths are of both; lists are of the text's words, and
            the query's tokens have 0.

    Raises:
        InputError: without a ``text`` column, or for a text that is no string, with its row; sentences are asked for
            and the tokenizer does not say where its tokens stand, or texts are joined; a limit below the number of
            special tokens.

    Example:
        >>> import datasets
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> data = datasets.Dataset.from_dict({"text": ["a b c", ""], "label": [1, 0], "informative": [[0, 1, 0], []]})
        >>> rows = encode_texts(train_tokenizer(data["text"]), data, max_length=2)
        >>> rows["length"][:], rows["n_tokens"][:], rows["truncated"][:], rows["informative"][:]
        ([2, 0], [3, 0], [True, False], [[0, 1], []])
    """
    import datasets

    if "text" not in dataset.column_names:
        raise InputError(f"Expected a column 'text', but the columns are {', '.join(dataset.column_names)}.")
    has_query = "query" in dataset.column_names
    joined = joined and has_query
    encoder = _TextEncoder(
        tokenizer=tokenizer,
        limit=length_limit(tokenizer, max_length),
        sentences=sentences,
        joined=joined,
        query_apart=has_query and not joined,
        find_spans=span_finder(tokenizer),
        pieces=in_pieces(tokenizer),
        plain=[name for name in PLAIN if name in dataset.column_names],
        per_word=_per_word_columns(dataset),
    )
    encoder.check()
    read = ["text", *encoder.plain, *encoder.per_word]
    if has_query:
        read.append("query")
    dataset = dataset.with_format(None).select_columns(read)
    spill = Spill()
    names: list[str] = []
    for start in range(0, max(len(dataset), 1), _BATCH):
        columns = encoder.encode(dataset[start : start + _BATCH], start)
        names = names or list(columns)
        spill.add(_table(columns))
    names = [name for name in names if name in (*_ORDER, *encoder.per_word)]
    if encoder.found_special:
        names.append("special_tokens_mask")
    return datasets.Dataset(spill.table().select(names))


def length_limit(tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> int | None:
    """The smaller of the tokenizer's own limit, where it is a sane number, and ``max_length``; None without either."""
    limits = []
    own_limit = tokenizer.model_max_length
    if isinstance(own_limit, int) and 0 < own_limit < SANE_LENGTH:
        limits.append(own_limit)
    if max_length is not None:
        if max_length < 1:
            raise InputError(f"Expected max_length of at least 1, but got {max_length}.")
        limits.append(max_length)
    return min(limits) if limits else None


def _per_word_columns(dataset: datasets.Dataset) -> list[str]:
    """The list columns, which may have one value a word."""
    return [name for name in list_columns(dataset.features) if name not in ("text", "query", *PLAIN)]


def _table(columns: Mapping[str, Sequence[Any]]) -> Any:
    import pyarrow as pa

    types = dict.fromkeys(_INT32, pa.list_(pa.int32())) | dict.fromkeys(_INT8, pa.list_(pa.int8()))
    return pa.table({name: pa.array(values, type=types.get(name)) for name, values in columns.items()})


@dataclass
class _TextEncoder:
    """Encodes a data set batch by batch.

    Attributes:
        tokenizer: of the model.
        limit: of tokens; None for none.
        sentences: tell the sentence of each token.
        joined: text and query are one sequence.
        query_apart: the query is a sequence by itself.
        find_spans: gives the places of a text's tokens, None where the tokenizer cannot tell.
        pieces: tokens are pieces of words, which the tokenizer tells.
        plain: columns that are left as they are.
        per_word: list columns that could be aligned so far.
        found_special: whether any token so far was a special one.
    """

    tokenizer: PreTrainedTokenizerBase
    limit: int | None
    sentences: bool
    joined: bool
    query_apart: bool
    find_spans: Callable[[str], list[Span] | None]
    pieces: bool
    plain: list[str]
    per_word: list[str]
    found_special: bool = False

    def check(self) -> None:
        """Raise where sentences are asked for and cannot be told."""
        if not self.sentences:
            return
        if self.joined:
            raise InputError("Sentences are those of one text, but texts and queries are joined; set joined to False.")
        if self.find_spans("") is None:
            raise InputError(
                f"Expected a tokenizer that says where its tokens stand in the text, which sentences need, but got a "
                f"{type(self.tokenizer).__name__} without offsets; use a fast tokenizer, such as train_tokenizer makes."
            )

    def encode(self, batch: Mapping[str, list[Any]], first_row: int) -> dict[str, Sequence[Any]]:
        """The columns of some rows, in order.

        Args:
            batch: columns of the data set.
            first_row: the number of the first row, for messages.
        """
        encoded = encoded_batch(
            self.tokenizer,
            batch["text"],
            first_row,
            self.limit,
            queries=batch["query"] if self.joined else None,
            offsets=self.pieces or self.sentences,
        )
        special = [text.special for text in encoded.kept]
        self.found_special = self.found_special or any(map(any, special))
        columns: dict[str, Any] = {
            "input_ids": encoded.ids,
            "length": encoded.lengths,
            "n_tokens": encoded.full_lengths,
            "truncated": encoded.truncated,
        }
        if self.joined and encoded.full and encoded.full[0].types is not None:
            columns["token_type_ids"] = [text.types for text in encoded.kept]
        if self.pieces:
            pairs = zip(encoded.kept, encoded.pairs, strict=True)
            columns["word_ids"] = [word_ids(text.encoding, pair) for text, pair in pairs]
        per_word = self._per_word(batch, encoded, first_row)
        if self.sentences:
            columns["sentence_ids"], columns["n_sentences"] = _sentences(batch["text"], encoded.kept)
        if self.query_apart:
            queries = encoded_batch(self.tokenizer, batch["query"], first_row, self.limit)
            columns |= {
                "query_input_ids": queries.ids,
                "n_query_tokens": queries.full_lengths,
                "query_truncated": queries.truncated,
            }
        for name in self.plain:
            column = "labels" if name == "label" else name
            columns[column] = batch[name]
        ordered = {name: columns[name] for name in _ORDER if name in columns}
        return {**ordered, **per_word, "special_tokens_mask": special}

    def _per_word(
        self, batch: Mapping[str, list[Any]], encoded: EncodedBatch, first_row: int
    ) -> dict[str, list[list[Any]]]:
        """The list columns with one value a token; one that cannot be aligned is given up."""
        from_left = self.tokenizer.truncation_side == "left"
        columns = {}
        for name in list(self.per_word):
            token_values = list(map(self._aligned, batch[name], batch["text"], encoded.full))
            if None in token_values:
                if name in MARKS:
                    raise InputError(
                        f"The {name} marks of row {first_row + token_values.index(None)} cannot be laid on the "
                        "tokenizer's tokens: expected one value a white-space word, and a fast tokenizer that says "
                        "where its tokens stand."
                    )
                self.per_word.remove(name)
                continue
            kept = zip(token_values, encoded.kept, strict=True)
            columns[name] = [filled(values, text.other, from_left) for values, text in kept]
        return columns

    def _aligned(self, values: Sequence[Any], text: str, full: EncodedText) -> list[Any] | None:
        def find() -> Sequence[Span] | None:
            return full.own_spans if self.pieces else self.find_spans(text)

        return aligned(values, text, full.n_own, find)


def _sentences(texts: Sequence[str], encoded: Sequence[EncodedText]) -> tuple[list[Any], list[int]]:
    """The sentence of each token, and how many sentences hold a token."""
    ids, counts = [], []
    for text, tokens in zip(texts, encoded, strict=True):
        # The backend's own offsets: the digit rule makes their starts wrong, but a token's end decides.
        sentences = sentence_ids(sentence_spans(text), tokens.spans or [])
        ids.append(sentences)
        if all(tokens.special):
            counts.append(0)
        else:
            counts.append(int(sentences[-1]) + 1)
    return ids, counts
