"""The plan of the stock models, what is kept of their runs, and the tables made of it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from evidence.cells import CellSummary, Number
from evidence.collect_stock import is_kept, numbers_of_site
from evidence.page_stock import TABLES
from evidence.run import Runner
from evidence.stock_plan import read_plan

from attn_faithful.cli.evaluating import _data_and_tests
from attn_faithful.cli.parser import parse
from attn_faithful.cli.stock_training import _fine_tune_settings
from attn_faithful.records.recommendation import Criterion, RankedSource, Recommendation
from attn_faithful.records.scores import ScoreRecord
from evidence import stock, stock_cells


@pytest.fixture(scope="module")
def plan():
    return read_plan()


def parsed(words):
    return parse(words)


def test_everything_planned_is_what_the_commands_take(plan, tmp_path):
    for model in plan.models:
        recipe, settings = _fine_tune_settings(parsed(model.command(tmp_path, tmp_path / "minilm", plan.seed)))
        assert (recipe.seeds, settings.epochs) == ([plan.seed], model.epochs)
        assert recipe.data.limit == dict(model.limit)
    for each in plan.evaluations:
        data, settings = _data_and_tests(parsed(each.command(tmp_path / "data", tmp_path / "model")))
        assert settings.tests == list(each.tests)
        assert data.limit == {"test": each.texts}
        assert settings.learns_heads == (each.fit_texts is not None)


def test_every_evaluation_is_of_a_planned_model_and_stands_there_once(plan):
    names = [each.name for each in plan.evaluations]
    assert len(set(names)) == len(names)
    assert {each.data for each in plan.evaluations} <= {model.data for model in plan.models}
    assert [each.name for each in plan.of("SST")] == [
        each.name for each in plan.evaluations if each.data == "SST" and each.left_out is None
    ]


def test_rankings_are_compared_with_random_ones(plan):
    (sources,) = [each for each in plan.of("SST") if each.part == "sources"]
    settings = sources.settings()
    assert settings["evaluation.tests.erasure.rankings"] == [*sources.rankings, "random"]
    flips = replace(sources, tests=["flips"]).settings()
    assert flips["evaluation.tests.flips.rankings"] == list(sources.rankings)  # it draws its own random orders


def test_there_is_one_model_of_a_data_set(plan, tmp_path):
    (model,) = (model for model in plan.models if model.folder == "ag_news")
    with pytest.raises(ValueError, match="but got 0"):
        model.folder_of(tmp_path)
    (tmp_path / "train" / "ag-news-bert-2-aa" / "model").mkdir(parents=True, exist_ok=True)
    assert model.folder_of(tmp_path).parent.name == "ag-news-bert-2-aa"
    (tmp_path / "train" / "ag-news-bert-2-bb" / "model").mkdir(parents=True, exist_ok=True)
    with pytest.raises(ValueError, match="but got 2"):
        model.folder_of(tmp_path)


class Fake(Runner):
    """Makes empty models in the place of real ones; fine-tuning on IMDB fails."""

    asked: ClassVar[list] = []

    def carry_out(self, command, log):
        self.asked.append(command)
        folder = Path(command[command.index("--data") + 1]).name
        if command[0] == "train":
            (self.output / "train" / f"{folder.replace('_', '-')}-bert-2-aa" / "model").mkdir(
                parents=True, exist_ok=True
            )
        return int(folder == "imdb")


def run_stock(monkeypatch, *flags):
    Fake.asked.clear()
    monkeypatch.setattr("sys.argv", ["stock", *flags])
    monkeypatch.setattr(stock, "Runner", Fake)
    monkeypatch.setattr(stock, "cut", lambda *_: None)
    stock.main()


def test_models_are_made_before_they_are_asked(plan, tmp_path, monkeypatch):
    flags = ["--data-dir", str(tmp_path), "--pretrained", str(tmp_path), "--output", str(tmp_path / "runs")]
    with pytest.raises(SystemExit, match="Not finished: IMDB model"):
        run_stock(monkeypatch, *flags)
    assert Fake.asked[0][0] == "train"
    model = str(tmp_path / "runs" / "train" / f"{plan.models[0].folder}-bert-2-aa" / "model")
    assert Fake.asked[1][:2] == ["evaluate", model]
    of_imdb = 1  # what fails is asked nothing
    others = sum(1 + len(plan.of(model.data)) for model in plan.models if model.data != "IMDB")
    assert len(Fake.asked) == others + of_imdb
    with pytest.raises(SystemExit):
        run_stock(monkeypatch, *flags)
    assert len(Fake.asked) == of_imdb  # all else is finished


def test_a_model_that_is_there_is_asked_as_it_is(tmp_path, monkeypatch):
    flags = ["--data-dir", str(tmp_path), "--pretrained", str(tmp_path), "--output", str(tmp_path / "runs")]
    run_stock(monkeypatch, *flags, "--data", "SST", "--part", "layers", "--model", f"SST={tmp_path}/mine")
    ((command, model, *_),) = Fake.asked
    assert (command, model) == ("evaluate", str(tmp_path / "mine"))


def record(metric, source, group="all"):
    return ScoreRecord(None, metric, "layer.5", source, group, 0.5, 0.1, 0.4, 0.6, 10, 0)


def test_pairs_with_leave_one_out_and_gradients_are_kept():
    assert is_kept(record("attention_correlation", "rollout~leave_one_out"))
    assert is_kept(record("attention_correlation", "input_x_gradient~rollout"))
    assert not is_kept(record("attention_correlation", "rollout~value_norm"))
    assert not is_kept(record("attention_correlation", "rollout~leave_one_out", "negative"))
    assert is_kept(record("naopc", "rollout"))
    assert not is_kept(record("spearman", "rollout~leave_one_out"))


def recommendation(n):
    nothing = Criterion()
    good = RankedSource("rollout", Criterion(0.9, 0.8, 0.95, n), nothing, nothing, nothing)
    bad = RankedSource("attention", Criterion(0.5, 0.4, 0.6, n), nothing, nothing, nothing, fails=("order",))
    control = RankedSource("random", Criterion(0.3, 0.2, 0.4, n), nothing, nothing, nothing)
    return Recommendation("layer.5", "naopc", "rollout", n, [good, bad, control], {"texts": 30.0}, {})


def test_what_may_be_shown_is_kept_with_what_forbids_it():
    good, bad = numbers_of_site(recommendation(40))
    assert (good.source, good.value, dict(good.reasons)) == ("rollout", 1.0, {})
    assert (bad.source, bad.value, dict(bad.reasons)) == ("attention", 0.0, {"order": 1})
    assert all(math.isnan(each.value) for each in numbers_of_site(recommendation(29)))


def cell(part, numbers):
    data = {"test": {"n": 40, "tokens_mean": 20.0}, "train": {"n": 100}}
    axes = {"data": "SST", "part": part}
    return CellSummary("stock", axes, 0, ["negative", "positive"], data, {}, 1.5, {}, {}, numbers)


@pytest.fixture
def cells(monkeypatch):
    """One data set, two of its parts; the others were not run."""
    sources = [
        Number("naopc", "signed_leave_one_out", site="layer.5", value=0.625, low=0.5, high=0.75, n=40),
        Number("may_be_shown", "signed_leave_one_out", site="naopc", value=0.0, n=40, reasons={"order": 1}),
        Number("stability_tau", "rollout", value=math.nan, n_undefined=40, reasons={"one word": 40}),
    ]
    layers = []
    for site, value in (("layer.0", 0.25), ("layer.1", 0.75)):
        layers.append(Number("importance_entropy", "attention", site=site, value=value, n=40))
        pair = "leave_one_out~rollout"
        layers.append(Number("attention_correlation", pair, site=site, value=value, low=0.0, high=1.0, n=40))
    known = [cell("sources", sources), cell("layers", layers)]
    monkeypatch.setattr(stock_cells, "all_cells", lambda: known)


def rows(name):
    lines = TABLES[name]().splitlines()
    return [[entry.strip() for entry in line.strip("|").split("|")] for line in lines]


def test_a_source_has_its_pairs_in_either_order_and_its_signed_numbers(cells):
    head, _, *lines = rows("sources-sst2")
    by_source = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    assert by_source["rollout"]["tau, leave-one-out"] == "0.75 (0.00 to 1.00)"  # of the last layer
    assert by_source["leave-one-out"]["NAOPC"] == "0.62 (0.50 to 0.75)"
    assert by_source["rollout"]["stability"] == "undefined: one word"
    assert "sufficiency" not in head  # a column in which nothing stands
    assert "value zeroing" not in by_source  # a source of which nothing was measured


def test_layers_stand_one_a_row(cells):
    _, _, first, second, *others = rows("layers")
    assert (first[1], first[-1]) == ("0", "0.25")
    assert (second[1], second[-1]) == ("1", "0.75")
    assert [line[1] for line in others] == ["not run"] * len(others)


def test_what_may_be_shown_has_its_reason(cells):
    first = rows("may-be-shown")[2]
    assert first == ["SST", "signed leave-one-out", "0.62 (0.50 to 0.75)", "40", "no: order not near the best"]


def test_what_was_not_run_has_its_minutes(cells, plan):
    by_part = {(line[0], line[1]): line for line in rows("times")[2:]}
    assert by_part["SST", "every layer"][2:] == ["40", "1.5", "4"]
    (tests,) = [each for each in plan.of("SST") if each.part == "tests"]
    assert by_part["SST", "all tests by default"][2:] == [
        "not run",
        f"about {tests.minutes:g}",
        f"about {3 * tests.minutes:g}",
    ]
