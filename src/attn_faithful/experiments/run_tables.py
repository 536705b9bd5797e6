"""What goes into a run folder beside the tests: tokens, histories, and how the numbers came about."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import captum
import datasets
import numpy as np
import scipy
import torch
import transformers

from attn_faithful import __version__
from attn_faithful.data.encoding import in_pieces, span_finder
from attn_faithful.data.rows import Rows
from attn_faithful.data.text_column import Texts
from attn_faithful.data.tokenized import tokenize
from attn_faithful.data.words import Span, shown_spans
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.identity import NUMBERS_VERSION
from attn_faithful.experiments.prepare import Prepared, statistics
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.models.architectures import new_model

Tokens = Callable[[int], tuple[list[str], list[int] | None]]
Items = Callable[[str, int], tuple[list[str], list[int] | None]]  # by site


def token_finder(tokenizer: Any, texts: Sequence[str], rows: Rows, queries: Sequence[str] | None = None) -> Tokens:
    """Content tokens of an example by its place: as they stand in the text, and where: [start, end, start, end, ...].

    Put together they are the text but for blanks: the pieces of one character are "", all but the last. Without offsets
    (slow tokenizers), and where special tokens are kept, the tokenizer's own strings stand in their place, and no
    offsets.

    Args:
        tokenizer: that of the rows.
        texts: one a row.
        rows: encoded examples.
        queries: of pairs that were joined: the query's tokens stand behind the text's, and there are no offsets.
    """
    kept = tokenizer.num_special_tokens_to_add() and "special_tokens_mask" not in rows.column_names
    if not tokenizer.is_fast or kept:
        return _named(tokenizer, rows)
    spans_of = _piece_spans(tokenizer, rows) if in_pieces(tokenizer) else _word_spans(tokenizer, rows)

    def tokens(i: int) -> tuple[list[str], list[int] | None]:
        said = [texts[i]] if queries is None else [texts[i], queries[i]]
        found = spans_of(i, said)
        shown = [text[start:end] for text, spans in zip(said, found, strict=True) for start, end in spans]
        return shown, [place for span in found[0] for place in span] if queries is None else None

    return tokens


def _named(tokenizer: Any, rows: Rows) -> Tokens:
    """Tokens by the tokenizer's names for them."""

    def tokens(i: int) -> tuple[list[str], None]:
        return tokenizer.convert_ids_to_tokens(_content(rows, "input_ids", i).tolist()), None

    return tokens


def _piece_spans(tokenizer: Any, rows: Rows) -> Callable[[int, list[str]], list[list[Span]]]:
    """Where the tokens of an example stand in its text, and in its query."""

    def spans(i: int, said: list[str]) -> list[list[Span]]:
        encoding = _again(tokenizer, rows, i, said)
        columns = (encoding.special_tokens_mask, encoding.sequence_ids, encoding.offsets)
        own: list[list[Span]] = [[] for _ in said]
        for special, text, span in zip(*columns, strict=True):
            if not special:
                own[text or 0].append(span)
        return [shown_spans(text, found) for text, found in zip(said, own, strict=True)]

    return spans


def _word_spans(tokenizer: Any, rows: Rows) -> Callable[[int, list[str]], list[list[Span]]]:
    """The same for tokenizers of whole words, whose own offsets their digit rule makes wrong."""
    find, left = span_finder(tokenizer), tokenizer.truncation_side == "left"

    def spans(i: int, said: list[str]) -> list[list[Span]]:
        counts = [len(rows["input_ids"][i])]
        if len(said) > 1:
            held = _again(tokenizer, rows, i, said).sequence_ids
            counts = [held.count(text) for text in range(len(said))]
        every = [find(text) or [] for text in said]
        return [s[len(s) - n :] if left else s[:n] for s, n in zip(every, counts, strict=True)]

    return spans


def _again(tokenizer: Any, rows: Rows, i: int, said: list[str]) -> Any:
    """The encoding that a row was made of."""
    limit = len(rows["input_ids"][i]) if rows["truncated"][i] else None
    return tokenize(tokenizer, *([text] for text in said), max_length=limit, offsets=True).encodings[0]


def _content(rows: Rows, column: str, i: int) -> np.ndarray:
    """What a column says of the content tokens of an example."""
    values = np.asarray(rows[column][i], dtype=np.int64)
    if "special_tokens_mask" in rows.column_names:
        values = values[~np.asarray(rows["special_tokens_mask"][i], dtype=bool)]
    return values


def item_finder(tokens: Tokens, texts: Sequence[str], rows: Rows, words: bool = False) -> Items:
    """What attention reaches at a site of a model, by site and place: the content tokens, or the sentences.

    Args:
        tokens: of `token_finder`.
        texts: one a row.
        rows: encoded examples.
        words: the items are words and not tokens; without ``word_ids`` in the rows, tokens are words.
    """
    words = words and "word_ids" in rows.column_names

    def items(site: str, i: int) -> tuple[list[str], list[int] | None]:
        shown, offsets = tokens(i)
        if site != "sentence" and not words:
            return shown, offsets
        numbers = _content(rows, "sentence_ids" if site == "sentence" else "word_ids", i)
        members = [np.flatnonzero(numbers == number) for number in np.unique(numbers)]
        if offsets is None:
            between = " " if site == "sentence" else ""
            return [between.join(shown[t] for t in held) for held in members], None
        spans = []
        for held in members:
            held = [t for t in held if shown[t]] or held[:1]
            spans.append((offsets[2 * held[0]], offsets[2 * held[-1] + 1]))
        return [texts[i][start:end] for start, end in spans], [place for span in spans for place in span]

    return items


def queries(texts: Any) -> Texts | None:
    """Of pairs, the texts that ask."""
    return Texts.of(texts, "query") if "query" in texts.column_names else None


def long_history(history: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """Histories by epoch as one long table."""
    table: dict[str, list[Any]] = {"run": [], "epoch": [], "metric": [], "value": []}
    for run, rows in history.items():
        for row in rows:
            for metric, value in row.items():
                if metric != "epoch" and isinstance(value, int | float):
                    for name, entry in zip(table, (run, round(row["epoch"]), metric, float(value)), strict=True):
                        table[name].append(entry)
    return table


def meta_of(cell: Cell, data: Prepared, seconds: float, processes: ProcessGroup) -> dict[str, Any]:
    """Everything that says how a cell's numbers came about."""
    return {
        "axes": cell.axes,
        "seed": cell.seed,
        "numbers": NUMBERS_VERSION,
        "recipe": cell.recipe.on_disk(),
        "label_names": data.texts.label_names,
        "data": statistics(data),
        "parameters": sum(p.numel() for p in new_model(data.config).parameters()),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "hardware": hardware(processes),
    }


def versions() -> dict[str, str]:
    """Of the libraries that numbers depend on."""
    return {
        "attn_faithful": __version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "datasets": datasets.__version__,
        "captum": captum.__version__,
        "scipy": scipy.__version__,
        "icu4py": version("icu4py"),
        "python": platform.python_version(),
    }


def hardware(processes: ProcessGroup) -> dict[str, Any]:
    """What the numbers were made on."""
    return {
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.is_available(),
        "processes": processes.world,
    }
