"""What each test of one run says of attention as an explanation, for the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attn_faithful.functional.summaries import wilson
from attn_faithful.records.scores import ScoreRecord
from attn_faithful.reports.answer.head_statements import JOINT, PROVED, searched
from attn_faithful.reports.answer.verdict import (
    AGAINST,
    DIFFERENT,
    ENOUGH,
    FOR,
    LEAVE_ONE_OUT_LINE,
    OPEN,
    POLARITY_LINE,
    SHARE_LINE,
    SHORT_LINE,
    SHUFFLE_LINE,
    TAU_LINE,
    TWIN_LINE,
    Finding,
    constant_base,
    finding,
)
from attn_faithful.reports.scores import Scores

LN2 = math.log(2)
LEAVE_ONE_OUT = "leave_one_out"
READ_ALONE = ("none", "mlp", "average")  # encoders that read each token alone
_EPS = 0.01  # of the adversarial test where its settings name none


def findings(scores: Scores) -> list[Finding]:
    """What the tests say that have something to say, of one run."""
    listed = []
    for finder in FINDERS:
        of_test = finder(scores)
        if of_test is not None:
            listed.append(of_test)
    return listed


def eps_of(scores: Scores) -> float:
    """How much the adversarial test lets the prediction change."""
    return float(scores.tests.get("adversarial", {}).get("eps", _EPS))


@dataclass(frozen=True)
class Different:
    """How many texts have a completely different attention that gives the same answer.

    Attributes:
        share: of the texts in which one is known, NaN without texts.
        most: the share that there can be at most.
        n: texts.
    """

    share: float
    most: float
    n: int


def completely_different(scores: Scores) -> Different:
    """The texts in which an attention at least `DIFFERENT` of the reach away gives the same answer."""
    reach = scores.values("jsd_reachable")  # (B,)
    reach = np.where(np.isfinite(reach), reach, LN2)
    with np.errstate(invalid="ignore", divide="ignore"):
        lower = scores.values("adversarial_attention") / reach  # (B,)
        upper = scores.values("adversarial_upper") / reach  # (B,)
    known = np.isfinite(lower)
    if not known.any():
        return Different(math.nan, math.nan, 0)
    upper = np.where(np.isfinite(upper), np.maximum(upper, lower), 1.0)
    share = float((lower[known] >= DIFFERENT).mean())
    most = float((upper[known] >= DIFFERENT).mean())
    return Different(share, most, int(known.sum()))


def _of_mean(test: str, record: ScoreRecord | None, line: float) -> Finding | None:
    """A mean that lies above a line where attention is faithful."""
    if record is None:
        return None
    return finding(test, record.low, record.high, record.n, line, "above")


def _of_share(test: str, share: float, n: int, faithful: str, line: float = SHARE_LINE) -> Finding | None:
    """A share of n texts; `faithful` is the side of the line on which attention is faithful."""
    low, high = wilson(share, n)
    return finding(test, low, high, n, line, faithful)


def _of_agreement(scores: Scores) -> Finding | None:
    """Agreement with leave-one-out, which tells more than that with a gradient, or with what it was compared with."""
    record = scores.record("attention_correlation", f"attention~{LEAVE_ONE_OUT}")
    if record is not None and record.n >= ENOUGH:
        return _of_mean("correlation", record, LEAVE_ONE_OUT_LINE)
    source = scores.run.first_source(scores.site)
    if source is None:
        return None
    return _of_mean("correlation", scores.record("attention_correlation", f"attention~{source}"), TAU_LINE)


def _of_shuffling(scores: Scores) -> Finding | None:
    return _of_mean("permutation", scores.record("attention_permutation"), SHUFFLE_LINE)


def _of_moves(scores: Scores) -> Finding | None:
    """For where completely different attention with the same answer is rare even at most; against where no attention
    changes most decisions.

    That there is such an attention speaks against nothing: there is one for almost every faithful attention, as words
    without attention may have any value.
    """
    if scores.record("adversarial_attention") is None:
        return None
    if _decided_without(scores):
        return Finding("adversarial", AGAINST)
    different = completely_different(scores)
    bound = _of_share("adversarial", different.most, different.n, "below")
    if bound is not None and bound.says == FOR:
        return bound
    return None


def _decided_without(scores: Scores) -> bool:
    """Whether of most texts it is proved that no attention, of all heads together, changes the decision."""
    proved = scores.of_questions("attention_proof")  # (B,), 0 or 1 where the read-out is affine
    if searched(scores):
        radius = scores.of_questions(PROVED)  # (B,)
        proved = np.where(np.isfinite(radius), radius == 1, np.nan)
    known = np.isfinite(proved)
    if not known.any():
        return False
    found = _of_share("adversarial", float(proved[known].mean()), int(known.sum()), "below")
    return found is not None and found.says == AGAINST


def _of_polarity(scores: Scores) -> Finding | None:
    """How rarely the item with most attention speaks against the decision, or for nothing, by removal.

    Not by deletion: that sees what the item says, whether it is attended to or not.
    """
    record = scores.record("polarity_violation_removal")
    if record is None:
        return None
    return _of_share("polarity", record.mean, record.n, "below", POLARITY_LINE)


def _of_removal(scores: Scores) -> Finding | None:
    """Of the texts in which some part flips the decision: whether attention's order is as short as any set.

    Texts that other attention flips and no removal count as those in which it is not, before this speaks for attention.
    """
    best = scores.best_set
    if best is None or scores.record("decision_flip") is None:
        return None
    part = scores.of_questions("decision_flip", best) < 1  # (L x B,)
    if not part.any():
        return None
    by_attention = scores.of_questions("flip_size")  # (L x B,)
    fewest = scores.of_questions("flip_size", best)
    short = by_attention[part] <= fewest[part]  # False where the order never flips it
    # where every label has its own number, the labels of a text are not texts of their own
    by_text = part.reshape(-1, len(scores.run.ids))  # (L, B)
    n = int(by_text.any(0).sum())
    of_flipped = _of_share("flips", float(short.mean()), n, "above", SHORT_LINE)
    missed = _missed_by_removal(scores, part)
    if of_flipped is None or of_flipped.says != FOR or not missed:
        return of_flipped
    share = float(short.sum()) / (len(short) + missed)
    of_all = _of_share("flips", share, n + missed, "above", SHORT_LINE)
    if of_all is not None and of_all.says == FOR:
        return of_flipped
    return Finding("flips", OPEN)


def _missed_by_removal(scores: Scores, part: np.ndarray) -> int:
    """How many texts other attention was found to flip of those that removal does not, where nothing is exact."""
    if not searched(scores):
        return 0
    return int((scores.of_questions(JOINT)[~part] == 1).sum())


def _of_twins(scores: Scores) -> Finding | None:
    """Against where the first twin predicts the same with another attention, and each token is read alone.

    Of encoders that read other tokens too it says nothing: their twins find another attention whatever the base's is.
    A search that failed says nothing either. Where a constant prediction would come as near to the base as the line, a
    twin that gave up would too.
    """
    twin = next(iter(scores.twins.values()), None)
    if twin is None or twin.attefa.n < ENOUGH or twin.collapsed or constant_base(twin):
        return None
    if scores.run.recipe.get("model", {}).get("encoder") not in READ_ALONE:
        return None
    if twin.attefa.high < TWIN_LINE:
        return Finding("attefa", AGAINST)
    return None


FINDERS: tuple[Callable[[Scores], Finding | None], ...] = (
    _of_moves,
    _of_agreement,
    _of_shuffling,
    _of_removal,
    _of_polarity,
    _of_twins,
)
