"""What was tested, in words: texts, the attention that was read, precision; and what sets the texts apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.run import Run

_ROWS = {
    "token": "the row of the token that the classifier reads",
    "mean": "the mean over the rows of the text",
    "all": "every row of the text",
}
_DIFFERENT = 0.9  # of the texts, below which copies are told
_FAR = 2.0  # standard deviations of the training's lengths, from which on test texts count as of another length


def about(runs: Sequence[Run], site: str | None) -> str:
    """The line that says what was tested."""
    run = runs[0]
    n = len(run.ids)
    texts = "one text" if n == 1 else f"{n:,} {run.split} texts"
    seeds = f"seed {run.seed}" if len(runs) == 1 else f"{len(runs)} seeds"
    parts = [texts, seeds]
    where = attention_of(run, site)
    if where:
        parts.append(where)
    if run.info.precision:
        parts.append(f"computed in {_precision(run.info.precision)}{_device(run.info.hardware)}")
    return ", ".join(parts) + "."


def _precision(precision: Mapping[str, str] | str) -> str:
    """The measured precision and, where it is another one, that of the stored weights."""
    if not isinstance(precision, Mapping):
        return str(precision)
    measured, stored = precision.get("measured"), precision.get("stored")
    words = f"{measured}"
    if stored is not None and stored != measured:
        words += f" from weights stored in {stored}"
    if "backbone" in precision:
        words += f" with the transformer in {precision['backbone']} (probabilities up to {precision['rounding']} off)"
    return words


def _device(hardware: Mapping[str, Any]) -> str:
    """Where a run was computed; nothing of a CPU."""
    device = hardware.get("device", "cpu")
    return "" if device == "cpu" else f" on {device}"


def attention_of(run: Run, site: str | None) -> str:
    """Which attention the numbers are about: layer, heads and row of a transformers model, the site of others."""
    if site is None:
        return ""
    read: Mapping[str, Any] = run.info.attention or {}
    several = ""
    if len(run.sites) > 1:
        several = f" (one of {len(run.sites)} sites; the others are in the tables)"
    layer = re.fullmatch(r"layer\.(\d+)", site)
    if not read and layer is None and site != "joint":
        return "" if site == "pool" else f"attention over {site}s{several}"
    rows = read.get("rows") or {}
    if layer is None:
        where, row = "all layers at once", _row(set(rows.values()))
    else:
        where, row = f"layer {layer[1]}", _row({rows.get(site, "")})
        if read.get("layers"):
            where += f" of {read['layers']} (from 0)"
    heads = read.get("heads") or run.evaluation.get("heads") or []
    parts = [f"attention of {where}", _heads(heads)]
    if row:
        parts.append(row)
    return ", ".join(parts) + several


def _heads(heads: Sequence[int]) -> str:
    if not heads:
        return "all heads"
    numbers = ", ".join(map(str, heads))
    return f"head {numbers}" if len(heads) == 1 else f"heads {numbers}"


def _row(kinds: set[str]) -> str:
    """Which rows of the attention were read; empty where layers differ in it or it is not known."""
    if len(kinds) != 1:
        return ""
    (kind,) = kinds
    return _ROWS.get(kind, "")


def distinct(run: Run) -> int:
    """How many different texts were tested; all of them where the run does not tell."""
    return int(_split_facts(run).get("distinct") or len(run.ids))


def _split_facts(run: Run) -> Mapping[str, Any]:
    """What is known of the texts that were tested."""
    return run.info.data.splits.get(run.split, {})


def doubts(run: Run) -> list[str]:
    """What sets the texts apart: texts that were cut, copies, and lengths that the model was not trained on."""
    every = (_cut(run), _copies(run), _lengths(run))
    return [doubt for doubt in every if doubt]


def _cut(run: Run) -> str:
    facts = _split_facts(run)
    if not facts.get("truncated"):
        return ""
    limit = "the limit"
    max_tokens = (run.info.attention or {}).get("max_tokens")
    if max_tokens:
        limit = f"the limit of {max_tokens:,} tokens"
    n, cut = facts["n"], facts["truncated"]
    which = "The text was" if n == 1 else f"{cut:,} of {n:,} texts were"
    return f"{which} longer than the model reads and cut to {limit}; the rest was not read."


def _copies(run: Run) -> str:
    n, different = len(run.ids), distinct(run)
    if different >= _DIFFERENT * n:
        return ""
    return (
        f"Only {different:,} of {n:,} texts are different; intervals take each copy for a text of its own and are "
        "too narrow."
    )


def _lengths(run: Run) -> str:
    trained: Mapping[str, Any] = run.info.trained_on or run.info.data.splits.get("train", {})
    mean, spread = trained.get("tokens_mean"), trained.get("tokens_std")
    tested = _split_facts(run).get("tokens_mean")
    if mean is None or spread is None or tested is None:
        return ""
    if abs(tested - mean) <= _FAR * max(spread, 1.0):
        return ""
    longer = "longer" if tested > mean else "shorter"
    return (
        f"The texts are {longer} than those of the training: {tested:.0f} tokens on average against {mean:.0f} "
        f"(standard deviation {spread:.0f})."
    )
