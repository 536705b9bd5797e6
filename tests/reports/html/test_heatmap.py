"""Heat maps of single texts in a terminal and in a notebook."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest
from rich.console import Console

from attn_faithful.reports.examples import Examples, Kind, Line
from attn_faithful.reports.explanation import SHOWN, Explanation
from attn_faithful.reports.html.heatmap import Heatmap, heatmap
from tests.reports.made import ARABIC, MARKUP, long_texts, made

ATTENTION = Kind("attention", "attention", "attention")
SIGNED = Kind("attention_gradient", "gradient of attention", "attention_gradient", signed=True)
SET = Kind("smallest_set", "smallest flip set", "smallest", outlined=True)


def shown(words, values, places=(1,), **options):
    lines = [
        Line(ATTENTION, np.array(values), None, "what the model attends to"),
        Line(SET, None, list(places), "1 word; attention order needs 2"),
    ]
    return Heatmap("#1, predicted good 0.90", words, [False] * len(words), lines, **options)


def printed(found, width=100, colours=None):
    console = Console(width=width, color_system=colours, force_terminal=colours is not None, record=True, quiet=False)
    with console.capture() as capture:
        console.print(found)
    return capture.get()


def test_every_repeat_has_its_own_weight():
    found = shown(["good", "bad", "good"], [0.1, 0.2, 0.7])
    cells = re.findall(r'title="([^"]*)"', str(found.html()))
    assert cells == ["good: 0.1", "bad: 0.2", "good: 0.7"]
    assert "good 0.100, bad 0.200, good 0.700" in str(found)
    assert "good bad good" in printed(found)


def test_the_shade_is_the_share_of_the_largest():
    html = str(shown(["a", "b", "c", "d"], [0.0, 0.3, 0.6, 0.03]).html())
    shades = [float(alpha) for alpha in re.findall(r"rgba\(\d+,\d+,\d+,([\d.]+)\)", html)]
    # from the smallest share that counts on, a floor of four tenths of the largest shade, and the rest by the share
    np.testing.assert_allclose(shades, [0.0, 0.45 * (0.4 + 0.6 * 0.5), 0.45, 0.45 * 0.05], atol=6e-4)


def test_colours_in_a_terminal():
    text = printed(shown(["weak", "strong", "nothing"], [0.2, 0.8, 0.0], places=[2]), colours="truecolor")
    grounds = dict(re.findall(r"\x1b\[38;2;0;0;0;48;2;([\d;]+)m(\w+)\x1b", text))
    assert set(grounds.values()) == {"weak", "strong"}
    light = {word: sum(map(int, ground.split(";"))) for ground, word in grounds.items()}
    assert light["strong"] < light["weak"]
    assert re.search(r"\x1b\[1;4mnothing", text), "an item of the set is underlined"


def test_words_stand_under_each_other_where_the_text_takes_several_lines():
    words = [f"word{i}" for i in range(60)]
    text = printed(shown(words, np.linspace(0.1, 1, 60).tolist(), places=range(60)), width=90)
    rows = [row for row in text.splitlines() if "word" in row]
    parts = {label: [row for row in rows if row.startswith(label)] for label in ("attention", "smallest flip set")}
    found = [[re.findall(r"word\d+", row) for row in held] for held in parts.values()]
    assert found[0] == found[1]
    assert [word for part in found[0] for word in part] == words
    for above, below in zip(*parts.values(), strict=True):
        assert above.index("word") == below.index("word")


def test_lines_without_weight_are_left_out_below_the_first_part():
    words = [f"word{i}" for i in range(120)]
    values = np.zeros(120)
    values[[2, 70]] = 1.0, 0.2
    text = printed(shown(words, values.tolist(), places=[119]), width=90)
    rows = [row for row in text.splitlines() if "word" in row]
    labels = [
        next((label for label in ("attention", "smallest flip set") if row.startswith(label)), "") for row in rows
    ]
    parts = len({re.findall(r"word\d+", row)[0] for row in rows})
    assert labels[:2] == ["attention", "smallest flip set"], "the first part shows all lines"
    assert labels.count("attention") == labels.count("smallest flip set") == 2
    assert len(rows) == parts + 1, "every other part stands once"
    said = [word for row in rows[1:] for word in re.findall(r"word\d+", row)]
    assert said[-len(words) :] == words


def test_undefined_and_negative():
    line = Line(SIGNED, np.array([-0.5, np.nan, 0.25]), None, "")
    found = Heatmap("#1", ["a", "b", "c"], [False] * 3, [line])
    html = str(found.html())
    assert re.findall(r'title="([^"]*)"', html) == ["a: -0.5", "b: undefined", "c: 0.25"]
    assert html.count("underline dotted") == 1
    assert "a -0.500, c 0.250" in str(found)
    assert "b" in printed(found)


@pytest.mark.parametrize("values", [[np.nan, np.nan], [0.0, 0.0]])
def test_nothing_to_shade(values):
    found = Heatmap("#1", ["a", "b"], [False] * 2, [Line(ATTENTION, np.array(values), None, "")])
    assert re.findall(r"rgba\(\d+,\d+,\d+,([\d.]+)\)", str(found.html())) == ["0.000", "0.000"]
    assert "a b" in printed(found)


def test_markup_stays_text():
    found = shown(MARKUP, [0.2, 0.3, 0.5], query=MARKUP[0])
    html = str(found.html())
    assert "<script" not in html
    assert "<img" not in html
    assert [unescape(text) for text in re.findall(r">([^<]*)</span>", html)] == MARKUP * 2
    assert "[bold]" in printed(shown(["[bold]", "[/]"], [0.5, 0.5])), "rich's own markup is text too"


def test_right_to_left():
    words = ARABIC.split()
    html = str(shown(words, np.ones(len(words)).tolist()).html())
    assert html.count('dir="auto"') == 2


def test_from_a_run(tmp_path):
    run = made(tmp_path / "run", ["a waste of hours", "superb"], queries=["how?", "why?"])
    found = heatmap(Examples(run), 0)
    assert found.words == ["a", "waste", "of", "hours"]
    assert found.query == "how?"
    assert re.fullmatch(r"#1, predicted \w+ 0\.\d\d \(gold negative\)", found.title)
    assert [line.kind.key for line in found.lines] == [
        "attention",
        "adversarial",
        "input_x_gradient",
        "leave_one_out",
        "smallest_set",
        "certified_core",
    ]
    only = heatmap(Examples(run), 0, ["attention_gradient"])
    assert [line.kind.key for line in only.lines] == ["attention_gradient"]


@pytest.mark.parametrize(
    ("gold", "expected"), [([-1, 1], r"#1, predicted \w+ 0\.\d\d"), ([[1, 0], [0, 1]], r"#1, predicted \w+ 0\.\d\d")]
)
def test_titles(tmp_path, gold, expected):
    run = made(tmp_path / "run", ["a", "b"], gold=gold)
    assert re.fullmatch(expected, heatmap(Examples(run), 0).title)


def test_an_explanation_shows_its_texts_and_saves_its_page(tmp_path):
    found = Explanation(made(tmp_path / "run", long_texts(SHOWN + 5, 8)))
    assert (len(found), found[0].words, found[-1].words) == (25, found[-25].words, found[24].words)
    with pytest.raises(IndexError, match="25 texts, and none has the place 25"):
        found[25]
    assert len(list(found)) == 25
    for text in (found._repr_html_(), str(found), printed(found)):
        shown = " ".join(text.split())
        assert shown.index("the model has accuracy") < shown.index("removing the words with most attention")
        assert "and 5 more" in text
        assert text.count("predicted") == SHOWN
    assert repr(found).endswith("25 texts)")
    assert "<!doctype html>" in found.save(tmp_path / "page.html").read_text(encoding="utf-8")
