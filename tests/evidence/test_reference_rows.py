"""Every row of the papers' printed tables has ours beside it, or a reason."""

import csv
from pathlib import Path

import pytest
import yaml
from evidence.cells import all_cells
from evidence.datasets import PRINTED
from evidence.printed import printed_rows
from evidence.schedule import read_schedule

FOLDER = Path(__file__).parents[3] / "shared" / "reference"
NAMES = {
    "20 Newsgroups": "20News",
    "AG News": "AgNews",
    "IMDb": "IMDB",
    "bAbi 1": "bAbI-1",
    "bAbi 2": "bAbI-2",
    "bAbi 3": "bAbI-3",
}


def read(name):
    path = FOLDER / name
    if not path.exists():
        pytest.skip("the shared folder of printed tables is missing")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(paper):
    """Cell and metric -> row, each with a number of ours or a reason."""
    rows = {}
    for row in printed_rows(paper, all_cells(), read_schedule()):
        assert row.ours is not None or row.reason, row
        assert row.reason != "not in the schedule", row
        rows[" ".join(row.key), row.metric] = row
    return rows


def data(name):
    return NAMES.get(name, name)


def test_jain_wallace_table_2():
    rows = rows_of("jain_wallace_2019")
    for printed in read("jain_wallace_2019_table2.csv"):
        group = "all" if printed["class"] == "overall" else printed["class"]
        source = {"gradient": "input_x_gradient", "leave_one_out": "leave_one_out"}[printed["importance"]]
        if printed["dataset"] == "SNLI":
            continue  # its classes stand in another order: below
        key = f"{data(printed['dataset'])} {printed['encoder']} additive"
        assert rows[key, f"attention_correlation attention~{source} {group}"].paper == float(printed["tau_mean"])
        assert rows[key, f"significant attention~{source} {group}"].paper == float(printed["significant_fraction"])


def test_jain_wallace_table_2_snli():
    rows = rows_of("jain_wallace_2019")
    printed = [row for row in read("jain_wallace_2019_table2.csv") if row["dataset"] == "SNLI"]
    for metric, column in (("attention_correlation", "tau_mean"), ("significant", "significant_fraction")):
        for encoder in ("lstm", "average"):
            theirs = sorted(float(row[column]) for row in printed if row["encoder"] == encoder)
            ours = sorted(
                row.paper
                for (key, name), row in rows.items()
                if key == f"SNLI {encoder} additive" and name.startswith(metric)
            )
            assert ours == theirs


def test_jain_wallace_table_1():
    rows = rows_of("jain_wallace_2019")
    printed = {
        row["dataset"]: float(row["test_performance_lstm"].split(" / ")[0])
        for row in read("jain_wallace_2019_table1.csv")
    }
    for name, value in (("SST", 0.81), ("IMDB", 0.88), ("20News", 0.94), ("AgNews", 0.96)):
        assert rows[f"{name} lstm additive", "base_f1"].paper == value
        assert value in printed.values()
    assert rows["bAbI-2 lstm additive", "base_accuracy"].paper == 0.48
    facts = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["datasets"]["jain_wallace_2019"]
    for row in read("jain_wallace_2019_table1.csv"):
        if "bAbI" not in row["dataset"] and "MIMIC" not in row["dataset"]:
            assert facts[data(row["dataset"])]["vocabulary"] == int(row["vocabulary"])


def test_amini_kosseim():
    rows = rows_of("amini_kosseim")
    for printed in read("amini_kosseim_table3_adversarial.csv"):
        key = f"{printed['dataset']} {printed['encoder']}"
        assert rows[key, "attefa"].paper == float(printed["attefa_mean"])
        assert rows[key, "twin_f1"].paper == float(printed["f1_mean"])
        assert rows[key, "tvd"].paper == pytest.approx(2 * float(printed["tvd_mean"]), abs=1e-9)
    for printed in read("amini_kosseim_table2_base_f1.csv"):
        for encoder in ("lstm", "mlp"):
            assert rows[f"{printed['dataset']} {encoder}", "base_f1"].paper == float(printed[f"{encoder}_reproduced"])


def test_serrano_smith():
    rows = rows_of("serrano_smith_2019")
    kinds = {"HAN": "hierarchical", "FLAN": "flat"}
    for printed in read("serrano_smith_2019_figure13_flips_product_ranking.csv"):
        kind = "HAN" if printed["model"].startswith("HAN") else "FLAN"
        name = "Yahoo Answers" if printed["dataset"] == "Yahoo" else printed["dataset"]
        key = f"{name} {kinds[kind]} {printed['model'].removeprefix(kind)}"
        outcomes = {
            "flip_both": "top_yes_random_yes",
            "flip_top_only": "top_yes_random_no",
            "flip_random_only": "top_no_random_yes",
            "flip_neither": "top_no_random_no",
        }
        for metric, column in outcomes.items():
            assert rows[key, f"{metric} attention_x_gradient all"].paper == pytest.approx(float(printed[column]) / 100)


def test_meister():
    rows = rows_of("meister_2021")
    encoders, projections = (
        {"BiLSTM": "lstm", "Transformer": "transformer"},
        {"softmax": "softmax 1", "sparsemax": "sparsegen 0"},
    )
    for printed in read("meister_2021_table1_entropy_hidden.csv"):
        key = f"{data(printed['dataset'])} {encoders[printed['encoder']]} {projections[printed['projection']]}"
        assert rows[key, "hidden_entropy hidden_gradient all"].paper == float(printed["normalized_entropy_mean"])
    correlations = yaml.safe_load(PRINTED.read_text(encoding="utf-8"))["lambda_correlations"]
    for printed in read("meister_2021_table2_lambda_entropy_correlation.csv"):
        key = f"{data(printed['dataset'])} {encoders[printed['encoder']]}"
        assert correlations[key] == float(printed["kendall_tau_b"])
