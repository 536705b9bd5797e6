"""The answer of a run: competence, verdict or why there is none, sentences with their n; the same everywhere."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from attn_faithful.records.scores import MetricFacts
from attn_faithful.records.twins import Measured
from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.answer.answer import _joint_verdict, answer
from attn_faithful.reports.answer.findings import completely_different, findings
from attn_faithful.reports.answer.verdict import AGAINST, TEXTS, Verdict
from attn_faithful.reports.escaping import markdown
from attn_faithful.reports.explanation import Explanation
from attn_faithful.reports.html.cards import cards
from attn_faithful.reports.html.page import page
from attn_faithful.reports.model_card import model_card
from attn_faithful.reports.report import report
from attn_faithful.reports.result import Result
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores
from attn_faithful.reports.tables.headlines import headline_table
from attn_faithful.reports.tables.sources import speaks
from attn_faithful.reports.tables.twins import attefa_table
from tests.reports.altered import LSTM
from tests.reports.made import MARKUP, long_texts, made


def with_scores(run: Run, change) -> Run:
    """The run with other scores: ``change(metric, source, number of the text, value)``; its records are made anew."""
    table = run.read("scores").to_pydict()
    columns = zip(table["metric"], table["source"], table["example"], table["value"], strict=True)
    table["value"] = [change(metric, source, int(text[1:]), value) for metric, source, text, value in columns]
    run.folder.write_table("scores", table)
    summary = run.folder.read_summary()
    for record in summary["tests"]:
        keys = zip(table["metric"], table["source"], table["value"], strict=True)
        own = [v for m, s, v in keys if (m, s) == (record["metric"], record["source"])]
        known = [v for v in own if math.isfinite(v)]
        record |= {"n": len(known), "n_undefined": len(own) - len(known), "mean": np.mean(known) if known else None}
        record |= {"low": None, "high": None} if len(known) < 2 else {}
    run.folder.write_summary(summary)
    return Run(run.path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("runs") / "run", long_texts(60, 12), twins=True, right=True, shift=0.4)


def shown(found) -> str:
    console = Console(width=400, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - as long as the test
    console.print(found)
    return console.export_text()


def test_everything_shows_the_same_answer_first(run):
    found = answer(run)
    assert found.verdict.key == "against"
    assert found.competence_text.startswith("On 60 texts the model has accuracy 0.90 (0.80 to 0.95)")
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page(run))).replace("&#34;", '"').replace("&#39;", "'")
    explained = Explanation(run)
    places = {
        "page": plain,
        "result": repr(Result(run.path)),
        "terminal": shown(found),
        "notebook": Result(run.path)._repr_html_(),
        "explanation": str(explained),
        "explain": shown(explained),
    }
    for name, text in places.items():
        text = re.sub(r"\s+", " ", text.replace("&#34;", '"').replace("&#39;", "'"))
        position = [
            text.index(found.competence_text),
            text.index(found.verdict_text),
            text.index(found.statements[0]),
        ]
        assert position == sorted(position), name
        for sentence in found.statements:
            assert sentence in text, (name, sentence)


def test_a_model_that_guesses_gets_no_verdict(tmp_path):
    guessing = made(tmp_path / "run", long_texts(60, 12), shift=0.4)
    assert {found.says for found in findings(Scores([guessing], "pool"))} == {AGAINST}
    found = answer(guessing)
    assert found.verdict is None
    assert found.verdict_text.startswith("No verdict: the model is not shown to predict better than always")
    assert 'class="pill none"' in page(guessing)
    assert found.lines.index(found.competence_text) < found.lines.index(found.statements[0])


def test_unknown_labels_leave_competence_open(tmp_path):
    found = answer(made(tmp_path / "run", long_texts(60, 12), gold=[-1] * 60, shift=0.4))
    assert "unknown" in found.competence_text
    assert found.verdict_text == (
        "Verdict: not a faithful explanation, as far as the model predicts well, which is unknown."
    )
    assert "competence unknown" in found.pill


@pytest.mark.parametrize(("n", "there"), [(29, False), (30, True)])
def test_fewer_than_thirty_texts_make_no_verdict_and_are_marked(tmp_path, n, there):
    few = made(tmp_path / "run", long_texts(n, 12), right=True, shift=0.4, twins=True)
    found = answer(few)
    assert (found.verdict is not None) is there
    assert ("few texts" in found.verdict_text) is not there
    html = page(few)
    assert ('class="pill few"' in html) is not there
    assert (f"n {n}, few texts" in html) is not there
    assert ("(few)" in headline_table(aggregate([few])).rows[0][4]) is not there


def test_twins_on_few_texts_say_nothing(run, monkeypatch):
    monkeypatch.setattr(Run, "recipe", {"model": {"encoder": "mlp"}})
    scores = Scores([Run(run.path)], "pool")
    twins = scores.run.summary.twins
    twin = twins["attefa-10"]
    assert "attefa" in {found.test for found in findings(scores)}
    few, gave_up, constant = replace(twin.attefa, n=29), Measured(True), Measured(0.09)
    for change in ({"attefa": few}, {"collapsed": gave_up}, {"constant_tvd": constant}):
        twins["attefa-10"] = replace(twin, numbers=twin.numbers | change)
        assert "attefa" not in {found.test for found in findings(scores)}, change
    twins["attefa-10"] = replace(twin, numbers=twin.numbers | {"constant_tvd": Measured(0.4)})
    assert "attefa" in {found.test for found in findings(scores)}


def test_a_base_that_is_nearly_constant_is_marked(tmp_path):
    """Its twins keep its predictions whatever they attend to: AtteFa .03, and "collapsed" would be as empty."""
    constant = made(tmp_path / "run", long_texts(60, 12), tests=(), twins=True, constant=0.01, right=True)
    table = attefa_table(aggregate([constant]))
    assert table.rows[0][table.head.index("Collapsed")] == "0 of 1 (base constant)"
    assert any("nearly the same for every text" in note for note in table.notes)
    assert "AtteFa (base constant)" in page(constant)
    assert any(
        sentence.startswith("The model predicts nearly the same for all 60 texts")
        for sentence in answer(constant).statements
    )
    assert any("base constant" in cell for row in headline_table(aggregate([constant])).rows for cell in row)


def test_a_report_begins_with_the_answer(tmp_path):
    found = answer(Run(LSTM))
    made_of = report([LSTM], tmp_path / "report", pages=False)
    assert str(made_of).splitlines()[: len(found.lines)] == found.lines
    text = (made_of.path / "report.md").read_text(encoding="utf-8")
    places = [text.index(markdown(line)) for line in found.lines]
    assert places == sorted(places)
    assert places[-1] < text.index("## ")


# sentences


@pytest.mark.parametrize(("n_at_last", "told"), [(0, None), (3, "3 of them"), (60, "all of them")])
def test_texts_that_flip_only_once_nothing_is_left_are_counted(tmp_path, n_at_last, told):
    """With no word left a model says one class for every text: a text of another class flips there at the latest."""
    base = made(tmp_path / "run", long_texts(60, 12), right=True)
    rows = base.read("scores").to_pylist()
    of_attention = [row for row in rows if row["metric"] == "flip_size" and row["source"] == "attention"]
    for row in of_attention:
        at_last = float(int(row["example"][1:]) < n_at_last)
        rows.append({**row, "metric": "flip_at_last", "value": at_last})
    base.folder.write_table("scores", {name: [row[name] for row in rows] for name in rows[0]})
    said = answer(Run(base.path)).statements
    (flips,) = [sentence for sentence in said if "flips the decision after" in sentence]
    assert ("only once" in flips) == (told is not None)
    if told is not None:
        assert flips.endswith(f"; in {told} only once no word is left.")


def test_what_is_never_so_comes_first_with_its_n(tmp_path):
    base = made(tmp_path / "run", long_texts(60, 12), right=True)

    def change(metric, source, text, value):
        if metric == "flip_never" and source == "attention":
            return float(text >= 3)
        if metric in ("decision_flip", "flip_size") and text >= 3:
            return math.nan
        return value

    said = answer(with_scores(base, change)).statements
    never = next(i for i, sentence in enumerate(said) if "never flips" in sentence)
    assert said[never] == "In 57 of 60 texts removing words in attention's order never flips the decision."
    assert said[never + 1].startswith(
        "In the other 3, removing the words with most attention flips the decision after a"
    )


def test_an_order_that_never_flips_any_text(tmp_path):
    base = made(tmp_path / "run", long_texts(40, 12), right=True)

    def change(metric, source, text, value):
        if source == "attention" and metric in ("decision_flip", "flip_size", "flip_never"):
            return 1.0 if metric == "flip_never" else math.nan
        if source == "smallest_set" and text >= 10:
            return math.nan
        return value

    said = answer(with_scores(base, change)).statements
    never = "In none of the 40 texts does removing words in attention's order flip the decision"
    assert f"{never}, though removing others does in 10 of them." in said


@pytest.mark.parametrize(
    ("jsd", "upper", "expected"),
    [
        (0.1, 0.1, "In none of the 40 texts does a completely different attention give the same answer"),
        (
            0.1,
            math.nan,
            "In none of the 40 texts did the search find a completely different attention that gives "
            "the same answer (p within 0.01); in 40 of them there may be one that it missed",
        ),
        (0.65, 0.65, "In all 40 texts a completely different attention gives the same answer"),
    ],
)
def test_what_was_searched_is_not_what_there_is(tmp_path, jsd, upper, expected):
    values = {"adversarial_attention": jsd, "adversarial_upper": upper}
    found = with_scores(
        made(tmp_path / "run", long_texts(40, 12)), lambda metric, source, text, value: values.get(metric, value)
    )
    assert any(sentence.startswith(expected) for sentence in answer(found).statements)
    assert "0%" not in " ".join(answer(found).statements)


def test_texts_in_which_the_search_left_room_are_counted(tmp_path):
    def change(metric, source, text, value):
        if metric == "adversarial_attention":
            return 0.65 if text < 10 else 0.1
        if metric == "adversarial_upper":
            return 0.69 if text < 15 else 0.1
        return value

    run = with_scores(made(tmp_path / "run", long_texts(40, 12)), change)
    found = completely_different(Scores([run], "pool"))
    assert (found.share, found.most, found.n) == (0.25, 0.375, 40)
    assert any(
        sentence.startswith("In 10 of 40 texts (25%) the search found") and "; in 5 others there may be" in sentence
        for sentence in answer(run).statements
    )


def test_numbers_side_by_side_are_over_the_same_texts(tmp_path):
    """Attention flips every text, the smallest set is known of a few with other fractions."""

    def change(metric, source, text, value):
        if metric == "decision_flip":
            if source == "attention":
                return 0.9 if text < 10 else 0.1
            return 0.5 if text < 10 else math.nan
        if metric == "attention_correlation" and "leave_one_out" in source and text >= 20:
            return math.nan
        if metric == "attention_correlation":
            return 0.5 if text < 20 else -0.5
        return value

    run = with_scores(made(tmp_path / "run", long_texts(40, 12)), change)
    by_key = {card.key: card for card in cards(run, "pool")[0]}
    assert by_key["remove"].value == "0.30"
    assert "best possible 0.50 against 0.90 in the same 10 texts" in by_key["remove"].beside
    said = next(sentence for sentence in answer(run).statements if sentence.startswith("Attention "))
    assert "mean tau 0.50" in said
    assert said.endswith("over the same 20 texts.")
    row = next(row for row in headline_table(aggregate([run])).rows if row[0] == "flips")
    assert row[2] == "0.300"
    assert "smallest set 0.500 for 0.900 (n 10)" in row[-1]


def test_every_sentence_has_its_n(run):
    for sentence in answer(run).statements:
        assert re.search(r"\b60 texts\b", sentence), sentence


def by_label(run: Run) -> Run:
    """The run with flips asked of two labels: the first never flips, the second does in the first thirty texts."""
    table = run.read("scores").to_pydict()
    table["label"] = [None] * len(table["metric"])
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    kept = []
    for row in rows:
        if row["metric"] not in ("flip_never", "flip_size", "decision_flip"):
            kept.append(row)
            continue
        for label in ("kind", "short"):
            text = int(row["example"].removeprefix("t"))
            stuck = row["source"] == "attention" and (label == "kind" or text >= 30)
            value = row["value"]
            if row["metric"] == "flip_never":
                value = float(stuck)
            elif stuck:
                value = math.nan
            kept.append({**row, "label": label, "value": value})
    run.folder.write_table("scores", {name: [row[name] for row in kept] for name in table})
    return Run(run.path)


def test_labels_that_were_asked_by_themselves_are_counted_in_pairs(tmp_path):
    """The mean over the labels of a text is neither 0 nor 1, and would be cut to 0."""
    run = by_label(made(tmp_path / "run", long_texts(40, 12), right=True))
    assert run.scores_by_label("flip_never", site="pool").shape == (2, 40)
    assert run.scores_by_label("attention_correlation", "attention~leave_one_out", "pool") is None
    said = answer(run).statements
    assert (
        "In 50 of 80 pairs of text and label removing words in attention's order never flips the decision, though "
        "removing others does in 50 of them." in said
    )
    assert any(sentence.startswith("In the other 30, removing the words with most attention") for sentence in said)


@pytest.mark.parametrize(("n", "there"), [(29, False), (30, True)])
def test_labels_of_a_text_are_no_texts_of_their_own(tmp_path, n, there):
    run = by_label(made(tmp_path / "run", long_texts(n, 12), right=True))
    assert ("flips" in {found.test for found in findings(Scores([run], "pool"))}) is there


# several seeds and sites


def test_several_seeds_must_agree(tmp_path):
    first = made(tmp_path / "a", long_texts(60, 12), right=True, shift=0.4, seed=0)
    second = made(tmp_path / "b", long_texts(60, 12), right=True, shift=0.4, seed=1)
    joint = answer([first, second])
    assert joint.verdict.key == "against"
    assert "120 texts (of 2 seeds)" in joint.statements[0]
    assert "Seed 0: On 60 texts" in joint.competence_text
    assert "Seed 1: On 60 texts" in joint.competence_text
    mixed = made(tmp_path / "c", long_texts(60, 12), right=True, shift=-0.4, seed=2)
    assert answer(mixed).verdict.key == answer([first, mixed]).verdict.key == "mixed"
    for keys in (("against", "for"), ("for", "against")):
        assert _joint_verdict([first, second], [(Verdict(key, TEXTS[key]), "") for key in keys])[0].key == "mixed"
    guessing = made(tmp_path / "d", long_texts(60, 12), shift=0.4, seed=3)
    assert answer([first, guessing]).reason.startswith("seed 3: the model is not shown to predict better")


def test_a_run_without_tests_says_so(tmp_path):
    run = made(tmp_path / "run", long_texts(40, 12), right=True)
    run.folder.write_summary({**run.folder.read_summary(), "tests": [], "twins": {}})
    assert "No verdict: no test was run; attn-faithful evaluate" in str(answer(Run(run.path)))


def test_the_most_that_attention_can_move_is_told_where_special_tokens_keep_some(tmp_path):
    reach = {"jsd_reachable": 0.42}
    run = with_scores(
        made(tmp_path / "run", long_texts(40, 12)), lambda metric, source, text, value: reach.get(metric, value)
    )
    run.info = replace(run.info, attention={"layers": 6})
    assert "0.42 (mean) is the most that the" in page(run)
    assert "0.693 means wholly different" not in page(run)


def test_layer_heads_and_rows_are_named(tmp_path):
    run = made(tmp_path / "run", long_texts(5, 12), sites=("layer.0", "layer.1"))
    rows = {"layer.0": "mean", "layer.1": "token"}
    attention = {"rows": rows, "heads": [0, 3], "layers": 12, "max_tokens": 512}
    precision = {"measured": "float32", "stored": "bfloat16"}
    run.info = replace(run.info, attention=attention, precision=precision)
    found = answer(run).about
    assert "attention of layer 1 of 12 (from 0), heads 0, 3, the row of the token that the classifier reads" in found
    assert "one of 2 sites" in found
    assert "computed in float32 from weights stored in bfloat16" in found
    run.info = replace(run.info, hardware={"device": "cpu"})
    assert answer(run).about == found
    run.info = replace(run.info, hardware={"device": "cuda (NVIDIA H200)"})
    assert "computed in float32 from weights stored in bfloat16 on cuda (NVIDIA H200)" in answer(run).about
    assert "heads 0, 3" in page(run)


def test_texts_that_were_cut_and_texts_of_another_length_are_told(tmp_path):
    run = made(tmp_path / "run", long_texts(5, 12))
    facts = {"n": 5, "truncated": 2, "tokens_mean": 25.0, "tokens_std": 1.0}
    run.info.data.splits["test"] = facts
    trained_on = {"tokens_mean": 15.0, "tokens_std": 3.0}
    run.info = replace(run.info, attention={"max_tokens": 512}, trained_on=trained_on)
    cut, longer = answer(run).doubts
    assert (
        cut
        == "2 of 5 texts were longer than the model reads and cut to the limit of 512 tokens; the rest was not read."
    )
    assert longer.startswith("The texts are longer than those of the training: 25 tokens on average against 15")
    assert cut in re.sub(r"\s+", " ", page(run))
    run.info = replace(run.info, trained_on={"tokens_mean": 20.0, "tokens_std": 3.0})
    assert len(answer(run).doubts) == 1


# escaping


def test_names_are_text_everywhere(tmp_path):
    nasty = MARKUP[0]
    run = made(tmp_path / "run", long_texts(40, 12), labels=(nasty, "b"), gold=[0] * 40, data=nasty)
    found = answer(run)
    assert nasty in str(found)
    for html in (found._repr_html_(), Result(run.path)._repr_html_()):
        assert "<script" not in html
        assert "&lt;script" in html
    assert "[bold]x" in shown(answer(made(tmp_path / "other", long_texts(3, 12), data="[bold]x[/bold]")))


def test_the_card_of_a_model_has_its_answer(run, tmp_path):
    (run.path / "model").mkdir(exist_ok=True)
    (run.path / "model" / "config.json").write_text(json.dumps({"model_type": "x"}))
    card = model_card(run)
    assert "the model has accuracy 0.90" in card
    assert "Verdict: not a faithful explanation" in card


# directions


@pytest.mark.parametrize(
    ("source", "test", "expected"),
    [
        ("attention", "flips", "up"),
        ("attention~input_x_gradient", "correlation", "up"),
        ("attefa-10", "attefa", "up"),
        ("random", "erasure", "-"),
        ("uniform", "permutation", "-"),
        ("random_ranking", "flips", "-"),
        ("random~input_x_gradient", "correlation", "-"),
        ("attention~random", "correlation", "-"),
        ("smallest_set", "flips", "-"),
        ("leave_one_out", "erasure", "-"),
        ("input_x_gradient~leave_one_out", "correlation", "-"),
    ],
)
def test_only_the_models_own_attention_has_a_direction(source, test, expected):
    assert speaks(source, MetricFacts("m", "m", direction="higher", test=test)) == expected


def test_plausibility_speaks_neither_way():
    from attn_faithful.evaluators.base import EVALUATORS

    assert {spec.direction for spec in EVALUATORS["plausibility"].metrics} == {None}


@pytest.mark.parametrize(
    ("violated", "said"),
    [
        (
            [1.0] * 10 + [0.0] * 30,
            "In 10 of 40 texts (25%) the word with most attention does not speak for the decision.",
        ),
        ([0.0] * 40, "In none of the 40 texts does the word with most attention fail to speak for the decision."),
        ([1.0], "Here the word with most attention does not speak for the decision, which is as sure without it."),
    ],
)
def test_polarity_in_words(violated, said, tmp_path, monkeypatch):
    from attn_faithful.reports.answer.sentences import _polarity
    from attn_faithful.reports.answer.wording import plain

    run = made(tmp_path / "run", ["a b c d"] * len(violated))
    scores = Scores([run], "pool")
    values = {"polarity_violation": np.array(violated)}
    monkeypatch.setattr(Scores, "values", lambda self, metric, source="attention": values[metric])
    assert [plain(sentence) for sentence in _polarity(scores)] == [said]
