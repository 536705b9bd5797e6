"""What was tested, in words: texts, the attention that was read, precision; and what sets the texts apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.examples import evaluation_of
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
    n, split = len(run.examples), run.meta.get("split") or "test"
    parts = ["one text" if n == 1 else f"{n:,} {split} texts"]
    parts.append(f"seed {run.seed}" if len(runs) == 1 else f"{len(runs)} seeds")
    where = attention_of(run, site)
    parts += [where] if where else []
    kind = run.meta.get("precision")
    parts += [f"computed in {_precision(kind)}"] if kind else []
    return ", ".join(parts) + "."


def _precision(kind: Any) -> str:
    """The measured precision and, where it is another one, that of the stored weights."""
    if not isinstance(kind, Mapping):
        return str(kind)
    measured, stored = kind.get("measured"), kind.get("stored")
    same = stored is None or stored == measured
    return f"{measured}" if same else f"{measured} from weights stored in {stored}"


def attention_of(run: Run, site: str | None) -> str:
    """Which attention the numbers are about: layer, heads and row of a transformers model, the site of others."""
    if site is None:
        return ""
    read: Mapping[str, Any] = run.meta.get("attention") or {}
    several = "" if len(run.sites) < 2 else f" (one of {len(run.sites)} sites; the others are in the tables)"
    layer = re.fullmatch(r"layer\.(\d+)", site)
    if not read and layer is None and site != "joint":
        return "" if site == "pool" else f"attention over {site}s{several}"
    in_all = f" of {read['layers']} (from 0)" if read.get("layers") else ""
    where = "all layers at once" if layer is None else f"layer {layer[1]}{in_all}"
    heads = read.get("heads") or evaluation_of(run).get("heads") or []
    of = "all heads" if not heads else f"head{'' if len(heads) == 1 else 's'} {', '.join(map(str, heads))}"
    rows: Mapping[str, str] = read.get("rows") or {}
    kinds = set(rows.values()) if layer is None else {rows.get(site, "")}
    row = _ROWS.get(kinds.pop(), "") if len(kinds) == 1 else ""
    return ", ".join(part for part in (f"attention of {where}", of, row) if part) + several


def distinct(run: Run) -> int:
    """How many different texts were tested; all of them where the run does not tell."""
    data: Mapping[str, Any] = run.meta.get("data") or {}
    facts = data.get(run.meta.get("split") or "test") or {}
    return int(facts.get("distinct") or len(run.examples))


def doubts(run: Run) -> list[str]:
    """What sets the texts apart: texts that were cut, copies, and lengths that the model was not trained on."""
    data: Mapping[str, Any] = run.meta.get("data") or {}
    facts = data.get(run.meta.get("split") or "test") or {}
    found = []
    limit = (run.meta.get("attention") or {}).get("max_tokens")
    if facts.get("truncated"):
        n, held = facts["truncated"], facts["n"]
        read = f" of {limit:,} tokens" if limit else ""
        which = "The text was" if held == 1 else f"{n:,} of {held:,} texts were"
        found.append(f"{which} longer than the model reads and cut to the limit{read}; the rest was not read.")
    n, different = len(run.examples), distinct(run)
    if different < _DIFFERENT * n:
        found.append(
            f"Only {different:,} of {n:,} texts are different; intervals take each copy for a text of its own and are "
            "too narrow."
        )
    trained: Mapping[str, Any] = run.meta.get("trained_on") or data.get("train") or {}
    mean, spread = trained.get("tokens_mean"), trained.get("tokens_std")
    now = facts.get("tokens_mean")
    if None not in (mean, spread, now) and abs(now - mean) > _FAR * max(spread, 1.0):
        longer = "longer" if now > mean else "shorter"
        found.append(
            f"The texts are {longer} than those of the training: {now:.0f} tokens on average against {mean:.0f} "
            f"(standard deviation {spread:.0f})."
        )
    return found
