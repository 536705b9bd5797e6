"""What is no distribution raises, whatever takes it, as it does from lists; what is one up to rounding does not."""

import math

import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.functional import concentration, head_matching, rollout
from attn_faithful.functional import divergences as D
from attn_faithful.functional.ragged import per_example_divergences

GOOD = torch.tensor([0.2, 0.3, 0.5])
BAD = {
    "three times a distribution": [0.6, 0.9, 1.5],
    "logits": [2.0, -1.0, 0.5],
    "a negative weight": [1.2, -0.2, 0.0],
    "a part of the attention": [0.2, 0.3, 0.0],
    "zeros": [0.0, 0.0, 0.0],
    "infinite": [math.inf, 0.0, 0.0],
}
EVERY = torch.ones(1, 3, dtype=torch.bool)
TAKERS = {
    "tvd": lambda p: D.tvd(p, GOOD),
    "tvd, second": lambda p: D.tvd(GOOD, p),
    "kl": lambda p: D.kl(p, GOOD),
    "kl, second": lambda p: D.kl(GOOD, p),
    "kl in training": lambda p: D.kl(p, GOOD, 1e-10),
    "jsd": lambda p: D.jsd(p, GOOD),
    "jsd, second, rows": lambda p: D.jsd(GOOD, torch.stack([GOOD, p])),
    "jsd in training": lambda p: D.jsd(p, GOOD, 1e-10),
    "scaled jsd": lambda p: D.scaled_jsd(p, GOOD),
    "entropy": concentration.entropy,
    "normalized entropy": lambda p: concentration.normalized_entropy(p[None], EVERY)[0],
    "support size": concentration.support_size,
    "gini": lambda p: concentration.gini(p[None], EVERY),
    "lists": lambda p: per_example_divergences([p.tolist()], [GOOD.tolist()], [[1.0]], [[1.0]]),
    "lists of attention": lambda p: per_example_divergences([[1.0]], [[1.0]], [p.tolist()], [GOOD.tolist()]),
    "rollout": lambda p: rollout.rollout(torch.eye(3)[None, None], p[None]),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_distribution_raises(taker, kind):
    with pytest.raises(InputError, match="distributions"):
        TAKERS[taker](torch.tensor(BAD[kind]))


@pytest.mark.parametrize("name", [*TAKERS])
def test_rounding_is_no_fault_and_nan_is_undefined(name):
    function = TAKERS[name]
    for given in (GOOD, GOOD * 1.0004, GOOD.double(), torch.tensor([1.0, 0.0, 0.0])):
        function(given)
    if "lists" not in name and name != "rollout":
        assert function(torch.tensor([math.nan, 0.5, 0.5])).isnan().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_its_own_rounding(dtype):
    """A thousand weights, each rounded to eight bits."""
    weights = torch.rand(20, 1000, generator=torch.Generator().manual_seed(0)).softmax(-1).to(dtype)
    D.jsd(weights, weights.flip(0))
    with pytest.raises(InputError, match=r"row 0 sums to 1\.0"):
        D.jsd(weights.float() * 1.02, weights)


@pytest.mark.parametrize("function", [D.tvd, D.kl, D.jsd, D.scaled_jsd])
def test_the_check_can_be_left_out(function):
    """Parts of equal mass have a divergence too; the numbers are those of the formula."""
    p, q = torch.tensor([0.3, 0.1], dtype=torch.float64), torch.tensor([0.1, 0.3], dtype=torch.float64)
    part = float(function(p, q, validate_args=False))
    rest = torch.tensor([0.6], dtype=torch.float64)
    assert part == pytest.approx(float(function(torch.cat([p, rest]), torch.cat([q, rest]))), abs=1e-15)


@pytest.mark.parametrize("function", [D.tvd, D.kl, D.jsd, D.scaled_jsd, lambda p, q: D.jsd(p, q, 1e-10)])
def test_a_padded_text_without_items_is_legal_in_both(function):
    empty = torch.stack([GOOD, torch.zeros(3)])
    assert function(empty, empty).tolist() == [0, 0]
    for pair in ((empty, GOOD), (GOOD, empty)):
        with pytest.raises(InputError, match=r"two distributions .* zeros in both"):
            function(*pair)
    assert function(torch.full((3,), math.nan), torch.zeros(3)).isnan()


def test_the_first_row_is_named():
    p = GOOD.repeat(2, 2, 1)
    p[1, 0, 2] = -0.5
    with pytest.raises(InputError, match=r"`p` that are distributions .* row \(1, 0\) holds -0.5; pass probabilities"):
        D.tvd(p, GOOD)
    with pytest.raises(InputError, match=r"`q` .* it sums to 3"):
        D.jsd(GOOD, 3 * GOOD)


def test_probabilities_of_labels_lie_between_0_and_1():
    good = torch.tensor([0.9, 0.8, 0.1])
    assert D.multilabel_tvd(good, good) == 0
    for bad in ([1.2, 0.0, 0.0], [-0.1, 0.5, 0.5], [math.inf, 0.0, 0.0]):
        with pytest.raises(InputError, match="`q` of probabilities, 0 to 1"):
            D.multilabel_tvd(good, torch.tensor(bad))
        with pytest.raises(InputError, match="`references` of probabilities, 0 to 1, one a label, but row 1"):
            per_example_divergences(
                [good.tolist()] * 2, [good.tolist(), bad], [[1.0]] * 2, [[1.0]] * 2, multi_label=True
            )
    assert D.multilabel_tvd(good, torch.tensor([math.nan, 0.1, 0.1])).isnan()


def test_largest_jsd_takes_a_part_and_nothing_else():
    D.largest_jsd(torch.tensor([0.2, 0.3, 0.0]), torch.tensor([True, True, False]))
    for bad in ([0.6, 0.9, 0.0], [-0.1, 0.5, 0.6]):
        with pytest.raises(InputError, match="at least 0 that sum to at most 1"):
            D.largest_jsd(torch.tensor(bad), torch.tensor([True, True, True]))


@pytest.mark.parametrize("weight", [5e-324, 1e-320, 1e-310, 1e-300])
def test_a_weight_of_almost_nothing_moves_almost_nothing(weight):
    """Half of the smallest number is 0, and what is divided by it infinite: the divergence was ln 2."""
    one, other = (torch.tensor(values, dtype=torch.float64) for values in ([1.0, weight], [1.0, 0.0]))
    for p, q in ((one, other), (other, one)):
        assert D.jsd(p, q) == pytest.approx(0.0, abs=1e-290)
        assert D.tvd(p, q) == pytest.approx(0.0, abs=1e-290)
    assert D.kl(one, one) == 0
    assert D.kl(other, one) == pytest.approx(0.0, abs=1e-12)
    assert concentration.entropy(one) == pytest.approx(0.0, abs=1e-290)
    heads = torch.stack([one, other])[None, :, None]
    assert head_matching.head_distances(heads, heads, torch.tensor([[True]])).max() == pytest.approx(0.0, abs=1e-12)
    (_, jsd, _) = per_example_divergences([[1.0]], [[1.0]], [one.tolist()], [other.tolist()])
    assert jsd[0] == pytest.approx(0.0, abs=1e-290)


def test_heads_are_distributions_or_say_nothing():
    rows = torch.tensor([[True, True, False]])
    heads = torch.rand(1, 2, 3, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
    heads[0, 0, 1] = 0  # says nothing
    heads[0, :, 2] = 7  # no real row
    head_matching.head_distances(heads, heads, rows)
    head_matching.matched_jsd(heads, heads, rows, [1, 0])
    broken = heads.clone()
    broken[0, 1, 0] *= 3
    for function in (head_matching.head_distances, lambda *a: head_matching.matched_jsd(*a, [1, 0])):
        with pytest.raises(InputError, match="rows of `base` that are distributions"):
            function(heads, broken, rows)
        with pytest.raises(InputError, match="rows of `twin` that are distributions"):
            function(broken, heads, rows)
    for function in (lambda a: head_matching.content_attention(a, torch.ones(1, 4).bool()), rollout.with_residual):
        with pytest.raises(InputError, match="weights of at least 0"):
            function(-torch.eye(4)[None, None])
