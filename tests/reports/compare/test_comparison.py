"""Two models over the same texts: which texts, how far apart, and whether they differ, beside slow references."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import wilcoxon

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.reports.compare.comparison import compare
from attn_faithful.reports.result import Result
from attn_faithful.reports.run import Run
from tests.reference.common_words import entropy, groups, shares
from tests.reference.divergences import jsd, tvd
from tests.reference.paired import holm_by_definition, p_by_signs
from tests.reports.altered import CELLS, LSTM, MLP, copied, edit
from tests.reports.compare.pairs import changed, in_pieces


@pytest.fixture(scope="module")
def compared():
    return compare(LSTM, MLP)


def tokens(path):
    return Run(path).read("tokens").to_pylist()


def spans(row):
    return list(zip(row["offsets"][::2], row["offsets"][1::2], strict=True))


def test_which_texts(compared):
    assert len(compared) == 10
    assert compared.notes == []
    assert [(side.letter, side.name) for side in (compared.first, compared.second)] == [("A", "lstm"), ("B", "mlp")]
    assert compared.settings == [("recipe.model.encoder", "lstm", "mlp")]
    assert compared.title == "lstm against mlp"


def test_distances_as_the_slow_reference(compared, tmp_path):
    """Of models that cut their texts alike, and of one whose tokens are pieces and which reads three words of each."""
    short = in_pieces(tmp_path / "short", cut=3)
    for other, found in ((MLP, compared), (short, compare(LSTM, short))):
        first, second = tokens(LSTM), tokens(other)
        for place, (one, two) in enumerate(zip(first, second, strict=True)):
            grouped = groups(spans(one), spans(two))
            p, q = shares(grouped, (one["attention"], two["attention"]))
            assert found.texts.attention_jsd[place] == pytest.approx(jsd(p, q), abs=1e-10)
            assert found.texts.attention_tvd[place] == pytest.approx(tvd(p, q), abs=1e-10)
            entropies = [values[place] for values in found.texts.entropies()]
            assert entropies == pytest.approx([entropy(p), entropy(q)], abs=1e-10)
    assert found.matched.read_further == len(found) - sum(len(row["tokens"]) <= 3 for row in first)
    assert any("one model reads words" in note for note in found.notes)


def test_pieces_of_the_same_model_are_no_distance(tmp_path):
    found = compare(MLP, in_pieces(tmp_path / "pieces"))
    assert found.texts.attention_jsd == pytest.approx(np.zeros(10), abs=1e-10)
    assert [common.words for common in found.texts.common] == [row["tokens"] for row in tokens(MLP)]


def test_predictions_as_the_slow_reference(compared):
    first, second = (Run(path).read("predictions").to_pylist() for path in (LSTM, MLP))
    right, of_gold = compared.texts.right(), compared.texts.gold_probabilities()
    for place, (one, two) in enumerate(zip(first, second, strict=True)):
        p, q = one["probabilities"], two["probabilities"]
        decisions = [row.index(max(row)) for row in (p, q)]
        assert compared.texts.prediction_tvd[place] == pytest.approx(tvd(p, q), abs=1e-10)
        assert compared.texts.decisions_differ[place] == (decisions[0] != decisions[1])
        assert [values[place] for values in right] == [decision == one["label"] for decision in decisions]
        assert [values[place] for values in of_gold] == pytest.approx([p[one["label"]], q[one["label"]]], abs=1e-10)


def test_differences_as_the_slow_reference(compared):
    """Means, p and Holm's correction of every number from the scores as they are stored."""
    stored = {}
    for which, path in enumerate((LSTM, MLP)):
        for row in Run(path).read("scores").to_pylist():
            key = row["metric"], row["source"], row["example"]
            stored.setdefault(key, ([], []))[which].append(row["value"])
    table = compared.table()
    examples = Run(LSTM).ids
    checked, p_values = 0, []
    for row in table.to_dict("records"):
        numbers = [compared.differences[len(p_values)].numbers]
        pairs = [(a, b) for a, b in zip(numbers[0].first, numbers[0].second, strict=True) if math.isfinite(a + b)]
        if (row["metric"], row["source"], examples[0]) in stored:
            both = [stored.get((row["metric"], row["source"], each), ([], [])) for each in examples]
            means = [[np.mean(values) if values else math.nan for values in sides] for sides in both]
            pairs = [(a, b) for a, b in means if math.isfinite(a) and math.isfinite(b)]
            checked += 1
        apart = np.array([a - b for a, b in pairs])
        assert (row["n"], row["n_undefined"]) == (len(pairs), 10 - len(pairs))
        p = math.nan
        if len(pairs):
            assert row["mean"] == pytest.approx(apart.mean(), abs=1e-10)
            assert row["first"] == pytest.approx(np.mean([a for a, _ in pairs]), abs=1e-10)
            assert row["low"] <= row["mean"] <= row["high"]
            p = p_by_signs(np.round(apart, 12)) if np.any(np.abs(apart) > 1e-12) else 1.0
            assert row["p"] == pytest.approx(p, abs=1e-9)
        p_values.append(p)
    known = [p for p in p_values if not math.isnan(p)]
    corrected = table["p_holm"].dropna().tolist()
    assert corrected == pytest.approx(holm_by_definition(known), abs=1e-9)
    assert checked > 50
    assert len(known) < len(p_values), "one number is undefined in every text"
    assert math.isnan(table["p"][p_values.index(next(p for p in p_values if math.isnan(p)))])


def test_a_number_beside_scipy(compared):
    (row,) = [each for each in compared.differences if each.numbers.metric.name == "attention_entropy"]
    expected = wilcoxon(row.numbers.first, row.numbers.second, method="exact")
    assert row.test.p == pytest.approx(expected.pvalue, abs=1e-12)


def test_identical_runs():
    found = compare(LSTM, Result(LSTM))
    table = found.table()
    defined = table[table["n"] > 0]
    assert len(defined) > 50
    for column, value in (("mean", 0.0), ("low", 0.0), ("high", 0.0), ("effect", 0.0), ("p", 1.0), ("p_holm", 1.0)):
        assert set(defined[column]) == {value}, column
    assert [distance.summary.mean for distance in found.distances] == [0.0] * 4
    assert found.settings == []
    assert "none differ" in str(found)


def test_the_other_way_round(compared):
    back = compare(MLP, LSTM).table().set_index(["metric", "source"])
    there = compared.table().set_index(["metric", "source"])
    assert set(back.index) == set(there.index)
    back = back.loc[there.index]
    assert back["mean"].to_numpy() == pytest.approx(-there["mean"].to_numpy(), nan_ok=True)
    assert back["p"].to_numpy() == pytest.approx(there["p"].to_numpy(), nan_ok=True)


def test_a_base_and_its_twin():
    found = compare(LSTM)
    twin = found.second.twin
    assert twin in Run(LSTM).twins
    assert "A is the base, B its twin" in found.about
    stored = Run(LSTM).scores("jsd", twin, found.first.site).to_numpy()
    assert found.texts.attention_jsd == pytest.approx(stored, abs=1e-4)  # stored numbers are rounded
    stored = Run(LSTM).scores("tvd", twin, found.first.site).to_numpy()
    assert found.texts.prediction_tvd == pytest.approx(stored, abs=1e-5)
    assert {each.numbers.source for each in found.differences} == {""}
    assert compare(LSTM, twin=list(Run(LSTM).twins)[-1]).second.twin == list(Run(LSTM).twins)[-1]


def test_the_twin_that_is_asked_for(tmp_path):
    """Of two twins, one of which says the same of every text and attends to the first word alone."""

    def with_another(columns):
        of_twin = [row for row, test in enumerate(columns["test"]) if test == "attefa"]
        for row in of_twin:
            weights = columns["attention"][row]
            other = {
                "variant": "other-9",
                "probabilities": [0.25, 0.75],
                "attention": [1.0, *([0.0] * (len(weights) - 1))],
            }
            for name, values in columns.items():
                values.append(other.get(name, values[row]))

    folder = changed(tmp_path / "twins", "variants", with_another, cell=LSTM)
    summary = json.loads((folder / "summary.json").read_text())
    twins = summary["twins"]
    edit(folder / "summary.json", twins={"other-9": next(iter(twins.values())), **twins})
    other, first = compare(folder, twin="other-9"), compare(folder, twin=next(iter(twins)))
    assert other.texts.probabilities[1].tolist() == [[0.25, 0.75]] * 10
    assert other.texts.entropies()[1].tolist() == [0.0] * 10
    assert first.texts.prediction_tvd.tolist() == compare(LSTM).texts.prediction_tvd.tolist()
    assert compare(folder).second.name == "twin other-9", "the first of the summary"


def test_classes_in_another_order(tmp_path):
    def turned(columns):
        columns["label"] = [1 - label for label in columns["label"]]
        columns["probabilities"] = [row[::-1] for row in columns["probabilities"]]

    other = changed(tmp_path / "turned", "predictions", turned)
    edit(other / "meta.json", label_names=Run(MLP).label_names[::-1])
    found, plain = compare(LSTM, other), compare(LSTM, MLP)
    assert found.matched.other_label == 0
    assert found.texts.prediction_tvd.tolist() == plain.texts.prediction_tvd.tolist()
    assert found.texts.right()[1].tolist() == plain.texts.right()[1].tolist()


def test_labels_that_only_one_run_knows(tmp_path):
    def unknown(columns):
        columns["label"] = [-1] * len(columns["label"])

    def others(columns):
        columns["label"][0] = 1 - columns["label"][0]

    bare = changed(tmp_path / "bare", "predictions", unknown, cell=LSTM)
    found = compare(bare, MLP)
    assert found.matched.labels == Run(MLP).labels
    assert found.notes == []
    assert "accuracy" not in {each.numbers.metric.name for each in compare(bare, bare).differences}
    assert compare(LSTM, changed(tmp_path / "other", "predictions", others)).notes == [
        "1 text has another label in B; that of A stands here."
    ]


def test_texts_that_only_one_has_are_counted(tmp_path):
    def renamed(columns):
        columns["example"][:2] = ["elsewhere-1", "elsewhere-2"]

    def other_words(columns):
        columns["tokens"][9] = [f"{word[:-1]}x" for word in columns["tokens"][9]]

    for table in ("predictions", "tokens"):
        folder = changed(
            tmp_path / table, table, renamed, cell=MLP if table == "predictions" else tmp_path / "predictions"
        )
    folder = changed(tmp_path / "texts", "tokens", other_words, cell=folder)
    found = compare(LSTM, folder)
    assert len(found) == 7
    assert found.matched.first == list(range(2, 9))
    (note,) = found.notes
    assert note.startswith("Left out: 2 texts in A alone, 2 texts in B alone, 1 text of the same id that")
    assert set(found.table()["n"] + found.table()["n_undefined"]) == {7}


def test_undefined_numbers_are_counted_with_their_reason(tmp_path):
    def undefined(columns):
        for row, (metric, example) in enumerate(zip(columns["metric"], columns["example"], strict=True)):
            if metric == "attention_permutation" and example in Run(MLP).ids[:3]:
                columns["value"][row], columns["reason"][row] = math.nan, "constant attention"

    def unread(columns):
        columns["probabilities"][0] = [math.nan, math.nan]

    folder = changed(tmp_path / "scores", "scores", undefined)
    folder = changed(tmp_path / "unread", "predictions", unread, cell=folder)
    found = compare(LSTM, folder)
    (shuffled,) = [each for each in found.differences if each.numbers.metric.name == "attention_permutation"]
    assert (shuffled.test.n, shuffled.n_undefined, shuffled.reasons) == (7, 3, {"constant attention": 3})
    (accuracy,) = [each for each in found.differences if each.numbers.metric.name == "accuracy"]
    assert (accuracy.test.n, accuracy.n_undefined) == (9, 1)
    assert [distance.summary.n for distance in found.distances] == [10, 10, 9, 9]
    assert found.distances[3].summary.reasons == {"not predicted": 1}


def test_several_labels(tmp_path):
    def several(columns):
        columns["label"] = [[1, 0], [1, 1], *([[0, 1]] * 8)]
        columns["probabilities"] = [[0.9, 0.6], *([[0.2, 0.7]] * 9)]

    first = changed(tmp_path / "first", "predictions", several, cell=LSTM)
    second = changed(
        tmp_path / "second",
        "predictions",
        lambda columns: several(columns) or columns["probabilities"].__setitem__(0, [0.5, 0.1]),
    )
    found = compare(first, second)
    assert found.texts.prediction_tvd[:2] == pytest.approx([(0.4 + 0.5) / 2, 0.0])
    assert found.texts.decisions_differ[:2].tolist() == [1, 0]
    assert [values[:3].tolist() for values in found.texts.right()] == [[0, 0, 1], [1, 0, 1]]
    assert found.texts.gold_probabilities()[0][0] == pytest.approx((0.9 + 0.4) / 2)
    assert '"examples":[[0,"test-0",null,[0],[[0,1],[0]],[0.6,0.5],' in found.html()


def test_runs_that_were_not_made_alike_are_told(tmp_path):
    meta = json.loads((MLP / "meta.json").read_text())
    meta["recipe"]["evaluation"]["units"] = "token"
    folder = copied(tmp_path / "units", cell=MLP, recipe=meta["recipe"])
    found = compare(LSTM, folder)
    assert any("not made alike" in note for note in found.notes)
    assert ("recipe.evaluation.units", "word", "token") in found.settings


def test_names(tmp_path):
    """What only one of the runs has is told beside what both are."""
    meta = json.loads((LSTM / "meta.json").read_text())
    meta["recipe"]["model"]["projection"] = "sparsemax"
    other = copied(tmp_path / "sparsemax", recipe=meta["recipe"], numbers=1)
    assert compare(LSTM, other).title == "Mock-1 lstm against Mock-1 lstm sparsemax"
    assert compare(LSTM, other, names=("one", "two")).title == "one against two"


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        (["nowhere", LSTM], {}, "nowhere"),
        ([CELLS, LSTM], {}, "Expected one run, but"),
        ([LSTM, 7], {}, "but got int"),
        ([LSTM, MLP], {"twin": "attefa-1"}, "two runs were given"),
        ([LSTM], {"twin": "attefa-99"}, "Unknown twin 'attefa-99'"),
        ([LSTM, MLP], {"names": "ab"}, "the names of two models"),
        ([LSTM, MLP], {"names": ["one"]}, "the names of two models"),
    ],
)
def test_what_cannot_be_compared(given, settings, says):
    with pytest.raises(InputError, match=says):
        compare(*given, **settings)


def test_runs_that_cannot_be_compared(tmp_path):
    def renamed(columns):
        columns["example"] = [f"other-{i}" for i in range(len(columns["example"]))]

    def other_words(columns):
        columns["tokens"] = [["x" * len(word) for word in words] for words in columns["tokens"]]

    ids = changed(tmp_path / "tokens", "tokens", renamed, changed(tmp_path / "ids", "predictions", renamed))
    with pytest.raises(InputError, match=r"Expected two runs over the same texts.*none of the ids"):
        compare(LSTM, ids)
    with pytest.raises(InputError, match=r"10 ids of both stand for different texts"):
        compare(LSTM, changed(tmp_path / "words", "tokens", other_words))
    with pytest.raises(InputError, match="Expected two models of the same classes"):
        compare(LSTM, copied(tmp_path / "classes", cell=MLP, label_names=["bad", "good"]))
    bare = copied(tmp_path / "bare", cell=MLP)
    edit(bare / "summary.json", twins={}, tests=[])
    for name in ("tokens", "scores", "variants"):
        (bare / f"{name}.parquet").unlink()
    with pytest.raises(InputError, match=r"tokens\.parquet"):
        compare(LSTM, bare)
    with pytest.raises(InputError, match="has no twin"):
        compare(Run(bare))
    with pytest.raises(InputError, match="holds none"):
        compare(LSTM, Run(bare))


def test_runs_without_tests(tmp_path):
    """Those of train: predictions and attention."""
    bare = copied(tmp_path / "bare", cell=MLP)
    edit(bare / "summary.json", twins={}, tests=[])
    for name in ("scores", "variants"):
        (bare / f"{name}.parquet").unlink()
    found = compare(LSTM, bare)
    assert {each.numbers.source for each in found.differences} == {""}
    assert found.distances[0].summary.n == 10


def test_shows_itself(compared):
    assert af.compare is compare
    shown = compared._repr_html_()
    assert "A - B" in shown
    assert "<script" not in shown
    assert repr(compared) == "Comparison('lstm against mlp', 10 texts)"
    assert len(compared.examples) == 10
    every, main = compared.tables()[-1], compared.tables(full=False)[-1]
    assert len(main.rows) < len(every.rows) == len(compared.differences) - 1
    assert "1 number that no text has in both models: not shown." in every.notes
    assert f"corrected for all {len(every.rows)} numbers" in every.notes[0]
    assert every.notes[0] == main.notes[0]
