"""Weights of heads from training texts, as a user meets them: fitted once a run, stored with it, the same for all."""

from __future__ import annotations

import json

import datasets
import numpy as np
import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.head_fitting import FitTexts, contents, learn_heads
from attn_faithful.experiments.inputs import encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.functional.learned_heads import FOLDS, STRENGTHS
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.records.learned_heads import LearnedHeads
from attn_faithful.reports.run import Run
from tests.data.pieces import wordpiece
from tests.experiments.test_evaluation_stock import NAMES, TEXTS, bert
from tests.reference import learned_heads as slow

WORDS = ("good", "bad", "movie", "movies", "not", "unbelievably")
ASKED = {"extra_sources": ["learned_heads", "leave_one_out"], "controls": []}
NOT_ASKED = {"extra_sources": []}


def training_texts(n: int = 30) -> list[dict[str, str]]:
    generator = np.random.default_rng(0)
    found = []
    for number in range(n):
        words = generator.choice(WORDS, size=int(generator.integers(2, 7)))
        found.append({"id": f"t{number}", "text": " ".join(words), "label": ("negative", "positive")[number % 2]})
    return found


def splits(train=None, test=TEXTS):
    return datasets.DatasetDict(
        train=datasets.Dataset.from_list(train or training_texts()), test=datasets.Dataset.from_list(test)
    )


@pytest.fixture(scope="module")
def model():
    tokenizer = wordpiece()
    network = bert(tokenizer, **NAMES)
    with torch.no_grad():
        network.classifier.weight.mul_(20)  # sure of its decisions, so that log-odds and probabilities differ
    return af.wrap(network), tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, tokenizer = tmp_path_factory.mktemp("bert"), wordpiece()
    bert(tokenizer, **NAMES).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def evaluate(model, output, data=None, settings=None, fit_texts=20, **more):
    settings = {**ASKED, **(settings or {})}
    data = data or splits()
    return af.evaluate_attention(
        *model, data, ["entropy"], output=output, settings=settings, fit_texts=fit_texts, **more
    )


@pytest.fixture(scope="module")
def evaluated(model, tmp_path_factory):
    return evaluate(model, tmp_path_factory.mktemp("run"))


def stored(result) -> LearnedHeads:
    return LearnedHeads.from_json(json.loads((result.path / "learned_heads.json").read_text()))


def log_odds(logits, target: int) -> float:
    return float(logits[0, target] - logits[0, 1 - target])


@torch.no_grad()
def attention_and_importance(model, text: str):
    """By hand: a model left to itself, word by word."""
    plain, tokenizer = model[0].model, model[1]
    inputs = tokenizer(text, return_tensors="pt")
    plain.set_attn_implementation("eager")
    output = plain(**inputs, output_attentions=True)
    plain.set_attn_implementation("sdpa")
    words = np.array([-1 if word is None else word for word in inputs.word_ids()])
    tokens = np.stack([layer[0, head, 0].numpy() for layer in output.attentions for head in range(2)])  # (F, tokens)
    n_words = words.max() + 1
    x = np.array([tokens[:, words == word].sum(1) for word in range(n_words)], dtype=np.float64)
    target = int(output.logits.argmax())
    y = []
    ids = inputs["input_ids"][0]
    for word in range(n_words):
        rest = ids[torch.tensor(words != word)][None]
        without = plain(input_ids=rest).logits
        y.append(log_odds(output.logits, target) - log_odds(without, target))
    return x, np.array(y)


def test_weights_are_those_of_texts_that_were_read_by_hand(model, evaluated):
    learned = stored(evaluated)
    chosen = FitTexts.drawn(_data(splits()), "train", 20, 0, [json.dumps([text["text"], None]) for text in TEXTS])
    by_hand = [attention_and_importance(model, text) for text in chosen.texts["text"]]
    weights, strength, r_squared, tau = slow.fit(by_hand, STRENGTHS, FOLDS)
    assert (learned.texts, learned.strength) == (20, strength)
    assert learned.fitted_on == "train of data"
    # a float32 model's importance is known to some 1e-7, which the weights of a weak ridge enlarge
    np.testing.assert_allclose(np.concatenate(learned.weights), weights, rtol=0, atol=2e-3 * np.abs(weights).max())
    assert learned.r_squared == pytest.approx(r_squared, abs=1e-4)
    assert learned.tau == pytest.approx(tau, abs=0.05)


def _data(splits_):
    from attn_faithful.data.settings import DataSettings
    from attn_faithful.data.sources import load_texts

    return load_texts(DataSettings("data"), rows=splits_, purpose="evaluate", label_names=["negative", "positive"])


@pytest.mark.parametrize("error", [RuntimeError, InputError])
def test_a_text_that_makes_the_model_raise_is_left_out(model, tmp_path, monkeypatch, error):
    from attn_faithful.experiments import head_fitting

    def raising(name, request):
        if (request.batch["input_ids"] == movie).any():
            raise error("not this word")
        return attribute(name, request)

    attribute = head_fitting.attribute
    (movie,) = model[1]("movie", add_special_tokens=False)["input_ids"]
    monkeypatch.setattr(head_fitting, "attribute", raising)
    if error is InputError:  # of the settings, and so of every text
        with pytest.raises(InputError, match="not this word"):
            evaluate(model, tmp_path)
        return
    learned = stored(evaluate(model, tmp_path, fit_texts=30))
    without = [text for text in training_texts() if "movie" not in text["text"]]
    assert 0 < learned.texts < 30
    assert learned.texts <= len({text["text"] for text in without})


def test_the_source_is_the_mix_of_heads(model, evaluated):
    weights = np.concatenate(stored(evaluated).weights)
    row = evaluated.tokens.set_index("example").loc["d"]
    attention, _ = attention_and_importance(model, TEXTS[3]["text"])
    np.testing.assert_allclose(row["learned_heads"], attention @ weights, atol=1e-5 * np.abs(weights).max())


def test_the_run_tells_how_they_were_fitted(evaluated):
    notes = [note for note in evaluated.info.data.notes if note.startswith("learned_heads")]
    assert notes == [stored(evaluated).summary]
    assert Run(evaluated.path).learned_heads == stored(evaluated)


def test_training_texts_are_in_the_runs_name(model, evaluated, tmp_path):
    other = evaluate(model, tmp_path, splits(training_texts(31)))
    assert other.path.name != evaluated.path.name
    # what is tested and what is not drawn aside, the texts of the draw are what counts
    backwards = evaluate(model, tmp_path, splits(training_texts()[::-1]))
    assert stored(backwards) == stored(evaluated)
    fewer = evaluate(model, tmp_path, fit_texts=10)
    assert fewer.path.name != evaluated.path.name
    assert stored(fewer).texts == 10


def test_without_the_source_nothing_of_it_is_in_the_name(model, tmp_path):
    plain = evaluate(model, tmp_path, settings={"extra_sources": []}, fit_texts=None)
    assert not (plain.path / "learned_heads.json").exists()
    assert Run(plain.path).learned_heads is None
    assert "fit" not in plain.info.identity


def test_a_stopped_run_keeps_its_weights(model, tmp_path, monkeypatch):
    from attn_faithful.experiments import run_evaluation

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_evaluation, "evaluate_rows", stopped)
        with pytest.raises(KeyboardInterrupt):
            evaluate(model, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(run_evaluation, "learn_heads", stopped)
        resumed = evaluate(model, tmp_path)
    assert len(resumed.tokens) == len(TEXTS)


def test_processes_share_the_texts_and_have_the_same_weights(model, evaluated, monkeypatch):
    from attn_faithful.models import blocks

    monkeypatch.setattr(blocks, "ROWS", 3)  # several blocks
    drawn = FitTexts.drawn(_data(splits()), "train", 20, 0, [json.dumps([text["text"], None]) for text in TEXTS])
    rows = Rows.of(encoded_for(model[0], model[1], drawn.texts))
    of_model = EvaluatedModel.of(
        model[0], model[1], collator(rows, (), model[0].pad_token_id), ["negative", "positive"]
    )
    settings = EvaluationSettings(tests=["entropy"])
    shares: list = []

    def of_second(values):
        shares.append(values)
        return [values, values]  # enough texts to go on

    def of_first(values):
        assert 0 < len(values) < 20
        return [values, shares[0]]

    learn_heads(of_model, rows, settings, drawn.name, ProcessGroup(1, 2, gather=of_second))
    together = learn_heads(of_model, rows, settings, drawn.name, ProcessGroup(0, 2, gather=of_first))
    assert together == learn_heads(of_model, rows, settings, drawn.name, SINGLE_PROCESS)
    np.testing.assert_allclose(together.weights, stored(evaluated).weights, rtol=1e-3)  # other blocks round otherwise


def test_texts_that_are_tested_are_never_fitted_on():
    data = _data(splits([*training_texts(8), *TEXTS]))
    tested = contents(data.splits["test"])
    drawn = FitTexts.drawn(data, "train", 100, 0, tested)
    assert not set(contents(drawn.texts)) & set(tested)
    assert len(set(drawn.texts["text"])) == len(drawn.texts) == len({text["text"] for text in training_texts(8)})
    one, other = (FitTexts.drawn(data, "train", 4, seed, tested) for seed in (0, 1))
    assert one.texts["text"] != other.texts["text"]
    assert one.digest != other.digest


def test_other_texts_may_be_given(model, evaluated, tmp_path):
    given = evaluate(model, tmp_path, TEXTS, fit_data=training_texts())
    learned = stored(given)
    assert learned.weights == stored(evaluated).weights
    assert learned.fitted_on == "test of data"
    found = af.explain(
        *model, "good movie, unbelievably bad", sources=["learned_heads"], fit_data=training_texts(), fit_texts=20
    )
    assert "learned_heads" in [line.kind.key for line in found[0].lines]


def test_other_texts_need_no_marks(model, evaluated, tmp_path):
    rows = [{**row, "marks": [1] * len(row["text"].split())} for row in TEXTS]
    asked = {"rationale": "marks", "impermissible": "marks"}
    given = evaluate(model, tmp_path, rows, fit_data=training_texts(), **asked)
    assert stored(given).weights == stored(evaluated).weights


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (TEXTS, {}, "but data has none; give some with --fit-data DATA"),
        (splits(), {"split": "train"}, "but these are the texts that are tested; give some"),
        (TEXTS, {"fit_data": TEXTS}, "all of data are tested"),
        (TEXTS, {"fit_data": training_texts(3)}, "at least 5 texts of two items or more"),
        (
            TEXTS,
            {"fit_data": datasets.DatasetDict(test=splits()["test"], validation=splits()["train"])},
            "Expected a split 'train' in data .* but found validation, test",
        ),
        (splits(), {"fit_texts": 3}, "fit_texts must be an integer of at least 5"),
        (
            TEXTS,
            {"fit_data": TEXTS, "settings": NOT_ASKED, "fit_texts": None},
            "no test asks for the source 'learned_h",
        ),
        (splits(), {"settings": NOT_ASKED}, "no test asks for the source 'learned_heads'"),
    ],
)
def test_what_is_missing_is_told(model, tmp_path, data, more, message):
    with pytest.raises(InputError, match=message):
        evaluate(model, tmp_path, data, **more)
    assert not list(tmp_path.rglob("meta.json"))


def test_models_without_layers_are_told_what_to_use(tmp_path):
    tokenizer = wordpiece()
    config = AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="lstm", id2label=NAMES["id2label"])
    own = AttentionClassifier(config), tokenizer
    for data in (TEXTS, splits()):
        with pytest.raises(InputError, match="'learned_heads' needs a transformers model with layers"):
            evaluate(own, tmp_path, data)


def test_the_command(folder, tmp_path, capsys):
    for name, rows in (("test", TEXTS), ("more", training_texts())):
        lines = [json.dumps(row) for row in rows]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    call = ["evaluate", str(folder), "--data", str(tmp_path / "test.jsonl"), "--tests", "entropy", "--controls", ""]
    call += ["--output", str(tmp_path / "runs"), "--set", "evaluation.extra_sources=[learned_heads]"]
    assert main(call) == 2
    assert "--fit-data" in capsys.readouterr().err
    assert main([*call, "--fit-data", str(tmp_path / "more.jsonl"), "--fit-texts", "20"]) == 0
    assert "learned_heads: weights fitted to leave-one-out on 20 texts (test of more); on" in capsys.readouterr().out
    rows = [{**row, "marks": [0] * len(row["text"].split())} for row in TEXTS]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    marked = ["--set", "data.impermissible=marks", "--set", "data.rationale=marks"]
    assert main([*call, *marked, "--fit-data", str(tmp_path / "more.jsonl"), "--fit-texts", "20"]) == 0
    assert main([*call, "--fit-data", str(tmp_path / "none.jsonl")]) == 2
