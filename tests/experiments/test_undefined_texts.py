"""What one text raises loses that text alone, with the reason; labels that do not fit are told before any work."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BartConfig, BartForSequenceClassification, PreTrainedTokenizerFast

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES
from attn_faithful.cli import main
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments import run_block as testing
from attn_faithful.experiments import undefined_texts as failing
from attn_faithful.models.pooled import AttentionClassifier
from attn_faithful.reports.report import report
from tests.experiments.tiny import cells, run
from tests.models.examples import small_model

TEXTS = ["shame", "shame united", "united shame dud", "something shame united played", "played dud united shame dud"]
TESTS = ["correlation", "permutation"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "cell"
    return run(cells(model={"encoder": "lstm", "embedding_size": 6, "hidden_size": 6}, twin=None)[0], folder) / "model"


def rows(*texts):
    return [{"id": f"t{i}", "text": text, "label": "positive"} for i, text in enumerate(texts or TEXTS)]


def of_length(n):
    """Whether a batch holds a text of so many tokens."""

    def holds(batch):
        return bool((batch["attention_mask"].sum(1) == n).any())

    return holds


def breaking(monkeypatch, where, name, holds, error):
    """A function that raises where a batch, a request or a block holds a text."""
    whole = getattr(where, name)

    def broken(*given, **named):
        if holds(given):
            raise error
        return whole(*given, **named)

    monkeypatch.setattr(where, name, broken)


def evaluated(model, output, texts=None, **settings):
    loaded, tokenizer = af.load(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", failing.UndefinedTextWarning)
        result = af.evaluate_attention(loaded, tokenizer, texts or rows(), TESTS, output=output, **settings)
    return result, [str(w.message) for w in caught if w.category is failing.UndefinedTextWarning]


def by_example(result):
    scores = result.folder.read_table("scores").to_pandas()
    return dict(iter(scores.groupby("example")))


def check_one_is_lost(result, said, reason):
    scores = by_example(result)
    lost, others = scores["t2"], [scores[f"t{i}"] for i in (0, 1, 3, 4)]
    assert lost.value.isna().all()
    assert set(lost.reason) == {reason}
    for own in others:
        assert own.value.notna().any()
        assert reason not in set(own.reason)
        assert set(zip(own.site, own.source, own.metric, strict=True)) == set(
            zip(lost.site, lost.source, lost.metric, strict=True)
        )
    assert said == [f"1 of 5 texts could not be measured and are undefined, the first is 't2': {reason}"]
    assert result.folder.read_meta()["failed"] == {"t2": reason}
    table = result.table()
    assert (table["n"] + table["n_undefined"] == 5).all()
    assert all(why[reason] == 1 for why in table["reasons"])


def test_a_text_that_the_model_cannot_read(model, tmp_path, monkeypatch):
    whole, _ = evaluated(model, tmp_path / "whole")
    holds = of_length(3)
    breaking(monkeypatch, AttentionClassifier, "encode", lambda given: holds(given[1]), ValueError("three\nwords"))
    result, said = evaluated(model, tmp_path / "out")
    check_one_is_lost(result, said, "not measured: ValueError: three words")
    chances = result.folder.read_table("predictions").column("probabilities").to_pylist()
    assert np.isnan(chances[2]).all()
    attention = result.folder.read_table("tokens").to_pylist()[2]
    assert attention["tokens"] == ["united", "shame", "dud"]
    assert np.isnan(attention["attention"]).all()
    expected, found = by_example(whole), by_example(result)
    for example in ("t0", "t1", "t3", "t4"):
        np.testing.assert_allclose(found[example].value, expected[example].value, atol=1e-5)
    right = [p[1] > 0.5 for i, p in enumerate(chances) if i != 2]
    assert result.folder.read_summary()["base"]["accuracy"] == pytest.approx(np.mean(right))
    counts = {r["class"]: r["n"] + r["n_undefined"] for r in result.folder.read_summary()["tests"]}
    assert counts["negative"] + counts["positive"] == 4  # it was not predicted at all
    json.dumps(result.folder.read_summary(), allow_nan=False)
    report([result.folder.path], tmp_path / "report")  # tables, figures and page of a run with such a text


@pytest.mark.parametrize("part", ["source", "test"])
def test_a_text_that_a_source_or_a_test_cannot_take(model, tmp_path, monkeypatch, part):
    holds = of_length(3)
    if part == "source":
        source = SOURCES["leave_one_out"]
        monkeypatch.setitem(
            SOURCES._entries,
            "leave_one_out",
            lambda request: 1 / 0 if holds(request.batch) else source(request),
        )
    else:
        evaluator = EVALUATORS["permutation"]
        broken = lambda block, settings: (  # noqa: E731
            1 / 0 if bool((block.encoded.content.sum(1) == 3).any()) else evaluator.run(block, settings)
        )
        monkeypatch.setitem(EVALUATORS._entries, "permutation", replace(evaluator, run=broken))
    result, said = evaluated(model, tmp_path)
    check_one_is_lost(result, said, "not measured: ZeroDivisionError: division by zero")
    chances = result.folder.read_table("predictions").column("probabilities").to_pylist()
    assert np.isfinite(chances).all()  # the model itself could read it


def test_the_command_line_tells_it_once_and_of_finished_runs_too(model, tmp_path, monkeypatch, capsys):
    path = tmp_path / "texts.csv"
    path.write_text("\n".join(["id,text,label", *(f"{r['id']},{r['text']},{r['label']}" for r in rows())]))
    holds = of_length(3)
    breaking(monkeypatch, AttentionClassifier, "encode", lambda given: holds(given[1]), ValueError("no"))
    command = ["evaluate", str(model), "--data", str(path), "--tests", "entropy", "--output", str(tmp_path / "out")]
    for _ in range(2):
        assert main(command) == 0
        said = capsys.readouterr().err
        assert said.count("1 of 5 texts could not be measured and are undefined, the first is 't2'") == 1
        assert "Traceback" not in said


def test_what_every_text_raises_is_raised(model, tmp_path, monkeypatch):
    asked = []
    breaking(
        monkeypatch, testing.Tester, "measure", lambda given: asked.append(given[1].first) or True, KeyError("wrong")
    )
    with pytest.raises(KeyError, match="wrong"):
        evaluated(model, tmp_path / "few")
    many = rows(*("shame " * n for n in range(1, 40)))
    asked.clear()
    with pytest.raises(KeyError, match="wrong"):
        evaluated(model, tmp_path / "many", many)
    assert len(asked) == 1 + failing.PATIENCE  # and not of every text first
    assert not list(tmp_path.rglob("meta.json"))


@pytest.mark.parametrize(
    "error", [InputError("a setting"), MemoryError(), OSError(5, "broken"), RuntimeError("out of memory")]
)
def test_what_is_of_the_run_stops_at_once(model, tmp_path, monkeypatch, error):
    asked = []
    breaking(monkeypatch, testing.Tester, "measure", lambda given: asked.append(1) or True, error)
    with pytest.raises(type(error)):
        evaluated(model, tmp_path)
    assert len(asked) == 1


def words_with_an_end():
    """A tokenizer of whole words to which "</s>" in a text is its end of a text, whatever it is told."""
    words = ["<s>", "<pad>", "</s>", "<unk>", "good", "bad", "film", "a"]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def test_an_end_of_text_within_a_text_under_bart(tmp_path):
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    bart = BartForSequenceClassification(
        BartConfig(
            vocab_size=8,
            d_model=8,
            encoder_ffn_dim=8,
            decoder_ffn_dim=8,
            max_position_embeddings=20,
            num_labels=2,
            pad_token_id=1,
            bos_token_id=0,
            eos_token_id=2,
            **sizes,
        )
    ).eval()
    texts = ["good film", "a bad film", "good </s> film bad", "bad", "a good film a"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = af.evaluate_attention(bart, words_with_an_end(), texts, ["correlation"], output=tmp_path)
    scores = result.folder.read_table("scores").to_pandas()
    failed = result.folder.read_meta()["failed"]
    ((example, reason),) = failed.items()
    assert "eos" in reason
    lost, others = scores[scores.example == example], scores[scores.example != example]
    assert lost.value.isna().all()
    assert set(others.example) == set(result.examples["example"]) - {example}
    assert others.groupby("example").value.apply(lambda values: values.notna().any()).all()
    assert sum("could not be measured" in str(w.message) for w in caught) == 1


def several_labels():
    model = small_model(num_labels=3, output="multi_label", dropout=0.0)
    model.config.id2label = {0: "rude", 1: "threat", 2: "spam"}
    model.config.label2id = {"rude": 0, "threat": 1, "spam": 2}
    return model


def test_one_label_a_text_for_a_model_of_several_is_one_yes(model, tmp_path):
    _, tokenizer = af.load(model)
    many, texts = several_labels(), ["shame", "shame shame"]
    many.config.vocab_size = 20
    many.resize_token_embeddings(len(tokenizer))
    data = [{"text": text, "label": label} for text, label in zip(texts, ("spam", "rude"), strict=True)]
    result = af.evaluate_attention(many, tokenizer, data, ["entropy", "correlation"], output=tmp_path)
    labels = result.folder.read_table("predictions").column("label").to_pylist()
    assert labels == [[0, 0, 1], [1, 0, 0]]
    assert any("one label a text" in note for note in result.folder.read_meta()["data"]["notes"])
    chances = np.array(result.folder.read_table("predictions").column("probabilities").to_pylist())
    expected = np.mean(((chances > 0.5) == np.array(labels)).all(1))
    assert result.folder.read_summary()["base"]["accuracy"] == pytest.approx(expected)


def test_several_labels_a_text_for_a_model_of_one_are_refused_before_any_work(model, tmp_path, monkeypatch):
    loaded, tokenizer = af.load(model)
    monkeypatch.setattr(testing.Tester, "measure", lambda *given: pytest.fail("work was done"))
    data = [{"text": "shame", "label": [1, 0]}, {"text": "shame dud", "label": [1, 1]}]
    with pytest.raises(InputError, match=r"one class a text, but the texts of .* have several labels each"):
        af.evaluate_attention(loaded, tokenizer, data, ["entropy"], output=tmp_path, multi_label=True)
    assert not list(tmp_path.iterdir())
