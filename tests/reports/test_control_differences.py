"""Differences of F1 between controls: against loops over texts, of paired models, and what is left out."""

import doctest
import json

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.reports import f1
from attn_faithful.reports.control_differences import f1_differences
from attn_faithful.reports.run import Run
from attn_faithful.store import RunFolder
from attn_faithful.training.metrics import classification_metrics
from tests.reference import competence as slow

N = 60


def chances(generator, gold, classes, right):
    """Probabilities of texts of which so large a share is right."""
    said = np.where(generator.random(len(gold)) < right, gold, generator.integers(0, classes, len(gold)))
    return (0.9 * np.eye(classes)[said] + 0.1 / classes).tolist()


def folder(path, gold, base, controls, seed=1, examples=None, label_names=("no", "yes"), multi_label=False):
    """A run whose controls said this: name -> probabilities; None where an earlier version kept none."""
    run = RunFolder(path)
    examples = examples or [f"t-{i}" for i in range(len(gold))]
    run.write_table("predictions", {"example": examples, "label": list(gold), "probabilities": base})
    columns = {"example": [], "control": [], "probabilities": []}
    summary = {}
    for name, probabilities in controls.items():
        summary[name] = {"f1": 0.5, "accuracy": 0.5, "roc_auc": 0.5}
        if name.startswith("imposed_twin"):
            summary[name] |= {"control": "imposed_twin", "variant": "attefa", "seed": int(name.rpartition("-")[2])}
        if probabilities is not None:
            columns["example"] += examples
            columns["control"] += [name] * len(examples)
            columns["probabilities"] += probabilities
    if columns["example"]:
        run.write_table("controls", columns)
    run.write_summary({"base": {}, "controls": summary})
    recipe = {"data": {"multi_label": multi_label}}
    meta = {"axes": {"data": "a"}, "seed": seed, "recipe": recipe, "data": {}, "label_names": list(label_names)}
    run.write_meta(json.loads(json.dumps(meta)))
    return Run(path)


def said(probabilities):
    return np.argmax(probabilities, axis=1).tolist()


@pytest.mark.parametrize("classes", [2, 3])
def test_differences_equal_loops(tmp_path, classes):
    """Two seeds with two twins each; the reference draws its own texts, so ends agree as far as resampling does."""
    generator = np.random.default_rng(classes)
    gold = generator.integers(0, classes, N).tolist()
    runs, models = [], {"base": [], "imposed": [], "twin": []}
    for seed in (1, 2):
        base, imposed = (chances(generator, gold, classes, right) for right in (0.9, 0.8))
        twins = [chances(generator, gold, classes, 0.3) for _ in range(2)]
        controls = {"imposed": imposed, "imposed_twin-attefa-5": twins[0], "imposed_twin-attefa-6": twins[1]}
        names = ["a", "b", "c"][:classes]
        runs.append(folder(tmp_path / str(seed), gold, base, controls, seed, label_names=names))
        models["base"].append(said(base))
        models["imposed"].append(said(imposed))
        models["twin"] += map(said, twins)
    found = f1_differences(runs)
    assert {kind: each.reference for kind, each in found.items()} == {
        "imposed": "(base)",
        "imposed_twin attefa": "imposed",
    }
    for kind, first, second in (("imposed", "imposed", "base"), ("imposed_twin attefa", "twin", "imposed")):
        means = [np.mean([slow.f1(gold, each, classes) for each in models[name]]) for name in (first, second)]
        assert found[kind].value == pytest.approx(means[0] - means[1], abs=1e-10)
        ends = slow.bootstrap_f1_difference(gold, models[first], models[second], classes, 600, 1)
        assert (found[kind].low, found[kind].high) == pytest.approx(ends, abs=0.03)
        assert found[kind].n == N
    assert found["imposed_twin attefa"].high < 0


def test_a_text_that_is_hard_for_both_is_no_difference(tmp_path):
    """Equal predictions differ in no resample; each alone has a wide interval."""
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, N).tolist()
    base = chances(generator, gold, 2, 0.5)
    found = f1_differences([folder(tmp_path / "run", gold, base, {"uniform": base})])
    assert (found["uniform"].value, found["uniform"].low, found["uniform"].high) == (0, 0, 0)
    low, high = slow.bootstrap_f1(gold, said(base), 2, 200, 0)
    assert high - low > 0.1


def test_texts_that_are_left_out_are_so_for_all(tmp_path):
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, N)
    base, uniform = (np.array(chances(generator, gold, 2, right)) for right in (0.9, 0.7))
    gold[3] = -1
    base[5] = np.nan
    kept = [i for i in range(N) if i not in (3, 5)]
    expected = [classification_metrics(each[kept], gold[kept])["f1"] for each in (uniform, base)]
    run = folder(tmp_path / "run", gold.tolist(), base.tolist(), {"uniform": uniform.tolist(), "imposed": None})
    found = f1_differences([run])
    assert list(found) == ["uniform"]
    assert found["uniform"].n == N - 2
    assert found["uniform"].value == pytest.approx(expected[0] - expected[1], abs=1e-10)


def test_several_labels(tmp_path):
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, (N, 3))
    base, mlp = generator.random((2, N, 3))
    more = {"label_names": ["a", "b", "c"], "multi_label": True}
    found = f1_differences([folder(tmp_path / "run", gold.tolist(), base.tolist(), {"mlp": mlp.tolist()}, **more)])
    expected = [classification_metrics(each, gold, True)["f1"] for each in (mlp, base)]
    assert found["mlp"].value == pytest.approx(expected[0] - expected[1], abs=1e-10)
    assert found["mlp"].reference == "(base)"
    assert found["mlp"].low < found["mlp"].value < found["mlp"].high


def test_runs_without_predictions_of_controls_have_no_differences(tmp_path):
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 2, N).tolist()
    base = chances(generator, gold, 2, 0.9)
    assert f1_differences([folder(tmp_path / "none", gold, base, {})]) == {}
    assert f1_differences([folder(tmp_path / "old", gold, base, {"uniform": None})]) == {}
    unknown = folder(tmp_path / "unknown", [-1] * N, base, {"uniform": base})
    assert f1_differences([unknown]) == {}
    runs = [folder(tmp_path / "a", gold, base, {"uniform": base})]
    runs.append(folder(tmp_path / "b", gold, base, {"uniform": base}, 2, examples=[f"x-{i}" for i in range(N)]))
    with pytest.raises(InputError, match="hold different examples"):
        f1_differences(runs)


def test_examples_in_docstrings():
    assert doctest.testmod(f1).failed == 0
