"""What the answer, the heat map and the page say of the items whose attention proves the decision."""

from __future__ import annotations

import math

import pytest

from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.html.columns import ColumnCells, columns
from tests.reports.answer.test_answer import with_scores
from tests.reports.made import long_texts, made


def cored(path, sizes, texts=None, is_top=(), lower=None, proofs=True):
    """A run whose cores have these sizes, an entry a text; of the first ones with items it is known whether attention's
    top is one."""
    base = made(path, texts or long_texts(len(sizes), 12), right=True)

    def change(metric, source, text, value):
        if metric == "core_size":
            return sizes[text]
        if metric == "core_size_lower" and lower is not None:
            return lower
        if metric == "core_is_top":
            return is_top[text] if text < len(is_top) and sizes[text] > 0 else math.nan
        if metric == "attention_proof":
            return float(sizes[text] == 0) if proofs else math.nan
        return value

    return with_scores(base, change)


def said_of(run):
    return [sentence for sentence in answer(run).statements if "prove" in sentence or "believed" in sentence]


def test_few_words_and_how_many_are_needed(tmp_path):
    sizes = [0] * 10 + [1] * 12 + [2] * 8 + [3] * 6 + [7] * 3 + [math.nan]
    run = cored(tmp_path / "run", sizes, is_top=[1.0] * 20 + [0.0] * 20)
    assert said_of(run) == [
        "At most two words' weights prove the decision in 30 of 39 texts (77%); the rest of the map may be anything "
        "there.",
        "Of 29 texts in which any must be believed, a median of 2 words must; as many with most attention are enough "
        "in 10 (34%).",
    ]


def test_what_is_never_or_always_so(tmp_path):
    assert said_of(cored(tmp_path / "many", [4] * 40)) == [
        "At most two words' weights prove the decision in none of the 40 texts.",
        "Of 40 texts in which any must be believed, a median of 4 words must.",
    ]
    all_of_them = said_of(cored(tmp_path / "all", [1] * 40, is_top=[1.0] * 40))[1]
    assert all_of_them.endswith("as many with most attention are enough in all of them.")
    none_of_them = said_of(cored(tmp_path / "not", [1] * 40, is_top=[0.0] * 40))[1]
    assert none_of_them.endswith("as many with most attention are enough in none of them.")
    assert said_of(cored(tmp_path / "none", [0] * 40)) == [
        "At most two words' weights prove the decision in all 40 texts; the rest of the map may be anything there.",
    ]
    assert said_of(cored(tmp_path / "undefined", [math.nan] * 40)) == []


@pytest.mark.parametrize(
    ("size", "proofs", "sentence"),
    [
        (0, True, None),  # another sentence says that no attention could change it
        (0, False, "No word's weight has to be believed: no attention at all could change this decision."),
        (1, True, "The weight of 1 word proves this decision; the rest of the map may be anything."),
        (2, True, "The weights of 2 words prove this decision; the rest of the map may be anything."),
    ],
)
def test_one_text(tmp_path, size, proofs, sentence):
    run = cored(tmp_path / "run", [size], ["a fine film"], proofs=proofs)
    assert said_of(run) == ([] if sentence is None else [sentence])


@pytest.mark.parametrize(
    ("size", "lower", "note"),
    [
        (0, 0, "none: no attention could change the decision"),
        (1, 1, "this word's weight proves the decision; the rest of the map may be anything"),
        (2, 2, "these 2 words' weights prove the decision; the rest of the map may be anything"),
        (3, 1, "these 3 words' weights prove the decision (at least 1 needed); the rest of the map may be anything"),
    ],
)
def test_the_line_of_a_heat_map(tmp_path, size, lower, note):
    examples = Examples(cored(tmp_path / "run", [size], ["a fine film"], lower=lower))
    (line,) = [line for line in examples.lines(0) if line.kind.key == "certified_core"]
    assert (line.places, line.note, line.kind.outlined) == ([0], note, True)
    assert line.kind.title == "certified core"


def test_a_column_of_the_page_holds_the_sizes(tmp_path):
    examples = Examples(cored(tmp_path / "run", [0, 3, math.nan]))
    (column,) = [column for column in columns(examples) if column.title == "core"]
    cells = ColumnCells(examples, column)
    assert [cells[i] for i in range(3)] == [0, 3, "not computed"]


def test_runs_of_earlier_versions_have_no_core(tmp_path):
    base = made(tmp_path / "run", long_texts(40, 12), right=True, tests=("adversarial",))
    assert said_of(base) == []
    assert "certified_core" not in [kind.key for kind in Examples(base).kinds]
