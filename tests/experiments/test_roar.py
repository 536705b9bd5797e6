"""ROAR: what is masked, what is trained, what is kept, and what an interrupted or shared run gives."""

import json
import math
import shutil

import numpy as np
import pytest

from attn_faithful import api
from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.estimate import _epochs
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.prepare import collator, prepare
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.recipe import make_recipe
from attn_faithful.experiments.roar import run_curve as module
from attn_faithful.experiments.roar.importance import ModelImportance
from attn_faithful.experiments.roar.run_roar import all_curves, own_curves, run_curves
from attn_faithful.experiments.roar.texts import Tokens
from attn_faithful.experiments.run_cell import run_cell, saved_tokenizer
from attn_faithful.experiments.run_recipe import folder_of
from attn_faithful.models.architectures import load_model
from attn_faithful.models.blocks import content_keys
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.figures import FIGURES, cells, draw, letters, style
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.roar import tables_of_roar
from tests.experiments.tiny import RAW, Stopped
from tests.reference import roar as reference

SHARES = [0.3, 0.6, 1.0]
ROAR = {"sources": ["attention", "input_x_gradient"], "shares": SHARES}
RECIPE = {**RAW, "twin": None, "roar": ROAR}


def silent(*facts):
    """Progress that nobody sees."""


def cells_of(**changes):
    return expand(make_recipe({**RECIPE, **changes}, "test"))


def points(output):
    """File -> what it holds, without its seconds."""
    found = {}
    for path in sorted(output.glob("tiny/*/roar/*/*/*")):
        values = json.loads(path.read_text())
        del values["seconds"]
        found["/".join(path.parts[-2:])] = values
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A cell without ROAR, made once: the copies of the tests begin with it."""
    output = tmp_path_factory.mktemp("roar")
    (cell,) = cells_of(roar=None)
    run_cell(cell, folder_of(cell, output), silent)
    return output


def copy_of(trained, target):
    shutil.copytree(trained, target, dirs_exist_ok=True)
    return target


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    output = copy_of(trained, tmp_path_factory.mktemp("whole"))
    run_curves(all_curves(cells_of(), output), silent, SINGLE_PROCESS)
    return output


def test_the_points_are_all_there_and_nothing_else(whole):
    names = {"all/plain-1.json", "random/plain-0.3.json", "random/plain-0.6.json"}
    for source in ROAR["sources"]:
        names |= {f"{source}/{name}.json" for name in ("plain-0.3", "plain-0.6", "recursive-0.6")}
    found = points(whole)
    assert set(found) == names
    for name, point in found.items():
        assert point["share"] == float(name.rsplit("-", 1)[1].removesuffix(".json"))
        assert point["share"] <= point["masked"] < point["share"] + 0.25  # texts of 4 to 7 tokens, rounded up
        assert point["n"] == 20
        assert set(point["metrics"]) == {"accuracy", "f1", "roc_auc"}
        assert point["versions"]["attn_faithful"]


def test_a_recipe_with_roar_takes_the_finished_cells_without(whole):
    (with_roar,), (without,) = cells_of(), cells_of(roar=None)
    assert with_roar.folder == without.folder
    assert "roar" not in json.loads((folder_of(without, whole) / "meta.json").read_text())["recipe"]


def test_finished_curves_are_not_run_again(whole, monkeypatch):
    monkeypatch.setattr(module, "prepare", lambda *args: pytest.fail("it was prepared"))
    finished = []
    curves = all_curves(cells_of(), whole)
    run_curves(curves, silent, SINGLE_PROCESS, finished.append)
    assert len(finished) == len(curves) == 4


def test_stopped_and_resumed(trained, whole, tmp_path):
    """In the middle of trainings: what was made stays, and the numbers are those of a run that never stopped."""
    output = copy_of(trained, tmp_path)
    curves = [curve for curve in all_curves(cells_of(), output) if curve.source == "attention"]
    before = {}
    for stage, n_points in (("plain, 60% masked", 1), ("recursive, 60% masked", 2)):

        def stop(curve, of, epoch, epochs, metrics, stage=stage):
            if of == stage and epoch == 1:
                raise Stopped

        with pytest.raises(Stopped):
            run_curves(curves, stop, SINGLE_PROCESS)
        after = {path: path.stat().st_mtime_ns for path in output.glob("tiny/*/roar/*/*/*.json")}
        assert before.items() <= after.items()
        assert len(after) == n_points
        before = after
    run_curves(curves, silent, SINGLE_PROCESS)
    expected = {name: point for name, point in points(whole).items() if name.startswith("attention")}
    assert points(output) == expected


def test_processes_share_the_curves(trained, whole, tmp_path):
    output = copy_of(trained, tmp_path)
    curves = all_curves(cells_of(roar={**ROAR, "sources": []}), output)
    shares = [own_curves(curves, ProcessGroup(rank, 2)) for rank in range(2)]
    assert [[curve.source for curve in part] for part in shares] == [["random"], ["all"]]
    for rank in (1, 0):
        run_curves(curves, silent, ProcessGroup(rank, 2))
    expected = {name: point for name, point in points(whole).items() if name.split("/")[0] in ("all", "random")}
    assert points(output) == expected


def test_what_a_recipe_takes_counts_the_trainings():
    """2 epochs each: base, whole masked text, 2 random shares, 3 of each source, whose importance takes 1 a model."""
    (with_roar,), (without,) = cells_of(), cells_of(roar=None)
    assert _epochs(without) == 2
    assert _epochs(with_roar) == 2 + 2 * (1 + 2 + 3 + 3) + (1 + 1 + 2 + 2)


# what is masked


class FakeTraining:
    """Takes the rows of every training, and returns the base."""

    def __init__(self, cell, data, folder, on_progress, processes):
        self.data, self.folder = data, folder

    def classifier(self, name, stage, purpose):
        FakeTraining.rows[name] = self.data.rows
        record = type("Record", (), {"epoch": 1, "seconds": 0.0})
        base = load_model(self.folder.path.parents[2] / "model")
        return type("Trained", (), {"model": base, "record": record})


@pytest.mark.parametrize("recursive", [False, True])
def test_masks_follow_importance_and_recursive_ones_that_of_the_model_before(trained, tmp_path, monkeypatch, recursive):
    """Importance by position: of the base rising, of the models after it falling; the masks are those of a loop."""
    output = copy_of(trained, tmp_path)
    FakeTraining.rows = {}
    asked = []

    def by_position(self, source, tokens):
        asked.append(tokens.rows["input_ids"].values.copy())
        sign = 1 if len(asked) <= 3 else -1  # three splits a model
        places = [np.arange(end - start) for start, end in zip(tokens.bounds, tokens.bounds[1:], strict=False)]
        return sign * np.concatenate(places).astype(float)

    monkeypatch.setattr(ModelImportance, "of", by_position)
    monkeypatch.setattr(module, "CellTraining", FakeTraining)
    monkeypatch.setattr(module.CurveRun, "_write", lambda *args: None)
    roar = {"sources": ["attention"], "shares": [0.2, 0.5, 0.7, 1.0], "recursive": recursive}
    (curve,) = (curve for curve in all_curves(cells_of(roar=roar), output) if curve.source == "attention")
    run_curves([curve], silent, SINGLE_PROCESS)
    names = ["plain-0.2", "plain-0.5", "plain-0.7"]
    if recursive:
        names += ["recursive-0.5", "recursive-0.7"]
    assert sorted(FakeTraining.rows) == sorted(names)
    plain = prepare(curve.cell.recipe, saved_tokenizer(curve.run / "model")).rows
    mask_id = max(FakeTraining.rows["plain-0.7"]["train"]["input_ids"].values)
    for split, rows in plain.items():
        for place, ids in enumerate(rows["input_ids"]):
            rising = list(range(len(ids)))
            falling = [-position for position in rising]
            masked = [False] * len(ids)
            for name in ("plain-0.2", "recursive-0.5", "recursive-0.7"):
                importance = rising if name == "plain-0.2" else falling
                count = math.ceil(float(name.rsplit("-", 1)[1]) * len(ids) - 1e-9)
                masked = reference.masked_top(importance, masked, count)
                if name in names:
                    found = FakeTraining.rows[name][split]["input_ids"][place]
                    assert found.tolist() == np.where(masked, mask_id, ids).tolist()
            of_base = reference.masked_top(rising, [False] * len(ids), math.ceil(0.7 * len(ids) - 1e-9))
            found = FakeTraining.rows["plain-0.7"][split]["input_ids"][place]
            assert found.tolist() == np.where(of_base, mask_id, ids).tolist()
    if recursive:  # the second model is asked about the texts that it was trained on
        assert (asked[3] == FakeTraining.rows["plain-0.2"]["train"]["input_ids"].values).all()


@pytest.mark.parametrize("source", ["attention", "leave_one_out", "random"])
def test_importance_is_that_of_each_text_alone(trained, source):
    """Of texts that stand twice too, in their order, with nothing for an empty one."""
    (cell,) = cells_of()
    folder = folder_of(cell, trained)
    data = prepare(cell.recipe, saved_tokenizer(folder / "model"))
    model = load_model(folder / "model")
    rows = data.rows["test"].take([3, 0, 3, 7])
    ids = [*rows["input_ids"], np.zeros(0, dtype=int)]
    rows = Rows({"example": list("abcde"), "input_ids": ids, "labels": [0] * 5, "length": list(map(len, ids))})
    tokens = Tokens.of(rows)
    evaluated = EvaluatedModel.of(model, data.tokenizer, collator(rows), data.texts.label_names)
    found = ModelImportance(evaluated, cell.recipe.evaluation, 7, SINGLE_PROCESS).of(source, tokens)
    assert len(found) == sum(map(len, ids))
    for place, key in enumerate(content_keys(rows)[:4]):
        batch = collator(rows)([rows[place]])
        batch.pop("labels")
        encoded = model.encode(batch)
        if source == "attention":
            alone = encoded.over_items.detach()
        else:
            seed = seed_for(cell.recipe.evaluation.seed, 7, "roar")
            alone = attribute(source, Request(model, batch, encoded, keys=[key], seed=seed)).values
        start, end = tokens.bounds[place : place + 2]
        np.testing.assert_allclose(found[start:end], alone[0].numpy(), atol=1e-6)


def test_special_tokens_are_never_masked():
    rows = Rows({"input_ids": [[1, 5, 6, 2], [1, 2]], "special_tokens_mask": [[1, 0, 0, 1], [1, 1]]})
    tokens = Tokens.of(rows)
    assert tokens.bounds.tolist() == [0, 2, 2]
    masked = tokens.with_masks(~tokens.none, 9)
    assert [row.tolist() for row in masked["input_ids"]] == [[1, 9, 9, 2], [1, 2]]
    assert rows["input_ids"][0].tolist() == [1, 5, 6, 2]  # the given ones stay


# importance of a file


def write_importance(path, cell, folder, source="attention", leave_out=0):
    """A source of the base as a file, by our ids."""
    data = prepare(cell.recipe, saved_tokenizer(folder / "model"))
    model = load_model(folder / "model")
    lines = []
    for rows in data.rows.values():
        tokens = Tokens.of(rows)
        evaluated = EvaluatedModel.of(model, data.tokenizer, collator(rows), data.texts.label_names)
        values = ModelImportance(evaluated, cell.recipe.evaluation, cell.seed, SINGLE_PROCESS).of(source, tokens)
        for place, example in enumerate(rows.examples):
            start, end = tokens.bounds[place : place + 2]
            lines.append(json.dumps({"example": example, "scores": values[start:end].tolist()}))
    path.write_text("\n".join(lines[leave_out:]))
    return str(path)


def test_importance_of_a_file_gives_the_curve_of_its_source(trained, whole, tmp_path):
    output = copy_of(trained, tmp_path)
    (cell,) = cells_of()
    file = write_importance(tmp_path / "mine.jsonl", cell, folder_of(cell, output))
    roar = {"sources": [], "files": {"mine": file}, "shares": SHARES}
    curves = [curve for curve in all_curves(cells_of(roar=roar), output) if curve.source == "mine"]
    run_curves(curves, silent, SINGLE_PROCESS)
    ours = {name.split("/")[1]: point for name, point in points(whole).items() if name.startswith("attention/plain")}
    theirs = {name.split("/")[1]: {**point, "source": "attention"} for name, point in points(output).items()}
    assert theirs == ours
    # another file under the same name is another source
    (folder,) = output.glob("tiny/*/roar/*/mine-*")
    shutil.copytree(folder, folder.with_name("mine-00000000"))
    (found,) = Run(folder.parents[2]).roar.values()
    assert {point.source for point in found} == {folder.name, "mine-00000000"}


def test_a_file_that_lacks_a_text(trained, tmp_path):
    output = copy_of(trained, tmp_path)
    (cell,) = cells_of()
    file = write_importance(tmp_path / "mine.jsonl", cell, folder_of(cell, output), leave_out=2)
    roar = {"sources": [], "files": {"mine": file}, "shares": SHARES}
    curves = [curve for curve in all_curves(cells_of(roar=roar), output) if curve.source == "mine"]
    with pytest.raises(InputError, match=r"but 2 are missing: models are trained anew on all of them"):
        run_curves(curves, silent, SINGLE_PROCESS)


@pytest.mark.parametrize(
    ("roar", "message"),
    [
        ({"shares": [0.5]}, "rise from above 0 to 1"),
        ({"sources": ["atention"]}, "Unknown source 'atention'"),
        ({"sources": ["random"]}, "always there"),
        ({"files": {"all": __file__}}, "always there"),
        ({"files": {"../mine": __file__}}, "files"),
        ({"sources": ["saliency", "saliency"]}, "stands twice"),
        ({"files": {"mine": "nowhere.jsonl"}}, "there is no nowhere.jsonl"),
        ({"share": [0.5, 1.0]}, "shares"),
    ],
)
def test_bad_settings_are_refused_before_any_work(roar, message):
    with pytest.raises(InputError, match=message):
        make_recipe({**RECIPE, "roar": roar}, "test")


# what it says


def test_the_planted_words_are_all_that_a_model_needs(tmp_path):
    mock = {"n_train": 200, "n_test": 300, "n_validation": 60, "min_length": 10, "max_length": 20, "max_words": 30}
    raw = {**RECIPE, "data": {"source": "mock-1", "mock": mock}, "train": {"epochs": 4, "learning_rate": 4e-2}}
    (cell,) = expand(make_recipe({**raw, "roar": None}, "test"))
    lines = []
    for rows in prepare(cell.recipe).rows.values():
        for example, planted in zip(rows.examples, rows["informative"], strict=True):
            lines.append(json.dumps({"example": example, "scores": planted.tolist()}))
    (tmp_path / "truth.jsonl").write_text("\n".join(lines))
    roar = {"sources": [], "files": {"truth": str(tmp_path / "truth.jsonl")}, "shares": [0.1, 1.0]}
    (record,) = api.run_recipe({**raw, "roar": roar}, tmp_path, progress=False)
    random, truth = record["roar"]
    assert (random["source"], truth["source"]) == ("random", "truth")
    assert truth["performance"]["accuracy"][0][0] == pytest.approx(0.5, abs=0.05)
    assert random["performance"]["accuracy"][0][0] > 0.75
    assert truth["racu"]["accuracy"]["mean"] == pytest.approx(1, abs=0.05)
    assert truth["racu"]["accuracy"]["by_seed"] == [truth["racu"]["accuracy"]["mean"]]


def test_the_figure_has_a_panel_a_kind(whole):
    (cell,) = cells_of()
    models = cells(aggregate([Run(folder_of(cell, whole).path)]))
    figure = FIGURES["roar"]
    panels = figure.read(models)
    assert [panel.title for panel in panels] == ["ROAR", "recursive ROAR"]
    with style(letters(models)):
        page = draw(figure, panels, "")
        page.draw_without_rendering()
    for ax in page.axes:
        labels = {text.get_text() for text in ax.get_legend().get_texts()}
        assert labels == {"random masks", "no masks: the base", "attention", "input x gradient"}
        drawn = [line.get_ydata() for line in ax.get_lines() if len(line.get_ydata()) == len(SHARES)]
        accuracy = points(whole)["all/plain-1.json"]["metrics"]["accuracy"]
        assert all(values[-1] == pytest.approx(accuracy) for values in drawn)


def test_tables_of_a_finished_and_of_an_unfinished_run(whole, trained, tmp_path):
    def tables(output):
        (cell,) = cells_of()
        (group,) = aggregate([Run(folder_of(cell, output).path)])
        return tables_of_roar(group)

    areas, accuracy = tables(whole)
    assert [row[0] for row in areas.rows] == ["attention", "input x gradient"]
    assert [row[:2] for row in accuracy.rows][:3] == [
        ["random", "none"],
        ["attention", "the base"],
        ["attention", "the model before"],
    ]
    base = json.loads(next(whole.glob("tiny/*/summary.json")).read_text())["base"]["accuracy"]
    assert {row[2] for row in accuracy.rows} == {f"{base:.3f}"}
    recursive = dict(zip(accuracy.head, accuracy.rows[2], strict=True))
    found = points(whole)
    for share, name in (("30%", "attention/plain-0.3"), ("60%", "attention/recursive-0.6"), ("100%", "all/plain-1")):
        assert recursive[share] == f"{found[f'{name}.json']['metrics']['accuracy']:.3f}"
    assert not any("run the recipe again" in note for note in areas.notes)
    output = copy_of(whole, tmp_path)
    next(output.glob("tiny/*/roar/*/attention/plain-0.6.json")).unlink()
    areas, _ = tables(output)
    assert areas.rows[0][1] == "-"
    assert any("Not all models are trained yet of: attention" in note for note in areas.notes)
    assert tables(trained) == []
