"""What each test of one run says of attention as an explanation, for the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attn_faithful.functional.summaries import wilson
from attn_faithful.reports.answer.verdict import (
    AGAINST,
    DIFFERENT,
    ENOUGH,
    FOR,
    OPEN,
    SHARE_LINE,
    SHUFFLE_LINE,
    TAU_LINE,
    TWIN_LINE,
    Finding,
    constant_base,
    finding,
)
from attn_faithful.reports.examples import SETS, first_source
from attn_faithful.reports.scores import Scores

LN2 = math.log(2)
_EPS = 0.01  # of the adversarial test where its settings name none


def findings(scores: Scores) -> list[Finding]:
    """What the tests say that have something to say, of one run."""
    found = [of(scores) for of in FINDERS]
    return [each for each in found if each is not None]


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
    lower, reach = scores.values("adversarial_attention"), scores.values("jsd_reachable")
    reach = np.where(np.isfinite(reach), reach, LN2)
    with np.errstate(invalid="ignore", divide="ignore"):
        found, most = lower / reach, scores.values("adversarial_upper") / reach
    known = np.isfinite(found)
    if not known.any():
        return Different(math.nan, math.nan, 0)
    most = np.where(np.isfinite(most), np.maximum(most, found), 1.0)
    share = float((found[known] >= DIFFERENT).mean())
    return Different(share, float((most[known] >= DIFFERENT).mean()), int(known.sum()))


def _of_agreement(scores: Scores) -> Finding | None:
    source = first_source(scores.run, scores.site)
    record = None if source is None else scores.record("attention_correlation", f"attention~{source}")
    if record is None:
        return None
    return finding("correlation", record["low"], record["high"], record["n"], TAU_LINE, "above")


def _of_moves(scores: Scores) -> Finding | None:
    """Against where such texts prevail as far as is known; for where they do not even at most."""
    if scores.record("adversarial_attention") is None:
        return None
    found = completely_different(scores)
    known = finding("adversarial", *wilson(found.share, found.n), found.n, SHARE_LINE, "below")
    if known is None or known.says != FOR:
        return known
    bound = finding("adversarial", *wilson(found.most, found.n), found.n, SHARE_LINE, "below")
    return known if bound is not None and bound.says == FOR else Finding("adversarial", OPEN)


def _of_shuffling(scores: Scores) -> Finding | None:
    record = scores.record("attention_permutation")
    if record is None:
        return None
    return finding("permutation", record["low"], record["high"], record["n"], SHUFFLE_LINE, "above")


def _of_removal(scores: Scores) -> Finding | None:
    """Of the texts in which some part flips the decision: whether attention's order is as short as any set."""
    best = next((name for name in SETS if scores.record("decision_flip", name) is not None), None)
    if best is None or scores.record("decision_flip") is None:
        return None
    fraction, fewest = scores.asked("decision_flip", best), scores.asked("flip_size", best)
    part = fraction < 1
    if not part.any():
        return None
    short = scores.asked("flip_size")[part] <= fewest[part]  # False where the order never flips it
    # where every label was asked, the labels of a text are no texts of their own
    n = int(part.reshape(-1, len(scores.run.examples)).any(0).sum())
    return finding("flips", *wilson(float(short.mean()), n), n, SHARE_LINE, "above")


def _of_twins(scores: Scores) -> Finding | None:
    """Against where the first twin predicts the same with another attention; a search that failed says nothing.

    Where a constant prediction would come as near to the base as the line, a twin that gave up would too.
    """
    twins = [twin for twin in (scores.run.summary.get("twins") or {}).values() if "attefa" in twin]
    if not twins or not scores.run.scored("tvd", scores.site):
        return None
    twin, ratio = twins[0], twins[0]["attefa"]
    if ratio["n"] < ENOUGH or ratio["high"] is None or twin["collapsed"]["value"] or constant_base(twin):
        return None
    return Finding("attefa", AGAINST) if ratio["high"] < TWIN_LINE else None


FINDERS: tuple[Callable[[Scores], Finding | None], ...] = (
    _of_moves,
    _of_agreement,
    _of_shuffling,
    _of_removal,
    _of_twins,
)
