"""Everything that run folders say, as files: tables, figures, a page to browse each run, and an index of it all."""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.answer.answer import answers
from attn_faithful.reports.appendix.appendix import FOLDER as APPENDIX
from attn_faithful.reports.appendix.appendix import appendix as appendix_of
from attn_faithful.reports.escaping import markdown
from attn_faithful.reports.figures import FIGURES, Cell, Missing, cells, write
from attn_faithful.reports.figures.display import figure_html
from attn_faithful.reports.papers import PAGE, number_by_number, paper_of
from attn_faithful.reports.report_files import INDEX, files_in, move, target_of
from attn_faithful.reports.report_tables import LeftOut, Names, write_tables
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_search import find

TEXT = "report.md"
# tables that stand in the text itself
_FIRST = (
    "headlines",
    "data",
    "base_models",
    "wiegreffe_pinter",
    "attefa",
    "constrained_twins",
    "learned_heads",
    "beside_the_paper",
)
_FEW = 8  # models whose whole answers stand in the text


@dataclass
class Report:
    """What was written.

    Attributes:
        path: of the folder.
        lines: the answer of each model, see `reports.answer.answer`.
        tables: name -> its Markdown; LaTeX and CSV lie beside it.
        figures: name -> its pages as png; svg lies beside each.
        pages: one a run, to open in a browser.
        left_out: what is not there, and why.
        appendix: the files of the method appendix, the document first; none where it was not asked for.
    """

    path: Path
    lines: list[str] = field(default_factory=list)
    tables: dict[str, Path] = field(default_factory=dict)
    figures: dict[str, list[Path]] = field(default_factory=dict)
    pages: list[Path] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    appendix: list[Path] = field(default_factory=list)

    def reasons(self) -> list[tuple[str, str]]:
        """What was left out, with what has the same reason told together."""
        by_reason: dict[str, list[str]] = {}
        for what, reason in self.left_out:
            by_reason.setdefault(reason, []).append(what)
        return [(", ".join(names), reason) for reason, names in by_reason.items()]

    def __str__(self) -> str:
        lines = list(self.lines)
        for what, reason in self.reasons():
            lines.append(f"Left out: {what}: {reason}")
        counts = f"{len(self.tables)} tables, {len(self.figures)} figures, {len(self.pages)} pages"
        lines.append(f"Report: {self.path / TEXT} ({counts})")
        for page in self.pages[:3]:
            lines.append(f"Page: {page}")
        for file in self.appendix[:1]:
            lines.append(f"Appendix: {file}, and the same in Markdown")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(line)}</p>" for line in self.lines]
        for page in self.pages:
            parts.append(f'<p><a href="{escape(_address(page))}">{escape(page.name)}</a></p>')
        for name, paths in self.figures.items():
            for path in paths:
                if path.is_file():
                    parts.append(figure_html(FIGURES[name], path.read_bytes()))
        if self.left_out:
            parts.append("<p>Left out:</p><ul>")
            for what, reason in self.reasons():
                parts.append(f"<li>{escape(what)}: {escape(reason)}</li>")
            parts.append("</ul>")
        return "\n".join(parts)


def report(
    paths: Sequence[str | Path],
    output: str | Path | None = None,
    *,
    recipe: Mapping[str, Any] | None = None,
    pages: bool = True,
    appendix: bool = False,
) -> Report:
    """Write the tables, figures and pages of finished runs.

    Args:
        paths: run folders, or folders of runs.
        output: where to; None for the folder "report" in the path, or in what several paths have in common.
        recipe: with ``expected`` and ``claim``, for the table beside the paper's numbers; None for what the recipe's
            own run left beside its cells.
        pages: whether each run gets its page.
        appendix: whether to write the method appendix of a paper, one for all runs.

    Returns:
        what was written, and what was left out and why.

    Raises:
        InputError: a path that does not exist, no finished run below it, or an output that is a file.
    """
    search = find(paths)
    target = target_of(paths, output)
    groups = aggregate(search.runs)
    models = cells(groups)
    left_out = [(str(path), reason) for path, reason in search.left_out]
    building = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    building.mkdir(parents=True)
    try:
        made = Report(building, _lines(models), left_out=left_out)
        made.tables = write_tables(building / "tables", groups, recipe, left_out)
        made.figures = _write_figures(building / "figures", models, left_out)
        if pages:
            made.pages = _write_pages(building, search.runs, made.figures)
        if appendix:
            made.appendix = appendix_of(search.runs).write(building / APPENDIX)
        (building / TEXT).write_text(_text(made, models, search.runs), encoding="utf-8")
        files = files_in(building)
        index = {"files": files, "runs": [str(run.path) for run in search.runs], "left_out": made.left_out}
        text = json.dumps(index, indent=1, ensure_ascii=False) + "\n"
        (building / INDEX).write_text(text, encoding="utf-8")
        move(building, target, [*files, INDEX])
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return _moved(made, target)


def _lines(models: Sequence[Cell]) -> list[str]:
    """The answers of the models: of one in full, of several with what tells each from the others, of many in short."""
    lines: list[str] = []
    for each in answers([model.group for model in models]):
        if len(models) > _FEW:
            lines.append(each.short)
        else:
            lines += each.lines
    return lines


# figures and pages


def _write_figures(folder: Path, models: Sequence[Cell], left_out: LeftOut) -> dict[str, list[Path]]:
    written = {}
    for name, figure in FIGURES.items():
        try:
            written[name] = write(figure, figure.read(models), folder, name, models)
        except Missing as reason:
            left_out.append((f"figure {name}", str(reason)))
    return written


def _write_pages(folder: Path, runs: Sequence[Run], figures: Mapping[str, list[Path]]) -> list[Path]:
    """The page of each run; of several each has figures of its own."""
    from attn_faithful.reports.html.page import write_page

    if len(runs) == 1:
        return [write_page(runs[0], folder / "page.html", _captions(figures))]
    names, pages = Names(), []
    for run in runs:
        name = names(run.name)
        own_figures = _write_figures(folder / "figures" / name, cells(aggregate([run])), [])
        pages.append(write_page(run, folder / "pages" / f"{name}.html", _captions(own_figures)))
    return pages


def _captions(figures: Mapping[str, list[Path]]) -> dict[str, Path]:
    """Caption -> svg, for a page."""
    captions = {}
    for name, paths in figures.items():
        figure = FIGURES[name]
        for page, path in enumerate(paths, 1):
            paper = figure.paper if page == 1 else f"{figure.paper}, page {page}"
            captions[f"{figure.title} {figure.reading} ({paper})"] = path.with_suffix(".svg")
    return captions


# the text


def _text(made: Report, models: Sequence[Cell], runs: Sequence[Run]) -> str:
    title = models[0].title if len(models) == 1 else f"{len(models)} models"
    parts = [f"# Report: {markdown(title)}", *map(markdown, made.lines)]
    if made.pages:
        parts += ["## Pages to browse", _list_of_pages(made, runs)]
    if made.left_out:
        reasons = [f"- {markdown(what)}: {markdown(reason)}" for what, reason in made.reasons()]
        parts += ["## Left out", "\n".join(reasons)]
    parts += _first_tables(made)
    parts += _figure_parts(made)
    parts += _paper_parts(made, runs)
    tables = [f"- {name}: {_links(made, path, 'md', 'tex', 'csv')}" for name, path in made.tables.items()]
    parts += ["## Tables", "\n".join(tables)]
    if made.appendix:
        files = [f"- [{file.name}]({_link(made, file)})" for file in made.appendix]
        parts += ["## Method appendix", "\n".join(files)]
    folders = [f"- {markdown(_run_title(run))}: {markdown(str(run.path))}" for run in runs]
    parts += ["## Runs", "\n".join(folders)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _list_of_pages(made: Report, runs: Sequence[Run]) -> str:
    if len(made.pages) != len(runs):
        return ""
    lines = []
    for run, page in zip(runs, made.pages, strict=True):
        lines.append(f"- [{markdown(_run_title(run))}]({_link(made, page)})")
    return "\n".join(lines)


def _first_tables(made: Report) -> list[str]:
    """The tables that stand in the text itself, below their heading."""
    tables = []
    for name in _FIRST:
        if name in made.tables:
            text = made.tables[name].read_text(encoding="utf-8")
            tables.append(text.strip())
    if not tables:
        return []
    return ["## Models", *tables]


def _figure_parts(made: Report) -> Iterator[str]:
    if made.figures:
        yield "## Figures"
    for name, paths in made.figures.items():
        figure = FIGURES[name]
        yield f"### {figure.title}"
        for path in paths:
            yield f"![{figure.title}]({_link(made, path)})"
        vectors = ", ".join(_links(made, path, "svg") for path in paths)
        yield f"{figure.reading} ({figure.paper}; {vectors})"


def _paper_parts(made: Report, runs: Sequence[Run]) -> Iterator[str]:
    """What stands for each number of the papers that the runs are of."""

    def find_ours(name: str) -> tuple[list[str], str]:
        return _found(made, name)

    claims = dict.fromkeys(paper_of(run.recipe.get("claim", "")) for run in runs)
    for paper in claims:
        if paper is not None:
            yield f"## Number by number: {paper.name}"
            yield number_by_number(paper, find_ours)


def _found(made: Report, name: str) -> tuple[list[str], str]:
    """Links to a figure or to tables of that name, and why there is none."""
    if name == PAGE:
        links = [f"[{page.name}]({_link(made, page)})" for page in made.pages[:1]]
        return links, "the report was made without pages"
    paths = made.figures.get(name) or _tables_of(made, name)
    links = [f"[{path.stem}]({_link(made, path)})" for path in paths[:1]]
    if len(paths) > 1:
        links.append(f"{len(paths) - 1} more beside it")
    not_run = "" if name in FIGURES else "what it needs was not run"
    return links, dict(made.left_out).get(f"figure {name}", not_run)


def _tables_of(made: Report, name: str) -> list[Path]:
    """The tables of a name, whatever folder they are in and whichever of several they are."""
    paths = []
    for table, path in made.tables.items():
        if name in re.split(r"/|-\d+$", table):
            paths.append(path)
    return paths


def _address(path: Path) -> str:
    """Of a file in a notebook, whose server has addresses from the notebook's folder on."""
    here = Path.cwd()
    target = path.resolve()
    if target.is_relative_to(here):
        return quote(target.relative_to(here).as_posix())
    return target.as_uri()


def _link(made: Report, path: Path) -> str:
    return path.relative_to(made.path).as_posix()


def _links(made: Report, path: Path, *endings: str) -> str:
    """A link to each form of a file."""
    links = []
    for ending in endings:
        form = path.with_suffix(f".{ending}")
        links.append(f"[{ending}]({_link(made, form)})")
    return ", ".join(links)


def _run_title(run: Run) -> str:
    return f"{run.title}, seed {run.seed}"


def _moved(made: Report, target: Path) -> Report:
    """The report with the paths of its files in another folder."""

    def moved(path: Path) -> Path:
        return target / path.relative_to(made.path)

    return Report(
        target,
        made.lines,
        tables={name: moved(path) for name, path in made.tables.items()},
        figures={name: list(map(moved, paths)) for name, paths in made.figures.items()},
        pages=list(map(moved, made.pages)),
        left_out=made.left_out,
        appendix=list(map(moved, made.appendix)),
    )
