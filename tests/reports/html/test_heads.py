"""The heads that change a decision: a line of that head alone, in the page, a notebook and a terminal, and in words."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from attn_faithful.reports.examples import Examples
from attn_faithful.reports.explanation import Explanation
from attn_faithful.reports.html.cards import cards
from attn_faithful.reports.html.page import page
from attn_faithful.reports.model_card import model_card
from tests.reports.html.test_page import data_of
from tests.reports.made_heads import SITE, with_heads

TEXTS = ["a superb film", "two dull hours", "the plot , the acting"]
TOGETHER = [(1.0, 0.1, 0.4), (0.0, 0.3, 1.0), (1.0, 0.1, 0.4)]
WORDS = "Another attention of head 1 alone changes it."


@pytest.fixture
def run(tmp_path):
    return with_heads(tmp_path / "run", TEXTS, ["pfp?", "pppp", "p?pp"], together=TOGETHER)


def test_the_line_of_one_head_has_the_weights_of_that_head(run):
    examples = Examples(run)
    kinds = {kind.key: kind for kind in examples.kinds}
    line = examples.line(kinds["head-flip"], 0)
    assert line.values.tolist() == [1, 0, 0]
    assert line.note == "head 1 alone: p changes by 0.430"
    assert line.kind.shown
    of_all = examples.line(kinds["joint-flip"], 0)
    assert of_all.values.tolist() == [1, 0, 0]
    assert of_all.note == "p changes by 0.430, JSD 0.10"
    assert [examples.line(kinds["head-flip"], i) for i in (1, 2)] == [None, None]
    assert examples.line(kinds["joint-flip"], 1) is None


def test_another_head_among_several(tmp_path):
    run = with_heads(tmp_path / "run", TEXTS[:1], ["ppf"], attention={"heads": [4, 9, 2]})
    variants = run.read("variants").to_pydict()
    row = variants["variant"].index("head-flip")
    assert np.reshape(variants["attention"][row], (3, 3))[:2] == pytest.approx(1 / 3)
    examples = Examples(run)
    (kind,) = [kind for kind in examples.kinds if kind.key == "head-flip"]
    assert examples.line(kind, 0).values.tolist() == [1, 0, 0]
    assert examples.line(kind, 0).note.startswith("head 2 alone: ")


def test_each_text_of_several_says_which_head_it_is(run):
    explained = Explanation(run)
    for shown in (str(explained[0]), str(explained[0].html()), str(explained)):
        assert WORDS in shown
    assert "No attention of any one of the 4 heads could change this decision" in str(explained[1])
    assert "Of head 1 it is not known." in str(explained[2])


def test_of_one_text_the_answer_says_it_once(tmp_path):
    explained = Explanation(with_heads(tmp_path / "run", TEXTS[:1], ["pfp?"]))
    assert explained[0].about == ""
    assert str(explained).count(WORDS) == 1


def test_the_page_has_the_words_and_the_weights(run):
    found = data_of(page(run))
    titles = [kind["title"] for kind in found["sites"][0]["kinds"]]
    place = titles.index("one head flips it")
    _, _, lines, words = found["examples"][0][6][0]
    assert WORDS in words
    weights, largest, note = lines[place]
    assert (list(base64.b64decode(weights)), largest) == ([254, 0, 0], 1.0)
    assert note.startswith("head 1 alone")
    assert found["examples"][1][6][0][2][place] == 0
    columns = [column["title"] for column in found["sites"][0]["columns"]]
    cells = found["examples"][0][6][0][1]
    assert cells[columns.index("heads proved")] == 0.5
    assert cells[columns.index("flips mixed in")] == 0.4


def test_the_card_of_the_heads(run, tmp_path):
    shown, _ = cards(run, SITE)
    (card,) = [card for card in shown if card.key == "heads"]
    assert card.value == "75%"
    assert card.reading.startswith("Of 8% another attention does; of 17% it is not known.")
    assert 'id="card-0-heads"' in page(run)
    exact = with_heads(tmp_path / "exact", TEXTS, ["p", "f", "p"], together=TOGETHER, exact=True)
    assert not [card for card in cards(exact, SITE)[0] if card.key == "heads"]
    assert "heads proved" not in page(exact)


def test_the_card_of_heads_without_proofs(tmp_path):
    run = with_heads(tmp_path / "run", TEXTS, ["?f??", "????", "????"], together=TOGETHER, unproved="no tail")
    (card,) = [card for card in cards(run, SITE)[0] if card.key == "heads"]
    assert card.value == "8%"  # one of twelve
    assert card.beside.endswith("of the heads could (found)")
    assert card.reading.startswith("Of the other 92% it is not known: nothing is proved here.")
    assert "(no tail 3)" in card.counts
    assert "What no attention of a head could change is not proved here: no tail." in page(run)


def test_the_model_card_names_the_heads(tmp_path):
    run = with_heads(tmp_path / "run", TEXTS, ["pfp?", "pppp", "p?pp"], together=TOGETHER)
    text = model_card(run)
    assert "In all 3 texts no attention of any one of heads 0 and 2 (2 of 4) could change the decision" in text
    assert "The least certain is head 1: proved in 1 of 3 texts" in text
