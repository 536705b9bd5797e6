"""All tables of a recipe's models, in the order of reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.groups import Group
from attn_faithful.reports.paper_numbers import Claim
from attn_faithful.reports.tables.beside_paper import expected_table
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.controls import controls_table
from attn_faithful.reports.tables.flip_facts import tables_of_flips
from attn_faithful.reports.tables.headlines import headline_table
from attn_faithful.reports.tables.models import base_table, data_table, pairs_table
from attn_faithful.reports.tables.randomisation import tables_of_randomisation
from attn_faithful.reports.tables.recommendation import recommendation_tables
from attn_faithful.reports.tables.roar import tables_of_roar
from attn_faithful.reports.tables.table import Table
from attn_faithful.reports.tables.telling_apart import telling_tables
from attn_faithful.reports.tables.trends import trend_tables
from attn_faithful.reports.tables.twins import attefa_table, constrained_table, seeds_table, twins_of


def recipe_tables(groups: Sequence[Group], recipe: Mapping[str, Any]) -> list[Table]:
    """All tables: data, bases, twins, tests of each cell, what moves with a setting, seeds, the paper beside ours.

    Args:
        groups: the models.
        recipe: with ``expected`` and ``claim``.
    """
    data_sets = [group.named_data for group in groups]
    tables: list[Table | None] = [data_table(data_sets), *_of_models(groups)]
    for group in groups:
        tables += tables_of_group(group)
    tables += trend_tables(groups)
    tables += telling_tables(groups)
    if any(len(twins.by_seed) > 1 for _, twins in twins_of(groups)):
        tables.append(seeds_table(groups))
    tables.append(expected_table(groups, Claim.from_json(recipe)))
    return _made(tables)


def short_tables(groups: Sequence[Group], recipe: Mapping[str, Any]) -> list[Table]:
    """The tables that a recipe prints unasked: bases and twins, ROAR, one row a test, the paper beside ours."""
    tables = _of_models(groups)
    for group in groups:
        tables += tables_of_roar(group)
    tables.append(headline_table(groups, twins=False))
    tables.append(expected_table(groups, Claim.from_json(recipe)))
    return _made(tables)


def tables_of_group(group: Group) -> list[Table]:
    """The tables of the tests of one model."""
    of_tests = tables_of_tests(group.tests, group.metrics, group.label_names, group.title)
    of_flips = tables_of_flips(group.facts, group.title)
    of_randomisation = tables_of_randomisation(group.tests, group.title)
    of_roar = tables_of_roar(group)
    return [*of_tests, *of_flips, *of_randomisation, *of_roar, *recommendation_tables(group.runs, group.title)]


def _of_models(groups: Sequence[Group]) -> list[Table | None]:
    return [
        base_table(groups),
        controls_table(groups),
        attefa_table(groups),
        constrained_table(groups),
        pairs_table(groups),
    ]


def _made(tables: Sequence[Table | None]) -> list[Table]:
    """The tables that there is something for."""
    return [table for table in tables if table is not None]
