"""What goes into a run folder beside the tests: tokens, histories, and how the numbers came about."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import captum
import datasets
import numpy as np
import scipy
import torch
import transformers

from attn_faithful import __version__
from attn_faithful.data.encoding import span_finder
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.plan import Cell
from attn_faithful.experiments.prepare import Prepared, statistics
from attn_faithful.experiments.team import Team
from attn_faithful.models.architectures import new_model

Tokens = Callable[[int], tuple[list[str], list[int] | None]]
Items = Callable[[str, int], tuple[list[str], list[int] | None]]  # by site


def token_finder(tokenizer: Any, texts: Sequence[str], rows: Rows) -> Tokens:
    """Content tokens of an example by its place: as they stand in the text, and where: [start, end, start, end, ...].

    Without offsets (slow tokenizers) the tokenizer's own strings stand in their place, and no offsets.
    """
    spans = span_finder(tokenizer)
    masked = "special_tokens_mask" in rows.column_names
    left = getattr(tokenizer, "truncation_side", "right") == "left"

    def tokens(i: int) -> tuple[list[str], list[int] | None]:
        ids, text = rows["input_ids"][i], texts[i]
        content = ~np.asarray(rows["special_tokens_mask"][i], dtype=bool) if masked else np.ones(len(ids), dtype=bool)
        found = spans(text)
        if found is None:
            return [tokenizer.convert_ids_to_tokens(int(t)) for t in np.asarray(ids)[content]], None
        if masked:  # what truncation left: special tokens have empty spans and are no content
            found = [span for span in found if span != (0, 0)]
            n = int(content.sum())
            found = found[len(found) - n :] if left else found[:n]
        else:
            found = found[len(found) - len(ids) :] if left else found[: len(ids)]
        return [text[start:end] for start, end in found], [place for span in found for place in span]

    return tokens


def item_finder(tokens: Tokens, texts: Sequence[str], rows: Rows) -> Items:
    """What attention reaches at a site of a model, by site and place: the content tokens, or the sentences."""

    def items(site: str, i: int) -> tuple[list[str], list[int] | None]:
        words, offsets = tokens(i)
        if site != "sentence":
            return words, offsets
        sentences = np.asarray(rows["sentence_ids"][i])
        if "special_tokens_mask" in rows.column_names:
            sentences = sentences[~np.asarray(rows["special_tokens_mask"][i], dtype=bool)]
        members = [np.flatnonzero(sentences == s) for s in np.unique(sentences)]
        if offsets is None:
            return [" ".join(words[t] for t in held) for held in members], None
        spans = [(offsets[2 * held[0]], offsets[2 * held[-1] + 1]) for held in members]
        return [texts[i][start:end] for start, end in spans], [place for span in spans for place in span]

    return items


def queries(texts: Any) -> list[str] | None:
    """Of pairs, the texts that ask."""
    return texts["query"][:] if "query" in texts.column_names else None


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


def meta_of(cell: Cell, data: Prepared, seconds: float, team: Team) -> dict[str, Any]:
    """Everything that says how a cell's numbers came about."""
    return {
        "axes": cell.axes,
        "seed": cell.seed,
        "recipe": asdict(cell.recipe),
        "label_names": data.texts.label_names,
        "data": statistics(data),
        "parameters": sum(p.numel() for p in new_model(data.config).parameters()),
        "seconds": round(seconds, 1),
        "versions": versions(),
        "hardware": hardware(team),
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
        "python": platform.python_version(),
    }


def hardware(team: Team) -> dict[str, Any]:
    """What the numbers were made on."""
    return {
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.is_available(),
        "processes": team.world,
    }
