"""The page of two models: one file, everything escaped, aligned, within its budget."""

from __future__ import annotations

import base64
import json
import re

import pytest

from attn_faithful._checks import InputError
from attn_faithful.reports.compare.comparison import Comparison, compare
from attn_faithful.reports.html.compare import comparison_page
from attn_faithful.reports.html.page import BUDGET
from tests.reports.altered import LSTM, MLP
from tests.reports.compare.pairs import in_pieces, made_with_metrics
from tests.reports.made import ARABIC, MARKUP, long_texts


def data_of(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def words(example):
    return re.findall(r"[\n\t]([^\n\t]*)", example[6])


def weights(line):
    """The numbers of a line that has no sign."""
    return [byte / 254 * line[1] for byte in base64.b64decode(line[0])]


@pytest.fixture(scope="module")
def compared():
    return compare(LSTM, MLP)


@pytest.fixture(scope="module")
def html(compared):
    return compared.html()


def test_every_text_with_both_attentions(compared, html):
    data = data_of(html)
    assert [example[1] for example in data["examples"]] == compared.first.ids
    titles = [kind["title"] for kind in data["kinds"]]
    assert titles[:3] == ["A: attention", "B: attention", "A - B"]
    assert {"A: leave-one-out", "B: leave-one-out"} <= set(titles)
    assert [kind["shown"] for kind in data["kinds"]] == [True] * 3 + [False] * (len(titles) - 3)
    for place, example in enumerate(data["examples"]):
        assert words(example) == compared.first.examples.words(place)
        for which, side in enumerate((compared.first, compared.second)):
            stored = side.examples.values(side.attention, place)
            assert weights(example[9][which]) == pytest.approx(stored, abs=max(stored) / 254)
        shares = compared.texts.shares[place]
        packed, largest, _ = example[9][2]
        apart = [(byte - 127) / 127 * largest for byte in base64.b64decode(packed)]
        assert apart == pytest.approx(shares.first - shares.second, abs=largest / 127)
        assert example[7] == pytest.approx([each.values[place] for each in compared.distances[:3]], abs=1e-4)
        numbers = [
            values[place] for each in compared.differences for values in (each.numbers.first, each.numbers.second)
        ]
        assert example[8][:6] == pytest.approx(numbers[:6], abs=1e-4)


def test_undefined_numbers_say_why(html):
    data = data_of(html)
    held = [cell for example in data["examples"] for cell in example[8] if isinstance(cell, str)]
    assert held
    assert {data["reasons"][int(cell)] for cell in held} <= {"n<5", "constant", *data["reasons"]}
    assert all(data["reasons"])


def test_words_of_pieces(tmp_path):
    found = compare(LSTM, in_pieces(tmp_path / "short", cut=2))
    data, noted = data_of(found.html()), []
    for place, example in enumerate(data["examples"]):
        whole = found.first.examples.words(place)
        assert words(example) == whole
        packed = base64.b64decode(example[9][1][0])
        assert [byte == 255 for byte in packed] == [i >= 2 for i in range(len(whole))], "what B does not read"
        elsewhere = found.first.weights(found.first.attention, place)[2:].sum()
        if abs(elsewhere - 0.005) > 1e-4:
            assert ("on words that B does not read" in example[9][0][2]) == (elsewhere > 0.005)
            noted.append(elsewhere > 0.005)
    assert len(set(noted)) == 2


def test_tables_and_answers(compared, html):
    for side in ("A: <bdi>lstm</bdi>", "B: <bdi>mlp</bdi>"):
        assert side in html
    for answer in compared.answers:
        assert answer.about in html
    assert html.count('<th scope="row" class="name">') == sum(len(table.rows) for table in compared.tables())
    assert "What it does not mean" in html


def test_a_twin(tmp_path):
    html = compare(LSTM).html()
    assert "A is the base, B its twin" in html
    assert "AtteFa" in html
    assert data_of(html)["kinds"][1]["title"] == "B: attention"


def test_markup_is_text(tmp_path):
    texts = [*MARKUP, ARABIC, ""]
    first = made_with_metrics(tmp_path / "a", texts, labels=("<b>bad</b>", "good"))
    second = made_with_metrics(tmp_path / "b", texts, labels=("<b>bad</b>", "good"), seed=1)
    html = compare(first, second, names=["<i>one</i>", "</script>two"]).html()
    assert "<i>" not in html
    assert "<b>" not in html
    assert html.count("</script>") == 2
    assert "default-src 'none'" in html


def test_1647_texts_fit(tmp_path):
    """As many as the test split of SST has, with six tests' numbers each."""
    texts = long_texts(1647, 16)
    runs = [made_with_metrics(tmp_path / str(seed), texts, seed=seed) for seed in (0, 1)]
    found = compare(*runs)
    html = comparison_page(found)
    assert len(html.encode()) < 5_000_000 == BUDGET
    assert len(data_of(html)["examples"]) == 1647
    assert "would take this file past its limit" not in html
    small = comparison_page(found, budget=400_000)
    assert len(small.encode()) <= 400_000
    n = len(data_of(small)["examples"])
    assert 100 < n < 1647
    assert f"{n:,} texts of 1,647 stand here" in small


def test_saving(tmp_path, compared):
    target = compared.save(tmp_path / "new" / "page.html")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(InputError, match="is a folder"):
        compared.save(tmp_path)
    assert isinstance(compared, Comparison)
