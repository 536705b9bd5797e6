"""Tables of the documentation are what the summaries say, and no number beside them was typed by hand."""

import doctest

import pytest
from evidence.pages import DOCS, PAGES, filled
from evidence.typed import typed_numbers

from evidence import typed


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_what_the_summaries_say(name):
    page = (DOCS / name).read_text(encoding="utf-8")
    assert filled(page, PAGES[name]) == page, "python -m evidence.pages"


WRITTEN = {
    "bench_numbers.md": "attn-faithful bench writes it",
    "benchmarks.md": "benchmarks/publish.py writes its tables",
}
CONSTANTS = {  # lines, tolerances, ranges of numbers, what a picture shows
    "cases.md",
    "design.md",
    "faq.md",
    "gallery/README.md",
    "glossary.md",
    "guides/data.md",
    "guides/stock.md",
    "reading.md",
    "start.md",
    "tests/adversarial.md",
    "tests/attefa.md",
    "tests/correlation.md",
    "tests/entropy.md",
    "tests/erasure.md",
    "tests/flips.md",
    "tests/impermissible.md",
    "tests/learned_heads.md",
    "tests/permutation.md",
    "tests/plausibility.md",
    "tests/polarity.md",
    "tests/stability.md",
}
EVERY = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("name", EVERY)
def test_no_number_was_typed(name):
    typed = typed_numbers((DOCS / name).read_text(encoding="utf-8"))
    assert bool(typed) == (name in CONSTANTS or name in WRITTEN), typed


def test_tables_are_on_no_page_with_typed_numbers():
    assert not set(PAGES) & (CONSTANTS | set(WRITTEN))


def test_the_example_of_typed_numbers_runs():
    assert doctest.testmod(typed) == (0, 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A mean of 0.5.", ["0.5"]),
        ("It falls to .06, by 12 %.", [".06", "12 %"]),
        ("| tau | 0.38 |", ["0.38"]),  # a table that nothing generates
        ("torch 2.13.0, 1,647 texts, 95% intervals, arXiv:1902.10186, table 2.1", []),
        ("<!-- evidence: a -->\n| 0.5 |\n<!-- /evidence -->", []),
        ("```\n--set train.learning_rate=0.001\n```\nand 0.3", ["0.3"]),
        ("`0.3` of [this](page.md#0.3)", []),
    ],
)
def test_which_numbers_are_typed(text, found):
    assert typed_numbers(text) == found


def test_a_table_is_made_anew_and_the_rest_stays():
    page = "before\n<!-- evidence: a -->\nold\n<!-- /evidence -->\nafter 1\n"
    new = filled(page, {"a": lambda: "| new |"})
    assert new == "before\n<!-- evidence: a -->\n\n| new |\n\n<!-- /evidence -->\nafter 1\n"
    assert filled(new, {"a": lambda: "| new |"}) == new


@pytest.mark.parametrize("tables", [{}, {"a": str, "b": str}])
def test_a_table_that_is_missing_or_stands_nowhere_is_an_error(tables):
    with pytest.raises(ValueError, match="expected the tables"):
        filled("<!-- evidence: a -->\n<!-- /evidence -->", tables)
