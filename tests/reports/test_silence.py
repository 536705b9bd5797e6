"""What was not measured is not claimed: copies of a text, tests that are undefined everywhere, texts of nothing."""

from __future__ import annotations

import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.run import Run
from tests.models.examples import small_model

TESTS = ["correlation", "permutation", "adversarial", "flips"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["a good film", "bad and long"])


def asked(tokenizer, output, texts, tests=TESTS, **settings):
    model = small_model(num_labels=2, vocab_size=len(tokenizer), **settings)
    result = af.evaluate_attention(
        model, tokenizer, texts, tests, output=output, settings={"controls": []}, progress=False
    )
    return answer(Run(result.path))


def test_copies_of_two_texts_are_two_texts(tokenizer, tmp_path):
    rows = [{"text": text, "label": "LABEL_0"} for text in ("a good film", "A  good film", "bad film")] * 12
    found = asked(tokenizer, tmp_path, rows, ["entropy"])
    assert found.verdict_text.startswith("No verdict: few texts, 2 different ones of at least 30;")
    assert "Only 2 of 36 texts are different; intervals take each copy for a text of its own" in found.doubts[0]
    assert found.few == "few texts: 2"


def test_some_copies_are_no_news(tokenizer, tmp_path):
    texts = ["a good film", "good film", "film a", "bad", "long", "a bad film", "good", "and", "a", "film", "a"]
    assert not asked(tokenizer, tmp_path, texts, ["entropy"]).doubts


def test_tests_that_are_undefined_everywhere_say_so(tokenizer, tmp_path):
    found = asked(tokenizer, tmp_path, ["a good film", "bad film", "long"], attention="uniform", encoder="mlp")
    assert (
        "The tests correlation, permutation say nothing of these texts: constant attention (2), n<2 (1)."
        in found.statements
    )
    found = asked(tokenizer, tmp_path, ["", " "], ["correlation", "flips"])
    assert found.statements == ["The tests correlation, flips say nothing of these texts: no content token (2)."]


def test_the_same_answer_of_one_text_is_said_with_its_limit(tokenizer, tmp_path):
    found = asked(tokenizer, tmp_path, ["a good film"], ["adversarial"])
    assert any("the same answer" in said and "(p within 0.01)" in said for said in found.statements)


@pytest.mark.parametrize("given", ["", " \n", ["", " "]])
def test_a_text_of_nothing_is_not_explained(tokenizer, tmp_path, given, capsys):
    model = small_model(num_labels=2, vocab_size=len(tokenizer))
    with pytest.raises(InputError, match="Expected a text to explain, but it is empty"):
        af.explain(model, tokenizer, given)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = [given] if isinstance(given, str) else given
    assert main(["explain", str(tmp_path), *texts]) == 2
    assert "Expected a text to explain" in capsys.readouterr().err
