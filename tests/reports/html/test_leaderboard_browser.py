"""The leaderboard in a real browser: sorted by pointer and keyboard, filtered, read on a phone, and by everyone."""

from __future__ import annotations

import math

import pytest

from attn_faithful.reports.html.leaderboard import leaderboard_page
from attn_faithful.reports.html.shell import write_html
from tests.project.test_bench_results import result, score

PHONE = {"width": 390, "height": 844}
LONG = "a name that somebody typed without an end and_without_any_blank_in_it_at_all"


def numbers(aucs, **changes):
    """Scores by kind on both levels, of texts also by length."""
    found = []
    for level, lengths in (("model", ["all"]), ("text", ["all", "8"])):
        for length in lengths:
            for kind, auc in aucs.items():
                low, high = max(0, auc - 0.1), min(1, auc + 0.1)
                found.append(score(kind, auc, low, high, level=level, length=length, **changes))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    undefined = [*numbers({"all": 0.7}), score("free", math.nan, math.nan, math.nan, n_other=0)]
    results = [
        result(name="b", scores=numbers({"all": 0.8, "free": 0.3}) + numbers({"all": 0.55}, metric="tau")),
        result(name="a", scores=undefined),
        result(name=LONG, scores=numbers({"all": 0.9, "free": 0.5}), lines=[], origin="m:f"),
        result(
            name="<i>c</i>", entry="explanation", scores=[score(level="token"), score("free", level="token")], lines=[]
        ),
    ]
    place = tmp_path_factory.mktemp("board")
    write_html(leaderboard_page(results, {"free": "A twin exists."}), place / "board.html")
    return place


def shown(page, column):
    """A column of the table of tests."""
    return page.eval_on_selector_all(
        "[aria-labelledby=tests] tbody tr", "(rows, i) => rows.map(row => row.cells[i].innerText)", column
    )


def names(page):
    return [name[:1] for name in shown(page, 0)]


@pytest.mark.parametrize("look", ["light", "dark"])
def test_loads_in_silence_and_shuts_nobody_out(opened, shut_out, look):
    page = opened("board", look)
    for summary in page.locator("summary").all():
        summary.click()
    assert shut_out(page) == []


def test_sorts_by_a_press_and_what_is_undefined_stands_last(opened):
    page = opened("board")
    heads = page.locator("[aria-labelledby=tests] th[scope=col]")
    every, free = heads.nth(2), heads.nth(3)
    assert names(page) == ["a", "b", "a"]
    assert [auc.split()[0] for auc in shown(page, 2)] == ["0.90", "0.80", "0.70"]
    assert every.get_attribute("aria-sort") == "descending"
    heads.nth(0).get_by_role("button").click()
    assert shown(page, 0)[0] == "a", "which is undefined against free, and now stands first"
    free.get_by_role("button").click()
    assert (free.get_attribute("aria-sort"), every.get_attribute("aria-sort")) == ("descending", "none")
    assert [auc.split()[0][:1] for auc in shown(page, 3)] == ["○", "▼", "\u2013"]
    free.get_by_role("button").click()
    assert free.get_attribute("aria-sort") == "ascending"
    assert [auc.split()[0][:1] for auc in shown(page, 3)] == ["▼", "○", "\u2013"]


def test_sorts_by_keyboard(opened):
    page = opened("board")
    name = page.locator("[aria-labelledby=tests] th[scope=col]").nth(0)
    name.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert name.get_attribute("aria-sort") == "ascending"
    assert shown(page, 0) == ["a", LONG, "b"]
    page.keyboard.press("Space")
    assert name.get_attribute("aria-sort") == "descending"
    assert shown(page, 0) == ["b", LONG, "a"]


def test_a_name_opens_all_numbers(opened):
    page = opened("board")
    assert page.locator("#entry-0").get_attribute("open") is None
    page.get_by_role("link", name="b", exact=True).click()
    page.wait_for_selector("#entry-0[open]")
    assert page.locator("#entry-0 table").count() == 2


def test_all_numbers_are_those_of_a_level_and_length(opened):
    page = opened("board")
    page.click("#entry-0 > summary")
    rows = page.locator("#entry-0 tr[data-length]:visible")
    assert rows.count() == 2
    page.select_option("#level", "text")
    assert {row.get_attribute("data-level") for row in rows.all()} == {"text"}
    page.select_option("#length", "")
    assert rows.count() == 4
    page.select_option("#level", "")
    assert rows.count() == 6
    assert page.is_hidden("#nothing")
    page.select_option("#level", "model")
    page.select_option("#length", "8")
    assert rows.count() == 0
    assert page.is_visible("#nothing")
    page.click("#entry-3 > summary")
    page.select_option("#level", "model")
    page.select_option("#length", "all")
    assert page.locator("#entry-3 tr[data-length]:visible").count() == 1, "an explanation has no such levels"


def test_on_a_phone_tables_scroll_and_the_page_does_not(opened):
    page = opened("board")
    page.set_viewport_size(PHONE)
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    table = page.locator("[aria-labelledby=tests]")
    assert table.evaluate("table => table.scrollWidth > table.clientWidth")
    table.evaluate("table => table.scrollLeft = 200")
    name = table.locator("tbody th").first.bounding_box()
    assert name["x"] >= 0, "names stay in sight"
    assert name["width"] < PHONE["width"] / 2


def test_the_look_can_be_chosen(opened):
    page = opened("board")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
