"""The page of two models in a real browser: it sorts by disagreement, filters, works by keyboard, shuts nobody out."""

from __future__ import annotations

import pytest

from attn_faithful.reports.compare.comparison import compare
from tests.reports.altered import LSTM, MLP
from tests.reports.compare.pairs import made_with_metrics
from tests.reports.html.test_page_browser import column, eventually, rows, title
from tests.reports.made import MARKUP, long_texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The pages of two committed runs, of a base and its twin, and of many texts with some that are hard to show."""
    folder = tmp_path_factory.mktemp("compared")
    texts = [*MARKUP, "", *long_texts(60, 12)]
    pair = [made_with_metrics(folder / str(seed), texts, labels=("bad", "good"), seed=seed) for seed in (0, 1)]
    compare(*pair).save(folder / "many.html")
    compare(LSTM, MLP).save(folder / "two.html")
    compare(LSTM).save(folder / "twin.html")
    return folder


@pytest.mark.parametrize(("name", "look"), [("two", "dark"), ("twin", "light")])
def test_loads_in_silence_and_shuts_nobody_out(opened, shut_out, name, look):
    page = opened(name, look)
    for part in ("values", "all"):
        page.click(f"#{part} > summary")
    for summary in page.locator("main details > summary").all():
        if summary.locator("..").get_attribute("open") is None:
            summary.click()
    page.wait_for_selector("#all-table tr")
    assert shut_out(page) == []


def test_the_largest_disagreement_stands_first(opened):
    page = opened("two")
    found = [float(cell) for cell in column(page, "JSD")]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 3
    assert page.get_attribute("#head th >> text=JSD", "title").startswith("JSD of attention")


def test_every_column_sorts(opened):
    page = opened("many")
    heads = page.eval_on_selector_all("#head th", "heads => heads.map(head => head.textContent)")
    assert heads == ["#", "text", "A says", "B says", "JSD", "TVD", "TVD of p", "number A", "number B", "A - B"]
    for name in heads:
        page.click(f"#head th button >> text=/^{name}$/")
        page.click(f"#head th button >> text=/^{name}$/")
        assert page.locator("#head th[aria-sort=none]").count() == len(heads) - 1
        if name in ("#", "JSD", "TVD", "TVD of p", "A - B"):
            known = [float(cell) for cell in column(page, name) if cell != "\u2013"]
            assert known in (sorted(known), sorted(known, reverse=True)), name
            assert len(set(known)) > 3


def test_any_number_of_both(opened):
    page = opened("two")
    names = page.eval_on_selector_all("#number option", "options => options.map(option => option.textContent)")
    assert names[:3] == ["accuracy", "p of the gold label", "entropy of attention"]
    assert len(names) > 20
    assert page.input_value("#number") == "3", "the first number of a test"
    before = column(page, "number A")
    page.select_option("#number", label="entropy of attention")
    page.click("#head th button >> text=/^A - B$/")
    first, second, apart = (list(map(float, column(page, name))) for name in ("number A", "number B", "A - B"))
    assert first != before
    assert apart == pytest.approx([a - b for a, b in zip(first, second, strict=True)], abs=0.0011)
    assert apart == sorted(apart)
    page.click("#all > summary")
    page.wait_for_selector("#all-table tr")
    (row,) = [row.split("\t") for row in page.inner_text("#all-table").splitlines() if row.startswith("entropy of")]
    chosen = page.locator("#rows tr[aria-selected=true] td").all_text_contents()
    assert row[1:] == chosen[-3:]


def test_filters(opened):
    page = opened("many")
    said = [(row[2], row[3]) for row in rows(page)]
    assert len(said) < 64
    assert page.text_content("#count") == "64 of 64"
    for decisions, fits in (
        ("differ", lambda a, b: a.split()[0] != b.split()[0]),
        ("agree", lambda a, b: a.split()[0] == b.split()[0]),
        ("first", lambda a, b: "\u2717" not in a and "\u2717" in b),
        ("second", lambda a, b: "\u2717" in a and "\u2717" not in b),
    ):
        page.select_option("#decisions", decisions)
        shown = [(row[2], row[3]) for row in rows(page)]
        assert shown
        assert all(fits(a, b) for a, b in shown), decisions
    page.select_option("#decisions", "")
    page.select_option("#class", label="predicted good")
    assert all("good" in row[2] + row[3] for row in rows(page))
    page.select_option("#class", "")
    page.select_option("#label", label="label bad")
    assert page.text_content("#count") == "32 of 64"
    page.select_option("#label", "")
    page.fill("#search", "text 41")
    assert [row[1].split()[:2] for row in rows(page)][-1:] == [["text", "41"]]
    assert len(rows(page)) <= 2, "and the text whose id it is"
    page.fill("#search", "nowhere")
    assert page.is_visible("#nothing")


def test_keyboard(opened):
    page = opened("many")
    page.click("#head th button >> text=#")
    page.focus("#rows tr")
    page.keyboard.press("Home")
    assert title(page).startswith("#1, predicted A ")
    page.keyboard.press("ArrowDown")
    assert title(page).startswith("#2, ")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "example-title"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.cells[0].textContent") == "2"
    page.keyboard.press("End")
    assert title(page).startswith("#64, ")


def test_both_attentions_stand_word_under_word(opened):
    page = opened("many")
    page.fill("#search", "text 41")
    page.click("#rows tr")
    parts = page.eval_on_selector_all(
        "#heat .line",
        "lines => lines.map(line => [...line.children].map(w => [w.textContent, Math.round(w.offsetLeft)]))",
    )
    labels = page.locator("#heat .label").all_text_contents()
    assert labels[:3] == ["A: attention", "B: attention", "A - B"]
    assert parts[0] == parts[1] == parts[2]
    assert page.locator("#heat .w.negative").count() > 0, "what B attends to more is underlined"
    for text in MARKUP:
        page.fill("#search", text.split()[-1])
        page.click("#rows tr")
    assert page.locator("#example b, #example img, #rows b").count() == 0


@pytest.mark.parametrize("width", [390, 800])
def test_fits_small_screens(opened, width):
    page = opened("two")
    page.set_viewport_size({"width": width, "height": 800})
    eventually(page, "document.documentElement.scrollWidth <= innerWidth")


def test_prints(opened):
    page = opened("two", "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.is_hidden("#search")
