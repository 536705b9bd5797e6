"""Tables of AttentionBench from made-up results."""

import csv
import io
import math

from attn_faithful.records.bench import BenchLine, BenchResult, BenchScore
from attn_faithful.reports.tables.bench import tables_of_bench

LINE = BenchLine("entropy", "attention", 0.4, "below", 0.8, 0.7, 0.9, 0.1, {"free": 0.2, "uniform": 0.3}, 6, 8)
WORSE = BenchLine("tvd", "attefa", 1.25, "above", math.nan, passed={"free": 0.5}, n_explains=1, n_other=8)


def score(metric, auc, kind="all", level="model", length="all", source="attention", reach=0.1):
    return BenchScore(metric, source, kind, level, length, auc, auc - reach, auc + reach, 6, 8, 1, {"one item": 1})


SCORES = [
    score("tvd", math.nan, source="attefa"),
    score("entropy", 0.7),
    score("flips", 0.8),
    score("flips", 0.55, "free"),
    score("entropy", 0.75, "free"),
    score("entropy", 0.6, level="text"),
    score("entropy", 0.62, level="text", length="8"),
    score("entropy", 0.64, level="text", length="16"),
]


def result(name="ours", entry="test", scores=SCORES, lines=(LINE, WORSE)):
    return BenchResult(name, entry, "attn_faithful", "0" * 64, scores, lines if entry == "test" else ())


def by_name(results, **options):
    return {table.name: table for table in tables_of_bench(results, **options)}


def test_numbers_by_kind_the_best_first():
    table = by_name([result()])["bench-models"]
    assert table.head == ["number", "all", "free", "n", "undefined"]
    assert table.rows == [
        ["flips, attention", "0.80 [0.70, 0.90]", "0.55 [0.45, 0.65]", "6/8", "1"],
        ["entropy, attention", "0.70 [0.60, 0.80]", "0.75 [0.65, 0.85]", "6/8", "1"],
        ["tvd, attefa", "-", "-", "6/8", "1"],
    ]
    assert table.best == {(0, 1), (1, 2)}
    assert "**0.80 [0.70, 0.90]**" in table.markdown()


def test_nothing_is_best_where_nothing_tells():
    scores = [score("entropy", 0.55), score("flips", 0.2)]  # 0.5 is in the interval; the wrong way round
    assert by_name([result(scores=scores)])["bench-models"].best == set()


def test_what_is_not_all_is_not_shown_as_all():
    scores = [score("entropy", 0.9999, reach=0.003), score("flips", 1.0, reach=0.0)]
    table = by_name([result(scores=scores)])["bench-models"]
    assert [row[1] for row in table.rows] == ["1.00 [1.00, 1.00]", "0.999 [0.997, 1.00]"]
    assert table.best == {(0, 1)}


def test_texts_by_kind_and_by_length():
    tables = by_name([result()])
    assert tables["bench-texts"].rows == [["entropy, attention", "0.60 [0.50, 0.70]", "-", "6/8", "1"]]
    lengths = tables["bench-lengths"]
    assert lengths.head == ["number", "all", "8", "16", "n", "undefined"]
    assert lengths.rows[0][1:4] == ["0.60 [0.50, 0.70]", "0.62 [0.52, 0.72]", "0.64 [0.54, 0.74]"]


def test_lines():
    table = by_name([result()])["bench-lines"]
    assert table.head == [
        "number",
        "line",
        "explains",
        "balanced accuracy",
        "n",
        "missed",
        "free passes",
        "uniform passes",
    ]
    assert table.rows == [
        ["entropy, attention", "0.400", "below", "0.80 [0.70, 0.90]", "6/8", "0.10", "0.20", "0.30"],
        ["tvd, attefa", "1.250", "above", "-", "1/8", "-", "0.50", "-"],
    ]
    assert table.data[1][0][:4] == ["ours", "entropy", "attention", 0.4]


def test_explanations_have_tables_of_their_own():
    scores = [
        score("decisive", 0.9, level="token", source="mine"),
        score("decisive", 0.95, "faithful", level="token", source="mine"),
        score("decisive", 0.8, level="token", length="8", source="mine"),
    ]
    tables = by_name([result(), result("saliency", "explanation", scores)])
    assert list(tables) == [
        "bench-models",
        "bench-texts",
        "bench-lengths",
        "bench-lines",
        "bench-explanations",
        "bench-explanations-lengths",
    ]
    assert tables["bench-explanations"].head == ["explanation", "all", "faithful", "n", "undefined"]
    assert tables["bench-explanations"].rows[0][:3] == ["mine", "0.90 [0.80, 1.00]", "0.95 [0.85, 1.05]"]
    assert tables["bench-explanations-lengths"].head[1:3] == ["all", "8"]
    assert "faithful" not in tables["bench-models"].head
    assert list(by_name([result("saliency", "explanation", scores)])) == list(tables)[4:]


def test_several_submissions_stand_in_one_table():
    table = by_name([result(), result("theirs|x", scores=[score("mine", 0.9)])])["bench-models"]
    assert [row[:2] for row in table.rows][:2] == [["theirs|x", "mine, attention"], ["ours", "flips, attention"]]
    assert table.head[:2] == ["submission", "number"]
    assert "theirs\\|x" in table.markdown()


def test_the_first_rows_alone_and_all_in_the_csv():
    table = by_name([result()], n_rows=1)["bench-models"]
    assert [row[0] for row in table.rows] == ["flips, attention"]
    assert table.best == {(0, 1)}
    assert table.notes[-1] == "The first 1 of 3; the CSV has all."
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(row["metric"], row["kind"], row["auc"]) for row in rows] == [
        ("tvd", "all", "nan"),
        ("entropy", "all", "0.7"),
        ("flips", "all", "0.8"),
        ("flips", "free", "0.55"),
        ("entropy", "free", "0.75"),
    ]
    assert {row["level"] for row in rows} == {"model"}


def test_no_result_no_table():
    assert tables_of_bench([]) == []
    assert tables_of_bench([result(scores=[], lines=[])]) == []
