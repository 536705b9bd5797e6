"""AtteFa's evaluator against the functional layer and slow loops, and the metric table as a whole."""

import math

import numpy as np
import pytest

from attn_faithful import schema
from attn_faithful.evaluators import attefa
from attn_faithful.evaluators.metric_table import all_tests, metric_table
from attn_faithful.functional import attefa as faithfulness
from tests.reference import divergences as slow
from tests.reference import faithfulness as slow_faithfulness

LENGTHS = [3, 1, 0, 5, 2, 8]
EXAMPLES = [f"test-{i}" for i in range(6)]


def outputs(seed, classes=3, multi_label=False):
    generator = np.random.default_rng(seed)
    chances = generator.random((6, classes)) if multi_label else generator.dirichlet(np.ones(classes), size=6)
    return chances, [generator.dirichlet(np.ones(n)) if n else np.zeros(0) for n in LENGTHS]


BASE, TWIN = outputs(0), outputs(1)


@pytest.fixture(scope="module")
def columns():
    return attefa.run(EXAMPLES, BASE, TWIN, "attefa-10")


def scores(columns, base=BASE, **settings):
    tvd = np.asarray(columns["output_tvd"])
    jsd = np.asarray(columns["attention_jsd"])
    return attefa.score(tvd, jsd, base[0], **settings)


# --- the metric table


def test_metric_table():
    table = metric_table()
    names = [metric.name for metric in table]
    assert len(set(names)) == len(names)
    assert {"attefa", "tvd", "jsd", "jsd_at_tvd"} <= set(names)
    for metric in table:
        assert metric.low < metric.high
        assert metric.direction in ("lower", "higher", None)
        assert metric.title
        assert metric.meaning
    assert next(iter(all_tests())) == "attefa"
    for name, test in all_tests().items():
        assert test.name == name
        assert test.metrics


# --- run


def test_columns_are_those_of_the_table(columns):
    assert set(columns) <= set(schema.columns("variants"))
    assert {len(values) for values in columns.values()} == {6}
    assert columns["example"] == EXAMPLES
    assert set(columns["variant"]) == {"attefa-10"}
    assert set(columns["test"]) == {"attefa"}
    assert columns["probabilities"] == TWIN[0].tolist()
    assert [len(weights) for weights in columns["attention"]] == LENGTHS


def test_distances_equal_loops(columns):
    for i, n in enumerate(LENGTHS):
        assert columns["output_tvd"][i] == pytest.approx(slow.tvd(TWIN[0][i], BASE[0][i]), abs=1e-10)
        if n:
            assert columns["attention_jsd"][i] == pytest.approx(slow.jsd(TWIN[1][i], BASE[1][i]), abs=1e-10)
        else:
            assert math.isnan(columns["attention_jsd"][i])


@pytest.mark.parametrize("row", range(6))
def test_an_example_alone_gives_the_same(columns, row):
    def alone(pair):
        return pair[0][row : row + 1], pair[1][row : row + 1]

    one = attefa.run(EXAMPLES[row : row + 1], alone(BASE), alone(TWIN), "attefa-10")
    for name in ("output_tvd", "attention_jsd"):
        assert one[name][0] == pytest.approx(columns[name][row], abs=1e-12, nan_ok=True)


def test_order_and_inputs(columns):
    def turned(pair):
        return pair[0][::-1], pair[1][::-1]

    before = [array.copy() for array in (BASE[0], *BASE[1])]
    reverse = attefa.run(EXAMPLES[::-1], turned(BASE), turned(TWIN), "attefa-10")
    assert reverse["output_tvd"] == columns["output_tvd"][::-1]
    assert scores(reverse, turned(BASE))["attefa"].value == pytest.approx(scores(columns)["attefa"].value, abs=1e-12)
    assert all(np.array_equal(a, b) for a, b in zip(before, (BASE[0], *BASE[1]), strict=True))


def test_several_labels():
    base, twin = outputs(2, 4, True), outputs(3, 4, True)
    columns = attefa.run(EXAMPLES, base, twin, "attefa-10", multi_label=True)
    expected = [slow.multilabel_tvd(twin[0][i], base[0][i]) for i in range(6)]
    assert columns["output_tvd"] == pytest.approx(expected, abs=1e-10)
    found = scores(columns, base, multi_label=True)
    constant = np.abs(base[0] - np.median(base[0], axis=0)).mean()
    assert found["constant_tvd"].value == pytest.approx(constant, abs=1e-10)
    of_texts_with_tokens = [tvd for tvd, n in zip(expected, LENGTHS, strict=True) if n]
    assert found["tvd"].value == pytest.approx(np.mean(of_texts_with_tokens), abs=1e-10)


# --- score


def test_records_equal_loops(columns):
    found = scores(columns)
    defined = [i for i, n in enumerate(LENGTHS) if n]
    tvd, jsd = (np.asarray(columns[name])[defined] for name in ("output_tvd", "attention_jsd"))
    assert found["attefa"].value == pytest.approx(slow_faithfulness.attefa(tvd, jsd), abs=1e-10)
    assert found["tvd"].value == pytest.approx(tvd.mean(), abs=1e-10)
    assert found["tvd"].std == pytest.approx(tvd.std(ddof=0), abs=1e-10)
    assert found["jsd"].value == pytest.approx(jsd.mean(), abs=1e-10)
    assert found["constant_tvd"].value == pytest.approx(slow_faithfulness.constant_twin_tvd(BASE[0]), abs=1e-8)
    assert (found["attefa"].low, found["attefa"].high) == faithfulness.bootstrap_attefa([tvd], [jsd])
    for metric in attefa.ATTEFA, attefa.TVD, attefa.JSD:
        record = found[metric.name]
        assert (record.n, record.n_undefined) == (5, 1)
        assert metric.low <= record.low <= record.value <= record.high <= metric.high
        assert record.reason is None


def test_a_twin_that_gave_up_is_marked():
    constant, _ = faithfulness.constant_twin(BASE[0])
    gone = attefa.run(EXAMPLES, BASE, (np.tile(constant, (6, 1)), TWIN[1]), "x")
    assert scores(gone)["collapsed"].value is True
    kept = attefa.run(EXAMPLES, BASE, (BASE[0], TWIN[1]), "x")
    assert scores(kept)["collapsed"].value is False
    assert scores(kept)["attefa"].value == 0
    moved = attefa.run(EXAMPLES, BASE, (0.9 * BASE[0] + 0.1 * TWIN[0], TWIN[1]), "x")
    assert scores(moved)["tvd"].value > 0
    assert scores(moved)["collapsed"].value is False


def test_a_twin_that_never_moved():
    still = attefa.run(EXAMPLES, BASE, (TWIN[0], BASE[1]), "x")
    record = scores(still)["attefa"]
    assert math.isnan(record.value)
    assert record.reason == faithfulness.NEVER_MOVED


def test_nothing_defined():
    base = BASE[0], [np.zeros(0)] * 6
    found = scores(attefa.run(EXAMPLES, base, base, "x"))
    for name in ("attefa", "tvd", "jsd"):
        assert math.isnan(found[name].value)
        assert found[name].reason
    assert found["attefa"].n_undefined == 6


def test_limit_of_a_constrained_twin(columns):
    tvd = scores(columns)["tvd"].value
    met = scores(columns, max_tvd=tvd + 1e-9)["jsd_at_tvd"]
    assert met.value == scores(columns)["jsd"].value
    assert met.reason is None
    missed = scores(columns, max_tvd=0.05)["jsd_at_tvd"]
    assert math.isnan(missed.value)
    assert missed.reason == f"missed: mean TVD {tvd:.4f} is above 0.05"
    assert "jsd_at_tvd" not in scores(columns)


def test_limit_with_nothing_defined_gives_a_reason():
    base = BASE[0], [np.zeros(0)] * 6
    record = scores(attefa.run(EXAMPLES, base, base, "x"), max_tvd=0.05)["jsd_at_tvd"]
    assert math.isnan(record.value)
    assert record.reason == faithfulness.NO_EXAMPLE


# --- per example


def test_rows_of_the_table_scores(columns):
    rows = attefa.per_example(columns)
    assert set(rows) == set(schema.columns("scores"))
    assert {len(values) for values in rows.values()} == {18}
    keys = zip(rows["example"], rows["metric"], strict=True)
    cells = zip(rows["value"], rows["reason"], strict=True)
    by_key = dict(zip(keys, cells, strict=True))
    assert len(by_key) == 18
    ratios, _ = faithfulness.attefa_per_example(columns["output_tvd"], columns["attention_jsd"])
    for i, example in enumerate(EXAMPLES):
        assert by_key[example, "tvd"] == (columns["output_tvd"][i], None)
        if LENGTHS[i] == 0:
            assert math.isnan(by_key[example, "jsd"][0])
            assert by_key[example, "jsd"][1] == by_key[example, "attefa"][1] == "no content token"
        elif LENGTHS[i] == 1:
            assert by_key[example, "jsd"] == (0.0, None)
            assert by_key[example, "attefa"][1] == faithfulness.NEVER_MOVED
        else:
            assert by_key[example, "attefa"] == (pytest.approx(ratios[i], abs=1e-12), None)
    assert set(rows["source"]) == {"attefa-10"}


def test_nan_in_attention_is_named():
    probabilities, attention = TWIN
    broken = list(attention)
    broken[3] = np.full(LENGTHS[3], math.nan)
    rows = attefa.per_example(attefa.run(EXAMPLES, BASE, (probabilities, broken), "x"))
    keys = zip(rows["example"], rows["metric"], strict=True)
    reasons = dict(zip(keys, rows["reason"], strict=True))
    assert reasons["test-3", "jsd"] == reasons["test-3", "attefa"] == "nan in attention"
    assert reasons["test-2", "attefa"] == "no content token"
