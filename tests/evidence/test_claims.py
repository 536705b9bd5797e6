"""What an interval says to a claim."""

import pytest
from evidence.claims import Claim, counted
from evidence.estimates import Estimate


def claim(low, high, seeds=3, **bound):
    return Claim("p", "says", "measure", "data", Estimate((low + high) / 2, low, high, seeds), **bound)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.41, 0.5, "confirmed"),
        (0.3, 0.5, "weakened"),
        (-0.1, 0.5, "open"),
        (0.1, 0.39, "refuted"),
        (-1, -0.5, "refuted"),
    ],
)
def test_a_claim_above(low, high, verdict):
    assert claim(low, high, above=0.4).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.5, -0.1, "confirmed"), (-0.1, 0.1, "open"), (0.1, 0.2, "refuted")],
)
def test_a_claim_below_nothing(low, high, verdict):
    assert claim(low, high, below=0.0).verdict == verdict


def test_a_claim_below_a_bound_has_no_effect_on_its_other_side():
    assert claim(0.4, 0.6, below=0.5, zero=1.0).verdict == "weakened"
    assert claim(0.4, 1.1, below=0.5, zero=1.0).verdict == "open"
    assert claim(0.1, 0.2, below=0.5, zero=1.0).verdict == "confirmed"


def test_verdicts_are_counted():
    claims = [claim(0.5, 0.6, above=0.4), claim(0.5, 0.6, seeds=0, above=0.4)]
    assert counted(claims) == {"confirmed": 1, "weakened": 0, "open": 0, "refuted": 0, "not run": 1}
    assert claims[0].bound == "> 0.4"
