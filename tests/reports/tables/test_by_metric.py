"""Tables a metric: what is best, what stands beside it, and models in pairs on the texts that they share."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from attn_faithful.functional.summaries import holm
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.run_search import read_runs
from attn_faithful.reports.tables import pairs as comparison
from attn_faithful.reports.tables.by_metric import metric_tables
from attn_faithful.reports.tables.pairs import paired_tables
from tests.reference.paired import p_by_signs
from tests.reports.altered import CELLS, LSTM, MLP, copied
from tests.reports.tables.test_table import never_moved, twin
from tests.reports.tables.test_table import record as model

TAU = MetricFacts("tau", "tau-b", "a correlation", direction="higher", test="correlation", paper="a paper")


def score(mean, source="attention~given", site="pool", group="all", n=10, n_seeds=1):
    reasons = {"short": 3} if not n else {}
    numbers = {"mean": mean, "std": 0.1, "low": mean, "high": mean, "std_seeds": 0.02, "n_seeds": n_seeds}
    return ScoreRecord("correlation", "tau", site, source, group, n=n, n_undefined=3, reasons=reasons, **numbers)


def record(encoder, *tests, data="SST", direction="higher", metrics=None, twins=None, seeds=(2,)):
    metrics = {"tau": replace(TAU, direction=direction)} if metrics is None else metrics
    group = model(encoder, seeds=seeds, twins=twins or {}, tests=tests, metrics=metrics, comparable=data)
    group.axes = {"data": data, "encoder": encoder}
    return group


def marked(table):
    return sorted(table.rows[i][j] for i, j in table.best)


@pytest.mark.parametrize(("direction", "best"), [("higher", ["0.500"]), ("lower", ["0.300"]), (None, [])])
def test_the_best_of_a_data_set_and_source_by_the_metric_s_direction(direction, best):
    records = [record(name, score(mean), direction=direction) for name, mean in (("a", 0.3), ("b", 0.5), ("c", 0.4))]
    records.append(record("a", score(0.9), data="IMDB", direction=direction))  # alone: nothing to be better than
    (table,) = metric_tables(records)
    assert marked(table) == best
    assert table.head == ["data", "source", "encoder", "Mean", "95%", "n", "undefined"]
    assert [row[:3] for row in table.rows[:2]] == [["SST", "attention ~ given", "a"], ["SST", "attention ~ given", "b"]]
    assert table.rows[3][0] == "IMDB"
    assert any(note.startswith("Bold") for note in table.notes) == bool(best)


@pytest.mark.parametrize("source", ["random_ranking", "smallest_set", "given~other", "leave_one_out"])
def test_rows_that_are_not_of_attention_are_never_bold(source):
    (table,) = metric_tables([record("a", score(0.3, source)), record("b", score(0.5, source))])
    assert table.best == set()
    assert not any(note.startswith("Bold") for note in table.notes)


def test_ties_are_best_together_and_no_best_where_all_are_equal():
    tied = [record("a", score(0.5)), record("b", score(0.5)), record("c", score(0.1))]
    assert marked(metric_tables(tied)[0]) == ["0.500", "0.500"]
    assert marked(metric_tables(tied[:2])[0]) == []


def test_undefined_means_are_dashes_and_never_best():
    records = [record("a", score(math.nan, n=0)), record("b", score(0.1)), record("c", score(0.2))]
    (table,) = metric_tables(records)
    assert table.rows[0][3:] == ["-", "-", "0", "3"]
    assert marked(table) == ["0.200"]
    assert "Undefined, left out of the means: short (3)." in table.notes
    (table,) = metric_tables([record("a", score(math.nan, n=0))])
    assert table.rows[0][3] == "-"


def test_controls_stand_beside_and_are_never_best():
    tests = score(0.3), score(0.9, "random~given"), score(math.nan, "uniform~given", n=0), score(0.4, "given~other")
    (table,) = metric_tables([record("a", *tests), record("b", score(0.2))])
    assert table.head == ["data", "source", "encoder", "Mean", "95%", "(random)", "(uniform)", "n", "undefined"]
    assert [row[1:4] + row[5:7] for row in table.rows] == [
        ["attention ~ given", "a", "0.300", "0.900", "-"],
        ["attention ~ given", "b", "0.200", "-", "-"],
        ["given ~ other", "a", "0.400", "-", "-"],
    ]
    assert marked(table) == ["0.300"]


def test_sites_and_seeds():
    one = record("a", score(0.3, site="layer.0"), score(0.4, site="layer.1", n_seeds=2), seeds=[1, 2])
    (table,) = metric_tables([one])
    assert [row[1] for row in table.rows] == ["layer.0", "layer.1"]
    assert [row[4] for row in table.rows] == ["0.300", "0.400 ±0.020"]
    assert "standard deviation (ddof 0)" in table.notes[0]


def test_what_is_not_shown_has_no_table():
    hidden = record("a", score(0.3))
    hidden.metrics["tau"] = replace(TAU, shown=False)
    assert metric_tables([hidden]) == []


def test_csv_holds_every_number_unrounded():
    tests = score(1 / 3), score(0.1, group="negative"), score(0.9, "random~given"), score(math.nan, "x~y", n=0)
    (table,) = metric_tables([record("a", *tests)])
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(row["source"], row["class"], row["mean"]) for row in rows] == [
        ("attention~given", "all", str(1 / 3)),
        ("attention~given", "negative", "0.1"),
        ("random~given", "all", "0.9"),
        ("x~y", "all", ""),
    ]
    assert (rows[3]["n"], rows[3]["n_undefined"], rows[3]["reasons"]) == ("0", "3", "short (3)")


def test_collapsed_twins_are_never_best():
    cells = [
        ("a", twin(0.2)),
        ("b", twin(0.9, collapsed=2)),
        ("c", twin(0.3)),
        ("d", never_moved()),
    ]
    table = metric_tables([record(name, twins={"attefa": found}, metrics={}) for name, found in cells])[0]
    assert table.name == "attefa"
    assert [(i, table.head[j]) for i, j in table.best] == [(2, "AtteFa")]


# --- pairs


def columns(runs, metric, source):
    return [run.scores(metric, source).to_numpy() for run in runs]


def test_pairs_equal_scipy_on_the_shared_texts():
    runs = read_runs([CELLS])
    tables = {t.name: t for t in paired_tables(aggregate(runs))}
    table = tables["attention_correlation-paired"]
    sources = ["attention~input_x_gradient", "attention~leave_one_out", "input_x_gradient~leave_one_out"]
    assert [row[1] for row in table.rows] == [source.replace("~", " ~ ") for source in sources]
    assert {(row[2], row[3]) for row in table.rows} == {("lstm", "mlp")}
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    found = []
    for row, source in zip(rows, sources, strict=True):
        one, two = columns(runs, "attention_correlation", source)
        difference = (one - two)[~np.isnan(one - two)]
        found.append(p_by_signs(np.round(difference, 12)))  # 1 - 1/3 and 2/3 are tied
        assert (float(row["mean"]), int(row["n"])) == (pytest.approx(difference.mean()), len(difference))
    assert [float(row["p"]) for row in rows] == pytest.approx(found)
    assert [float(row["p_holm"]) for row in rows] == pytest.approx(holm(found))
    assert not any("random" in row[1] for row in table.rows)


def test_other_texts_are_no_pairs(tmp_path):
    copied(tmp_path / "a")
    copied(tmp_path / "b", cell=MLP, data={"fingerprint": "another", "notes": []})
    runs = read_runs([tmp_path])
    records = aggregate(runs)
    assert paired_tables(records) == []


def test_seeds_are_averaged_before_models_are_compared(tmp_path):
    for seed in (1, 2):
        copied(tmp_path / f"lstm-{seed}", seed=seed)
        copied(
            tmp_path / f"mlp-{seed}",
            cell=(LSTM, MLP)[seed - 1],
            seed=seed,
            axes={"data": "Mock-1", "encoder": "mlp"},
            recipe=read_runs([MLP])[0].meta["recipe"],
        )
    runs = read_runs([tmp_path])
    tables = paired_tables(aggregate(runs))
    table = next(table for table in tables if table.name == "attention_correlation-paired")
    lstm, mlp = (
        columns(read_runs([cell]), "attention_correlation", "attention~leave_one_out")[0] for cell in (LSTM, MLP)
    )
    row = next(row for row in csv.DictReader(io.StringIO(table.csv())) if row["source"] == "attention~leave_one_out")
    assert float(row["mean"]) == pytest.approx(np.nanmean(lstm - (lstm + mlp) / 2))


def test_of_many_models_each_is_compared_with_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "ALL_PAIRS", 2)
    for i, cell in enumerate((LSTM, MLP, LSTM)):
        copied(tmp_path / str(i), cell=cell, axes={"data": "Mock-1", "encoder": f"model {i}"})
    runs = read_runs([tmp_path])
    tables = paired_tables(aggregate(runs))
    table = next(table for table in tables if table.name == "attention_correlation-paired")
    own = [row[2:4] for row in table.rows if row[1] == "attention ~ input_x_gradient"]
    assert own == [["model 1", "model 0"], ["model 1", "model 2"]]
    assert any("each is compared with the best alone" in note for note in table.notes)


def test_runs_of_other_models_with_the_same_labels_are_no_seeds(tmp_path):
    for i in (1, 2):
        copied(tmp_path / f"run-{i}", axes={"data": "d", "model": "lstm"}, seed=0, model=f"model-{i}")
    records = aggregate(read_runs([tmp_path]))
    found = [(group.axes["model from"], group.seeds) for group in records]
    assert found == [("model-1", [0]), ("model-2", [0])]
    assert [group.base_pairs.tvd.n for group in records] == [0, 0]


def test_models_that_were_tested_otherwise_are_neither_best_nor_paired(tmp_path):
    for name, cell, units in (("a", LSTM, "word"), ("b", MLP, "token")):
        meta = read_runs([cell])[0].meta
        recipe = {**meta["recipe"], "evaluation": {**meta["recipe"]["evaluation"], "units": units}}
        copied(tmp_path / name, cell=cell, recipe=recipe)
    runs = read_runs([tmp_path])
    records = aggregate(runs)
    assert len(records) == 2
    assert not paired_tables(records)
    assert not any(table.best for table in metric_tables(records) if table.name != "attefa")
    for group in records:
        group.comparable = "the same"
    assert paired_tables(records)
    assert any(table.best for table in metric_tables(records) if table.name != "attefa")
