"""AUCs and lines of made-up numbers whose AUC is known."""

import math

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.bench.measured import (
    NOT_COMPUTED,
    Measured,
    TextValues,
    faithful_side,
    measured_of_run,
    tells_of_attention,
)
from attn_faithful.bench.measuring import FEW_TEXTS, lines_of_tests, numbers_of, scores_of_tests
from attn_faithful.functional.attefa import attefa
from attn_faithful.reports.run import Run
from tests.bench.made import EXAMPLES, LENGTHS, column, model, models
from tests.experiments.tiny import cells, run
from tests.reference.auc import auc_by_pairs

MINE = ("mine", "attention")


def by_place(scores):
    return {(score.metric, score.source, score.kind, score.level, score.length): score for score in scores}


def test_every_number_by_kind_level_and_length():
    measured = models(lambda made, rng: {MINE: rng.random(24), ("tvd", "attention"): rng.random(24)})
    found = by_place(scores_of_tests(measured))
    levels = [("model", "all"), ("text", "all"), ("text", "8"), ("text", "16"), ("text", "32")]
    expected = []
    for number in (MINE, ("tvd", "attention")):
        for kind in ("all", "free", "uniform"):
            expected += [(*number, kind, *level) for level in levels]
    assert list(found) == expected
    assert numbers_of(measured) == [MINE, ("tvd", "attention")]


def test_a_random_number_tells_nothing():
    """0.5 lies within at least 80% of the intervals: they are of 95%, and those of one number depend on each other."""
    measured = models(lambda made, rng: {(f"random_{i}", "attention"): rng.random(24) for i in range(10)})
    scores = scores_of_tests(measured)
    assert all(0 <= score.low <= score.auc <= score.high <= 1 for score in scores)
    assert np.mean([score.low <= 0.5 <= score.high for score in scores]) > 0.8
    of_texts = [score.auc for score in scores if (score.kind, score.level, score.length) == ("all", "text", "all")]
    assert of_texts == pytest.approx([0.5] * 10, abs=0.1)


def test_the_label_tells_all():
    scores = scores_of_tests(models(lambda made, rng: {MINE: float(made.explains)}))
    assert {score.auc for score in scores} == {1.0}
    assert all(0.3 < score.low < 1 == score.high for score in scores)


@pytest.mark.parametrize(("metric", "expected"), [("sufficiency", 0.0), ("comprehensiveness", 1.0), ("flip_mass", 1.0)])
def test_a_number_whose_lower_values_are_faithful_is_turned(metric, expected):
    """Of one without direction, such as `flip_mass`, the higher one wins."""
    scores = scores_of_tests(models(lambda made, rng: {(metric, "attention"): float(made.explains)}))
    assert {score.auc for score in scores} == {expected}


def test_auc_on_both_levels_by_definition():
    """Texts pooled, models by their mean."""
    measured = models(lambda made, rng: {MINE: rng.integers(0, 3, 24) + 0.4 * made.explains * rng.random()})
    found = by_place(scores_of_tests(measured))
    sides = {True: [], False: []}
    for one in measured:
        if one.model.kind != "uniform":
            sides[one.model.explains].append(one.numbers[MINE].values)
    score = found[(*MINE, "free", "text", "16")]
    of_length = {side: np.concatenate([values[LENGTHS == 16] for values in sides[side]]) for side in sides}
    assert score.auc == pytest.approx(auc_by_pairs(of_length[True], of_length[False]), abs=1e-12)
    assert (score.n_explains, score.n_other, score.n_undefined) == (80, 40, 0)
    score = found[(*MINE, "free", "model", "all")]
    means = {side: [values.mean() for values in sides[side]] for side in sides}
    assert score.auc == pytest.approx(auc_by_pairs(means[True], means[False]), abs=1e-12)
    assert (score.n_explains, score.n_other) == (10, 5)


def test_kinds_stay_apart():
    """A number that tells one kind and not the other."""
    scores = by_place(scores_of_tests(models(lambda made, rng: {MINE: float(made.kind != "free")})))
    assert scores[(*MINE, "free", "text", "all")].auc == 1.0
    assert scores[(*MINE, "uniform", "text", "all")].auc == 0.5
    assert scores[(*MINE, "all", "text", "all")].auc == 0.75


def test_undefined_texts_are_counted_with_their_reasons():
    def number(made, rng):
        values = np.full(24, float(made.explains))
        values[:6] = math.nan  # of each length 2
        return {MINE: values}

    found = by_place(scores_of_tests(models(number)))
    score = found[(*MINE, "free", "text", "all")]
    assert (score.auc, score.n_explains, score.n_other) == (1.0, 180, 90)
    assert (score.n_undefined, score.reasons) == (15 * 6, {"one item": 90})
    assert found[(*MINE, "free", "text", "8")].reasons == {"one item": 30}
    score = found[(*MINE, "free", "model", "all")]
    assert (score.auc, score.n_undefined, score.reasons) == (1.0, 0, {})


def test_models_with_too_few_texts_have_no_number():
    """13 of 24 undefined are too many, 12 are not; a number that was never computed is undefined, too."""

    def number(made, rng):
        values = np.zeros(24)
        values[: {"faithful": 12, "pinned": 13}.get(made.kind, 0)] = math.nan
        everything = {MINE: values, ("flip_size", "attention"): np.full(24, math.nan)}
        return everything if made.explains else {MINE: values}

    found = by_place(scores_of_tests(models(number)))
    score = found[(*MINE, "all", "model", "all")]
    assert (score.auc, score.n_explains, score.n_other) == (0.5, 5, 10)
    assert (score.n_undefined, score.reasons) == (5, {FEW_TEXTS: 5})
    score = found[("flip_size", "attention", "all", "model", "all")]
    assert math.isnan(score.auc)
    assert math.isnan(score.low)
    assert score.reasons == {"one item": 10, NOT_COMPUTED: 10}


def test_unproven_texts_are_left_out():
    """Wrong values in texts of which nothing is known change nothing, and nobody counts them."""

    def number(made, rng):
        values = np.full(24, float(made.explains))
        values[:3] = -9.0 * made.explains
        values[3] = math.nan
        return {MINE: values}

    scores = scores_of_tests(models(number, unproven=EXAMPLES[:4]))
    assert {score.auc for score in scores} == {1.0}
    assert {score.n_undefined for score in scores} == {0}
    assert by_place(scores)[(*MINE, "all", "text", "all")].n_explains == 10 * 20


def test_a_number_of_the_whole_model_is_no_mean():
    measured = []
    for i, kind in enumerate(("faithful", "faithful", "free", "free")):
        made = model(str(i), kind)
        measured.append(Measured(made, EXAMPLES, LENGTHS, {MINE: column(0.0)}, {MINE: float(made.explains)}))
    found = by_place(scores_of_tests(measured))
    assert found[(*MINE, "all", "model", "all")].auc == 1.0
    assert found[(*MINE, "all", "text", "all")].auc == 0.5
    (line,) = lines_of_tests(measured)
    assert line.line == 0.5


def test_lines():
    def number(made, rng):
        separates = rng.random() + 3.0 * made.explains
        return {
            MINE: separates,
            ("sufficiency", "attention"): -separates,
            ("tied_pairs", "attention"): -separates,  # neither direction
            ("misses_uniform", "attention"): rng.random() + 3.0 * (made.kind != "free"),
            ("constant", "attention"): 1.0,
        }

    lines = {line.metric: line for line in lines_of_tests(models(number))}
    assert list(lines) == ["mine", "sufficiency", "tied_pairs", "misses_uniform"]  # nothing tells on a constant
    line = lines["mine"]
    assert (line.faithful, line.n_explains, line.n_other) == ("above", 10, 10)
    assert 1 < line.line < 3
    assert (line.missed, line.passed) == (0.0, {"free": 0.0, "uniform": 0.0})
    assert line.balanced_accuracy == line.high == 1.0
    assert 0.7 < line.low < 0.9
    assert lines["sufficiency"].faithful == lines["tied_pairs"].faithful == "below"
    assert lines["sufficiency"].line == -line.line
    missed = lines["misses_uniform"]
    assert missed.passed["free"] < 0.1 < 0.4 < missed.passed["uniform"]
    shares = [1 - missed.missed, 1 - np.mean(list(missed.passed.values()))]
    assert missed.balanced_accuracy == pytest.approx(np.mean(shares), abs=1e-12)


def test_shares_that_nobody_knows_are_left_out():
    """Of one model on a side every line was chosen with it."""
    lines = lines_of_tests(models(lambda made, rng: {MINE: rng.random()}, 1, kinds=("faithful", "free", "uniform")))
    assert math.isnan(lines[0].balanced_accuracy)
    assert math.isnan(lines[0].missed)
    assert set(lines[0].passed) == {"free", "uniform"}


def test_the_order_of_models_and_texts_does_not_matter():
    measured = models(lambda made, rng: {MINE: rng.random(24) + 0.3 * made.explains})
    turned = []
    for one in measured[::-1]:
        values = TextValues(one.numbers[MINE].values[::-1], one.numbers[MINE].reasons[::-1])
        turned.append(Measured(one.model, EXAMPLES[::-1], LENGTHS[::-1], {MINE: values}))
    scores, turned_scores = by_place(scores_of_tests(measured)), by_place(scores_of_tests(turned))
    assert scores.keys() == turned_scores.keys()
    for place, score in scores.items():
        other = turned_scores[place]
        assert (score.auc, score.low, score.high) == pytest.approx((other.auc, other.low, other.high), abs=1e-12)
    (line,), (other_line,) = lines_of_tests(measured), lines_of_tests(turned)
    assert line.line == pytest.approx(other_line.line, abs=1e-12)
    assert line.low == pytest.approx(other_line.low, abs=1e-12)


def test_what_counts_as_a_number_of_attention():
    assert tells_of_attention("attention~leave_one_out")
    assert tells_of_attention("input_x_gradient-attention~leave_one_out")
    assert tells_of_attention("certified_core")
    for source in ("random", "uniform~saliency", "attention_gradient", "saliency~leave_one_out", "exact_orders"):
        assert not tells_of_attention(source)
    assert faithful_side(("flip_size", "smallest_set")) is None
    assert faithful_side(("attefa", "attefa")) == "above"
    assert faithful_side(("adversarial_attention", "attention")) == "below"


def test_numbers_of_a_run(tmp_path):
    tests = ["correlation", "permutation", "flips", "entropy"]
    (cell,) = cells(evaluation={"tests": tests}, twin={"epochs": 1}, twin_seeds=[10, 11])
    stored = Run(run(cell, tmp_path).path)
    lengths = {example: 4 + i % 3 for i, example in enumerate(stored.ids)}
    made = model("a", "free", unproven=stored.ids[:5])
    measured = measured_of_run(made, stored, lengths)
    assert measured.examples == stored.ids
    assert measured.lengths.tolist() == list(lengths.values())
    sources = {source for _, source in measured.numbers}
    assert sources == {
        "attention",
        "attention~input_x_gradient",
        "attention~leave_one_out",
        "input_x_gradient-attention~leave_one_out",
        "leave_one_out-attention~input_x_gradient",
        "smallest_set",
        "certified_core",
        "attefa",
    }
    assert ("conicity", "attention") in measured.numbers
    assert ("correlation_p", "attention~leave_one_out") not in measured.numbers  # its mean says nothing
    column_of_run = measured.numbers["flip_size", "attention"]
    np.testing.assert_array_equal(column_of_run.values, stored.scores("flip_size"))
    assert column_of_run.reasons == stored.reasons("flip_size")
    tvds, jsds = [], []
    for name in ("attefa-10", "attefa-11"):
        tvds.append(stored.scores("tvd", name).to_numpy())
        jsds.append(stored.scores("jsd", name).to_numpy())
    np.testing.assert_allclose(measured.numbers["tvd", "attefa"].values, np.mean(tvds, axis=0), atol=1e-12)
    ratios = [attefa(tvd[5:], jsd[5:]).attefa for tvd, jsd in zip(tvds, jsds, strict=True)]
    assert measured.of_model["attefa", "attefa"] == pytest.approx(np.mean(ratios), abs=1e-12)
    others = models(lambda made, rng: {("flip_size", "attention"): rng.random(24)}, kinds=("faithful",))
    found = by_place(scores_of_tests([measured, *others]))
    assert found["flip_size", "attention", "free", "model", "all"].n_other == 1
    with pytest.raises(InputError, match=r"length of every text .* 'test-19' and 0 more"):
        measured_of_run(made, stored, dict.fromkeys(stored.ids[:-1], 4))


def test_inputs_that_say_nothing_are_refused():
    with pytest.raises(InputError, match="all of the 5 are of one side"):
        scores_of_tests(models(lambda made, rng: {}, kinds=("faithful",)))
    with pytest.raises(InputError, match="all of the 5 are of one side"):
        lines_of_tests(models(lambda made, rng: {}, kinds=("free",)))
    with pytest.raises(InputError, match="each of the 24 texts of a"):
        Measured(model("a", "free"), EXAMPLES, LENGTHS, {MINE: TextValues(np.zeros(3), [None] * 3)})
    with pytest.raises(InputError, match="24 `lengths`"):
        Measured(model("a", "free"), EXAMPLES, LENGTHS[:3], {})
