"""AUCs of made-up explanations whose decisive tokens are known."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.bench.explained import ALL_DECISIVE, NONE_DECISIVE, NOT_GIVEN, Explained, scores_of_explanations
from tests.bench.made import EXAMPLES, LENGTHS, model
from tests.reference.auc import auc_by_pairs


def masks(rng):
    """One or two decisive tokens a text."""
    decisive = []
    for length in LENGTHS:
        mask = np.zeros(length, dtype=bool)
        mask[rng.choice(length, 2)] = True
        decisive.append(mask)
    return decisive


def explained(importance, kinds=("faithful", "faithful", "pinned", "free"), unproven=()):
    """Explanations that ``importance(mask, rng)`` gives."""
    found = []
    for i, kind in enumerate(kinds):
        rng = np.random.default_rng(i)
        decisive = masks(rng)
        values = [importance(mask, rng) for mask in decisive]
        found.append(Explained(model(f"{kind}-{i}", kind, unproven), EXAMPLES, LENGTHS, values, decisive))
    return found


def by_place(scores):
    return {(score.kind, score.length): score for score in scores}


def test_the_planted_truth_finds_all():
    scores = scores_of_explanations(explained(lambda mask, rng: mask.astype(float)), "planted")
    assert [(score.kind, score.length) for score in scores][:5] == [
        ("all", "all"),
        ("all", "8"),
        ("all", "16"),
        ("all", "32"),
        ("faithful", "all"),
    ]
    assert len(scores) == 16
    assert {(score.auc, score.metric, score.source, score.level) for score in scores} == {
        (1.0, "decisive", "planted", "token")
    }
    assert all(score.low < 1 == score.high for score in scores)


def test_a_random_explanation_finds_nothing():
    scores = scores_of_explanations(explained(lambda mask, rng: rng.random(len(mask))), "random")
    assert all(score.low <= 0.5 <= score.high for score in scores)
    assert by_place(scores)["all", "all"].auc == pytest.approx(0.5, abs=0.06)
    assert by_place(scores)["all", "all"].high < 0.7
    constant = scores_of_explanations(explained(lambda mask, rng: np.ones(len(mask))), "uniform")
    assert {score.auc for score in constant} == {0.5}


def test_the_mean_over_texts_by_definition():
    found = explained(lambda mask, rng: rng.integers(0, 3, len(mask)) + mask)
    score = by_place(scores_of_explanations(found, "mine"))["faithful", "16"]
    values, n_decisive = [], 0
    for one in found[:2]:
        for i in np.flatnonzero(LENGTHS == 16):
            mask, importance = one.decisive[i], np.asarray(one.importance[i])
            values.append(auc_by_pairs(importance[mask], importance[~mask]))
            n_decisive += mask.sum()
    assert score.auc == pytest.approx(np.mean(values), abs=1e-12)
    assert (score.n_explains, score.n_other) == (n_decisive, 16 * 16 - n_decisive)


def test_texts_without_an_auc_are_counted():
    decisive = masks(np.random.default_rng(0))
    importance = [mask.astype(float) for mask in decisive]
    importance[0] = None
    importance[1] = np.where(np.arange(16) == 3, math.nan, 0.0)  # as a whole: what is left could be chosen
    decisive[2] = np.zeros(32, dtype=bool)
    decisive[3] = np.ones(8, dtype=bool)
    one = Explained(model("a", "faithful", EXAMPLES[4:6]), EXAMPLES, LENGTHS, importance, decisive)
    found = by_place(scores_of_explanations([one], "mine"))
    score = found["all", "all"]
    assert (score.auc, score.n_undefined) == (1.0, 4)
    assert score.reasons == {NOT_GIVEN: 1, "nan in scores": 1, NONE_DECISIVE: 1, ALL_DECISIVE: 1}
    assert found["all", "8"].reasons == {NOT_GIVEN: 1, ALL_DECISIVE: 1}
    assert score.n_explains + score.n_other == LENGTHS[6:].sum()  # two more are unproven


def test_nothing_is_defined_where_nothing_was_given():
    scores = scores_of_explanations(explained(lambda mask, rng: None), "none")
    assert all(math.isnan(score.auc) and math.isnan(score.low) for score in scores)
    assert scores[0].reasons == {NOT_GIVEN: 4 * 24}


def test_inputs_that_do_not_fit_are_refused():
    decisive = masks(np.random.default_rng(0))
    importance = [mask.astype(float) for mask in decisive]
    with pytest.raises(InputError, match=r"each of the 8 tokens of 't0', but got 7"):
        Explained(model("a", "free"), EXAMPLES, LENGTHS, [importance[0][:-1], *importance[1:]], decisive)
    with pytest.raises(InputError, match="an entry for each text of a"):
        Explained(model("a", "free"), EXAMPLES, LENGTHS, importance[:-1], decisive)
