"""`attn_faithful.explain`: what it takes, what it asks of a text, and what becomes of its files."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

TEXTS = ["good film", "a bad film", "not good , not bad", "good film"]


@pytest.fixture(scope="module")
def trained():
    tokenizer = train_tokenizer(TEXTS)
    torch.manual_seed(0)
    settings = {"encoder": "mlp", "embedding_size": 8, "hidden_size": 8, "id2label": {0: "bad", 1: "good"}}
    return AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), **settings)), tokenizer


def keys(found):
    return [line.kind.key for line in found.lines]


def test_one_text(trained):
    found = af.explain(*trained, "not good , not bad")
    assert len(found) == 1
    assert found[0].words == ["not", "good", ",", "not", "bad"]
    assert {"attention", "adversarial", "input_x_gradient", "leave_one_out"} <= set(keys(found[0]))
    attention = next(line for line in found[0].lines if line.kind.key == "attention")
    assert attention.values.sum() == pytest.approx(1, abs=1e-6)
    assert "exact" in next(line for line in found[0].lines if line.kind.key == "adversarial").note
    assert found[0].title.startswith("#1, predicted ")


def test_the_numbers_are_those_of_an_evaluation(trained, tmp_path):
    found = af.explain(*trained, TEXTS, output=tmp_path / "a")
    tests = ["correlation", "permutation", "adversarial", "flips"]
    whole = af.evaluate_attention(*trained, TEXTS, tests, output=tmp_path / "b")
    told = {(r.metric, r.source): r.mean for r in whole.records if r.group == "all"}
    own = {(r.metric, r.source): r.mean for r in found.run.records if r.group == "all"}
    assert own
    assert own == pytest.approx({key: told[key] for key in own}, abs=0, rel=0, nan_ok=True)


def test_a_list_keeps_equal_texts_apart_and_a_file_is_read(trained, tmp_path):
    found = af.explain(*trained, TEXTS, tests=["adversarial"])
    assert [" ".join(one.words) for one in found] == TEXTS
    (tmp_path / "data.csv").write_text("text,label\ngood film,good\na bad film,bad\n")
    read = af.explain(*trained, tmp_path / "data.csv", tests=["adversarial"])
    assert {" ".join(one.words) for one in read} <= set(TEXTS)


def test_sources(trained):
    found = af.explain(*trained, "a bad film", sources=["saliency", "occlusion"], tests=["correlation"])
    assert {"saliency", "occlusion"} <= set(found.run.read("tokens").column_names)
    assert "leave_one_out" not in found.run.read("tokens").column_names
    assert keys(found[0]) == ["attention", "saliency"]
    with pytest.raises(InputError, match="Did you mean 'saliency'"):
        af.explain(*trained, "a bad film", sources=["salience"])


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_an_error(trained, text):
    with pytest.raises(InputError, match="Expected a text to explain, but it is empty"):
        af.explain(*trained, text)


def test_files_go_with_the_explanation_unless_a_folder_was_named(trained, tmp_path):
    found = af.explain(*trained, "good film", tests=["adversarial"])
    folder = Path(found.path)
    assert folder.is_dir()
    page = found.save(tmp_path / "page.html")
    del found
    gc.collect()
    assert not folder.exists()
    assert "one text, seed 0" in page.read_text(encoding="utf-8")
    kept = af.explain(*trained, "good film", tests=["adversarial"], output=tmp_path / "runs")
    path = kept.path
    del kept
    gc.collect()
    assert path.is_dir()
