"""Sentences of documents: nothing lost, tokens in their own sentence, whatever the script and the tokenizer."""

from __future__ import annotations

import doctest
import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest

from attn_faithful.data import sentences
from attn_faithful.data.sentences import sentence_ids, sentence_spans

CASES = [
    ["Good film.", "Bad end."],
    ["Dr. Smith paid $3.50.", "He left."],
    ["We ate, e.g. pasta.", "It was 3.5 of 5."],
    ["I live in the U.S. and like it.", "It is the U.S.", "We stay at 5 p.m. or so."],
    ["J. K. Rowling and George W. Bush met.", "I and George W. Bush vs. Mr. T. did too."],
    ["my husband and I.", "We ate etc. and left."],
    ["No. 5 is best.", "no. 7 too.", "no.", "we left"],
    ["1. Rooms are good.", "It was 2019.", "We left."],
    ["the food was good .", "i will be back ."],
    ["it 's mr. bean .", "he is etc .", "the u.s. army ."],
    ["wow!!!", "so good!!!", "why?!", "yes"],
    ["so good... really.. and more.", "Well...", "No"],
    ["it drags . . . and drags .", "really ? !", "... no"],
    ['He said "Go."', "Then left (really.)", "(It was bad.)", "I left."],
    ['"Go!" he said (really?) and left.', "No"],
    ["he said `` go . ''", "then ( no . )", "-lrb- yes ! -rrb-", "ok"],
    ["what ? , they said .", "no"],
    ["wow \U0001f600!", "it is on a.com/b?c=d.e or foo.com.", "ok"],
    ["see http://a.b/c.d?e=f.", "ok"],
    ["Yes \U0001f600.", "good!\U0001f600", "\U0001f600 bad"],
    ["no stop at all"],
    ["..."],
]
BREAKS = {
    "one\ntwo\n\n  three\r\nfour\u2028five": ["one", "two", "three", "four", "five"],
    "Mr.\nBean": ["Mr.", "Bean"],
    "love it!I will go.Back again.yes": ["love it!", "I will go.", "Back again.yes"],
    "Great!<br /><br />No. <BR>so": ["Great!<br /><br />", "No. <BR>", "so"],
    "so\n<br /> <br/>\nno": ["so\n<br /> <br/>", "no"],
    "<br />\n<br />First. Last.": ["<br />\n<br />First.", "Last."],
    " <br /> <br /> ": ["<br /> <br />"],
    "什么都好。下次再来！好吗？好": ["什么都好。", "下次再来！", "好吗？", "好"],  # noqa: RUF001
    "我说：“好。”他走了。4.5星": ["我说：“好。”", "他走了。", "4.5星"],  # noqa: RUF001
    "यह अच्छा है। फिर आएंगे॥ ठीक": ["यह अच्छा है।", "फिर आएंगे॥", "ठीक"],
    "هذا جيد. لن أعود؟ نعم! اچھا۔شكرا": ["هذا جيد.", "لن أعود؟", "نعم!", "اچھا۔", "شكرا"],  # noqa: RUF001
    "": [],
    " \n\t\u00a0": [],
}


def split(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def check_nothing_is_lost(text):
    spans = sentence_spans(text)
    edges = [0, *itertools.chain.from_iterable(spans), len(text)]
    assert edges == sorted(edges)
    assert not "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)).strip()
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


def test_examples_in_docstrings():
    assert doctest.testmod(sentences).failed == 0


@pytest.mark.parametrize("pieces", CASES, ids=lambda pieces: pieces[0])
def test_sentences_of_a_text(pieces):
    assert split(" ".join(pieces)) == pieces


@pytest.mark.parametrize("text", BREAKS)
def test_breaks_and_other_scripts(text):
    assert split(text) == BREAKS[text]


@pytest.mark.parametrize("pieces", [CASES[0], CASES[7], CASES[8], CASES[10]], ids=lambda pieces: pieces[0])
def test_capitals_are_not_needed(pieces):
    assert split(" ".join(pieces).lower()) == [piece.lower() for piece in pieces]


def test_nothing_is_lost_of_any_text():
    random = np.random.default_rng(0)
    parts = ["a", "B", "Mr", "U.S", "I", "5", ".", "..", "!", "?", "。", "।", '"', "'", "''", ")", "(", ",", ":"]
    parts += ["<br />", "\n", "\r\n", " ", "  ", "\u00a0", "\U0001f600", "\u200b", "\x1c", "好", "-rrb-", "The"]
    for _ in range(3000):
        check_nothing_is_lost("".join(random.choice(parts, size=random.integers(0, 14))))


@pytest.mark.parametrize("name", ["yelp5", "imdb", "hotels_zh", "reviews_hi", "reviews_ar", "sst5", "news20_hockey"])
def test_nothing_is_lost_of_real_texts(shared, name):
    texts = pq.read_table(shared / "data" / name / "test.parquet")["text"].to_pylist()[:300]
    for text in texts:
        check_nothing_is_lost(text)
        lines = [line for line in text.replace("<br />", "\n").splitlines() if line.strip()]
        assert len(sentence_spans(text)) >= len(lines)


def test_sentences_of_tokenized_texts_are_found_again(shared):
    """One line a sentence, joined by blanks: .96 of the ends found are right and .84 of the ends are found."""
    right = found = known = 0
    for text in pq.read_table(shared / "data/movies_rationales/test.parquet")["text"].to_pylist()[:60]:
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        ends = set(itertools.accumulate((len(line) + 1 for line in lines), initial=-1)) - {-1}
        own = {end for _, end in sentence_spans(" ".join(lines))}
        right, found, known = right + len(ends & own), found + len(own), known + len(ends)
    assert right / found > 0.94
    assert right / known > 0.80


RUNS = ["word ", "word. ", ".", ". ", ".'", "!)", "! ) ", "a. . ", "Mr. ", "5. ", "e.g.", "...a "]


@pytest.mark.parametrize("run", [*RUNS, "<br />", "<br ", " \n", "<br>a"])
def test_long_runs_stay_linear(run):
    """A quadratic pattern would take hours here."""
    check_nothing_is_lost(run * 50_000)


def test_a_text_of_ten_thousand_words_without_a_stop():
    text = "word " * 10_000
    assert sentence_spans(text) == [(0, len(text) - 1)]


SPANS = [(0, 4), (5, 8), (9, 12)]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([(0, 3), (3, 4), (5, 8), (9, 12)], [0, 0, 1, 2]),
        ([(0, 0), (0, 4), (0, 0), (5, 8), (0, 0), (0, 0)], [0, 0, 0, 1, 1, 1]),  # special tokens
        ([(0, 0), (9, 10), (10, 12), (0, 0)], [0, 0, 0, 0]),  # only the last sentence is left
        ([(0, 4), (4, 8), (8, 12)], [0, 1, 2]),  # tokens that begin with the blank before them
        ([(0, 4), (9, 12)], [0, 1]),  # a sentence without a token is not counted
        ([(3, 6), (6, 8)], [0, 0]),  # a token over two sentences belongs to the second
        ([(0, 0), (0, 0)], [0, 0]),
        ([], []),
    ],
)
def test_the_sentence_of_each_token(tokens, expected):
    found = sentence_ids(SPANS, tokens)
    assert found.tolist() == expected
    assert found.dtype == np.int32


def test_tokens_of_a_blank_text():
    assert sentence_ids([], [(0, 1), (1, 2)]).tolist() == [0, 0]
