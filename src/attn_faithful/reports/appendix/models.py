"""The section of an appendix about data and models."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attn_faithful.reports.answer.competence import competence_of
from attn_faithful.reports.appendix.document import Grid, Line, Name, Paragraph, Section
from attn_faithful.reports.appendix.shared import by_value, flat, listed, title_of_run
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.run import Run

_DIGEST = 16  # letters of a digest, enough to tell files apart


def data_and_models(runs: Sequence[Run]) -> Section:
    """Texts, classes, how well each model predicts, and where data and models come from."""
    blocks: list[Paragraph | Grid] = [_grid(runs)]
    for title, read in _FACTS:
        for value, whose in by_value(runs, read):
            line: Line = (f"{title}: ", Name(value), ".")
            if whose:
                line = (f"{title} (", Name(whose), "): ", Name(value), ".")
            blocks.append(Paragraph(line))
    return Section("Data and models", tuple(blocks))


def _grid(runs: Sequence[Run]) -> Grid:
    head = ("Model", "Split, texts", "Classes", "Tokens", "Accuracy", "F1")
    rows = [_row(run, len(runs)) for run in runs]
    return Grid(head, tuple(rows), (0.27, 0.11, 0.22, None, None, None))


def _row(run: Run, of: int) -> tuple[Line, ...]:
    texts = run.info.data.splits.get(run.split, {})
    classes = ", ".join(f"{label} {n:,}" for label, n in texts.get("classes", {}).items())
    mean, std = texts.get("tokens_mean", math.nan), texts.get("tokens_std", math.nan)
    competence = competence_of(run)
    accuracy = number(run.summary.base.get("accuracy"))
    if competence.known:
        accuracy += f" {interval(competence.low, competence.high)}"
    title = title_of_run(run) if of > 1 else run.title
    return (
        (Name(title),),
        (f"{run.split}, {texts.get('n', len(run.ids)):,}",),
        (Name(classes or ", ".join(run.label_names)),),
        (f"{number(mean, 1)} (SD {number(std, 1)})",),
        (accuracy,),
        (number(run.summary.base.get("f1")),),
    )


def _data(run: Run) -> str:
    data = run.info.data
    source = data.source or (run.recipe.get("data") or {}).get("source") or run.axes.get("data", "")
    parts = [str(source)]
    if data.fingerprint:
        parts.append(f"SHA-256 of texts and labels {data.fingerprint[:_DIGEST]}")
    return ", ".join(filter(None, parts))


def _notes(run: Run) -> str:
    """What was guessed or left out while the tested split was read."""
    others = [f"{split}:" for split in ("train", "validation", "test") if split != run.split]
    notes = [note for note in run.info.data.notes if not note.startswith(tuple(others))]
    return " ".join(notes).rstrip(".")


def _model(run: Run) -> str:
    parts = []
    if run.info.model:
        parts.append(str(run.info.model))
    settings = run.recipe.get("model") or {}
    if settings:
        parts.append(listed(flat(settings)))
    if run.info.parameters:
        parts.append(f"{run.info.parameters:,} weights")
    for name, digest in (run.info.weights or {}).items():
        parts.append(f"SHA-256 of {name} {digest[:_DIGEST]}")
    for kind, value in (run.info.precision or {}).items():
        parts.append(f"{kind} as {value}")
    return ", ".join(parts)


def _attention(run: Run) -> str:
    """What of a stock model's attention was read."""
    read = run.info.attention
    if not read:
        return ""
    heads = "all" if read.get("heads") is None else ", ".join(map(str, read["heads"]))
    rows = sorted(set(read.get("rows", {}).values()))
    parts = [f"{read.get('layers')} layers of {read.get('heads_in_all')} heads, of which {heads} were read"]
    if rows:
        parts.append(f"in the rows {', '.join(rows)}")
    return ", ".join(parts)


def _training(run: Run) -> str:
    """How a model of a recipe was trained."""
    return listed(flat(run.recipe.get("train") or {}))


_FACTS = (
    ("Data", _data),
    ("As read", _notes),
    ("Model", _model),
    ("Attention", _attention),
    ("Training", _training),
)
