"""What every converter gives: rows, files of every kind, words of any model."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.explanations import Explanations, ScoredText
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import kept_file
from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
from tests.data.pieces import Slow
from tests.explanations.test_alignment import KINDS
from tests.explanations.test_alignment import TEXTS as TEXTS_OF_ALL_KINDS
from tests.explanations.tiny import TEXTS
from tests.reference.span_scores import laid_scores

ONE = ScoredText("bad film", ("bad", "film"), ((0, 3), (4, 8)), (1.0, math.nan), "positive")
TWO = ScoredText("caf\u00e9 \U0001f642", ("caf\u00e9", "\U0001f642"), ((0, 4), (5, 6)), (0.5, -0.25))


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_every_kind_of_file_gives_the_same_scores(kind, tmp_path):
    tokenizer = train_tokenizer([ONE.text, TWO.text])
    model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
    path = Explanations("lime", (ONE, TWO)).save(tmp_path / f"scores.{kind}")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    texts = ["caf\u00e9 \U0001f642", "bad film", "bad film"]
    keys = {"output": tmp_path / "runs", "settings": {"controls": []}, "progress": False}
    result = af.evaluate_attention(model, tokenizer, texts, ["correlation"], source_file=path, **keys)
    given = [list(row) for row in result.tokens["given"]]
    assert given[0] == [0.5, -0.25]
    for row in given[1:]:
        assert row[0] == 1.0
        assert math.isnan(row[1])
    assert any("2 words of 2 texts without a score" in note for note in result.info.data.notes)


def test_rows_are_named_by_ids_or_by_texts(tmp_path):
    found = Explanations("lime", (ONE, TWO))
    assert [row["text"] for row in found.rows()] == [ONE.text, TWO.text]
    assert [row["example"] for row in found.rows(["a", "b"])] == ["a", "b"]
    with pytest.raises(InputError, match="`texts` has 2, `examples` has 1"):
        found.rows(["a"])
    with pytest.raises(InputError, match="a jsonl, json or parquet file, but got"):
        found.save(tmp_path / "scores.csv")
    with pytest.raises(InputError, match="there are none"):
        Explanations("lime", ()).save(tmp_path / "scores.json")
    assert not list(tmp_path.iterdir())


def test_a_kept_file_is_named_by_what_it_holds(tmp_path):
    found = Explanations("lime", (ONE,))
    path = kept_file(found, tmp_path / "kept")
    assert kept_file(found, tmp_path / "kept") == path
    assert kept_file(Explanations("lime", (TWO,)), tmp_path / "kept") != path
    assert json.loads(Path(path).read_text(encoding="utf-8"))["scores"] == [1.0, None]
    assert (kept_file(path, tmp_path), kept_file(None, tmp_path)) == (path, None)


def test_words_of_other_models(bert):
    """Words, and pieces of words."""
    text = TEXTS[1]
    found = Explanations(
        "lime", (ScoredText(text, ("bad", "good", "bad"), ((0, 3), (4, 8), (10, 13)), (1.0, 2.0, 4.0)),)
    )
    assert found.words(*bert)[0].scores == (1.0, 2.0, 4.0)
    letters = ScoredText(
        "movies", tuple("movies"), tuple((i, i + 1) for i in range(6)), (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    )
    (tokens,) = Explanations("lime", (letters,)).words(*bert, units="token")
    assert (tokens.words, tokens.scores) == (("movie", "s"), (31.0, 32.0))
    with pytest.raises(InputError, match="Did you mean 'token'"):
        found.words(*bert, units="tokens")


@pytest.mark.parametrize("kind", KINDS)
def test_any_tokenization_lands_on_the_words_that_hold_its_characters(bert, kind):
    """The words' scores are those of a slow reference, and with what is of no word they add up to the tokens'."""
    tokenizer = KINDS[kind]()
    scored = []
    for number, text in enumerate(TEXTS_OF_ALL_KINDS):
        tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
        scores = np.random.default_rng(number).normal(size=len(tokens))
        spans = find_spans(text, tokens, tokenizer)
        scored.append(ScoredText(text, tuple(tokens), tuple(spans), tuple(scores.tolist())))
    for one, words in zip(scored, Explanations("any", tuple(scored)).words(*bert), strict=True):
        expected, lost = laid_scores(one.spans, one.scores, words.spans)
        np.testing.assert_allclose(words.scores, [math.nan if v is None else float(v) for v in expected], atol=1e-12)
        assert sum(filter(math.isfinite, words.scores)) + float(lost) == pytest.approx(sum(one.scores))
        assert "".join(words.words) == "".join("".join(words.words).split())


def test_a_tokenizer_without_offsets_is_refused(bert):
    from transformers import BertConfig, BertForSequenceClassification

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=6, **small)).eval()
    found = Explanations("lime", (ScoredText("good bad", ("good",), ((0, 4),), (1.0,)),))
    with pytest.raises(InputError, match="use a fast one"):
        found.words(model, Slow())


def test_text_that_a_model_does_not_read_is_counted(bert):
    model, tokenizer = bert
    tokenizer.model_max_length = 4
    try:
        found = Explanations(
            "lime", (ScoredText("bad good bad", ("bad", "good", "bad"), ((0, 3), (4, 8), (9, 12)), (1, 2, 3)),)
        )
        (words,) = found.words(model, tokenizer)
        assert (words.words, words.scores, words.n_unplaced) == (("bad", "good"), (1.0, 2.0), 1)
    finally:
        tokenizer.model_max_length = 10**30


def test_it_is_a_sequence_that_says_what_it_is():
    found = Explanations("shap", (ONE, TWO))
    assert (len(found), found[1], list(found)) == (2, TWO, [ONE, TWO])
    assert repr(found) == "Explanations('shap', 2 texts)"
    assert set(dir(af)) >= {"explanations", "evaluate_attention"}
