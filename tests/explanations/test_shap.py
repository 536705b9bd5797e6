"""SHAP's own objects on the right words, saved as a source file and scored."""

import json

import numpy as np
import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.store import find_runs
from tests.data.pieces import bytes_of
from tests.explanations.tiny import NAMES, SPANS, TEXTS, WORDS, probabilities, word_sums

shap = pytest.importorskip("shap", reason="shap is not installed")


@pytest.fixture(scope="module")
def explained(bert):
    model, tokenizer = bert
    masker = shap.maskers.Text(tokenizer)
    explainer = shap.Explainer(probabilities(model, tokenizer), masker, output_names=NAMES)
    return explainer(TEXTS, max_evals=200, silent=True)


@pytest.mark.parametrize("target", [None, "positive", 0])
def test_each_piece_lands_on_its_word(bert, explained, target):
    predicted = probabilities(*bert)(TEXTS).argmax(1)
    found = af.explanations.from_shap(explained, TEXTS, target=target)
    for place, words in enumerate(found.words(*bert)):
        index = {"positive": 1, 0: 0, None: int(predicted[place])}[target]
        assert (list(words.words), list(words.spans)) == (WORDS[place], SPANS[place])
        np.testing.assert_allclose(words.scores, word_sums(explained.values[place][:, index], place), atol=1e-12)
        assert words.target == NAMES[index]
        assert words.reasons == (None,) * len(WORDS[place])


def test_the_text_is_what_the_pieces_spell(bert, explained):
    found = af.explanations.from_shap(explained)
    assert [scored.text for scored in found] == TEXTS
    one, of_class = af.explanations.from_shap(explained[1]), af.explanations.from_shap(explained[1, :, "negative"])
    assert one[0] == found[1]
    assert (of_class[0].target, of_class[0].text) == ("negative", TEXTS[1])
    many = af.explanations.from_shap(explained[:, :, "negative"])
    assert many[1] == of_class[0]


def test_scores_of_special_tokens_are_counted(bert):
    pieces = np.array(["", "bad ", "good  ", "bad", ""], dtype=object)
    row = shap.Explanation(values=np.array([0.5, 1.0, 2.0, 4.0, 0.0]), base_values=0.0, data=pieces)
    (words,) = af.explanations.from_shap(row).words(*bert)
    assert (words.scores, words.n_unplaced) == ((1.0, 2.0, 4.0), 1)


def test_pieces_of_characters_share_the_character():
    """A tokenizer of bytes cuts an emoji: each of SHAP's pieces is all of it, and the text must be told."""
    text, tokenizer = "good \U0001f642 good", bytes_of(trim=False)
    masker = shap.maskers.Text(tokenizer, mask_token="...")
    pieces = np.array(masker.data_transform(text)[0], dtype=object)
    assert "".join(pieces) != text
    row = shap.Explanation(values=np.arange(1.0, len(pieces) + 1), base_values=0.0, data=pieces)
    (scored,) = af.explanations.from_shap(row, text)
    by_character = {}
    for (start, end), score in zip(scored.spans, scored.scores, strict=True):
        by_character.setdefault(text[start:end].strip(), []).append(score)
    n = len(pieces)
    assert by_character["\U0001f642"] == list(map(float, range(4, n - 1)))
    assert by_character["good"] == [2.0, float(n - 1)]


def test_a_saved_explanation_is_scored_by_the_command_line(bert, explained, tmp_path):
    """The user's question: is this SHAP explanation faithful? Here of one text more than was explained."""
    model, tokenizer = bert
    model.save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    data = tmp_path / "reviews.jsonl"
    lines = [json.dumps({"text": text, "label": "positive"}) for text in [*TEXTS, "not explained"]]
    data.write_text("\n".join(lines), encoding="utf-8")
    found = af.explanations.from_shap(explained, TEXTS)
    path = found.save(tmp_path / "shap.jsonl")
    flags = ["--tests", "correlation,flips", "--output", str(tmp_path / "runs"), "--source-file", str(path)]
    assert main(["evaluate", str(tmp_path / "bert"), "--data", str(data), *flags]) == 0
    (run,) = find_runs([tmp_path / "runs"])
    result = af.Result(run.path)
    assert f"1 examples are not in {path}." in result.info.data.notes
    given = result.tokens.groupby("example", sort=False).first()["given"]
    expected = found.words(*bert)
    for place in range(len(TEXTS)):
        np.testing.assert_allclose(given.iloc[place], expected[place].scores, atol=1e-9)
    assert np.isnan(given.iloc[2]).all()
    table = result.table()
    scored = table[(table.metric == "attention_correlation") & (table.source == "attention~given")]
    assert (scored.n == 2).all()
    assert "naopc_removal" in set(table[table.source == "given"].metric)


@pytest.mark.parametrize("units", ["word", "token"])
def test_explanations_go_into_an_evaluation_as_they_are(bert, explained, units, tmp_path):
    found = af.explanations.from_shap(explained, TEXTS)
    settings = {"controls": [], "units": units}
    keys = {"output": tmp_path, "settings": settings, "source_file": found, "progress": False}
    result = af.evaluate_attention(*bert, TEXTS, ["entropy", "correlation"], **keys)
    given = result.tokens.groupby("example", sort=False).first()["given"]
    for place, words in enumerate(found.words(*bert, units=units)):
        np.testing.assert_array_equal(given.iloc[place], words.scores)
    again = af.evaluate_attention(*bert, TEXTS, ["entropy", "correlation"], **keys)
    assert again.path == result.path
    back = af.explanations.from_shap(result.to_shap("given"), TEXTS)
    if units == "word":
        assert [list(words.scores) for words in back.words(*bert)] == [list(row) for row in given]


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("good film", {}, "Expected a shap.Explanation, but got a str"),
        ("whole", {"texts": ["one"]}, "`texts` has 1, `the explanation` has 2"),
        ("whole", {"target": "postive"}, "Did you mean 'positive'"),
        ("whole", {"target": 2}, "Expected a class from 0 to 1, but got 2"),
        ("whole", {"texts": ["good film", TEXTS[1]]}, "in the text 'good film', but token 2, 'c'"),
        ("one class", {"target": "positive"}, "of the class 'positive', but this one is of 'negative'"),
        ("numbers", {}, "its `data` holds"),
    ],
)
def test_what_does_not_fit_is_said(explained, given, options, message):
    numbers = shap.Explanation(values=np.zeros((2, 3)), base_values=np.zeros(2), data=np.zeros((2, 3)))
    objects = {"whole": explained, "one class": explained[:, :, "negative"], "numbers": numbers}
    with pytest.raises(InputError, match=message):
        af.explanations.from_shap(objects.get(given, given), **options)
