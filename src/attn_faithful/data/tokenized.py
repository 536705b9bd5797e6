"""Texts, and pairs of texts, through any tokenizer, and what is left of them within a length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError
from attn_faithful.data.words import word_ids

if TYPE_CHECKING:
    from transformers import BatchEncoding, PreTrainedTokenizerBase


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
        texts: one at least.
        queries: one a text.
        max_length: cut what is longer, of a pair the longer of the two first; None cuts nothing.
        offsets: also tell where the tokens stand, which fast tokenizers can.
    """
    told: dict[str, Any] = {"return_special_tokens_mask": True, "return_offsets_mapping": offsets, "verbose": False}
    if tokenizer.is_fast:
        told["split_special_tokens"] = tokenizer.split_special_tokens or not tokenizer.extra_special_tokens
    if max_length is not None:
        told |= {"truncation": "longest_first", "max_length": max_length}
    return tokenizer(texts, queries, **told)


def encoded_batch(
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    first_row: int,
    limit: int | None,
    *,
    queries: list[str] | None = None,
    offsets: bool = False,
    words: bool = False,
) -> dict[str, list[Any]]:
    """Columns of encoded texts.

    Args:
        first_row: the number of the first text, for errors.
        limit: of tokens; None for none.
        queries: encoded behind the texts, each pair as one sequence.
        offsets: add ``offset_mapping``.
        words: add ``word_ids``, which needs a fast tokenizer.

    Returns:
        ``input_ids``, ``special_tokens_mask``, ``length``, ``n_tokens``, ``truncated``; of pairs ``token_type_ids``
        where the tokenizer gives them. What aligns a text with its tokens: ``other``, 1 at tokens that are not the
        text's (None where that is unknown), and before truncation ``n_own``, how many are, and ``own_spans`` (None
        without `offsets`).

    Raises:
        InputError: a text that is no string, or a limit that the special tokens alone do not keep.
    """
    pairs = list(zip(texts, *([] if queries is None else [queries]), strict=True))
    for row, pair in enumerate(pairs, start=first_row):
        for text in pair:
            if not isinstance(text, str):
                raise InputError(f"Expected texts, but row {row} is {text!r}; drop or fill it.")
    full = _rows(tokenizer, pairs, None, offsets)
    long = [i for i, row in enumerate(full) if limit is not None and len(row["input_ids"]) > limit]
    kept = list(full)
    for i, row in zip(long, _rows(tokenizer, [pairs[i] for i in long], limit, offsets), strict=True):
        if len(row["input_ids"]) > limit:
            raise InputError(
                f"Expected a max_length that holds the tokenizer's special tokens and more, but got {limit}."
            )
        kept[i] = row
    names = ["input_ids", "special_tokens_mask", "other", *(["offset_mapping"] if offsets else [])]
    if queries is not None and full and "token_type_ids" in full[0]:
        names.append("token_type_ids")
    columns: dict[str, list[Any]] = {name: [row[name] for row in kept] for name in names}
    if words:
        columns["word_ids"] = [word_ids(row["encoding"], pair) for row, pair in zip(kept, pairs, strict=True)]
    columns["length"] = [len(row["input_ids"]) for row in kept]
    columns["n_tokens"] = [len(row["input_ids"]) for row in full]
    columns["truncated"] = [n > m for n, m in zip(columns["n_tokens"], columns["length"], strict=True)]
    columns["n_own"] = [None if row["other"] is None else len(row["other"]) - sum(row["other"]) for row in full]
    columns["own_spans"] = [
        [span for span, other in zip(row["offset_mapping"], row["other"], strict=True) if not other]
        if offsets
        else None
        for row in full
    ]
    return columns


def _rows(
    tokenizer: PreTrainedTokenizerBase, pairs: list[tuple[str, ...]], limit: int | None, offsets: bool
) -> list[dict[str, Any]]:
    """What the tokenizer gives of each text or pair, with its ``encoding`` where it is fast, and ``other``."""
    if not pairs:
        return []
    found = tokenize(tokenizer, *map(list, zip(*pairs, strict=True)), max_length=limit, offsets=offsets)
    rows = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    for i, row in enumerate(rows):
        row["other"] = row["special_tokens_mask"]
        if found.encodings is not None:
            row["encoding"] = found.encodings[i]
        if len(pairs[i]) > 1:
            row["other"] = [int(s != 0) for s in row["encoding"].sequence_ids] if "encoding" in row else None
    return rows
