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
    parts = ["one text" if n == 1 else f"{n:,} {run.split} texts"]
    parts.append(f"seed {run.seed}" if len(runs) == 1 else f"{len(runs)} seeds")
    where = attention_of(run, site)
    if where:
        parts.append(where)
    if run.info.precision:
        parts.append(f"computed in {_precision(run.info.precision)}")
    return ", ".join(parts) + "."


def _precision(precision: Mapping[str, str] | str) -> str:
    """The measured precision and, where it is another one, that of the stored weights."""
    if not isinstance(precision, Mapping):
        return str(precision)
    measured, stored = precision.get("measured"), precision.get("stored")
    if stored is None or stored == measured:
        return f"{measured}"
    return f"{measured} from weights stored in {stored}"


def attention_of(run: Run, site: str | None) -> str:
    """Which attention the numbers are about: layer, heads and row of a transformers model, the site of others."""
    if site is None:
        return ""
    read: Mapping[str, Any] = run.info.attention or {}
    several = "" if len(run.sites) < 2 else f" (one of {len(run.sites)} sites; the others are in the tables)"
    layer = re.fullmatch(r"layer\.(\d+)", site)
    if not read and layer is None and site != "joint":
        return "" if site == "pool" else f"attention over {site}s{several}"
    where = "all layers at once"
    if layer is not None:
        in_all = f" of {read['layers']} (from 0)" if read.get("layers") else ""
        where = f"layer {layer[1]}{in_all}"
    heads = read.get("heads") or run.evaluation.get("heads") or []
    parts = [f"attention of {where}", _heads(heads), _row(read.get("rows") or {}, None if layer is None else site)]
    return ", ".join(part for part in parts if part) + several


def _heads(heads: Sequence[int]) -> str:
    if not heads:
        return "all heads"
    numbers = ", ".join(map(str, heads))
    return f"head {numbers}" if len(heads) == 1 else f"heads {numbers}"


def _row(rows: Mapping[str, str], site: str | None) -> str:
    """Which rows of the attention were read: of one layer, or of all layers where they agree."""
    kinds = set(rows.values()) if site is None else {rows.get(site, "")}
    return _ROWS.get(kinds.pop(), "") if len(kinds) == 1 else ""


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
    limit = (run.info.attention or {}).get("max_tokens")
    tokens = f" of {limit:,} tokens" if limit else ""
    n, cut = facts["n"], facts["truncated"]
    which = "The text was" if n == 1 else f"{cut:,} of {n:,} texts were"
    return f"{which} longer than the model reads and cut to the limit{tokens}; the rest was not read."


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
    if mean is None or spread is None or tested is None or abs(tested - mean) <= _FAR * max(spread, 1.0):
        return ""
    longer = "longer" if tested > mean else "shorter"
    return (
        f"The texts are {longer} than those of the training: {tested:.0f} tokens on average against {mean:.0f} "
        f"(standard deviation {spread:.0f})."
    )
