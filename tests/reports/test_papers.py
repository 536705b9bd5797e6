"""Every table and figure of the four papers stands for something a report makes, or says why it does not."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import yaml

import attn_faithful.evaluators  # noqa: F401 - the metrics register themselves
from attn_faithful.evaluators.metric_table import metric_table
from attn_faithful.reports import papers
from attn_faithful.reports.figures import FIGURES
from attn_faithful.reports.papers import PAGE, PAPERS, number_by_number, paper_of

RECIPES = Path(__file__).parents[2] / "recipes" / "papers"
TABLES = {
    "attefa",
    "base_models",
    "beside_the_paper",
    "data",
    "flip_contingency",
    "flip_fractions",
    "trends",
    "twins_by_seed",
}


def test_examples_in_docstrings():
    assert doctest.testmod(papers).failed == 0


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.recipe)
def test_a_paper_is_that_of_its_recipe(paper):
    recipe = yaml.safe_load((RECIPES / paper.recipe).read_text(encoding="utf-8"))
    assert paper_of(recipe["claim"]) is paper
    names = {data["name"] for data in recipe["grid"]["data"]}
    assert set(paper.missing) <= names
    metrics = {spec.name for spec in metric_table()}
    printed = recipe["expected"]["rows"]
    for name in paper.missing:
        assert any(key.startswith(f"{name} ") for key in printed)
        assert f"data={name}" in paper.not_here(name)
    for printed in paper.printed:
        assert set(printed.ours) <= {PAGE, *FIGURES, *TABLES, *metrics}
        assert printed.ours or printed.why


def test_figures_are_named_with_their_numbers():
    """What a figure says of itself and what the paper's list says of it are one."""
    for paper in PAPERS:
        for printed in paper.printed:
            number = printed.number.removeprefix("figure ")
            for name in set(printed.ours) & set(FIGURES):
                own = [part for part in FIGURES[name].paper.split("; ") if part.startswith(paper.name)]
                assert own, (paper.name, printed.number, name)
                assert number in own[0].replace(",", " ").split() or "table" in number, (printed.number, name)
    told = {name for paper in PAPERS for printed in paper.printed for name in printed.ours}
    of_papers = {name for name, figure in FIGURES.items() if any(paper.name in figure.paper for paper in PAPERS)}
    assert len(of_papers) == len(FIGURES) - 2  # those of randomised weights and of ROAR are of none of these
    assert of_papers <= told


def test_number_by_number_links_or_says_why():
    paper = paper_of("Serrano and Smith, table 2")
    text = number_by_number(paper, lambda name: (["[x](y)"], "") if name == "flip_outcomes" else ([], "a | reason"))
    assert "| figure 1 | how a weight is zeroed | not here: a drawing of the method, no result |" in text
    assert "| figure 9 | table 2 for all models | [x](y) |" in text
    assert "| table 1 | data sets | not here: a \\| reason |" in text
    assert paper_of("a claim of one's own") is None
