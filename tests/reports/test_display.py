"""What a notebook and Python's prompt show of tables, recipes, reports and folders; users' text in them is text."""

import pytest

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.recipe_result import FEW, RecipeResult
from attn_faithful.reports.report import Report
from attn_faithful.reports.result import Result
from attn_faithful.reports.run_search import read_runs
from attn_faithful.reports.tables.table import Table, Tables
from attn_faithful.store import RunFolder
from tests.reports.altered import CELLS, LSTM

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def trained():
    return RecipeResult(aggregate(read_runs([CELLS])), {"claim": "", "expected": None})


@pytest.fixture
def table():
    return Table(EVIL, ["model", EVIL], [[EVIL, "0.5"], ["b", "0.7"]], [EVIL], best={(1, 1)})


def test_a_table_shows_itself_and_escapes(table):
    html = table._repr_html_()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 4
    assert "<b>0.7</b>" in html
    assert '<th scope="col" style="text-align:left' in html
    assert '<th scope="col" style="text-align:right' in html


def test_a_table_has_no_colours_of_its_own(table):
    """Ground and ink are the notebook's, light or dark."""
    html = table._repr_html_()
    assert "#" not in html
    assert "background" not in html


def test_a_table_at_the_prompt_fits_it(table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    shown = repr(table)
    assert max(map(len, shown.splitlines())) <= 40
    assert "0.7" in shown
    assert "Table(" not in shown
    assert "\x1b" not in shown


def test_tables_show_themselves():
    tables = Result(LSTM).tables()
    assert isinstance(tables, list)
    assert tables._repr_html_().count("<table") == len(tables) > 1
    for each in tables:
        assert each.title.split(":")[0] in repr(tables)
    assert Tables()._repr_html_() == repr(Tables()) == ""


def test_a_recipe_shows_answers_and_tables(trained):
    assert [record["seeds"] for record in trained] == [group.seeds for group in trained.groups]
    assert len(trained) <= FEW
    html = trained._repr_html_()
    for shown, each in zip(trained.answers, trained, strict=True):
        assert f"<b>{shown.short}</b></summary>" in html.replace("&#34;", '"')
        assert str(shown.html()) in html
        assert each["axes"]["encoder"] in html
    assert html.count("<table") == len(trained.short_tables()) > 1
    assert trained.answers[0].verdict_text in repr(trained)
    assert len(trained.tables()) > len(trained.short_tables())


def test_many_models_of_a_recipe_have_a_line_each(trained, monkeypatch):
    monkeypatch.setattr("attn_faithful.reports.recipe_result.FEW", 0)
    assert trained.answers[0].short in repr(trained)
    assert trained.answers[0].competence_text not in repr(trained)


def test_the_runs_of_a_recipe_are_results(trained):
    paths = [path for record in trained for path in record["runs"]]
    assert [str(result.path) for result in trained.results] == paths
    assert "tau_histograms" in trained.figures


def test_a_report_links_its_pages_from_the_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    below, elsewhere = tmp_path / "a run" / "page.html", tmp_path.parent / "page.html"
    html = Report(tmp_path, pages=[below, elsewhere])._repr_html_()
    assert 'href="a%20run/page.html"' in html
    assert f'href="{elsewhere.as_uri()}"' in html


def test_a_folder_names_itself(tmp_path):
    assert repr(RunFolder(LSTM)) == f"RunFolder({str(LSTM)!r}, done)"
    assert "not finished" in repr(RunFolder(tmp_path))
