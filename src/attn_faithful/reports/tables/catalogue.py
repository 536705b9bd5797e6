"""All tables of a recipe's records, in the order of reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.tables import table as tables
from attn_faithful.reports.tables.beside_paper import expected_table
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.flip_facts import tables_of_flips
from attn_faithful.reports.tables.headlines import Group, headline_table
from attn_faithful.reports.tables.trends import trend_tables


def recipe_tables(
    records: Sequence[dict[str, Any]], trends: Sequence[Mapping[str, Any]], recipe: Mapping[str, Any]
) -> list[tables.Table]:
    """All tables: data, bases and twins, tests of each cell, what moves with a number, seeds, the paper beside ours.

    Args:
        records: of `aggregate.aggregate`.
        trends: of `trends.trends`.
        recipe: with ``expected`` and ``claim``.
    """
    shown = _of_models(records)
    for record in records:
        title = " ".join(record["axes"].values())
        shown += tables_of_tests(record["tests"], record["metrics"], record["label_names"], title)
        shown += tables_of_flips(record["facts"], title)
    titles = {name: facts["title"] for record in records for name, facts in record["metrics"].items()}
    shown += trend_tables(trends, titles)
    if any(len(twin["by_seed"]) > 1 for record in records for twin in record["twins"].values()):
        shown.append(tables.seeds_table(records))
    if recipe["expected"] is not None:
        shown.append(expected_table(records, recipe["expected"], recipe["claim"]))
    return [table for table in shown if table is not None]


def short_tables(records: Sequence[dict[str, Any]], recipe: Mapping[str, Any]) -> list[tables.Table]:
    """The tables that a recipe prints unasked: bases and twins, one row a test, the paper beside ours."""
    groups = [Group.of(record) for record in records]
    shown = [*_of_models(records)[1:], headline_table(groups, twins=False)]
    if recipe["expected"] is not None:
        shown.append(expected_table(records, recipe["expected"], recipe["claim"]))
    return [table for table in shown if table is not None]


def _of_models(records: Sequence[dict[str, Any]]) -> list[tables.Table | None]:
    return [
        tables.data_table(records),
        tables.base_table(records),
        tables.attefa_table(records),
        tables.constrained_table(records),
        tables.pairs_table(records),
    ]
