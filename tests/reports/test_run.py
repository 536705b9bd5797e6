"""Run folders as reports read them: found, refused with a reason, and their scores by example."""

from __future__ import annotations

import math
import shutil

import pytest

from attn_faithful._checks import InputError
from attn_faithful.reports.paper_numbers import Claim, PaperNumbers, read_recipe, write_recipe
from attn_faithful.reports.result import Result
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_search import find, read_runs
from attn_faithful.store import RunFolder
from tests.reports.altered import CELLS, LSTM, MLP, copied, edit


def test_runs_come_in_the_order_of_their_numbers(tmp_path):
    for i, label in enumerate(("sparsegen 0.5", "sparsegen -10", "sparsegen 10", "sparsegen -1", "softmax")):
        copied(tmp_path / f"cell-{i}", axes={"data": "a", "projection": label})
    found = [run.axes["projection"] for run in read_runs([tmp_path])]
    assert found == ["softmax", "sparsegen -10", "sparsegen -1", "sparsegen 0.5", "sparsegen 10"]


def test_a_run_and_a_folder_of_it_are_one(tmp_path):
    assert [run.path for run in read_runs([CELLS])] == [LSTM, MLP]
    assert [run.path for run in read_runs([LSTM, CELLS])] == [LSTM, MLP]


def test_what_is_not_finished_is_named_beside_what_is(tmp_path):
    copied(tmp_path / "done")
    copied(tmp_path / "begun")
    (tmp_path / "begun" / "meta.json").unlink()
    (tmp_path / "started" / "model").mkdir(parents=True)
    (tmp_path / "started" / "model" / "config.json").write_text("{}")
    copied(tmp_path / "lacking")
    (tmp_path / "lacking" / "scores.parquet").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "meta.json").write_text('{"title": "another program\'s"}')
    search = find([tmp_path])
    assert [run.name for run in search.runs] == ["done"]
    told = {path.name: why for path, why in search.left_out}
    assert set(told) == {"begun", "started", "lacking"}
    assert told["begun"].startswith("not finished")
    assert "lacks scores.parquet; remove the folder and run its command again" in told["lacking"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: shutil.rmtree(path), "is not a folder"),
        (lambda path: (path / "meta.json").unlink(), "not finished"),
        (lambda path: (path / "meta.json").write_text("{"), "meta.json is damaged"),
        (lambda path: (path / "summary.json").unlink(), "holds no summary.json"),
        (lambda path: (path / "predictions.parquet").unlink(), "lacks predictions.parquet"),
        (lambda path: [file.unlink() for file in path.iterdir()], "No finished run lies below"),
    ],
)
def test_nothing_to_report_is_said(tmp_path, change, words):
    path = copied(tmp_path / "cell")
    change(path)
    with pytest.raises(InputError, match=words):
        read_runs([path])


@pytest.mark.parametrize(("schema", "words"), [(1, "older attn-faithful"), (99, "newer attn-faithful")])
def test_other_versions_are_refused(tmp_path, schema, words):
    copied(tmp_path / "cell", schema=schema)
    with pytest.raises(InputError, match=words):
        read_runs([tmp_path])
    copied(tmp_path / "good")
    assert [path.name for path, _ in find([tmp_path]).left_out] == ["cell"]


def test_a_folder_inside_a_run_is_told_apart(tmp_path):
    path = copied(tmp_path / "cell")
    (path / "model").mkdir()
    with pytest.raises(InputError, match=r"lies inside a run; give the run folder: .*cell"):
        read_runs([path / "model"])


def test_no_path_is_an_error():
    with pytest.raises(InputError, match="none was given"):
        find([])


# --- scores


def by_loops(run, metric, source, site):
    """Every example's mean over its slots, from the rows one by one."""
    rows = run.folder.read_table("scores").to_pylist()
    found = {}
    for example in run.ids:
        own = [
            r for r in rows if (r["example"], r["metric"], r["source"], r["site"]) == (example, metric, source, site)
        ]
        known = [r["value"] for r in own if not math.isnan(r["value"])]
        found[example] = sum(known) / len(known) if known else math.nan
    return found


def scored(path, **scores):
    """A run of three examples with these rows of scores."""
    folder = RunFolder(path)
    n = {"example": ["a", "b", "c"], "label": [0, 1, -1], "probabilities": [[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]]}
    folder.write_table("predictions", n)
    folder.write_table("scores", scores)
    folder.write_summary({"base": {}, "twins": {}, "tests": [], "metrics": {}})
    folder.write_meta({"axes": {"data": "d", "model": "m"}, "seed": 3, "label_names": ["no", "yes"], "data": {}})
    return Run(path)


def test_scores_average_slots_and_keep_reasons(tmp_path):
    run = scored(
        tmp_path / "cell",
        example=["b", "a", "a", "c", "a", "b", None],
        site=["s"] * 5 + ["t", "s"],
        slot=[0, 0, 1, 0, 2, 0, 0],
        source=["attention"] * 7,
        metric=["m"] * 7,
        value=[0.5, 1.0, 0.25, math.nan, math.nan, 7.0, 9.0],
        reason=[None, None, None, "short", "flat", None, None],
    )
    found = run.scores("m", site="s")
    assert found.to_dict() == pytest.approx({"a": 0.625, "b": 0.5, "c": math.nan}, nan_ok=True)
    assert found.to_dict() == pytest.approx(by_loops(run, "m", "attention", "s"), nan_ok=True)
    assert run.reasons("m", site="s") == [None, None, "short"]
    assert run.scores("m").to_dict() == pytest.approx(found.to_dict(), nan_ok=True)  # the first site
    assert run.scores("m", site="t").tolist() == pytest.approx([math.nan, 7.0, math.nan], nan_ok=True)
    assert run.reasons("m", site="t") == ["not computed", None, "not computed"]
    assert run.scores("unknown").isna().all()
    assert run.sources("m", "s") == ["attention"]
    assert run.predicted.tolist() == [1, 0, 0]


def test_every_stored_score_is_found(tmp_path):
    run = Run(LSTM)
    keys = {(r["metric"], r["source"], r["site"]) for r in run.folder.read_table("scores").to_pylist()}
    for metric, source, site in sorted(keys)[::7]:
        expected = by_loops(run, metric, source, site)
        assert run.scores(metric, source, site).to_dict() == pytest.approx(expected, nan_ok=True)


def test_scores_agree_with_the_summary():
    run = Run(MLP)
    for record in run.records:
        if record.group == "all":
            found = run.scores(record.metric, record.source, record.site)
            assert (found.count(), found.isna().sum()) == (record.n, record.n_undefined)
            if record.n:
                assert found.mean() == pytest.approx(record.mean, abs=1e-12)


def test_tables_without_a_column_leave_it_out():
    table = Run(LSTM).read("tokens", ["example", "attention", "rollout"])
    assert table.column_names == ["example", "attention"]


def test_a_damaged_table_is_named(tmp_path):
    path = copied(tmp_path / "cell")
    (path / "tokens.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"tokens.parquet is damaged"):
        Run(path).read("tokens", ["example"])


# --- what a recipe leaves beside its cells


def test_recipe_round_trip(tmp_path):
    assert read_recipe(tmp_path) is None
    numbers = {"key": ["data"], "metrics": ["base_f1", "tvd"], "rows": {"a": [0.5, None]}, "band": {"tvd": 0.1}}
    write_recipe(tmp_path, {"claim": "表 1", "expected": numbers, "name": "left out"})
    assert read_recipe(tmp_path) == Claim("表 1", PaperNumbers(**numbers))
    write_recipe(tmp_path, {"claim": "表 1", "expected": None})
    assert read_recipe(tmp_path) == Claim("表 1", None)
    (tmp_path / "recipe.json").write_text("[]")
    with pytest.raises(InputError, match=r"recipe.json is damaged"):
        read_recipe(tmp_path)


def test_the_table_of_a_run_without_tests_has_its_columns_and_no_row(tmp_path):
    folder = copied(tmp_path / "run")
    edit(folder / "summary.json", tests=[])
    result = Result(folder)
    for table in (result.table(), result.table(by_class=True)):
        assert len(table) == 0
        assert {"test", "metric", "source", "mean", "n", "reasons", "direction"} <= set(table.columns)
