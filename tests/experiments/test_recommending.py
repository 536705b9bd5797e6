"""Which source is recommended: the order of the list, each line by itself, paired tests, few texts."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wilcoxon

from attn_faithful.experiments.collecting import as_table
from attn_faithful.experiments.recommending import recommendations
from attn_faithful.functional.summaries import holm
from attn_faithful.records.recommendation import Recommendation
from attn_faithful.records.summary import RunSummary

N = 200
REASON = {True: "one item", False: None}


def scores(columns, n=N, site="pool"):
    """The table of some columns (source, metric) -> values (n,)."""
    rows = {"example": [], "site": [], "source": [], "metric": [], "value": [], "reason": []}
    for (source, metric), values in columns.items():
        rows["example"] += [f"e{i}" for i in range(n)]
        rows["site"] += [site] * n
        rows["source"] += [source] * n
        rows["metric"] += [metric] * n
        rows["value"] += list(map(float, values))
        rows["reason"] += [REASON[bool(np.isnan(value))] for value in values]
    return as_table(rows)


def recommended(columns, n=N):
    (found,) = recommendations(lambda: [scores(columns, n)], [f"e{i}" for i in range(n)])
    return found


def near(mean, seed, n=N):
    return np.clip(np.random.default_rng(seed).normal(mean, 0.05, n), 0, 1)


def columns_of(measure="naopc_removal", n=N, **orders):
    """Sources with NAOPC near a number, everything else good; random orders near one half."""
    columns = {}
    for seed, (name, order) in enumerate(orders.items()):
        columns[name, measure] = near(order, seed, n)
        columns[name, "flip_optimal"] = np.ones(n)
        columns[name, "polarity_violation"] = np.zeros(n)
        columns[name, "stability_tau"] = np.full(n, 0.9)
    columns["random_ranking", measure] = near(0.5, 99, n)
    columns["smallest_set", "decision_flip"] = np.full(n, 0.3)
    return columns


def test_the_best_order_is_recommended_and_attention_is_too_far():
    found = recommended(columns_of(attention=0.5, attention_x_gradient=0.9, signed_leave_one_out=0.8))
    assert found.source == "attention_x_gradient"
    assert [source.source for source in found.sources] == [
        "attention_x_gradient",
        "signed_leave_one_out",
        "attention",
        "random_ranking",
    ]
    assert [list(source.fails) for source in found.sources] == [[], [], ["order", "chance"], []]
    assert found.n == N


def test_numbers_of_a_source():
    columns = columns_of(attention=0.9)
    columns["attention", "polarity_violation"] = np.arange(N) < 20
    columns["attention", "flip_optimal"] = np.where(np.arange(N) < 50, np.nan, np.arange(N) % 2)
    found = recommended(columns)
    attention = found.sources[0]
    values = columns["attention", "naopc_removal"]
    assert attention.naopc.mean == pytest.approx(values.mean(), abs=1e-12)
    assert attention.naopc.low < values.mean() < attention.naopc.high
    assert attention.polarity.mean == 0.1
    assert attention.polarity.low == pytest.approx(0.0657, abs=1e-3)  # Wilson's interval of 20 in 200
    assert (attention.optimal.mean, attention.optimal.n) == (0.5, 150)
    difference = values - columns["random_ranking", "naopc_removal"]
    assert attention.above_random == pytest.approx(difference.mean(), abs=1e-12)
    assert math.isnan(attention.p_best)


def test_paired_tests_are_those_of_scipy_corrected_together():
    columns = columns_of(attention=0.80, attention_x_gradient=0.805, signed_leave_one_out=0.79)
    found = recommended(columns)
    names = [source.source for source in found.sources[:3]]
    of = {name: columns[name, "naopc_removal"] for name in names}
    random_order = columns["random_ranking", "naopc_removal"]
    pairs = [(of[name], random_order) for name in names] + [(of[names[0]], of[name]) for name in names[1:]]
    p = [wilcoxon(a, b, zero_method="pratt", correction=False, method="approx").pvalue for a, b in pairs]
    expected = holm(p)
    got = [source.p_random for source in found.sources[:3]] + [source.p_best for source in found.sources[1:3]]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("metric", "values", "fails"),
    [
        ("polarity_violation", np.arange(N) % 2, ["polarity"]),
        ("polarity_violation", np.arange(N) % 4 == 0, ["polarity"]),  # a quarter: the interval holds the line
        ("stability_tau", np.full(N, 0.5), ["stability"]),
        ("stability_tau", np.full(N, np.nan), []),  # not measured: forbids nothing
        ("naopc_removal", near(0.75, 5), ["order"]),
        ("naopc_removal", near(0.753, 6), ["order"]),  # the interval holds the line
    ],
)
def test_each_line_by_itself(metric, values, fails):
    columns = columns_of(attention=0.9)
    columns["attention", metric] = values
    found = recommended(columns)
    assert list(found.sources[0].fails) == fails
    assert found.source == (None if fails else "attention")


def test_a_source_that_lacks_a_number_is_not_recommended():
    columns = columns_of(attention=0.8, untested=0.95)
    del columns["untested", "polarity_violation"]
    found = recommended(columns)
    assert (found.sources[0].source, list(found.sources[0].fails)) == ("untested", ["unmeasured"])
    assert found.source == "attention"
    del columns["attention", "polarity_violation"]
    assert recommended(columns).source == "untested"


def test_no_better_than_random_orders():
    columns = columns_of(attention=0.9)
    columns["random_ranking", "naopc_removal"] = columns["attention", "naopc_removal"] + 0.01
    found = recommended(columns)
    assert found.source is None
    assert list(found.sources[0].fails) == ["chance"]


def test_few_texts():
    assert recommended(columns_of(n=29, attention=0.95), n=29).source is None
    assert recommended(columns_of(n=30, attention=0.95), n=30).source == "attention"
    columns = columns_of(attention=0.95)
    columns["attention", "naopc_removal"][29:] = np.nan
    assert recommended(columns).source is None
    assert recommended(columns).n == 29


def test_equal_orders_are_told_apart_by_the_next_number():
    columns = columns_of(first=0.9, second=0.9)
    columns["second", "naopc_removal"] = columns["first", "naopc_removal"] - 1e-6
    assert recommended(columns).source == "first"
    columns["first", "flip_optimal"] = np.arange(N) % 2
    assert recommended(columns).source == "second"
    columns["second", "flip_optimal"] = np.arange(N) % 2
    columns["first", "polarity_violation"] = np.arange(N) % 10 == 0
    assert recommended(columns).source == "second"
    columns["second", "polarity_violation"] = np.arange(N) % 10 == 0
    columns["first", "stability_tau"] = np.full(N, 0.8)
    assert recommended(columns).source == "second"


def test_deletion_counts_where_removal_is_not_exact():
    columns = {**columns_of("naopc_removal", attention=0.9), **columns_of("naopc", attention=0.2, gradient=0.9)}
    assert recommended(columns).measure == "naopc_removal"
    del columns["smallest_set", "decision_flip"]
    found = recommended(columns)
    assert (found.measure, found.source) == ("naopc", "gradient")
    only_removal = columns_of("naopc_removal", attention=0.9)
    del only_removal["smallest_set", "decision_flip"]
    assert recommended(only_removal).measure == "naopc_removal"


def test_polarity_by_removal_where_nothing_can_be_deleted():
    columns = columns_of(attention=0.9)
    del columns["attention", "polarity_violation"]
    columns["attention", "polarity_violation_removal"] = np.ones(N)
    assert list(recommended(columns).sources[0].fails) == ["polarity"]


def test_no_orders_no_recommendation():
    table = scores({("attention", "decision_flip"): np.ones(N)})
    assert recommendations(lambda: [table], [f"e{i}" for i in range(N)]) == []


def test_each_site_has_its_own():
    one = scores(columns_of(attention=0.9), site="layer.0")
    two = scores(columns_of(attention=0.4), site="layer.1")
    found = recommendations(lambda: [one, two], [f"e{i}" for i in range(N)])
    assert [(each.site, each.source) for each in found] == [("layer.0", "attention"), ("layer.1", None)]


def test_summary_keeps_it():
    found = recommended(columns_of(attention=0.9, other=0.3))
    summary = RunSummary(recommendation=[found])
    text = json.dumps(summary.as_json()).replace("NaN", "null")
    (again,) = RunSummary.from_json(json.loads(text)).recommendation
    assert isinstance(again, Recommendation)
    assert repr(replace(again, lines=dict(again.lines))) == repr(replace(found, lines=dict(found.lines)))


def with_both(deleted, masked):
    """Sources that deletion and masks rank differently, with the share of erased texts that are unusual."""
    columns = columns_of("naopc", attention=0.9, signed_leave_one_out=0.8)
    del columns["smallest_set", "decision_flip"]
    columns["attention", "naopc_mask"] = near(0.8, 5)
    columns["signed_leave_one_out", "naopc_mask"] = near(0.95, 6)
    columns["random_ranking", "naopc_mask"] = near(0.5, 7)
    for name, share in (("deleted_outside", deleted), ("masked_outside", masked)):
        for source, more in (("attention", -0.02), ("signed_leave_one_out", 0.02), ("random", 0.9)):
            columns[source, name] = np.full(N, share + more)
    return columns


@pytest.mark.parametrize(
    ("deleted", "masked", "measure"),
    [(0.4, 0.05, "naopc_mask"), (0.4, 0.2, "naopc"), (0.08, 0.05, "naopc"), (math.nan, math.nan, "naopc")],
)
def test_masks_rank_where_their_texts_are_in_distribution_and_shortened_ones_are_not(deleted, masked, measure):
    found = recommended(with_both(deleted, masked))
    assert found.measure == measure
    assert found.source == {"naopc": "attention", "naopc_mask": "signed_leave_one_out"}[measure]
    known = {} if math.isnan(deleted) else {"delete": deleted, "mask": masked}
    assert found.outside == pytest.approx(known)  # of no control
    assert found.lines["outside"] == 0.1
    stored = RunSummary.from_json(json.loads(json.dumps(RunSummary(recommendation=[found]).as_json())))
    assert stored.recommendation[0].outside == found.outside


def test_masks_alone_and_exact_removal():
    columns = with_both(0.4, 0.05)
    alone = {key: values for key, values in columns.items() if key[1] != "naopc"}
    assert recommended(alone).measure == "naopc_mask"
    exact = {**columns, **columns_of("naopc_removal", attention=0.9)}
    assert recommended(exact).measure == "naopc_removal"
