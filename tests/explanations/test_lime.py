"""LIME's own objects: bags of words and positions, on the right words."""

import math

import numpy as np
import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from tests.explanations.tiny import NAMES, TEXTS, WORDS, probabilities

lime_text = pytest.importorskip("lime.lime_text", reason="lime is not installed")


def explain(bert, text, *, n_features=50, bow=True, **options):
    explainer = lime_text.LimeTextExplainer(class_names=NAMES, bow=bow, random_state=0)
    return explainer.explain_instance(
        text, probabilities(*bert), num_features=n_features, num_samples=30, **{"top_labels": 1, **options}
    )


def test_with_positions_each_occurrence_has_its_own_weight(bert):
    explanation = explain(bert, TEXTS[1], bow=False)
    (words,) = af.explanations.from_lime(explanation).words(*bert)
    (label,) = explanation.local_exp
    weights = dict(explanation.local_exp[label])  # by the place of the word
    assert words.words == ("bad", "good", "bad")
    assert words.scores == (weights[0], weights[1], weights[2])
    assert weights[0] != weights[2]
    assert words.target == NAMES[explanation.predict_proba.argmax()]


def test_occurrences_of_a_word_in_a_bag_share_its_weight(bert):
    explanation = explain(bert, TEXTS[1])
    (words,) = af.explanations.from_lime(explanation).words(*bert)
    weights = dict(explanation.as_list(explanation.available_labels()[0]))
    assert words.scores == (weights["bad"] / 2, weights["good"], weights["bad"] / 2)
    assert sum(words.scores) == pytest.approx(sum(weights.values()))


def test_unicode(bert):
    """LIME takes accents that stand by themselves, commas and emoji for no words: they have no score."""
    explanation = explain(bert, TEXTS[0])
    (words,) = af.explanations.from_lime(explanation).words(*bert)
    assert list(words.words) == WORDS[0]
    weights = dict(explanation.as_list(explanation.available_labels()[0]))
    assert set(weights) == {"Good", "cafe", "\u6211\u559c", "unbelievably", "good", "movies"}
    half = weights["\u6211\u559c"] / 2  # two words of the model, one of LIME's
    expected = [weights["Good"], weights["cafe"], math.nan, half, half, weights["unbelievably"], weights["good"]]
    np.testing.assert_allclose(words.scores, [*expected, math.nan, weights["movies"]], atol=1e-12)
    assert [place for place, reason in enumerate(words.reasons) if reason] == [2, 7]


def test_words_that_lime_was_not_asked_for_have_no_score(bert):
    explanation = explain(bert, TEXTS[0], n_features=2)
    (words,) = af.explanations.from_lime([explanation]).words(*bert)
    (label,) = explanation.local_exp
    names = [name for name, _ in explanation.as_list(label)]
    assert len(names) == 2
    for word, score, reason in zip(words.words, words.scores, words.reasons, strict=True):
        is_asked = any(name in word or word in name for name in names)
        assert math.isnan(score) == (not is_asked) == (reason is not None)


def test_the_class(bert):
    both = explain(bert, TEXTS[1], labels=(0, 1), top_labels=None)
    by_name = af.explanations.from_lime(both, target="positive")
    by_index = af.explanations.from_lime(both, target=0)
    assert (by_name[0].target, by_index[0].target) == ("positive", "negative")
    np.testing.assert_allclose(by_name[0].scores, -np.array(by_index[0].scores), atol=1e-6)  # of float32 probabilities
    predicted = int(both.predict_proba.argmax())
    other = explain(bert, TEXTS[1], labels=(1 - predicted,), top_labels=None)
    with pytest.raises(InputError, match=f"of the class '{NAMES[predicted]}' of 'bad good  bad', but it explains"):
        af.explanations.from_lime(other)
    assert af.explanations.from_lime(other, target=1 - predicted)[0].target == NAMES[1 - predicted]


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="Expected an explanation of LimeTextExplainer, but got 'dict' without words"):
        af.explanations.from_lime({})
