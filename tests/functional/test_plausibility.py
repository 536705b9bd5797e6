"""Agreement with rationales against loops, scikit-learn and sets of spans."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from attn_faithful._checks import InputError
from attn_faithful.functional.plausibility import (
    auprc,
    iou_f1,
    random_auprc,
    rationale_share,
    select_top,
    token_f1,
)
from tests.reference import plausibility as reference

nan = math.nan


def random_examples(seed, n=40, width=25):
    """Importance with ties, rationales of every density, content with gaps and rows without any."""
    generator = np.random.default_rng(seed)
    content = generator.random((n, width)) < generator.choice([0.1, 0.6, 1.0], (n, 1))
    rationale = generator.random((n, width)) < generator.choice([0.0, 0.2, 0.7, 1.0], (n, 1))
    content[0] = rationale[1] = False
    importance = generator.integers(-3, 6, (n, width)) / 4
    importance[: n // 2] += generator.random((n // 2, width))  # no ties
    importance[~content] = nan
    return (torch.from_numpy(x) for x in (importance, rationale, content))


def random_masks(seed, n=200, width=30):
    """Selections and rationales of long and short runs, and empty ones."""
    generator = np.random.default_rng(seed)
    masks = []
    for _ in range(2):
        flips = generator.random((n, width)) < generator.choice([0.0, 0.15, 0.4], (n, 1))
        masks.append(torch.from_numpy(flips.cumsum(1) % 2 == 1))
    masks[1][: n // 2] = masks[0][: n // 2] ^ torch.from_numpy(generator.random((n // 2, width)) < 0.1)  # near ones
    return masks


def same(found, expected):
    found, expected = (torch.as_tensor(values, dtype=torch.float64) for values in (found, expected))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10, equal_nan=True)


# --- average precision


@pytest.mark.parametrize("seed", range(5))
def test_auprc_equals_the_definition_and_scikit_learn(seed):
    importance, rationale, content = random_examples(seed)
    values, reasons = auprc(importance, rationale, content)
    assert values.dtype == torch.float64
    rows = list(zip(importance.tolist(), rationale.tolist(), content.tolist(), strict=True))
    same(values, [reference.average_precision(*row) for row in rows])
    for value, reason, s, r, inside in zip(values.tolist(), reasons, importance, rationale, content, strict=True):
        expected_reason = None
        if not bool(inside.any()):
            expected_reason = "no content token"
        elif not bool((r & inside).any()):
            expected_reason = "no rationale token"
        assert reason == expected_reason
        assert math.isnan(value) == (reason is not None)
        if reason is None:
            assert value == pytest.approx(average_precision_score(r[inside], s[inside]), abs=1e-10)
    assert sum(reason is None for reason in reasons) > 15


def test_auprc_by_hand():
    content = torch.ones(1, 4, dtype=torch.bool)
    rationale = torch.tensor([[True, False, False, True]])
    cases = [
        ([4, 2, 1, 3], 1.0),
        ([1, 3, 4, 2], (1 / 3 + 2 / 4) / 2),
        ([0, 0, 0, 0], 0.5),  # all tie: the share of rationale tokens
        ([0.6, 0, 0, 0], (1 + 2 / 4) / 2),  # sparse: the zeros enter together
        ([-math.inf, 0, math.inf, 1], (1 / 2 + 2 / 4) / 2),
    ]
    for importance, expected in cases:
        value, reasons = auprc(torch.tensor([importance]), rationale, content)
        assert (float(value), reasons) == (pytest.approx(expected, abs=1e-12), [None])


def test_what_lies_outside_the_content_changes_nothing():
    importance, rationale, content = random_examples(8)
    expected, _ = auprc(importance, rationale, content)
    low, high = (torch.where(content, importance, v) for v in (-math.inf, math.inf))
    for other in (low, high):
        same(auprc(other, rationale | ~content, content)[0], expected)
    wide = [torch.nn.functional.pad(x, (2, 3)) for x in (importance, rationale, content)]
    same(auprc(*wide)[0], expected)
    same(torch.cat([auprc(*(x[i : i + 1] for x in (importance, rationale, content)))[0] for i in range(40)]), expected)
    same(auprc(*(x.flip(1) for x in (importance, rationale, content)))[0], expected)  # ties prefer no position


def test_nan_in_importance_is_undefined():
    importance = torch.tensor([[nan, 0.5], [0.1, 0.5], [nan, 0.5]])
    content = torch.tensor([[True, True], [True, True], [False, True]])
    value, reasons = auprc(importance, torch.ones(3, 2, dtype=torch.bool), content)
    assert reasons == ["nan in scores", None, None]
    same(value, [nan, 1, 1])


def test_no_tokens_at_all():
    nothing = torch.zeros(2, 0, dtype=torch.bool)
    values = (
        auprc(torch.zeros(2, 0), nothing, nothing),
        random_auprc(nothing, nothing),
        rationale_share(nothing, nothing),
    )
    for value, reasons in values:
        same(value, [nan, nan])
        assert reasons == ["no content token"] * 2
    assert iou_f1(nothing, nothing).reasons == token_f1(nothing, nothing).reasons == ["no rationale token"] * 2
    assert select_top(torch.zeros(2, 0), nothing, torch.ones(2, dtype=torch.long))[0].shape == (2, 0)


# --- what chance gives


def test_random_auprc_is_the_mean_over_all_orders():
    for n in range(1, 7):
        for m in range(1, n + 1):
            rationale = (torch.arange(9) < m)[None]
            value, reasons = random_auprc(rationale, (torch.arange(9) < n)[None])
            assert float(value) == pytest.approx(reference.expected_average_precision(n, m), abs=1e-10)
            assert reasons == [None]


def test_random_auprc_is_what_random_importance_gives():
    generator = torch.Generator().manual_seed(0)
    rationale, content = (torch.arange(40) < 6).expand(4000, 40), torch.ones(4000, 40, dtype=torch.bool)
    values, _ = auprc(torch.rand(4000, 40, generator=generator), rationale, content)
    expected, share = random_auprc(rationale, content)[0][0], rationale_share(rationale, content)[0][0]
    assert float(values.mean()) == pytest.approx(float(expected), abs=4 * float(values.std()) / math.sqrt(4000))
    assert float(share) == 6 / 40
    assert float(expected - share) > 0.05  # so the share alone would make chance look plausible


def test_equal_importance_gives_the_share():
    _, rationale, content = random_examples(3)
    value, reasons = auprc(torch.full(content.shape, 0.2), rationale, content)
    share, of_share = rationale_share(rationale, content)
    same(value, share)
    assert reasons == of_share == random_auprc(rationale, content)[1]
    assert {None, "no content token", "no rationale token"} == set(reasons)


# --- selections


@pytest.mark.parametrize("seed", range(3))
def test_agreement_equals_the_reference(seed):
    selected, rationale = random_masks(seed)
    rows = list(zip(selected.tolist(), rationale.tolist(), strict=True))
    found = token_f1(selected, rationale)
    same(torch.stack([found.precision, found.recall, found.f1], 1), [reference.tokens(*row) for row in rows])
    hits = []
    for threshold in (0.5, 0.6, 0.75, 1.0):
        found = iou_f1(selected, rationale, threshold)
        expected = [reference.spans(*row, threshold) for row in rows]
        same(torch.stack([found.precision, found.recall, found.f1], 1), expected)
        assert float(found.recall.nan_to_num().max()) <= 1
        hits.append(float(found.recall.nansum()))
    assert hits == sorted(hits, reverse=True)
    assert hits[0] > hits[-1] > 0
    for (selected_row, rationale_row), reason in zip(rows, found.reasons, strict=True):
        expected_reason = None
        if not any(rationale_row):
            expected_reason = "no rationale token"
        elif not any(selected_row):
            expected_reason = "no selected token"
        assert reason == expected_reason
    assert set(found.reasons) == {None, "no rationale token", "no selected token"}


def test_spans_by_hand():
    rationale = torch.tensor([[0, 1, 1, 1, 1, 0, 0, 1, 0, 0]]).bool()
    cases = [
        ([0, 1, 1, 0, 0, 0, 0, 0, 0, 0], 1, 1),  # 2 / 4: just a hit
        ([1, 1, 1, 0, 0, 0, 0, 0, 0, 0], 1, 0),  # 2 / 5
        ([0, 0, 0, 1, 1, 1, 1, 1, 0, 0], 1, 0),  # spans both: 2 / 7 and 1 / 5
        ([0, 1, 1, 0, 1, 0, 0, 1, 0, 0], 3, 2),  # of the two in one span, the larger is half of it
        ([1, 0, 0, 0, 0, 1, 1, 0, 1, 1], 3, 0),
        ([0, 1, 1, 1, 1, 0, 0, 1, 0, 0], 2, 2),
    ]
    for selected, spans, hits in cases:
        found = iou_f1(torch.tensor([selected]).bool(), rationale)
        same([found.precision[0], found.recall[0], found.f1[0]], [hits / spans, hits / 2, 2 * hits / (spans + 2)])


def test_spans_end_at_the_ends_of_a_text():
    """The last position of a text and the first of the next are no run."""
    mask = torch.tensor([[0, 0, 1], [1, 0, 0]]).bool()
    other = torch.tensor([[0, 0, 1], [0, 1, 1]]).bool()
    same(iou_f1(mask, other).f1, [1, 0])
    same(iou_f1(mask, mask).f1, [1, 1])


def test_agreement_is_the_same_alone_and_with_padding():
    selected, rationale = random_masks(9, n=30)
    for function in (token_f1, iou_f1):
        expected = function(selected, rationale)
        padded = function(*(torch.nn.functional.pad(m, (2, 3)) for m in (selected, rationale)))
        alone = [function(selected[i : i + 1], rationale[i : i + 1]) for i in range(30)]
        for name in ("precision", "recall", "f1"):
            same(getattr(padded, name), getattr(expected, name))
            same(torch.cat([getattr(one, name) for one in alone]), getattr(expected, name))
        assert padded.reasons == expected.reasons == [one.reasons[0] for one in alone]


def test_select_as_many_as_the_rationale_has():
    importance, rationale, content = random_examples(2)
    counts = (rationale & content).sum(-1)
    selected, reasons = select_top(importance, content, counts)
    assert torch.equal(selected.sum(-1), counts)
    assert not bool((selected & ~content).any())
    assert set(reasons) == {None, "no content token"}
    found = token_f1(selected, rationale & content)
    assert torch.equal(found.precision.nan_to_num(-1), found.recall.nan_to_num(-1))
    lowest = torch.where(selected, importance, math.inf).amin(-1)
    highest = torch.where(content & ~selected, importance, -math.inf).amax(-1)
    assert bool((lowest >= highest).all())
    broken = importance.clone()
    broken[content] = nan
    assert token_f1(select_top(broken, content, counts)[0], rationale & content).reasons.count(None) == 0


def test_bad_input():
    mask = torch.ones(1, 3, dtype=torch.bool)
    for bad in (mask.float(), torch.ones(1, 2, dtype=torch.bool)):
        for call in (
            lambda m=bad: auprc(torch.ones(1, 3), m, mask),
            lambda m=bad: auprc(torch.ones(1, 3), mask, m),
            lambda m=bad: random_auprc(m, mask),
            lambda m=bad: token_f1(mask, m),
            lambda m=bad: iou_f1(mask, m),
        ):
            with pytest.raises(InputError, match="Expected bool masks"):
                call()
    for threshold in (0.49, 1.1, nan):
        with pytest.raises(InputError, match=r"`threshold` of 0\.5 to 1"):
            iou_f1(mask, mask, threshold)
    with pytest.raises(InputError, match=r"`counts` of shape \(B\)"):
        select_top(torch.ones(1, 3), mask, torch.ones(1, 1, dtype=torch.long))
