"""Twins of the models of the set: their numbers beside a loop over texts, and which of them are trained again."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from attn_faithful.bench import twins
from attn_faithful.bench.entries import measured_by_function
from attn_faithful.bench.making import word_ids
from attn_faithful.bench.measured import Measured, TextValues
from attn_faithful.bench.measuring import lines_of_tests, scores_of_tests
from attn_faithful.bench.submitting import Bench
from attn_faithful.bench.texts import DATA, training_texts
from attn_faithful.bench.twins import (
    NO_WEIGHTS_OF_ATTENTION,
    OTHER_ARCHITECTURE,
    TwinTraining,
    compare_twins,
    trained_twin,
    with_twins,
)
from attn_faithful.bench.verdicts import Said
from attn_faithful.bench_results import read_results
from attn_faithful.cli import main
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.functional.reasons import NEVER_MOVED
from attn_faithful.loading import load
from attn_faithful.training.settings import TwinSettings
from tests.reference.divergences import jsd, tvd

QUICK = TwinTraining(TwinSettings(epochs=2, batch_size=100, learning_rate=0.02), n_texts=200, n_selection=50)
WITHOUT_WEIGHTS = {"uniform": NO_WEIGHTS_OF_ATTENTION}
NUMBERS = ("attefa", "tvd", "jsd")


def reason_of(model):
    """Why a model of the small set has no twin; None where it has one."""
    return OTHER_ARCHITECTURE if model.encoder == "bert" else WITHOUT_WEIGHTS.get(model.kind)


@pytest.fixture(scope="module")
def kept(small_set, tmp_path_factory):
    """A folder with the numbers of all twins, and the twins."""
    folder = tmp_path_factory.mktemp("twins")
    return folder, compare_twins(small_set, folder, training=QUICK)


@pytest.fixture
def counted(monkeypatch):
    """How often the twin of each model was trained."""
    trained = Counter()
    train = twins.trained_twin

    def counts(model, base, training):
        trained[model.name] += 1
        return train(model, base, training)

    monkeypatch.setattr(twins, "trained_twin", counts)
    return trained


def same(some, others):
    assert [one.model.name for one in some] == [one.model.name for one in others]
    for one, other in zip(some, others, strict=True):
        assert one.collapsed is other.collapsed
        assert one.examples == other.examples
        assert list(one.numbers) == list(other.numbers) == list(NUMBERS)
        for metric in NUMBERS:
            np.testing.assert_array_equal(one.numbers[metric].values, other.numbers[metric].values)
            assert one.numbers[metric].reasons == other.numbers[metric].reasons


# the numbers


@pytest.mark.parametrize("name", ["imposed-none-single-0", "leaky-none-single-0", "free-cnn-single-0"])
def test_numbers_are_those_of_a_loop_over_texts(small_set, kept, name):
    """Text by text, without a batch; 1e-5: batch against single in float32. Of "leaky" the twin has its own path."""
    twin = next(one for one in kept[1] if one.model.name == name)
    base, tokenizer = load(small_set.model_folder(twin.model))
    trained = trained_twin(twin.model, base, QUICK)
    assert type(trained) is type(base)
    assert {parameter.requires_grad for parameter in trained.parameters()} == {True}
    texts = small_set.texts["single"]
    assert twin.examples == [text.example for text in texts]
    tvds, jsds, chances = [], [], []
    for text in texts:
        batch = tokenizer(text.text, return_tensors="pt")
        outputs = []
        for model in (trained, base):
            with torch.no_grad():
                output = model(**batch)
            logits = output.logits[0].double().numpy()
            e = np.exp(logits - logits.max())
            outputs.append((e / e.sum(), output.attentions[0].double().numpy()))
        (p, a), (q, b) = outputs
        tvds.append(tvd(p, q))
        jsds.append(jsd(a, b))
        chances.append(q[1])
    ratios = [min(d / (j / math.log(2)), 1) for d, j in zip(tvds, jsds, strict=True)]
    for metric, expected in (("tvd", tvds), ("jsd", jsds), ("attefa", ratios)):
        np.testing.assert_allclose(twin.numbers[metric].values, expected, atol=1e-5)
        assert twin.numbers[metric].reasons == [None] * len(texts)
    constant = np.mean(np.abs(chances - np.median(chances)))
    assert twin.collapsed is bool(np.mean(tvds) >= 0.9 * constant)


def test_what_there_is_to_find_is_found(small_set):
    """As trained for the bench: the states of "free" say everything everywhere, those of "pinned" one word alone."""
    found = {}
    for model in small_set.manifest.models:
        if model.name in ("free-cnn-single-0", "pinned-none-single-0"):
            twin = twins._compared(small_set, model, twins.TRAINING)
            found[model.kind] = {metric: column.values.mean() for metric, column in twin.numbers.items()}
    assert found["free"]["jsd"] > 0.5
    assert found["free"]["tvd"] < 0.1
    assert found["pinned"]["attefa"] > 0.3


def test_models_without_a_twin_are_undefined_and_counted(small_set, kept):
    for twin in kept[1]:
        reason = reason_of(twin.model)
        for metric in NUMBERS:
            column = twin.numbers[metric]
            assert bool(np.isnan(column.values).all()) is (reason is not None)
            assert set(column.reasons) == {reason}
        assert (twin.collapsed is None) is (reason is not None)
    scores = scores_of_tests(with_twins(nothing_measured(small_set), kept[1]))
    assert {(score.metric, score.source) for score in scores} == {(metric, "attefa") for metric in NUMBERS}
    n = Counter(reason_of(model) for model in small_set.manifest.models)
    for score in scores:
        if score.kind == "all" and score.level == "model":
            assert score.n_undefined == n[OTHER_ARCHITECTURE] + n[NO_WEIGHTS_OF_ATTENTION] > 0
            assert score.reasons == {reason: n[reason] for reason in (OTHER_ARCHITECTURE, NO_WEIGHTS_OF_ATTENTION)}
            assert 0 <= score.auc <= 1
    assert {line.metric for line in lines_of_tests(with_twins(nothing_measured(small_set), kept[1]))} == set(NUMBERS)


def nothing_measured(small_set):
    """Every model of the set, without any number yet."""
    found = []
    for model in small_set.manifest.models:
        texts = small_set.texts[model.data]
        lengths = np.array([text.length for text in texts])
        found.append(Measured(model, [text.example for text in texts], lengths, {}))
    return found


def test_attefa_of_a_model_is_the_ratio_of_means_over_proven_texts(small_set, kept):
    """Its texts in any order, and beside the numbers that are there."""
    measured = measured_by_function(small_set, lambda m, t, texts: list(range(len(texts))), "mine", kept[0] / "none")
    turned = []
    for one in measured:
        unproven = replace(one.model, unproven=one.examples[:3])
        column = one.numbers["mine", "attention"]
        back = {("mine", "attention"): TextValues(column.values[::-1], column.reasons[::-1])}
        turned.append(Measured(unproven, one.examples[::-1], one.lengths[::-1], back, {("mine", "attention"): 7.0}))
    for one, twin in zip(with_twins(turned, kept[1]), kept[1], strict=True):
        tvds, jsds = twin.numbers["tvd"].values, twin.numbers["jsd"].values
        assert list(one.numbers) == [("mine", "attention"), *((metric, "attefa") for metric in NUMBERS)]
        np.testing.assert_array_equal(one.numbers["tvd", "attefa"].values, tvds[::-1])
        np.testing.assert_array_equal(one.numbers["mine", "attention"].values, np.arange(len(tvds))[::-1])
        assert one.of_model["mine", "attention"] == 7.0
        ratio = min(tvds[3:].mean() / (jsds[3:].mean() / math.log(2)), 1)
        assert one.of_model["attefa", "attefa"] == pytest.approx(ratio, abs=1e-12, nan_ok=True)


def test_the_texts_that_the_best_epoch_is_chosen_on_are_others():
    train, selection = twins._training_rows("several", 1, 30, 10)
    texts = training_texts(DATA["several"], 40, 1)
    assert [*train["example"], *selection["example"]] == [text.example for text in texts]
    ids = word_ids()
    assert selection[3]["input_ids"].tolist() == [ids[word] for word in texts[33].text.split()]
    assert selection["labels"] == [text.label for text in texts[30:]]


# what is kept


def test_finished_twins_are_kept(small_set, kept, counted):
    folder, found = kept
    same(compare_twins(small_set, folder, training=QUICK), found)
    assert not counted
    assert sorted(file.name for file in folder.glob("*.json")) == sorted(f"{one.model.name}.json" for one in found)


def test_a_never_moved_twin_is_kept_with_its_reason(small_set, tmp_path, monkeypatch, counted):
    """A twin that is its base: JSD 0, of which AtteFa is undefined."""
    share = slice(0, 1)
    monkeypatch.setattr(twins, "trained_twin", lambda model, base, training: base)
    first = compare_twins(small_set, tmp_path, share=share, training=QUICK)
    assert set(first[0].numbers["attefa"].reasons) == {NEVER_MOVED}
    assert set(first[0].numbers["jsd"].values) == {0.0}
    monkeypatch.undo()
    same(compare_twins(small_set, tmp_path, share=share, training=QUICK), first)


@pytest.mark.parametrize("what", ["set", "model", "training", "file"])
def test_numbers_of_something_else_are_not_taken(small_set, tmp_path, counted, what):
    share = slice(0, 1)
    (model,) = small_set.manifest.models[share]
    compare_twins(small_set, tmp_path, share=share, training=QUICK)
    frozen, training = small_set, QUICK
    if what == "set":
        frozen = replace(small_set, sha256="0" * 64)
    elif what == "model":
        changed = replace(model, sha256={**model.sha256, "model.safetensors": "0" * 64})
        frozen = replace(small_set, manifest=replace(small_set.manifest, models=[changed]))
    elif what == "training":
        training = replace(QUICK, n_texts=250)
    else:
        (tmp_path / f"{model.name}.json").write_text("{", encoding="utf-8")
    for _ in range(2):
        compare_twins(frozen, tmp_path, share=share, training=training)
        assert counted == {model.name: 2}


def test_an_interrupted_run_goes_on(small_set, kept, tmp_path, counted, monkeypatch):
    train = twins.trained_twin

    def stops(model, base, training):
        if counted.total() == 3:
            raise KeyboardInterrupt
        return train(model, base, training)

    monkeypatch.setattr(twins, "trained_twin", stops)
    with pytest.raises(KeyboardInterrupt):
        compare_twins(small_set, tmp_path, training=QUICK)
    monkeypatch.setattr(twins, "trained_twin", train)
    told = []
    same(compare_twins(small_set, tmp_path, lambda *state: told.append(state), training=QUICK), kept[1])
    with_twin = [model.name for model in small_set.manifest.models if reason_of(model) is None]
    assert counted == dict.fromkeys(with_twin, 1)
    n = len(small_set.manifest.models)
    assert told == [(done, n) for done in range(n + 1)]


def test_processes_share_the_twins(small_set, kept, tmp_path, counted, monkeypatch):
    """Two, one after the other; then all are there, the same that one process trains."""
    compare = twins.compare_twins
    monkeypatch.setattr(
        "attn_faithful.bench.submitting.compare_twins",
        lambda frozen, output, **progress_and_share: compare(frozen, output, **progress_and_share, training=QUICK),
    )
    bench = Bench(small_set, tmp_path)
    waited = []
    names = [model.name for model in small_set.manifest.models if reason_of(model) is None]
    for rank in (1, 0):
        counted.clear()
        bench.train_twins(processes=ProcessGroup(rank, 2, waited.append))
        own = [model.name for model in small_set.manifest.models[rank::2]]
        assert counted == {name: 1 for name in names if name in own}
    counted.clear()
    assert waited == ["twins", "twins"]
    same(compare(small_set, tmp_path / "twins", training=QUICK), kept[1])
    assert not counted


# the command


@pytest.mark.parametrize("flags", [[], ["--no-twins"]])
def test_the_command_has_attefa_unless_it_is_left_out(small_set, kept, tmp_path, capsys, monkeypatch, flags):
    """Without the other tests, which run elsewhere."""
    asked = Counter()

    def compared(*args, **kwargs):
        asked["twins"] += 1
        return kept[1]

    monkeypatch.setattr("attn_faithful.bench.submitting.compare_twins", compared)
    monkeypatch.setattr("attn_faithful.bench.submitting.run_all_tests", lambda *args, **kwargs: [])
    monkeypatch.setattr("attn_faithful.bench.submitting.measured", lambda frozen, models: constants(frozen))
    monkeypatch.setattr("attn_faithful.bench.submitting.explained_by_sources", lambda frozen, models: {})
    said = [Said(model.kind, {"verdict": "for" if model.explains else "mixed"}) for model in small_set.manifest.models]
    monkeypatch.setattr("attn_faithful.bench.submitting.said_of", lambda models: said)
    status = main(["bench", str(small_set.folder), "--output", str(tmp_path), *flags])
    assert status == 0, capsys.readouterr().err
    results = read_results([tmp_path / "bench" / small_set.sha256[:8] / "results"])
    metrics = {result.name: {score.metric for score in result.scores} for result in results}
    expected = {} if flags else {"attefa": set(NUMBERS)}
    assert metrics == {**expected, "verdict": {"verdict"}}
    assert asked["twins"] == (0 if flags else 1)


def constants(frozen):
    found = []
    for one in nothing_measured(frozen):
        n = len(one.examples)
        found.append(replace(one, numbers={("mine", "attention"): TextValues(np.ones(n), [None] * n)}))
    return found


def test_twins_and_models_of_another_number_are_an_error(small_set, kept):
    with pytest.raises(ValueError, match="shorter"):
        with_twins(nothing_measured(small_set), kept[1][:-1])
