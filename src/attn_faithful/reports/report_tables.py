"""The tables of a report, written as Markdown, LaTeX and CSV."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.groups import Group
from attn_faithful.reports.paper_numbers import RECIPE, Claim, read_recipe
from attn_faithful.reports.tables.beside_paper import expected_table
from attn_faithful.reports.tables.by_metric import metric_tables
from attn_faithful.reports.tables.catalogue import tables_of_group
from attn_faithful.reports.tables.controls import controls_table
from attn_faithful.reports.tables.headlines import headline_table
from attn_faithful.reports.tables.learned_heads import learned_heads_table
from attn_faithful.reports.tables.models import base_table, data_table, pairs_table
from attn_faithful.reports.tables.pairs import paired_tables
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.telling_apart import telling_tables
from attn_faithful.reports.tables.trends import trend_tables
from attn_faithful.reports.tables.twins import constrained_table, seeds_table

LeftOut = list[tuple[str, str]]  # what is not there, and why


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
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", title).strip("-.")[:80] or "cell"
        name, number = stem, 1
        while name.lower() in self.taken:
            number += 1
            name = f"{stem}-{number}"
        self.taken.add(name.lower())
        return name


def write_tables(
    folder: Path, groups: Sequence[Group], recipe: Mapping[str, Any] | None, left_out: LeftOut
) -> dict[str, Path]:
    """Write all tables of some models.

    Args:
        folder: where to.
        groups: the models.
        recipe: with ``expected`` and ``claim``; None for what each recipe's own run left beside its cells.
        left_out: what is not there is added to it.

    Returns:
        name -> its Markdown; LaTeX and CSV lie beside it.
    """
    written: dict[str, Path] = {}
    names: dict[str, Names] = defaultdict(Names)
    for part, table in _all_tables(groups, recipe, left_out):
        if table is None or not table.rows:
            continue
        place = Path(part) / names[part](table.name)
        written[str(place)] = _write(table, folder / place)
    if not any(group.tests or group.twins for group in groups):
        left_out.append(("tables of tests", "no test was run: attn-faithful evaluate MODEL --data DATA"))
    return written


def _write(table: Table, place: Path) -> Path:
    """Write a table in its three forms; returns the Markdown."""
    place.parent.mkdir(parents=True, exist_ok=True)
    forms = {"md": table.markdown(), "tex": table.latex(), "csv": table.csv()}
    for ending, text in forms.items():
        form = place.with_name(f"{place.name}.{ending}")
        form.write_text(text, encoding="utf-8", newline="")
    return place.with_name(f"{place.name}.md")


def _all_tables(
    groups: Sequence[Group], recipe: Mapping[str, Any] | None, left_out: LeftOut
) -> list[tuple[str, Table | None]]:
    """All tables, each with the folder that it goes to."""
    data_sets = [group.named_data for group in groups]
    tables: list[Table | None] = [
        headline_table(groups),
        data_table(data_sets),
        base_table(groups),
        controls_table(groups),
        constrained_table(groups),
        pairs_table(groups),
        seeds_table(groups),
        *_beside_papers(groups, recipe, left_out),
        learned_heads_table(groups),
        *metric_tables(groups),
        *paired_tables(groups),
    ]
    listed = [("", table) for table in tables]
    names = Names()
    for group in groups:
        part = f"tests/{names(group.title)}" if len(groups) > 1 else "tests"
        for table in tables_of_group(group):
            listed.append((part, table))
    for table in trend_tables(groups):
        listed.append(("trends", table))
    listed += [("", table) for table in telling_tables(groups)]
    return listed


def _beside_papers(groups: Sequence[Group], recipe: Mapping[str, Any] | None, left_out: LeftOut) -> list[Table]:
    """Ours beside the papers' numbers, a table a recipe."""
    tables = []
    by_folder = by_key(groups, lambda group: group.runs[0].path.parent)
    for folder, members in by_folder.items():
        run = members[0].runs[0]
        named = run.recipe.get("claim", "")
        claim = read_recipe(run.path) if recipe is None else Claim.from_json(recipe)
        if claim is None:
            if named:
                again = "attn-faithful run RECIPE writes it and does not run finished cells again"
                left_out.append((f"{named} beside the paper", f"{run.path} holds no {RECIPE}; {again}"))
            continue
        if claim.expected is None:
            continue
        table = expected_table(members, claim)
        if table is None:
            left_out.append((f"{named or folder} beside the paper", "none of its rows was run"))
        else:
            tables.append(table)
    return tables
