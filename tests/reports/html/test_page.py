"""The page of a run: what stands in it, that no text gets out of its place, and that it keeps its budget."""

from __future__ import annotations

import base64
import doctest
import hashlib
import importlib
import json
import re

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.functional.summaries import wilson
from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.answer.verdict import AGAINST, FOR, OPEN, Finding, finding, verdict
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.html import packing
from attn_faithful.reports.html.page import page, write_page
from attn_faithful.reports.palette import HUES
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores
from tests.reports.made import ARABIC, CHINESE, MARKUP, SOURCES, long_texts, made

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def data_of(html: str) -> dict:
    """The page's data, as strict JSON."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found, parse_constant=refuse)


def words_of(entry: list, site: int = 0) -> list[str]:
    """The items of an example, as the page's script takes them apart."""
    packed = entry[6][site][0] or entry[6][0][0]
    return [word for _, word in re.findall(r"([\n\t])([^\n\t]*)", packed)]


def text_of(html: str) -> str:
    """What a reader sees of the fixed part."""
    body = re.sub(r"<(script|style|svg).*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("runs") / "run", long_texts(60, 12), twins=True)


@pytest.fixture(scope="module")
def html(run):
    return page(run)


def test_first_stands_the_answer_and_its_figures_lead_to_their_cards(html):
    lead = re.search(r'<p class="lead">(.*?)</p>', html, re.DOTALL)[1]
    links = re.findall(r'href="#([^"]+)"', lead)
    assert [link.split("-")[-1] for link in links] == [
        "move",
        "move",
        "remove",  # the core
        "remove",
        "agree",
        "shuffle",
        "remove",
        "remove",
        "twins",
        "twins",
    ]
    ids = re.findall(r'id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(ids)
    assert re.search(r"\d+ of 60 texts \(\d+%\)</a> a completely different attention gives the same answer", lead)
    assert html.index("the model has accuracy") < html.index('<p class="lead">')


def test_a_card_has_its_number_interval_distribution_reading_and_counts(run, html):
    record = next(r for r in run.records if r.metric == "attention_permutation" and r.group == "all")
    card = re.search(r'<article[^>]*id="card-0-shuffle">(.*?)</article>', html, re.DOTALL)[1]
    assert f'<span class="value">{record.mean:.2f}</span>' in card
    assert f"{record.low:.2f} to {record.high:.2f}, median TVD" in card
    assert f"n {record.n}, undefined {record.n_undefined}" in card
    bars = [int(n) for n in re.findall(r": ([\d,]+) texts</title>", card)]
    assert sum(bars) == record.n
    assert html.count("<article") == html.count("<svg") == 5


def test_needs_nothing_from_outside(html):
    places = re.findall(r"(?:src|href|action)=\"([^\"]*)\"", html)
    assert all(place.startswith(("#", "data:")) for place in places)
    assert not re.search(r"url\(|@import|https?://", html)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert "default-src 'none'" in policy
    for tag in ("style", "script"):
        held = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[1]
        mark = base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{mark}'" in policy.replace("&#39;", "'").replace("&#x2B;", "+")


def test_a_byte_a_weight_is_within_half_a_step(run, html):
    found, examples = data_of(html), Examples(run)
    kinds = examples.kinds
    assert [kind["title"] for kind in found["sites"][0]["kinds"]] == [kind.title for kind in kinds]
    assert {kind.hue for kind in kinds} <= HUES.keys()
    for entry in found["examples"][::9]:
        stored = {line.kind.key: line for line in examples.lines(entry[0])}
        assert words_of(entry) == examples.words(entry[0])
        for kind, packed in zip(kinds, entry[6][0][2], strict=True):
            line = stored[kind.key]
            if kind.outlined:
                assert packed == [line.places, line.note]
                continue
            read = np.frombuffer(base64.b64decode(packed[0]), dtype=np.uint8).astype(float)
            shares = (read - packing.ZERO) / packing.ZERO if kind.signed else read / packing.TOP
            step = packed[1] / (packing.ZERO if kind.signed else packing.TOP)
            np.testing.assert_allclose(shares * packed[1], line.values, atol=0.51 * step)


def test_hues_and_lines_are_named_once_for_all(html):
    titles = {kind["title"]: kind["hue"] for kind in data_of(html)["sites"][0]["kinds"]}
    assert titles["attention"] == "attention"
    assert titles["as good an attention"] == titles["twin attefa-10"] == "adversarial"
    assert {titles[HUES[source].name] for source in SOURCES} == set(SOURCES)
    assert titles["smallest flip set"] == "smallest"


def test_markup_stays_text(tmp_path):
    texts = [*MARKUP, ARABIC, CHINESE, "emoji \U0001f600 \u2028 line"]
    nasty = '"><script>alert(3)</script>'
    run = made(tmp_path / "run", texts, labels=(nasty, "b & b"), queries=[MARKUP[0]] * len(texts), data=nasty)
    html = page(run)
    assert html.count("<script") == html.count("</script>") == 2
    assert "<img" not in html and "<!--" not in html  # noqa: PT018 - one thing: no tag of a text
    found = data_of(html)
    assert [" ".join(words_of(entry)) for entry in found["examples"]] == [" ".join(text.split()) for text in texts]
    assert found["labels"] == [nasty, "b & b"]
    assert found["examples"][0][2] == MARKUP[0]


def test_a_half_of_a_surrogate_can_be_written():
    assert json.loads(packing.embedded("a\ud800b").replace("\\ud800", "?")) == "a?b"


def test_repeated_words_and_texts_stay_apart(tmp_path):
    run = made(tmp_path / "run", ["good bad good", "good bad good"])
    entries = data_of(page(run))["examples"]
    assert [words_of(entry) for entry in entries] == [["good", "bad", "good"]] * 2
    assert len(base64.b64decode(entries[0][6][0][2][0][0])) == 3


def test_words_stand_as_close_as_in_the_text(tmp_path):
    run = made(tmp_path / "run", ["not good"])
    table = run.read("tokens").to_pydict()
    table |= {"tokens": [["no", "t", "", "good"]], "offsets": [[0, 2, 2, 3, 4, 4, 4, 8]]}
    for name in ("attention", *SOURCES, "attention_gradient"):
        table[name] = [[0.1, 0.2, 0.3, 0.4]]
    run.folder.write_table("tokens", table)
    examples = Examples(run)
    assert examples.joined(0) == [False, True, False, True]
    assert examples.text(0) == "not good"
    assert data_of(page(run))["examples"][0][6][0][0] == "\nno\tt\n\tgood"


def test_keeps_its_budget_and_says_so(tmp_path):
    run = made(tmp_path / "run", long_texts(300))
    whole, small, smaller = page(run), page(run, budget=150_000), page(run, budget=120_000)
    assert 'id="sample"' not in whole
    kept = [{entry[1] for entry in data_of(html)["examples"]} for html in (whole, small, smaller)]
    assert 300 == len(kept[0]) > len(kept[1]) > len(kept[2]) > 20
    assert kept[2] < kept[1], "the order of taking depends on the texts alone"
    assert len(small.encode()) <= 150_000
    assert f"{len(kept[1])} texts of 300 stand here, chosen by a hash of their content (seed 0)" in text_of(small)
    assert [entry[0] for entry in data_of(small)["examples"]] == sorted(e[0] for e in data_of(small)["examples"])
    other = {entry[1] for entry in data_of(page(run, budget=120_000, seed=1))["examples"]}
    assert other != kept[2]
    assert text_of(small).split("Examples")[0] == text_of(whole).split("Examples")[0], "cards are over all texts"


def test_two_thousand_texts_take_less_than_five_megabytes(tmp_path):
    html = page(made(tmp_path / "run", long_texts(200, 80), twins=True))
    assert len(data_of(html)["examples"]) == 200
    assert 10 * len(html.encode()) < 5_000_000


def test_one_text(tmp_path):
    html = page(made(tmp_path / "run", ["a waste of two good hours"]))
    assert "<svg" not in html
    assert "one text, seed 0" in text_of(html)
    assert "n 1, few texts, undefined 0" in text_of(html)
    assert re.search(r'<a class="pill none"[^>]*>no verdict</a>', html), "one text makes no verdict"
    assert re.search(r'<span class="pill few"[^>]*>few texts: 1</span>', html)


def test_all_undefined(tmp_path):
    html = page(made(tmp_path / "run", long_texts(4, 10), undefined="constant attention"))
    said = text_of(html)
    assert re.search(r"The tests [a-z, ]+ say nothing of these texts: constant attention \(4\)\.", said)
    assert said.count("undefined No distribution: fewer than two texts have a number.") == 4
    assert said.count("n 0, few texts, undefined 4 (constant attention 4)") == 4
    assert data_of(html)["examples"][0][6][0][1] == ["constant attention"] * 6


def test_without_tests(tmp_path):
    html = page(made(tmp_path / "run", long_texts(4, 10), tests=()))
    said = text_of(html)
    assert "No test was run; below stand the predictions" in said
    assert "No card for correlation, adversarial, permutation, flips: not run." in said
    assert data_of(html)["sites"][0]["columns"] == []
    assert "<article" not in html


def test_a_test_that_was_not_run_has_no_card_and_no_column(tmp_path):
    html = page(made(tmp_path / "run", long_texts(4, 10), tests=("adversarial",)))
    assert re.findall(r'<article[^>]*id="([^"]*)"', html) == ["card-0-move"]
    assert "No card for correlation, permutation, flips: not run." in text_of(html)
    assert [column["title"] for column in data_of(html)["sites"][0]["columns"]] == ["can move"]


def test_several_sites(tmp_path):
    run = made(tmp_path / "run", long_texts(5, 10), sites=("layer.0", "layer.1"))
    html = page(run)
    found = data_of(html)
    assert [site["name"] for site in found["sites"]] == ["layer.0", "layer.1"]
    assert re.findall(r'<option value="\d" (selected)?>(layer\.\d)</option>', html) == [
        ("", "layer.0"),
        ("selected", "layer.1"),
    ]
    assert [site[0] for site in found["examples"][0][6]] == [found["examples"][0][6][0][0], 0], "the text stands once"
    assert found["examples"][0][6][0][1] != found["examples"][0][6][1][1]
    assert {re.sub(r"card-(\d).*", r"\1", i) for i in re.findall(r'id="(card-[^"]*)"', html)} == {"0", "1"}


def test_several_slots_over_the_same_words_are_shown_as_their_mean(tmp_path):
    run = made(tmp_path / "run", ["a b"], tests=("adversarial",))
    table = run.read("variants").to_pydict()
    table["attention"] = [[0.0, 1.0, 0.5, 0.5], [0.0, 1.0]]
    run.folder.write_table("variants", table)
    line = next(line for line in Examples(run).lines(0) if line.kind.key == "adversarial")
    np.testing.assert_allclose(line.values, [0.25, 0.75])
    table["attention"] = [[0.0, 1.0, 1.0], [0.0, 1.0]]  # slots over different words
    run.folder.write_table("variants", table)
    assert "adversarial" not in [line.kind.key for line in Examples(run).lines(0)]
    kinds = [kind.key for kind in Examples(run).kinds]
    assert data_of(page(run))["examples"][0][6][0][2][kinds.index("adversarial")] == 0


@pytest.mark.parametrize(
    ("gold", "expected"), [([-1, 1], [-1, 1]), ([[1, 1], [0, 0]], [[0, 1], []]), ([[-1, -1], [0, 1]], [-1, [1]])]
)
def test_gold(tmp_path, gold, expected):
    run = made(tmp_path / "run", ["a b", "c d"], gold=gold)
    assert [entry[3] for entry in data_of(page(run))["examples"]] == expected


def test_a_text_without_words_and_a_class_without_texts(tmp_path):
    run = made(tmp_path / "run", ["", "a b"], labels=("no", "yes", "never"))
    found = data_of(page(run))
    assert found["labels"] == ["no", "yes", "never"]
    assert words_of(found["examples"][0]) == []


def test_what_has_no_tokens_at_all(tmp_path):
    run = made(tmp_path / "run", ["a b"], tests=())
    (run.path / "tokens.parquet").unlink()
    assert data_of(page(run))["examples"][0][6] == [["", [], [], ""]]


def test_undefined_weights(tmp_path):
    run = made(tmp_path / "run", ["a b", "c d"])
    table = run.read("tokens").to_pydict()
    table["leave_one_out"] = [[float("nan")] * 2, [0.5, float("nan")]]
    run.folder.write_table("tokens", table)
    kinds = [kind.key for kind in Examples(run).kinds]
    first, second = (e[6][0][2][kinds.index("leave_one_out")] for e in data_of(page(run))["examples"])
    assert first == 0
    assert list(base64.b64decode(second[0])) == [packing.TOP, packing.UNDEFINED]


def test_figures(tmp_path):
    run = made(tmp_path / "run", ["a b"])
    for name, content in (
        ("a.png", PNG),
        ("b.svg", b'<?xml?><svg height="9pt" width="600.5pt"/>'),
        ("big.png", b"x" * 400_000),
    ):
        (tmp_path / name).write_bytes(content)
    figures = {"A <first> one": tmp_path / "a.png", "B": tmp_path / "b.svg", "Large": tmp_path / "big.png"}
    html = page(run, figures, budget=500_000)
    assert re.findall(r'<img src="data:image/(png|svg\+xml|svg&#43;xml);base64', html) == ["png", "svg+xml"]
    assert "<figcaption>A &lt;first&gt; one</figcaption>" in html
    assert re.findall(r"<figure(.*?)><img", html) == ["", ' class="wide"']
    assert "Too large for this page, see the files beside it: Large." in text_of(html)
    with pytest.raises(InputError, match=r"Expected the figure 'C' as an SVG or PNG file, but .*none\.png is none"):
        page(run, {"C": tmp_path / "none.png"})


def test_writes_whole_files_only(tmp_path):
    run = made(tmp_path / "run", ["a b"])
    assert write_page(run, tmp_path / "new" / "page.html").read_text(encoding="utf-8") == page(run)
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_page(run, tmp_path / "taken")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "run", "taken"]


# the verdict


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ([AGAINST, AGAINST], "against"),
        ([FOR, FOR, FOR], "for"),
        ([AGAINST, FOR], "mixed"),
        ([AGAINST, OPEN], "mixed"),
        ([OPEN, OPEN], "mixed"),
        ([AGAINST], None),
        ([AGAINST, None], None),
        ([], None),
    ],
)
def test_a_verdict_only_where_all_tests_agree(says, expected):
    found, reason = verdict([None if said is None else Finding("test", said) for said in says], 30)
    assert (found.key if found else None) == expected
    assert bool(reason) == (found is None)


@pytest.mark.parametrize(
    ("low", "high", "n", "faithful", "expected"),
    [
        (0.6, 0.7, 100, "above", FOR),
        (0.6, 0.7, 100, "below", AGAINST),
        (0.4, 0.6, 100, "above", OPEN),
        (0.5, 0.7, 100, "above", OPEN),
        (0.6, 0.7, 29, "above", None),
        (None, None, 0, "above", None),
        (float("nan"), float("nan"), 100, "above", None),
    ],
)
def test_an_answer_needs_its_interval_on_one_side(low, high, n, faithful, expected):
    found = finding("test", low, high, n, 0.5, faithful)
    assert (found.says if found else None) == expected


def test_wilson_holds_the_share_and_stays_in_range():
    for share in (0.0, 0.01, 0.5, 1.0):
        low, high = wilson(share, 50)
        assert 0 <= low <= share + 1e-12
        assert share - 1e-12 <= high <= 1
        assert wilson(share, 5000)[1] - wilson(share, 5000)[0] < high - low


def test_the_verdict_stands_on_the_page(tmp_path):
    against = made(tmp_path / "against", long_texts(60, 12), shift=0.4, right=True)
    assert '<a class="pill against" href="#reading"' in page(against)
    assert {found.says for found in findings(Scores([against], "pool"))} == {AGAINST}
    mixed = made(tmp_path / "mixed", long_texts(60, 12), shift=-0.4, right=True)
    assert '<a class="pill mixed"' in page(mixed)


def test_a_bound_that_leaves_room_is_no_answer_for_attention(tmp_path):
    run = made(tmp_path / "run", long_texts(60, 12), tests=("adversarial",), shift=-0.6)
    (found,) = findings(Scores([run], "pool"))
    assert found.says == FOR
    table = run.read("scores").to_pydict()
    table["value"] = [
        0.69 if m == "adversarial_upper" else v for v, m in zip(table["value"], table["metric"], strict=True)
    ]
    run.folder.write_table("scores", table)
    assert not findings(Scores([Run(run.path)], "pool"))


WITH_EXAMPLES = [
    "answer.competence",
    "answer.wording",
    "answer.verdict",
    "by_key",
    "numbers",
    "html.histogram",
    "html.packing",
    "scores",
    "report_tables",
    "data_labels",
    "figures.amini_kosseim",
    "figures.base",
    "figures.marks",
    "figures.style",
    "tables.sources",
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(f"attn_faithful.reports.{name}"))
    assert (result.attempted > 0, result.failed) == (True, 0)
