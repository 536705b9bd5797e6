"""Scores of stretches on items: against a slow reference, sums kept, NaN with a reason."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful.data.span_scores import NO_NUMBER, NO_SCORE, lay_scores
from tests.properties.made import checked
from tests.reference.span_scores import laid_scores

PIECES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6)  # a gap and a length
SCORES = st.floats(-4, 4, allow_subnormal=False, width=16)


def as_spans(pieces):
    """Stretches one behind the other."""
    spans, end = [], 0
    for gap, length in pieces:
        spans.append((end + gap, end + gap + length))
        end += gap + length
    return spans


@checked(2)
@given(PIECES.map(as_spans), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6), SCORES), max_size=8))
def test_as_the_reference_says_and_sums_are_kept(items, stretches):
    spans = [(start, start + length) for start, length, _ in stretches]
    scores = [score for _, _, score in stretches]
    if spans == items:
        return
    laid = lay_scores(spans, scores, items)
    expected, lost = laid_scores(spans, scores, items)
    assert [value is None for value in expected] == [reason == NO_SCORE for reason in laid.reasons]
    np.testing.assert_allclose(laid.values, [math.nan if v is None else float(v) for v in expected], atol=1e-12)
    kept = sum(value for value in laid.values if not math.isnan(value))
    assert kept + float(lost) == pytest.approx(sum(scores), abs=1e-10)


def test_pieces_of_a_word_are_summed_and_a_longer_stretch_is_shared():
    laid = lay_scores([(0, 2), (2, 5), (6, 11)], [1.0, 2.0, 5.0], [(0, 5), (6, 9), (9, 11), (12, 13)])
    assert laid.values[:3] == [3.0, 3.0, 2.0]
    assert math.isnan(laid.values[3])
    assert laid.reasons == [None, None, None, NO_SCORE]


def test_scores_of_no_word_are_counted_where_they_are_not_0():
    laid = lay_scores([(0, 0), (0, 3), (9, 12), (0, 0)], [0.5, 1.0, -1.0, 0.0], [(0, 3)])
    assert (laid.values, laid.n_unplaced) == ([1.0], 2)


def test_a_blank_goes_with_the_word_behind_it():
    laid = lay_scores([(0, 1), (1, 2), (2, 3), (3, 4)], [1.0, 0.25, 2.0, 8.0], [(0, 1), (2, 3)])
    assert (laid.values, laid.n_unplaced) == ([1.0, 2.25], 1)


def test_tokens_that_are_the_items_give_theirs_one_by_one():
    pieces = [(0, 0), (0, 0), (0, 1), (2, 3)]  # of an emoji, whose last piece is shown as all of it
    laid = lay_scores(pieces, [1.0, 2.0, 3.0, 4.0], pieces)
    assert laid.values == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_is_undefined(score):
    laid = lay_scores([(0, 1), (1, 2), (3, 4)], [1.0, score, 2.0], [(0, 2), (3, 4)])
    assert math.isnan(laid.values[0])
    assert (laid.values[1], laid.reasons) == (2.0, [NO_NUMBER, None])
