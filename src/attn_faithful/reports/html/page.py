"""The page of a run: one HTML file that works offline, with the answer first and every text to browse."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful._checks import InputError
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.recommendation import BEGINNING, recommended
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.html.cards import cards
from attn_faithful.reports.html.packing import embedded, pack
from attn_faithful.reports.html.shell import look, templates, write_html
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.recommendation import recommendation_table

BUDGET = 5_000_000  # bytes of a page
_OF_FIGURES = 0.4  # what figures may take of it
_NOTE = 600  # bytes that are kept for the note on what was left out
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
_WIDTH, _HEAD = re.compile(rb'<svg[^>]* width="([0-9.]+)pt"'), 1000  # where an SVG says how wide it is
_WIDE = 450  # points, above which its letters would be too small in one column


def write_page(
    run: Run, path: str | Path, figures: Mapping[str, Path] | None = None, *, budget: int = BUDGET, seed: int = 0
) -> Path:
    """Write the page of a run.

    The file holds all it needs. Where not all texts fit into the budget, a sample in the order of a hash of seed and
    content is shown, and the page says so; cards and sentences are over all texts in any case.

    Args:
        run: a finished run.
        path: of the file; its folder is made.
        figures: caption -> an SVG or PNG file.
        budget: bytes that the page may take.
        seed: of the sample.

    Returns:
        ``path``.

    Raises:
        InputError: a figure is missing or neither SVG nor PNG.
        OSError: the file cannot be written; nothing half-written stays behind.
    """
    return write_html(page(run, figures, budget=budget, seed=seed), path)


def page(run: Run, figures: Mapping[str, Path] | None = None, *, budget: int = BUDGET, seed: int = 0) -> str:
    """The page of a run as a string; see `write_page`."""
    environment = templates()
    images = _images(figures or {}, int(budget * _OF_FIGURES))
    views = [_view(run, site) for site in run.shown_sites]
    facts = {
        "title": ", ".join(map(str, run.axes.values())) or run.name,
        "version": _version(run),
        "single": len(run.ids) == 1,
        "views": views,
        "images": images.shown,
        "left_out": images.left_out,
        "notes": _notes(run),
        **look(environment, styles=["page.css.j2"], scripts=["elements.js", "list.js", "heat.js", "page.js"]),
    }
    template = environment.get_template("page.html.j2")
    empty = template.render(facts, data=Markup("{}"), sample=None, several=False)
    remaining = budget - len(empty.encode()) - _NOTE
    examples = [Examples(run, site) for site in run.shown_sites]
    packed = pack(examples, remaining, seed)
    data = Markup(embedded(packed.data))
    return template.render(facts, data=data, sample=packed.sample, several=len(views) > 1)


def _view(run: Run, site: str | None) -> dict[str, Any]:
    """The part above the list of examples, for one site."""
    made, missing = cards(run, site)
    found = recommended(run, site)
    table = None if found is None else recommendation_table(found, run.source_seconds)
    said = answer(run, site)
    # the heading says the beginning
    shown = said.recommendation.removeprefix(f"{BEGINNING}: ")
    shown = shown[:1].upper() + shown[1:]
    return {"site": site, "cards": made, "missing": missing, "answer": said, "ranked": table, "shown": shown}


def _version(run: Run) -> str:
    version = run.info.versions.get("attn_faithful")
    return f"attn_faithful {version}." if version else ""


def _notes(run: Run) -> list[str]:
    """The notes on the data, without those on other splits."""
    others = tuple(f"{name}:" for name in ("train", "validation", "test") if name != run.split)
    return [note for note in run.info.data.notes if not note.startswith(others)]


@dataclass
class _Images:
    """The figures of a page.

    Attributes:
        shown: caption, data URI and whether it is wide, of those that fit.
        left_out: the captions of those that do not.
    """

    shown: list[tuple[str, str, bool]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def _images(figures: Mapping[str, Path], budget: int) -> _Images:
    images = _Images()
    for caption, path in figures.items():
        kind = _TYPES.get(Path(path).suffix.lower())
        if kind is None or not Path(path).is_file():
            raise InputError(f"Expected the figure {caption!r} as an SVG or PNG file, but {path} is none.")
        content = Path(path).read_bytes()
        uri = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        if len(uri) > budget:
            images.left_out.append(caption)
            continue
        budget -= len(uri)
        images.shown.append((caption, uri, _is_wide(content)))
    return images


def _is_wide(content: bytes) -> bool:
    """Whether an SVG file needs more than one column of the page."""
    width = _WIDTH.search(content[:_HEAD])
    return width is not None and float(width[1]) > _WIDE
