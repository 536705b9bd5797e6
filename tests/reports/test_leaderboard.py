"""The leaderboard: its rows, what is marked, users' text, and that the page asks for nothing from elsewhere."""

import doctest
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from attn_faithful._checks import InputError
from attn_faithful.records.bench import BenchResult, BenchScore
from attn_faithful.reports import leaderboard as rows_module
from attn_faithful.reports.figures import auc as auc_module
from attn_faithful.reports.figures.auc import auc_figure, auc_svg
from attn_faithful.reports.html import leaderboard as page_module
from attn_faithful.reports.html.leaderboard import leaderboard_page, write_leaderboard
from attn_faithful.reports.leaderboard import (
    NOTHING,
    REVERSED,
    TELLS,
    UNDEFINED,
    Cell,
    explanation_board,
    kinds_of,
    number_rows,
)
from attn_faithful.reports.leaderboard import test_board as board_of_tests
from tests.project.test_bench_results import result, score, write_result

NAN = math.nan
EVIL = '"><script>alert(1)</script>\u202e\x1b[31m&'
VOID = {"meta", "img", "br", "link", "input", "hr"}


def scores(metric, source="attention", level="model", length="all", **aucs):
    """Scores of a number: kind -> (auc, low, high)."""
    return [BenchScore(metric, source, kind, level, length, *auc, 6, 4) for kind, auc in aucs.items()]


def entered(name, *parts, **changes):
    return result(name=name, scores=[each for part in parts for each in part], lines=[], **changes)


class Tags(HTMLParser):
    """Every tag with its attributes, and whether each that is opened is closed."""

    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes another tag"


def tags_of(page):
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    return tags.found


def test_examples_in_docstrings():
    for module in (rows_module, page_module, auc_module):
        found = doctest.testmod(module)
        assert found.attempted > 0
        assert found.failed == 0


@pytest.mark.parametrize(
    ("auc", "low", "high", "says"),
    [
        (0.8, 0.6, 0.9, TELLS),
        (0.6, 0.5, 0.7, NOTHING),  # the rim counts as held
        (0.5, 0.4, 0.6, NOTHING),
        (0.4, 0.2, 0.49, REVERSED),
        (0.8, NAN, NAN, TELLS),
        (0.5, NAN, NAN, NOTHING),
        (0.3, NAN, 0.6, REVERSED),
        (NAN, NAN, NAN, UNDEFINED),
    ],
)
def test_what_an_auc_says(auc, low, high, says):
    assert Cell(score(auc=auc, low=low, high=high)).says == says


def test_an_auc_in_words():
    cell = Cell(score("free", n_undefined=2, reasons={"one item": 2}))
    assert cell.about == (
        "AUC 0.800, 95% interval 0.700 to 0.900, tells the one from the other; 6 models that explain against 4 that do "
        "not; undefined for 2 models: one item (2)"
    )
    undefined = Cell(score("free", NAN, NAN, NAN, n_other=0))
    assert undefined.about == "6 models that explain against 0 that do not"
    assert Cell(None).about == "not measured"


def test_kinds_stand_as_they_come():
    one = entered("a", scores("m", free=(0.8, 0.7, 0.9), all=(0.8, 0.7, 0.9)))
    other = entered("b", scores("m", leaky=(0.8, 0.7, 0.9)))
    assert kinds_of([one, other]) == ["all", "free", "leaky"]


def test_a_test_stands_with_its_best_number():
    """The largest AUC over all models; not that of a kind, of a length, of texts, or an undefined one."""
    ours = entered(
        "ours",
        scores("undefined", all=(NAN, NAN, NAN)),
        scores("good", all=(0.8, 0.7, 0.9), free=(0.6, 0.55, 0.7)),
        scores("good", level="text", all=(0.7, 0.6, 0.8)),
        scores("kind", all=(0.7, 0.6, 0.8), free=(1.0, 0.9, 1.0)),
        scores("short", all=(0.6, 0.55, 0.7)),
        scores("short", length="8", all=(1.0, 0.9, 1.0)),
        scores("texts", all=(0.6, 0.55, 0.7)),
        scores("texts", level="text", all=(1.0, 0.9, 1.0)),
    )
    theirs = entered("theirs", scores("m", all=(0.9, 0.8, 1.0), free=(0.5, 0.4, 0.6)))
    first, second = board_of_tests([ours, theirs], ["all", "free"])
    assert (first.result.name, second.result.name) == ("theirs", "ours")
    assert second.title == "good, attention"
    assert [cell.auc for cell in second.cells] == [0.8, 0.6, 0.7]
    assert [cell.is_best for cell in first.cells] == [True, False, False]
    assert [cell.is_best for cell in second.cells] == [False, True, True]
    assert first.cells[2].says == UNDEFINED


def test_a_number_of_few_models_is_not_the_best_one():
    """Defined for 4 models where others are for 10: less than half; for 5 it may be."""
    common = scores("common", all=(0.8, 0.7, 0.9))
    rare = BenchScore("rare", "attention", "all", "model", "all", 1.0, 0.9, 1.0, 3, 1)
    assert board_of_tests([entered("x", common, [rare])], ["all"])[0].title == "common, attention"
    half = replace(rare, n_other=2)
    assert board_of_tests([entered("x", common, [half])], ["all"])[0].title == "rare, attention"


def test_of_equal_numbers_texts_decide_and_then_the_first():
    aucs = {"all": (0.8, 0.7, 0.9)}
    equal = [scores("a", **aucs), scores("b", **aucs), scores("c", **aucs)]
    assert board_of_tests([entered("x", *equal)], ["all"])[0].title == "a, attention"
    of_texts = scores("b", level="text", all=(0.6, 0.5, 0.7))
    assert board_of_tests([entered("x", *equal, of_texts)], ["all"])[0].title == "b, attention"


def test_equal_aucs_are_both_the_best_and_what_tells_nothing_is_not():
    twice = [entered(name, scores("m", all=(0.9, 0.8, 1.0), free=(0.55, 0.4, 0.6))) for name in "ab"]
    for row in board_of_tests(twice, ["all", "free"]):
        assert [cell.is_best for cell in row.cells] == [True, False, False]


def test_an_explanation_has_a_row_a_source_and_its_kinds():
    ours = entered(
        "ours",
        scores("decisive", "random", "token", all=(0.5, 0.4, 0.6)),
        scores("decisive", "saliency", "token", all=(0.9, 0.8, 1.0), free=(0.7, 0.6, 0.8)),
        scores("decisive", "saliency", "token", "8", all=(1.0, 0.9, 1.0)),
        entry="explanation",
    )
    rows = explanation_board([ours], ["all", "free"])
    assert [row.title for row in rows] == ["gradient", "random"]
    assert [cell.auc for cell in rows[0].cells] == [0.9, 0.7]


def test_all_numbers_are_marked_within_their_level_and_length():
    ours = entered(
        "ours",
        scores("a", all=(0.8, 0.7, 0.9)),
        scores("b", all=(0.7, 0.6, 0.8)),
        scores("b", length="8", all=(0.6, 0.55, 0.7)),
    )
    found = [(row.place[0], row.place[3], row.cells[0].is_best) for row in number_rows(ours, ["all"])]
    assert found == [("a", "all", True), ("b", "all", False), ("b", "8", True)]


# the page


def board(**changes):
    explanation = entered("captum", scores("decisive", "given", "token", all=(0.9, 0.8, 1.0)), entry="explanation")
    return [result(**changes), explanation]


def test_the_page_loads_nothing_from_elsewhere():
    page = leaderboard_page(board(), {"free": "A twin exists."})
    for tag, attributes in tags_of(page):
        assert tag not in ("link", "iframe", "object", "embed", "base", "form"), tag
        for name in ("src", "href", "srcset", "action"):
            value = attributes.get(name, "#")
            assert value.startswith(("#", "data:image/svg+xml;base64,")), value
        assert not [name for name in attributes if name.startswith("on")]
    style = re.search("<style>(.*)</style>", page, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page
    assert "A twin exists." in page


def test_each_row_says_what_it_is_of():
    page = leaderboard_page(board(file_sha256="a" * 64))
    tags = tags_of(page)
    titles = [attributes.get("title") for _, attributes in tags]
    assert f"sha256 {'a' * 64}" in titles
    assert f"sha256 {'1' * 64}" in titles
    for told in ("<code>aaaaaaaa</code>", "attn_faithful 0.1.0", "2026-01-31", "entropy, attention"):
        assert told in page
    sorts = [attributes["aria-sort"] for tag, attributes in tags if tag == "th" and "aria-sort" in attributes]
    assert sorts.count("descending") == 2
    names = [attributes["id"] for tag, attributes in tags if tag == "details"]
    assert names == ["entry-0", "entry-1"]
    links = {attributes["href"] for tag, attributes in tags if tag == "a"}
    assert {"#entry-0", "#entry-1", "#enter", "#numbers"} <= links


def test_what_is_marked():
    page = leaderboard_page(board(scores=[score(), score("free", 0.5, 0.4, 0.6), score("leaky", 0.999, 0.9, 1.0)]))
    cells = {}
    for tag, attributes in tags_of(page):
        if tag == "td" and "data-value" in attributes:
            cells.setdefault(attributes["data-value"], set()).add(attributes["class"])
    assert cells["0.8"] == {"number auc tells best", "number auc"}  # of the line, too
    assert cells["0.5"] == {"number auc nothing"}
    assert '<span class="mark" aria-hidden="true">○</span>0.50<span class="unseen"> tells nothing</span>' in page
    assert "&gt;0.99<" in page


def test_users_text_is_text():
    page = leaderboard_page(
        board(
            name=EVIL,
            origin=EVIL,
            date=EVIL,
            versions={EVIL: EVIL},
            scores=[score(metric=EVIL, source=EVIL), score(EVIL, metric=EVIL, source=EVIL, length=EVIL)],
        ),
        {EVIL: EVIL},
    )
    tags = tags_of(page)
    assert [tag for tag, _ in tags].count("script") == 1
    assert "alert(1)</script>" not in page
    assert not {"\u202e", "\x1b"} & set(page)


@pytest.mark.parametrize("entry", ["test", "explanation"])
def test_tests_or_explanations_alone(entry):
    page = leaderboard_page([each for each in board() if each.entry == entry])
    assert ('<h2 id="tests">' in page) == (entry == "test")
    assert ('<h2 id="explanations">' in page) == (entry == "explanation")
    tags_of(page)


def test_results_of_no_set_or_of_two_are_refused():
    with pytest.raises(InputError, match="got 0 sets"):
        leaderboard_page([])
    with pytest.raises(InputError, match="got 2 sets"):
        leaderboard_page([result(), result(set_sha256="2" * 64)])


def test_the_page_is_made_from_files(tmp_path):
    write_result(tmp_path / "results" / "ours.json")
    write_result(tmp_path / "results" / "theirs.json", name="theirs")
    path = write_leaderboard([tmp_path / "results"], tmp_path / "site" / "index.html")
    assert "theirs" in path.read_text(encoding="utf-8")
    assert [each.name for each in path.parent.iterdir()] == ["index.html"]
    (tmp_path / "results" / "zz.json").write_text("{}")
    with pytest.raises(InputError, match=r"zz\.json is no result file"):
        write_leaderboard([tmp_path / "results"], path)


def test_the_same_results_give_the_same_page():
    assert leaderboard_page(board()) == leaderboard_page(board())


# the figure


def test_the_figure_has_a_dot_a_kind_hollow_where_it_tells_nothing():
    ours = entered(
        "ours",
        scores("weak", all=(0.6, 0.55, 0.7), free=(0.5, 0.4, 0.6)),
        scores("strong", all=(0.9, 0.8, 1.0), free=(NAN, NAN, NAN)),
        scores("never", all=(NAN, NAN, NAN)),
        scores("strong", level="text", all=(0.7, 0.6, 0.8)),
    )
    figure = auc_figure(ours)
    every, free = figure.axes
    assert [label.get_text() for label in every.get_yticklabels()] == ["strong, attention", "weak, attention"]
    assert [axes.get_title(loc="left") for axes in (every, free)] == ["all", "free"]
    dots = {axes: [line for line in axes.lines if line.get_marker() == "o"] for axes in (every, free)}
    assert [line.get_xdata()[0] for line in dots[every]] == [0.9, 0.6]
    assert [line.get_xdata()[0] for line in dots[free]] == [0.5]
    assert dots[free][0].get_markerfacecolor() == "white"
    assert dots[every][0].get_markerfacecolor() != "white"
    (on_texts,) = auc_figure(ours, "text").axes[:1]
    assert [label.get_text() for label in on_texts.get_yticklabels()] == ["strong, attention"]


def test_the_figure_is_the_same_svg_and_shows_any_name():
    ours = entered("$x$ <b> \u597d", scores("a$b$", all=(0.6, 0.55, 0.7)))
    content = auc_svg(ours)
    assert content == auc_svg(ours)
    assert content.startswith(b"<?xml")
    assert b"<b>" not in content


def test_a_figure_of_nothing_defined():
    figure = auc_figure(BenchResult("x", "test", "o", "1" * 64, scores("a", all=(NAN, NAN, NAN))))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == []
