"""Everything that run folders say, as files: tables, figures, a page to browse each run, and an index of it all."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.escaping import markdown
from attn_faithful.reports.figures import FIGURES, Cell, Missing, cells, write
from attn_faithful.reports.figures.display import figure_html
from attn_faithful.reports.papers import PAGE, number_by_number, paper_of
from attn_faithful.reports.run import RECIPE, Run, find, read_recipe
from attn_faithful.reports.tables import table as tables
from attn_faithful.reports.tables.beside_paper import expected_table
from attn_faithful.reports.tables.by_metric import metric_tables, paired_tables
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.flip_facts import tables_of_flips
from attn_faithful.reports.tables.headlines import Group, headline_table
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.trends import trend_tables, trends

INDEX, TEXT = "index.json", "report.md"
_FIRST = (
    "headlines",
    "data",
    "base_models",
    "attefa",
    "constrained_twins",
    "beside_the_paper",
)  # shown in the text itself
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
    """

    path: Path
    lines: list[str] = field(default_factory=list)
    tables: dict[str, Path] = field(default_factory=dict)
    figures: dict[str, list[Path]] = field(default_factory=dict)
    pages: list[Path] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def reasons(self) -> list[tuple[str, str]]:
        """What was left out, with what has the same reason told together."""
        by_reason: dict[str, list[str]] = {}
        for what, why in self.left_out:
            by_reason.setdefault(why, []).append(what)
        return [(", ".join(found), why) for why, found in by_reason.items()]

    def __str__(self) -> str:
        counts = f"{len(self.tables)} tables, {len(self.figures)} figures, {len(self.pages)} pages"
        told = [f"Left out: {what}: {why}" for what, why in self.reasons()]
        pages = [f"Page: {page}" for page in self.pages[:3]]
        return "\n".join([*self.lines, *told, f"Report: {self.path / TEXT} ({counts})", *pages])

    def _repr_html_(self) -> str:
        lines = [f"<p>{escape(line)}</p>" for line in self.lines]
        pages = [f'<p><a href="{escape(str(page))}">{escape(page.name)}</a></p>' for page in self.pages]
        shown = [
            figure_html(FIGURES[name], path.read_bytes())
            for name, found in self.figures.items()
            for path in found
            if path.is_file()
        ]
        told = [f"<li>{escape(what)}: {escape(why)}</li>" for what, why in self.reasons()]
        return "\n".join([*lines, *pages, *shown, *(["<p>Left out:</p><ul>", *told, "</ul>"] if told else [])])


def report(
    paths: Sequence[str | Path],
    output: str | Path | None = None,
    *,
    recipe: Mapping[str, Any] | None = None,
    pages: bool = True,
) -> Report:
    """Write the tables, figures and pages of finished runs.

    Args:
        paths: run folders, or folders of runs.
        output: where to; None for the folder "report" in the path, or in what several paths have in common.
        recipe: with ``expected`` and ``claim``, for the table beside the paper's numbers; None for what the recipe's
            own run left beside its cells.
        pages: whether each run gets its page.

    Returns:
        what was written, and what was left out and why.

    Raises:
        InputError: a path that does not exist, no finished run below it, or an output that is a file.
    """
    search = find(paths)
    target = _target(paths, output)
    records = aggregate([run.folder for run in search.runs])
    found = cells(search.runs, records)
    left_out = [(str(path), why) for path, why in search.left_out]
    passing = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    passing.mkdir(parents=True)
    try:
        made = Report(passing, _lines(found), left_out=left_out)
        made.tables = _write_tables(passing / "tables", search.runs, records, recipe, left_out)
        made.figures = _write_figures(passing / "figures", found, left_out)
        if pages:
            made.pages = _write_pages(passing, search.runs, made.figures)
        (passing / TEXT).write_text(_text(made, found, search.runs), encoding="utf-8")
        files = sorted(str(path.relative_to(passing)) for path in passing.rglob("*") if path.is_file())
        told = {"files": files, "runs": [str(run.path) for run in search.runs], "left_out": made.left_out}
        (passing / INDEX).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        _move(passing, target, [*files, INDEX])
    finally:
        shutil.rmtree(passing, ignore_errors=True)
    return _moved(made, passing, target)


def _target(paths: Sequence[str | Path], output: str | Path | None) -> Path:
    if output is None:
        output = Path(os.path.commonpath([Path(path).resolve() for path in paths]) if len(paths) > 1 else paths[0])
        output = output / "report"
    target = Path(output)
    if target.exists() and not target.is_dir():
        raise InputError(f"--output: expected a folder, but {target} is a file; choose another name.")
    return Path(os.path.abspath(target)) if target.name in ("", ".", "..") else target


def _lines(found: Sequence[Cell]) -> list[str]:
    """The answers of the models: of one in full, of several with what tells each from the others, of many in short."""
    if len(found) > _FEW:
        return [answer(cell.runs, title=cell.title).short for cell in found]
    return [line for cell in found for line in answer(cell.runs, title=cell.title).lines]


# tables


def _write_tables(
    folder: Path,
    runs: Sequence[Run],
    records: Sequence[dict[str, Any]],
    recipe: Mapping[str, Any] | None,
    left_out: list[tuple[str, str]],
) -> dict[str, Path]:
    by_path = {str(run.path): run for run in runs}
    listed: list[tuple[str, Table | None]] = [
        ("", headline_table([Group.of(record, by_path.__getitem__) for record in records])),
        ("", tables.data_table(records)),
        ("", tables.base_table(records)),
        ("", tables.constrained_table(records)),
        ("", tables.pairs_table(records)),
        ("", tables.seeds_table(records)),
        *(("", table) for table in _beside(runs, records, recipe, left_out)),
        *(("", table) for table in metric_tables(records)),
        *(("", table) for table in paired_tables(records, by_path)),
    ]
    names = Names()
    for record in records:
        title = " ".join(record["axes"].values())
        own = f"tests/{names(title)}" if len(records) > 1 else "tests"
        found = tables_of_tests(record["tests"], record["metrics"], record["label_names"], title)
        listed += [(own, table) for table in [*found, *tables_of_flips(record["facts"], title)]]
    titles = {name: facts["title"] for record in records for name, facts in record["metrics"].items()}
    listed += [("trends", table) for table in trend_tables(trends(records), titles)]
    written: dict[str, Path] = {}
    taken: dict[str, Names] = {}
    for part, table in listed:
        if table is not None and table.rows:
            stem = taken.setdefault(part, Names())(table.name)
            place = folder / part / stem
            place.parent.mkdir(parents=True, exist_ok=True)
            for ending, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
                place.with_name(f"{stem}.{ending}").write_text(text, encoding="utf-8", newline="")
            written[str(Path(part) / stem)] = place.with_name(f"{stem}.md")
    if not any(record["tests"] or record["twins"] for record in records):
        left_out.append(("tables of tests", "no test was run: attn-faithful evaluate MODEL --data DATA"))
    return written


def _beside(
    runs: Sequence[Run],
    records: Sequence[dict[str, Any]],
    recipe: Mapping[str, Any] | None,
    left_out: list[tuple[str, str]],
) -> list[Table]:
    """Ours beside the papers' numbers, a table a recipe."""
    by_path = {str(run.path): run for run in runs}
    folders: dict[Path, list[dict[str, Any]]] = {}
    for record in records:
        folders.setdefault(by_path[record["runs"][0]].path.parent, []).append(record)
    found = []
    for folder, own in folders.items():
        run = by_path[own[0]["runs"][0]]
        told = recipe if recipe is not None else read_recipe(run.path)
        claim = run.meta.get("recipe", {}).get("claim", "")
        if told is not None and told["expected"] is not None:
            table = expected_table(own, told["expected"], told["claim"])
            if table is None:
                left_out.append((f"{claim or folder} beside the paper", "none of its rows was run"))
            else:
                found.append(table)
        elif told is None and claim:
            again = "attn-faithful run RECIPE writes it and does not run finished cells again"
            why = f"{run.path} holds no {RECIPE}; {again}"
            left_out.append((f"{claim} beside the paper", why))
    return found


class Names:
    """File names from titles: plain letters, none twice.

    Example:
        >>> names = Names()
        >>> names("SST lstm"), names("SST/lstm"), names("数据")
        ('SST-lstm', 'SST-lstm-2', 'cell')
    """

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, title: str) -> str:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.")[:80] or "cell"
        found, number = name, 1
        while found.lower() in self.taken:
            number += 1
            found = f"{name}-{number}"
        self.taken.add(found.lower())
        return found


# figures and pages


def _write_figures(
    folder: Path, found: Sequence[Cell], left_out: list[tuple[str, str]] | None = None
) -> dict[str, list[Path]]:
    written = {}
    for name, figure in FIGURES.items():
        try:
            written[name] = write(figure, figure.read(found), folder, name, found)
        except Missing as why:
            if left_out is not None:
                left_out.append((f"figure {name}", str(why)))
    return written


def _write_pages(folder: Path, runs: Sequence[Run], drawn: Mapping[str, list[Path]]) -> list[Path]:
    from attn_faithful.reports.html.page import write_page

    if len(runs) == 1:
        return [write_page(runs[0], folder / "page.html", _captions(drawn))]
    names, pages = Names(), []
    for run in runs:
        name = names(run.name)
        own = _write_figures(folder / "figures" / name, cells([run]))
        pages.append(write_page(run, folder / "pages" / f"{name}.html", _captions(own)))
    return pages


def _captions(drawn: Mapping[str, list[Path]]) -> dict[str, Path]:
    """Caption -> svg, for a page."""
    return {
        f"{FIGURES[name].title} {FIGURES[name].reading} ({FIGURES[name].paper}{f', page {i}' if i > 1 else ''})": path
        for name, paths in drawn.items()
        for i, path in enumerate((path.with_suffix(".svg") for path in paths), 1)
    }


# the text


def _text(made: Report, found: Sequence[Cell], runs: Sequence[Run]) -> str:
    def link(path: Path) -> str:
        return path.relative_to(made.path).as_posix()

    title = found[0].title if len(found) == 1 else f"{len(found)} models"
    parts = [f"# Report: {markdown(title)}", *(markdown(line) for line in made.lines)]
    if made.pages:
        pages = zip(runs, made.pages, strict=True) if len(made.pages) == len(runs) else []
        parts += ["## Pages to browse", "\n".join(f"- [{markdown(_run_title(r))}]({link(p)})" for r, p in pages)]
    if made.left_out:
        parts += ["## Left out", "\n".join(f"- {markdown(what)}: {markdown(why)}" for what, why in made.reasons())]
    first = [made.tables[name] for name in _FIRST if name in made.tables]
    parts += ["## Models", *(path.read_text(encoding="utf-8").strip() for path in first)] if first else []
    if made.figures:
        parts.append("## Figures")
    for name, paths in made.figures.items():
        figure = FIGURES[name]
        parts += [f"### {figure.title}", *(f"![{figure.title}]({link(path)})" for path in paths)]
        parts.append(f"{figure.reading} ({figure.paper}; {', '.join(_links(path, link, 'svg') for path in paths)})")
    claims = dict.fromkeys(paper_of(run.meta.get("recipe", {}).get("claim", "")) for run in runs)
    for paper in (paper for paper in claims if paper is not None):
        table = number_by_number(paper, lambda name: _found(made, name, link))
        parts += [f"## Number by number: {paper.name}", table]
    listed = [f"- {name}: {_links(path, link, 'md', 'tex', 'csv')}" for name, path in made.tables.items()]
    parts += ["## Tables", "\n".join(listed)]
    parts += ["## Runs", "\n".join(f"- {markdown(_run_title(run))}: {markdown(str(run.path))}" for run in runs)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _found(made: Report, name: str, link: Any) -> tuple[list[str], str]:
    """Links to a figure or to tables of that name, and why there is none."""
    if name == PAGE:
        return [f"[{page.name}]({link(page)})" for page in made.pages[:1]], "the report was made without pages"
    paths = made.figures.get(name, [])
    if not paths:
        paths = [path for table, path in made.tables.items() if name in re.split(r"/|-\d+$", table)]
    links = [f"[{path.stem}]({link(path)})" for path in paths[:1]]
    if len(paths) > 1:
        links.append(f"{len(paths) - 1} more beside it")
    left_out = dict(made.left_out)
    return links, left_out.get(f"figure {name}", "" if name in FIGURES else "what it needs was not run")


def _links(path: Path, link: Any, *endings: str) -> str:
    return ", ".join(f"[{ending}]({link(path.with_suffix(f'.{ending}'))})" for ending in endings)


def _run_title(run: Run) -> str:
    return f"{run.title}, seed {run.seed}"


# files


def _move(passing: Path, target: Path, files: Sequence[str]) -> None:
    """Move files to where they belong, each in one step, and remove those of an earlier report. Others stay."""
    target.mkdir(parents=True, exist_ok=True)
    earlier = _earlier(target)
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(passing / name, target / name)
    for name in sorted(earlier - set(files)):
        path = target / name
        if path.resolve().is_relative_to(target.resolve()) and path.is_file():
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()


def _earlier(target: Path) -> set[str]:
    try:
        return {str(name) for name in json.loads((target / INDEX).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _moved(made: Report, passing: Path, target: Path) -> Report:
    def there(path: Path) -> Path:
        return target / path.relative_to(passing)

    return Report(
        target,
        made.lines,
        {name: there(path) for name, path in made.tables.items()},
        {name: [there(path) for path in paths] for name, paths in made.figures.items()},
        [there(path) for path in made.pages],
        made.left_out,
    )
