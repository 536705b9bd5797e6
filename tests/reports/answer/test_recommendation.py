"""The recommendation in words: what a person who reads one line is told."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from attn_faithful.records.recommendation import Criterion, RankedSource, Recommendation
from attn_faithful.records.summary import RunSummary
from attn_faithful.reports.answer.recommendation import recommendation_text, recommended
from attn_faithful.reports.tables.recommendation import recommendation_table, recommendation_tables

LINES = {"order": 0.75, "polarity": 0.25, "stability": 0.5, "outside": 0.1, "texts": 30.0}


def source(name, order, *fails, **changes):
    entry = RankedSource(
        source=name,
        naopc=Criterion(order, order - 0.01, order + 0.01, 500),
        optimal=Criterion(0.9, 0.88, 0.92, 400),
        polarity=Criterion(0.02, 0.01, 0.03, 500),
        stability=Criterion(0.98, 0.97, 0.99, 500),
        above_random=order - 0.5,
        p_random=1e-9,
        p_best=1e-9,
        fails=fails,
    )
    return replace(entry, **changes)


PRODUCT = source("attention_x_gradient", 0.94, p_best=math.nan)
ATTENTION = source("attention", 0.53, "order", "polarity", polarity=Criterion(0.34, 0.32, 0.36, 500))
RANDOM = source("random_ranking", 0.5)


SECONDS = {"attention": 0.0, "attention_x_gradient": 0.0004}


def run(*sources, shown=None, seed=0, measure="naopc_removal", n=500, seconds=SECONDS, outside=None):
    found = Recommendation("pool", measure, shown, n, sources, LINES, outside or {})
    summary = RunSummary(recommendation=[found])
    return SimpleNamespace(summary=summary, seed=seed, noun=lambda site: "word", source_seconds=seconds)


def text(*runs, distinct=500, unfit=False):
    return recommendation_text(runs, "pool", distinct, unfit)


def test_too_few_texts_leave_an_order_open():
    wide = source("saliency", 0.7, "order", naopc=Criterion(0.7, 0.6, 0.8, 34))
    told = text(run(wide, ATTENTION, RANDOM, n=34))
    assert (
        "The best of them, gradient: its order is not shown to be near the best one (NAOPC 0.70, 0.60 to 0.80, not "
        "above 0.75; more texts may show it)." in told
    )
    assert "Attention: its order is too far from the best one (NAOPC 0.53, 0.52 to 0.54, not above 0.75)" in told


def test_given_importance_is_spoken_of_whichever_is_the_best():
    given = source("given", 0.8)
    told = text(run(PRODUCT, given, ATTENTION, RANDOM, shown="attention_x_gradient"))
    assert "The given importance may be shown as well (NAOPC 0.80, 0.79 to 0.81). Not attention: " in told
    poor = source("given", 0.2, "order")
    told = text(run(PRODUCT, ATTENTION, poor, RANDOM, shown="attention_x_gradient"))
    assert told.endswith(
        " Not the given importance: its order is too far from the best one (NAOPC 0.20, 0.19 to 0.21, not above 0.75)."
    )
    told = text(run(source("saliency", 0.6, "order"), ATTENTION, poor, RANDOM))
    assert " The given importance: its order is too far from the best one (NAOPC 0.20, " in told
    assert text(run(given, ATTENTION, RANDOM, shown="given")).startswith(
        "What may be shown: given importance. Its order"
    )


def test_another_source_than_attention():
    assert text(run(PRODUCT, ATTENTION, RANDOM, shown="attention_x_gradient")) == (
        "What may be shown: attention x gradient. Its order is near the best one in which words are removed "
        "from the attention (NAOPC 0.94, 0.93 to 0.95; random orders 0.50, 500 texts); in 90% of the texts "
        "that it flips no fewer words would do; its first word does not speak for the decision in 2%; its "
        "ranking stays when a word without effect is another (tau 0.98); it costs 0.4 ms a text beside the "
        "forward pass. Not attention: its order is too far from the best one (NAOPC 0.53, 0.52 to 0.54, not "
        "above 0.75), and its first word does not speak for the decision in 34% of the texts."
    )


def test_attention_itself():
    said = text(run(source("attention", 0.9, p_best=math.nan), RANDOM, shown="attention"))
    assert said.startswith("What may be shown: attention. Its order is near the best one")
    assert "Not attention" not in said


def test_attention_as_well_and_others_that_are_as_good():
    as_good = source("signed_leave_one_out", 0.935, p_best=0.4)
    passing = source("attention", 0.8)
    said = text(run(PRODUCT, as_good, passing, RANDOM, shown="attention_x_gradient"))
    assert "Not shown to be worse: signed leave-one-out." in said
    assert said.endswith("Attention may be shown as well (NAOPC 0.80, 0.79 to 0.81).")


def test_none_of_these():
    best = source("signed_leave_one_out", 0.7, "order", p_best=math.nan)
    assert text(run(best, ATTENTION, RANDOM)) == (
        "What may be shown: none of these (500 texts; words are removed from the attention). The best of them, "
        "signed leave-one-out: its order is too far from "
        "the best one (NAOPC 0.70, 0.69 to 0.71, not above 0.75). Attention: its order is too far from the "
        "best one (NAOPC 0.53, 0.52 to 0.54, not above 0.75), and its first word does not speak for the "
        "decision in 34% of the texts."
    )


def test_few_texts_and_one_text():
    few = run(PRODUCT, n=12)
    assert text(few, distinct=12) == "What may be shown: no recommendation, few texts, 12 of at least 30."
    copies = run(PRODUCT, shown="attention_x_gradient")
    assert text(copies, distinct=3) == "What may be shown: no recommendation, few texts, 3 of at least 30."
    assert text(run(PRODUCT, n=1), distinct=1) == ""
    assert recommendation_text([run(PRODUCT)], "elsewhere", 500) == ""


def test_a_model_that_is_not_shown_to_predict():
    said = text(run(PRODUCT, RANDOM, shown="attention_x_gradient"), unfit=True)
    assert said.endswith("The model itself is not shown to predict: this tells what it does, not that it is right.")


def test_seeds():
    one = run(PRODUCT, ATTENTION, shown="attention_x_gradient")
    other = run(source("attention_x_gradient", 0.91), shown="attention_x_gradient", seed=1)
    assert text(one, other) == "What may be shown: attention x gradient, for each of 2 seeds (NAOPC 0.94, 0.91)."
    assert text(one, run(ATTENTION, seed=1)) == (
        "What may be shown: no one source for all seeds (seed 0: attention x gradient; seed 1: none of these)."
    )
    assert text(run(ATTENTION), run(ATTENTION, seed=1)) == "What may be shown: none of these, for each of 2 seeds."
    nothing = SimpleNamespace(summary=RunSummary(), seed=2, noun=lambda site: "word")
    assert text(one, nothing) == ""
    assert recommended(nothing, "pool") is None


@pytest.mark.parametrize(
    ("fails", "words"),
    [("chance", "no better than a random one"), ("stability", "tau 0.98"), ("unmeasured", "not all of the numbers")],
)
def test_every_reason_has_words(fails, words):
    assert words in text(run(source("attention", 0.9, fails, p_best=math.nan)))


def test_what_was_not_measured_is_not_said():
    bare = replace(PRODUCT, optimal=Criterion(), polarity=Criterion(), stability=Criterion())
    said = text(run(bare, RANDOM, shown="attention_x_gradient", measure="naopc", seconds={}))
    assert said == (
        "What may be shown: attention x gradient. Its order is near the best one in which words are deleted "
        "(NAOPC 0.94, 0.93 to 0.95; random orders 0.50, 500 texts)."
    )


def test_table():
    ranked = run(PRODUCT, ATTENTION, RANDOM, shown="attention_x_gradient")
    table = recommendation_table(ranked.summary.recommendation[0], SECONDS)
    assert [row[-1] for row in table.rows] == [
        "yes",
        "no: order too far from the best, first item does not speak for the decision",
        "-",
    ]
    assert table.best == {(0, 0)}
    assert table.rows[0][:3] == ["attention x gradient", "0.940", "[0.930, 0.950]"]
    one, two = recommendation_tables([ranked, ranked], "SST lstm")
    assert one.title.startswith("SST lstm, seed 0, What may be shown")
    assert "\n" not in two.markdown().splitlines()[0]


@pytest.mark.parametrize(
    ("measure", "outside", "way", "words"),
    [
        ("naopc", {"delete": 0.41}, "are deleted", "Caution: 41% of the texts with words deleted are unlike what"),
        ("naopc", {"delete": 0.06}, "are deleted", ""),
        ("naopc", {}, "are deleted", ""),
        ("naopc_mask", {"delete": 0.41, "mask": 0.02}, "are masked", "Ranked by masks, since texts with words deleted"),
        ("naopc_mask", {"delete": 0.41, "mask": 0.3}, "are masked", "Caution: 30% of the texts with words masked"),
        ("naopc_mask", {"mask": 0.02}, "are masked", ""),
        ("naopc_removal", {"delete": 0.41}, "are removed from the attention", ""),
    ],
)
def test_texts_that_the_model_was_not_trained_on_are_told(measure, outside, way, words):
    for shown in ("attention", None):
        sources = [source("attention", 0.9, *([] if shown else ["order"]), p_best=math.nan), RANDOM]
        said = text(run(*sources, shown=shown, measure=measure, outside=outside))
        assert words in said
        assert bool(words) == ("trained on" in said)
        assert not shown or f"words {way}" in said
