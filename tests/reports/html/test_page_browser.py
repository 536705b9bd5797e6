"""The page in a real browser: it loads in silence, filters, sorts, is used by keyboard, and shuts nobody out."""

from __future__ import annotations

import re

import pytest

from attn_faithful.reports.html.page import write_page
from attn_faithful.reports.run import Run
from tests.reports.made import ARABIC, MARKUP, long_texts, made
from tests.reports.made_heads import with_heads

FIGURE = (  # as ours: ink on white
    '<svg xmlns="http://www.w3.org/2000/svg" width="60pt" height="40pt" viewBox="0 0 60 40">'
    '<rect width="60" height="40" fill="white"/><rect width="20" height="40" fill="#22252e"/></svg>'
)


PLANTED = [f"word{i}" for i in range(200)]


def drawn(colour, look):
    """How light a colour of Chromium's, "color(srgb r g b / alpha)", is over the ground of a look."""
    *channels, alpha = map(float, re.findall(r"[\d.]+", colour)[-4:])
    ground = {"light": 1.0, "dark": 0.12}[look]
    return sum(alpha * channel + (1 - alpha) * ground for channel in channels)


def planted(path):
    """A run whose first text is long, with all weight on its first word and on one in the middle."""
    folder = made(path, [" ".join(PLANTED), "a short one"]).folder
    for name in ("tokens", "variants"):
        columns = folder.read_table(name).to_pydict()
        for values in columns.values():
            for place, held in enumerate(values):
                if isinstance(held, list) and len(held) == len(PLANTED) and isinstance(held[0], float):
                    values[place] = [0.9 if i == 0 else 0.2 * (i == 100) for i in range(len(PLANTED))]
        folder.write_table(name, columns)
    return Run(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pages of a run of many texts, of one with several sites, and of one whose texts are hard to show.

    What axe reads word by word is kept short.
    """
    folder = tmp_path_factory.mktemp("pages")
    hard = [ARABIC + " كان" * 8, *MARKUP, "x" * 3000, ""]
    (folder / "figure.svg").write_text(FIGURE)
    drawn = {"A figure": folder / "figure.svg"}
    write_page(made(folder / "a", long_texts(200, 20), labels=("bad", "good")), folder / "many.html")
    write_page(
        made(folder / "b", long_texts(8, 6), sites=("layer.0", "layer.1"), twins=True), folder / "sites.html", drawn
    )
    write_page(made(folder / "c", hard, queries=["who <b>?"] * len(hard)), folder / "hard.html")
    write_page(made(folder / "d", long_texts(8, 6), undefined="constant attention"), folder / "undefined.html")
    write_page(planted(folder / "f"), folder / "planted.html")
    heads = with_heads(folder / "g", long_texts(3, 6), ["pfp?", "pppp", "p?pp"])
    write_page(heads, folder / "heads.html")
    write_page(made(folder / "e", ["one. two."], sites=("sentence",)), folder / "sentence.html")
    return folder


def eventually(page, expression):
    """Wait for what is true a frame or a scroll later; the page's policy lets nothing be evaluated inside it."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def rows(page):
    """What the list shows, a list of cells a row."""
    return page.eval_on_selector_all(
        "#rows tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )


def column(page, name):
    """A column of the list as it is shown."""
    heads = page.eval_on_selector_all("#head th", "heads => heads.map(head => head.textContent)")
    return [row[heads.index(name)] for row in rows(page)]


def title(page):
    return page.text_content("#example-title")


@pytest.mark.parametrize(
    ("name", "look"),
    [("sites", "light"), ("sites", "dark"), ("hard", "light"), ("undefined", "light"), ("sentence", "dark")],
)
def test_loads_in_silence_and_shuts_nobody_out(opened, shut_out, name, look):
    page = opened(name, look)
    if page.is_visible("#values > summary") and not page.get_attribute("#values", "open"):
        page.click("#values > summary")
    assert shut_out(page) == []


def test_filters(opened):
    page = opened("many")
    assert page.text_content("#count") == "200 of 200"
    page.fill("#search", "TEXT 17 ")
    assert page.text_content("#count") == f"{len(rows(page))} of 200"
    assert rows(page)
    assert all("text" in cell and "17" in cell for cell in column(page, "text"))
    page.fill("#search", "")
    page.select_option("#class", label="good")
    assert 0 < len(rows(page)) <= 200
    assert all(cell.startswith("good ") for cell in column(page, "prediction"))
    page.select_option("#right", "0")
    assert all(cell.endswith("\u2717") for cell in column(page, "prediction"))
    wrong = page.text_content("#count")
    page.select_option("#right", "1")
    assert not any(cell.endswith("\u2717") for cell in column(page, "prediction"))
    assert page.text_content("#count") != wrong
    page.fill("#search", "nothing like it")
    assert rows(page) == []
    assert page.is_visible("#nothing")


def test_sorts_by_any_column(opened):
    page = opened("many")
    for name in ("text", "prediction", "tau", "can move", "shuffled", "flips at", "smallest set", "#"):
        head = page.locator("#head th", has=page.get_by_role("button", name=name, exact=True))
        for expected in ("ascending", "descending"):
            head.get_by_role("button").click()
            assert head.get_attribute("aria-sort") == expected
            shown = column(page, name)
            held = shown if name == "text" else [cell.split()[0] for cell in shown]
            if name not in ("text", "prediction"):
                held = [float(cell) for cell in held]
            assert held == sorted(held, reverse=expected == "descending", key=lambda cell: (cell, ""))
            assert len(set(held)) > 1 or name in ("smallest set", "prediction")
        assert page.locator("#head th[aria-sort=none]").count() == page.locator("#head th").count() - 1


def test_what_is_undefined_stands_last_and_says_why(opened):
    page = opened("undefined")
    for _ in range(2):
        page.click("#head th >> text=tau")
        assert set(column(page, "tau")) == {"\u2013"}
    assert page.get_attribute("#rows tr >> nth=0 >> td >> nth=3", "title") == "constant attention"


def test_keyboard(opened):
    page = opened("many")
    assert title(page).startswith("#1,")
    page.focus("#rows tr")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert title(page).startswith("#3,")
    page.keyboard.press("ArrowUp")
    assert title(page).startswith("#2,")
    assert page.locator("#rows tr[aria-selected=true]").count() == page.locator("#rows tr[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "example-title"
    eventually(page, "document.getElementById('example-title').getBoundingClientRect().top < innerHeight / 2")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.cells[0].textContent") == "2"
    page.keyboard.press("End")
    assert title(page).startswith("#200,")
    page.keyboard.press("Home")
    assert title(page).startswith("#1,")


def test_the_list_grows_as_it_is_read(opened):
    page = opened("many")
    before = len(rows(page))
    assert before < 200
    page.evaluate("document.getElementById('list').scrollTop = 1e6")
    eventually(page, f"document.querySelectorAll('#rows tr').length > {before}")


def test_lines_without_weight_fold(opened):
    page = opened("planted")
    shown = page.locator("#chips [aria-pressed=true]").count()
    labels = "#heat .label"
    folded = page.eval_on_selector_all(labels, "labels => labels.map(label => label.textContent)")
    assert "" not in folded[:shown], "the first part shows all lines"
    assert folded.count("attention") == 2
    assert folded.count("") > 5, "parts of which no line holds anything are text alone"
    text = page.eval_on_selector_all(
        "#heat .line", "lines => lines.map(line => [...line.children].map(w => w.textContent).join(' '))"
    )
    once = list(dict.fromkeys(text))
    assert " ".join(once) == " ".join(PLANTED)
    height = page.evaluate("document.getElementById('heat').offsetHeight")
    page.click("#fold")
    assert page.get_attribute("#fold", "aria-pressed") == "false"
    whole = page.eval_on_selector_all(labels, "labels => labels.map(label => label.textContent)")
    assert "" not in whole
    assert len(whole) == shown * len(once)
    assert page.evaluate("document.getElementById('heat').offsetHeight") > 3 * height
    page.click("#rows tr >> nth=1")
    assert page.is_hidden("#fold"), "a text of one part has nothing to fold"


@pytest.mark.parametrize(("look", "word"), [("light", "darkest"), ("dark", "brightest")])
def test_the_legend_says_what_this_look_shows(opened, look, word):
    page = opened("many", look)
    assert page.inner_text("#legend").startswith(f"The {word} of a line is its largest value")
    found = page.eval_on_selector_all(
        "#heat .line >> nth=0 >> .w",
        "words => words.map(w => [Number(w.style.getPropertyValue('--a')), getComputedStyle(w).backgroundColor])",
    )
    light = [(share, drawn(colour, look)) for share, colour in found]
    assert len({share for share, _ in light}) > 2
    assert (max(light)[1] < min(light)[1]) == (look == "light")


def test_an_example_stands_word_under_word(opened):
    page = opened("many")
    page.click("#fold")
    parts = page.eval_on_selector_all(
        "#heat .line",
        "lines => lines.map(line => [...line.children].map(w => [w.textContent, Math.round(w.offsetLeft)]))",
    )
    shown = page.locator("#chips [aria-pressed=true]").count()
    assert len(parts) % shown == 0
    assert len(parts) > shown, "the text takes several lines"
    for start in range(0, len(parts), shown):
        assert all(part == parts[start] for part in parts[start : start + shown])
    text = " ".join(word for start in range(0, len(parts), shown) for word, _ in parts[start])
    assert text == page.get_attribute("#rows tr >> nth=0 >> .text", "title")
    edges = page.eval_on_selector_all(
        "#heat .line",
        "lines => lines.map(l => l.lastChild.getBoundingClientRect().right - l.getBoundingClientRect().right)",
    )
    assert max(edges) <= 1, "no word runs out of its line"


def test_values_on_hover_and_in_a_table(opened):
    page = opened("many")
    page.click("#values > summary")
    page.wait_for_selector("#values-table tr")  # made once it is opened
    head, notes, *body = page.eval_on_selector_all(
        "#values-table tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert head[:2] == ["word", "attention"]
    assert notes[1] == "what the model attends to"
    hovers = page.eval_on_selector_all("#heat .line.hue-attention .w", "words => words.map(word => word.title)")
    assert hovers == [f"{row[0]}: {row[1]}" for row in body]
    assert abs(sum(float(row[1]) for row in body) - 1) < 0.02
    assert [row[head.index("smallest flip set")] for row in body][-1] == "\u2713"


def test_lines_can_be_left_out_and_added(opened):
    page = opened("many")
    chip = page.get_by_role("button", name="gradient of attention")
    assert chip.get_attribute("aria-pressed") == "false"
    assert page.locator("#heat .hue-attention_gradient").count() == 0
    chip.click()
    assert page.locator("#heat .hue-attention_gradient").count() > 0
    assert page.locator("#heat .w.negative").count() > 0
    page.focus("#rows tr")
    page.keyboard.press("ArrowDown")
    assert page.locator("#heat .hue-attention_gradient").count() > 0, "what was asked for stays for the next text"


def test_sites(opened):
    page = opened("sites")
    assert page.input_value("#site") == "1"
    last = column(page, "tau")
    page.select_option("#site", "0")
    assert column(page, "tau") != last
    assert page.is_visible("#card-0-move")
    assert page.is_hidden("#card-1-move")
    page.select_option("#site", "1")
    assert column(page, "tau") == last


def test_sentences_are_a_table(opened):
    page = opened("sentence")
    assert page.is_hidden("#heat")
    assert page.locator("#values-table tbody tr").count() == 3


def test_right_to_left_and_markup(opened):
    page = opened("hard")
    assert page.get_attribute("#heat .line >> nth=0", "dir") == "rtl"
    first, second = page.eval_on_selector_all(
        "#heat .line:first-of-type .w, #heat .line .w", "words => words.slice(0, 2).map(word => word.offsetLeft)"
    )
    assert first > second, "the first word stands right of the second"
    assert page.eval_on_selector("#rows tr:first-child .text", "cell => getComputedStyle(cell).direction") == "rtl"
    assert page.text_content("#query") == "asked: who <b>?"
    page.focus("#rows tr")
    for text in MARKUP:
        page.keyboard.press("ArrowDown")
        assert page.get_attribute("#heat .line >> nth=0", "dir") == "ltr"
        assert page.get_attribute("#rows tr[aria-selected=true] .text", "title") == text
    assert page.locator("#example b, #example img, #rows b").count() == 0
    page.keyboard.press("ArrowDown")  # a word that fits no line
    page.keyboard.press("ArrowDown")  # no word
    assert page.is_hidden("#heat")


def test_light_and_dark(opened):
    looks = ("light", "dark")
    grounds = {look: opened("many", look) for look in looks}
    ground = "getComputedStyle(document.body).backgroundColor"
    first = {look: page.evaluate(ground) for look, page in grounds.items()}
    assert first["light"] != first["dark"]
    for look, page in grounds.items():
        page.click("#theme")
        assert page.evaluate(ground) == first[looks[1 - looks.index(look)]]


def test_figures_are_drawn_for_the_ground(opened):
    """Black on white as they are: light on the card's dark ground in the dark, and never in print."""
    found = {}
    for look, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        page = opened("sites", look)
        page.emulate_media(media=media)
        found[look, media] = page.eval_on_selector(
            "figure img",
            "e => [getComputedStyle(e).filter, getComputedStyle(e).mixBlendMode, getComputedStyle(e.parentElement)"
            ".backgroundColor]",
        )
    assert found["light", "screen"] == ["none", "normal", "rgb(255, 255, 255)"]
    assert found["dark", "screen"] == ["invert(1) hue-rotate(180deg)", "screen", "rgb(27, 31, 36)"]
    assert found["dark", "print"] == ["grayscale(1)", "normal", "rgb(255, 255, 255)"]


def test_prints_without_colours(opened):
    page = opened("many", "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.is_hidden("#search")
    used = page.evaluate(
        "[...document.querySelectorAll('.w, .bar, .bar-fill, .chip, h1, td')].flatMap(e => { const s = getComputedStyle(e);"  # noqa: E501
        " return [s.color, s.backgroundColor, s.fill]; })"
    )
    for colour in set(used):
        channels = colour.split("(")[1].rstrip(")").split("/")[0].replace(",", " ").split()[:3]
        assert len(set(channels)) == 1, colour


@pytest.mark.parametrize("width", [400, 800])
def test_fits_small_screens(opened, width):
    page = opened("many")
    page.set_viewport_size({"width": width, "height": 800})
    eventually(page, "document.documentElement.scrollWidth <= innerWidth")  # once the lines are broken anew


def test_each_text_says_which_head_it_is(opened):
    page = opened("heads")
    known = page.locator("#known")
    assert "Another attention of head 1 alone changes it. Of head 3 it is not known." in known.inner_text()
    assert "one head flips it" in page.locator("#heat").inner_text()
    page.locator("#rows tr").nth(1).click()
    assert known.inner_text().startswith("No attention of any one of the 4 heads could change this decision")
    assert "one head flips it" not in page.locator("#heat").inner_text()
    assert opened("many").locator("#known").is_hidden()
