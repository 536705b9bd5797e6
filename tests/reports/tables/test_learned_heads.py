"""The table of heads that runs fitted weights of."""

from attn_faithful.reports.groups import SeedRuns
from attn_faithful.reports.report import report
from attn_faithful.reports.result import Result
from attn_faithful.reports.tables.learned_heads import learned_heads_table
from tests.reports.made import made

LEARNED = {"weights": [[0.25, -1.5], [0.0, 31.0]], "texts": 300, "tau": 0.4321, "r_squared": None, "strength": 0.1}


def test_a_row_a_run_that_fitted_weights(tmp_path):
    one, other = (made(tmp_path / name, ["a good film", "a bad film"], model=name) for name in ("one", "other"))
    assert learned_heads_table([_group(one), _group(other)]) is None
    other.folder.write_learned_heads(LEARNED)
    other = type(other)(other.path)
    table = learned_heads_table([_group(one), _group(other)])
    assert table.rows == [["reviews other", "0", "1.1 (+31), 0.1 (-1.5), 0.0 (+0.25), 1.0 (+0)", "300", "0.432", "-"]]


def _group(run):
    return SeedRuns(dict(run.axes), [run])


def test_it_stands_in_the_report(tmp_path):
    run = made(tmp_path / "runs" / "one", ["a good film", "a bad film"])
    run.folder.write_learned_heads(LEARNED)
    made_report = report([tmp_path / "runs"], pages=False)
    assert "learned_heads" in made_report.tables
    assert "1.1 (+31)" in (made_report.path / "report.md").read_text()


def test_a_result_shows_them(tmp_path):
    run = made(tmp_path / "one", ["a good film", "a bad film"])
    without = [table.name for table in Result(run.path).tables()]
    run.folder.write_learned_heads({**LEARNED, "fitted_on": "<b>train</b>"})
    result = Result(run.path)
    assert [table.name for table in result.tables()] == [*without, "learned_heads"]
    html = result.learned_heads._repr_html_()
    assert html.count("<td>") == 4 + 1  # two layers of two heads, and the corner
    assert "<td>-1.5</td>" in html
    assert "<b>" not in html
    assert "300 texts" in repr(result.learned_heads)
