"""Items of two models are laid on each other by the characters that they stand on."""

from __future__ import annotations

import numpy as np
import pytest

from attn_faithful.reports.compare.words import Items, common_words, read_alike, same_text
from tests.reference.common_words import groups

TEXT = "Not bad, naïve café; Ünïcode 好电影 😀! not bad"


def cut(rng, text, share=1.0):
    """Items at random places, some of which are left out."""
    edges = sorted(rng.choice(np.arange(1, len(text)), size=rng.integers(3, 14), replace=False).tolist())
    spans = list(zip([0, *edges], [*edges, len(text)], strict=True))
    spans = [span for span in spans if rng.random() < share]
    return Items([text[start:end] for start, end in spans], np.array(spans).reshape(-1, 2))


@pytest.mark.parametrize("seed", range(30))
def test_as_character_by_character(seed):
    rng = np.random.default_rng(seed)
    first, second = cut(rng, TEXT, 0.9), cut(rng, TEXT, 0.8)
    common = common_words(first, second)
    expected = groups(first.spans.tolist(), second.spans.tolist())
    found = [set() for _ in common.words]
    for which, places in enumerate(common.places):
        for item, place in enumerate(places.tolist()):
            found[place].add((which, item))
    assert found == expected
    assert common.both.tolist() == [{which for which, _ in group} == {0, 1} for group in expected]
    weights = rng.dirichlet(np.ones(len(first.words)))
    laid = common.laid(0, weights)
    sums = [sum(weights[i] for which, i in group if which == 0) for group in expected]
    assert np.nan_to_num(laid) == pytest.approx(sums, abs=1e-12)
    assert np.isnan(laid).tolist() == [all(which for which, _ in group) for group in expected]
    assert same_text(first, second)
    for word, group in zip(common.words, expected, strict=True):
        places = [[*range(*(first, second)[which].spans[i])] for which, i in sorted(group)]
        whole = range(min(map(min, places)), max(map(max, places)) + 1)
        of_one_side = [
            {p for (w, _), held in zip(sorted(group), places, strict=True) if w == which for p in held}
            for which in (0, 1)
        ]
        if set(whole) in of_one_side:
            assert word == TEXT[whole.start : whole.stop]


def test_pieces_and_words():
    pieces = Items(["un", "believ", "able", "film", "!"], np.array([[0, 2], [2, 8], [8, 12], [13, 17], [17, 18]]))
    words = Items(["unbelievable", "film!"], np.array([[0, 12], [13, 18]]))
    common = common_words(pieces, words)
    assert common.words == ["unbelievable", "film!"]
    assert common.joined == [False, False]
    assert common.laid(0, np.array([0.1, 0.2, 0.3, 0.3, 0.1])) == pytest.approx([0.6, 0.4])


def test_the_same_cut_stays_as_it_is():
    items = Items(["not", "good", ",", "not"], np.array([[0, 3], [4, 8], [8, 9], [10, 13]]))
    common = common_words(items, items)
    assert (common.words, common.joined) == (items.words, [False, False, True, False])
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    assert common.laid(1, weights).tolist() == weights.tolist()


def test_parts_of_one_sign_stay_together():
    """Tokens of bytes have the span of the whole sign."""
    bytes_of_one = Items(["", "", "!"], np.array([[0, 1], [0, 1], [1, 2]]))
    common = common_words(bytes_of_one, Items(["😀", "!"], np.array([[0, 1], [1, 2]])))
    assert common.words == ["😀", "!"]
    assert common.laid(0, np.array([0.2, 0.3, 0.5])) == pytest.approx([0.5, 0.5])


def test_no_words():
    nothing = Items([], np.zeros((0, 2), dtype=int))
    assert common_words(nothing, nothing).words == []
    assert same_text(nothing, nothing)
    assert not same_text(nothing, Items(["a"], np.array([[0, 1]])))


@pytest.mark.parametrize(
    ("words", "same"),
    [(["good", "film"], True), (["good"], True), (["Good", "film"], False), (["good", "firm"], False)],
)
def test_same_text(words, same):
    first = Items(["good", "film"], np.array([[0, 4], [5, 9]]))
    assert same_text(first, Items(words, np.array([[0, 4], [5, 9]][: len(words)]))) == same


def test_blanks_are_read_by_nobody():
    sentence = Items(["good film"], np.array([[0, 9]]))
    words = Items(["good", "film"], np.array([[0, 4], [5, 9]]))
    assert read_alike(sentence, words)
    assert common_words(sentence, words).words == ["good film"]
    assert not read_alike(sentence, Items(["good"], np.array([[0, 4]])))
