"""How far can attention move before the prediction does? (Jain and Wallace 2019, section 4.2.2, and past it)

Three answers: the attention farthest from the model's that leaves the prediction within eps, the farthest that keeps
the decision, and the nearest that changes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.adversarial_search import FAST, SearchSettings, output_change, search
from attn_faithful.evaluators.adversarial_steps import farther
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest, MetricSpec
from attn_faithful.evaluators.movable_attention import Movable, movable_of
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.adversary import decision_keeping_adversary, exact_adversary
from attn_faithful.functional.adversary_classes import adversary_interval, decision_keeping_interval
from attn_faithful.functional.divergences import LN2, jsd, kl, largest_jsd
from attn_faithful.functional.flip_distance import flip_distance
from attn_faithful.functional.reasons import (
    MULTI_LABEL,
    NAN_SCORES,
    NO_BOUND,
    NO_MASS,
    NO_TOKEN,
    NOT_AFFINE,
    NOT_SEARCHED,
    TOO_SHORT,
    UNLABELLED,
    WHERE_NO_MASS,
)
from attn_faithful.models.protocol import probabilities

METHODS = ("auto", "exact", "adam")

JSD = MetricSpec(
    "adversarial_attention",
    "eps-max JSD",
    "largest JSD from the model's attention that moves the prediction by eps "
    "at most; a lower bound for more than two classes and for the gradient search",
    0.0,
    LN2,
    "lower",
    "nats",
)
UPPER = MetricSpec(
    "adversarial_upper",
    "upper bound",
    "what no attention within eps can exceed; the value itself where that is exact",
    0.0,
    LN2,
    "lower",
    "nats",
)
RATIO = MetricSpec(
    "adversarial_ratio",
    "share of reach",
    "eps-max JSD over the largest JSD that can be reached on these tokens",
    0.0,
    1.0,
    "lower",
)
REACHABLE = MetricSpec(
    "jsd_reachable",
    "reach",
    "largest JSD from the model's attention that dealing it anew to these tokens can give; "
    "what special tokens keep adds nothing to it",
    0.0,
    LN2,
    None,
    "nats",
)
TVD = MetricSpec(
    "adversarial_tvd", "TVD", "change of the prediction under that attention", 0.0, 1.0, None, "probability"
)
LIKELIHOOD = MetricSpec(
    "adversarial_kl",
    "KL",
    "how unlikely that attention is under the model's: KL(it || the model's)",
    0.0,
    math.inf,
    None,
    "nats",
)
ACCURACY = MetricSpec(
    "adversarial_accuracy", "accuracy there", "whether the prediction under that attention is the gold class", 0.0, 1.0
)
KEEPING = MetricSpec(
    "decision_jsd",
    "decision-keeping JSD",
    "largest JSD from the model's attention that keeps the decision; a lower bound for more than two classes",
    0.0,
    LN2,
    "lower",
    "nats",
)
KEEPING_UPPER = MetricSpec(
    "decision_upper",
    "its upper bound",
    "what no attention that keeps the decision can exceed",
    0.0,
    LN2,
    "lower",
    "nats",
)
DISTANCE = MetricSpec(
    "flip_distance",
    "flip distance",
    "smallest JSD from the model's attention to one that changes the decision, exact",
    0.0,
    LN2,
    "lower",
    "nats",
)
PROOF = MetricSpec(
    "attention_proof", "attention-proof", "whether no attention at all changes the decision", 0.0, 1.0, "lower"
)
METRICS = (JSD, UPPER, RATIO, REACHABLE, TVD, LIKELIHOOD, ACCURACY, KEEPING, KEEPING_UPPER, DISTANCE, PROOF)

ROUNDING = 1e-6  # of float32 probabilities, in "within eps"


@dataclass(frozen=True)
class AdversarialSettings:
    """How alternatives are found.

    Attributes:
        method: "exact" for read-outs that are affine in the attention: the maximum for two classes, an interval for
            more; "adam" is the paper's gradient search; "auto" takes what is exact where it can.
        eps: largest change of the prediction, TVD; the paper has 0.01, and 0.05 for question answering.
        k: alternatives that are stored; exact ones share no token of their support with one another.
        search: of the gradient search; its eps and k are these. None takes the paper's for "adam" and fewer, longer
            steps (`search.FAST`) for "auto", where it may have to run a whole stack of layers at each; "auto" goes on
            from what it finds along tangents of the read-out (`linear_steps`).
    """

    method: str = "auto"
    eps: float = 0.01
    k: int = 1
    search: SearchSettings | None = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if not 0 <= self.eps < 1:
            raise InputError(f"eps must be at least 0 and below 1, but is {self.eps}.")
        if self.k < 1:
            raise InputError(f"k must be at least 1, but is {self.k}.")


@dataclass(frozen=True)
class Alternatives:
    """What was found.

    Attributes:
        attention: (B, K, S, T), NaN where there is none.
        jsd: (B, K), nats.
        upper: (B,), what none can exceed.
        method: "exact", "interval" or "adam".
        missing: why a value is NaN.
        unbounded: why an upper bound is.
    """

    attention: Tensor
    jsd: Tensor
    upper: Tensor
    method: str
    missing: str = NAN_SCORES
    unbounded: str = NAN_SCORES


def run(block: Block, settings: AdversarialSettings) -> ScoreRows:
    """Search alternatives to the attention of every example.

    Args:
        block: examples at one site.
        settings: see `AdversarialSettings`.

    Raises:
        InputError: the exact method was asked for, and the read-out is not affine in the attention.
    """
    movable = movable_of(block)
    if settings.method == "exact" and movable is None:
        raise InputError("method exact needs a read-out that is affine in one attention; choose adam or auto.")
    found = ScoreRows()
    if movable is None and settings.method == "auto" and block.attention != "attention":
        _score_alternatives(found, block, _not_searched(block, settings, "adam", NO_BOUND))
    elif settings.method == "adam" or movable is None:
        _score_alternatives(found, block, _searched(block, settings))
    else:
        _score_alternatives(found, block, _solved(block, movable, settings))
    _score_decision(found, block, movable)
    return found


def run_decision(block: Block, settings: AdversarialSettings) -> ScoreRows:
    """The farthest attention that keeps the decision and the nearest that changes it, of a block of one label."""
    found = ScoreRows()
    _score_decision(found, block, movable_of(block))
    return found


def _solved(block: Block, movable: Movable, settings: AdversarialSettings) -> Alternatives:
    if movable.token_logits.shape[-1] == 2:
        best = exact_adversary(movable.shares, movable.items, movable.margins, settings.eps, settings.k)
        jsd = best.jsd * movable.weight[:, None]
        return Alternatives(movable.attention(best.attention)[:, :, None], jsd, jsd[:, 0], "exact")
    if block.attention != "attention":
        return _not_searched(block, settings, "interval", NOT_SEARCHED)
    bounds = adversary_interval(movable.shares, movable.items, movable.token_logits, movable.bias, settings.eps)
    lower, upper = bounds.lower * movable.weight, bounds.upper * movable.weight
    return Alternatives(movable.attention(bounds.attention[:, None])[:, :, None], lower[:, None], upper, "interval")


def _not_searched(block: Block, settings: AdversarialSettings, method: str, unbounded: str) -> Alternatives:
    """Nothing: a search is worth its time for the model's own attention alone, and bounds without one say little."""
    nothing = torch.full((len(block), settings.k), math.nan, dtype=torch.float64)
    attention = torch.full((*nothing.shape, *block.items.shape[1:]), math.nan, dtype=torch.float64)
    return Alternatives(attention, nothing, nothing[:, 0], method, NOT_SEARCHED, unbounded)


def _searched(block: Block, settings: AdversarialSettings) -> Alternatives:
    chosen = settings.search or (SearchSettings() if settings.method == "adam" else FAST)
    attention = search(block, replace(chosen, eps=settings.eps, k=max(settings.k, chosen.k))).double()
    if settings.method == "auto":
        attention = farther(block, attention, settings.eps)
    encoded = block.encoded
    with torch.no_grad():
        after = probabilities(encoded.decode(attention.to(encoded.attention.dtype)).double(), encoded.multi_label)
    change = output_change(after, encoded.probabilities.double()[:, None], encoded.multi_label)
    moved = block.over_slots(jsd(attention, encoded.attention.double()[:, None], validate_args=False))
    # the model's own attention keeps every limit: the largest JSD within eps is 0 where nothing else does
    kept = change <= settings.eps + ROUNDING
    moved = torch.where(kept, moved, 0.0).masked_fill(~block.items.flatten(1).any(1)[:, None], math.nan)
    attention = torch.where(kept[..., None, None], attention, encoded.attention.double()[:, None])
    order = moved.argsort(dim=1, descending=True, stable=True)
    attention = attention.gather(1, order[..., None, None].expand_as(attention))
    nothing = torch.full((len(block),), math.nan, dtype=torch.float64)
    moved = moved.gather(1, order)
    return Alternatives(attention[:, : settings.k], moved[:, : settings.k], nothing, "adam", unbounded=NO_BOUND)


def _score_alternatives(found: ScoreRows, block: Block, best: Alternatives) -> None:
    encoded, items = block.encoded, block.items
    own = encoded.attention.double()
    reach = block.over_slots(largest_jsd(own, items))
    with torch.no_grad():
        logits = encoded.decode(best.attention.to(encoded.attention.dtype))
    after = probabilities(logits.double(), encoded.multi_label)
    change = output_change(after, encoded.probabilities.double()[:, None], encoded.multi_label)
    unlikely = block.over_slots(kl(best.attention[:, 0], own, validate_args=False))
    exact = best.method == "exact"
    several = (items.sum(-1) > 1).any(1).tolist()
    for row, held in enumerate(items.flatten(1).any(1).tolist()):
        values = best.jsd[row].tolist()
        empty = None if held else NO_TOKEN
        found.score(block, row, JSD.name, values[0], empty or best.missing)
        found.score(block, row, UPPER.name, best.upper[row], empty or best.unbounded)
        found.score(block, row, REACHABLE.name, reach[row], empty)
        ratio = values[0] / float(reach[row]) if float(reach[row]) > 0 else math.nan
        nowhere = NO_MASS if several[row] else TOO_SHORT
        alone = nowhere if float(reach[row]) == 0 else best.missing
        found.score(block, row, RATIO.name, min(ratio, 1.0) if ratio == ratio else math.nan, empty or alone)
        found.score(block, row, TVD.name, math.nan if empty else change[row, 0], empty or best.missing)
        label = -1 if block.labels is None else block.labels[row]
        right = float(int(after[row, 0].argmax()) == label) if label >= 0 and not math.isnan(values[0]) else math.nan
        found.score(block, row, ACCURACY.name, right, empty or (best.missing if label >= 0 else UNLABELLED))
        far = float(unlikely[row])
        found.score(
            block,
            row,
            LIKELIHOOD.name,
            math.nan if math.isinf(far) else far,
            empty or (WHERE_NO_MASS if math.isinf(far) else best.missing),
        )
        for rank, moved in enumerate(values):
            if math.isnan(moved):
                continue  # no further alternative that shares no token
            found.variant(
                block,
                row,
                "adversarial",
                _variant(block, f"{best.method}-{rank + 1}"),
                attention_jsd=moved,
                output_tvd=float(change[row, rank]),
                probabilities=after[row, rank].tolist(),
                attention=best.attention[row, rank][items[row]].tolist(),
                exact=exact and rank == 0,
            )


def _variant(block: Block, name: str) -> str:
    """What an alternative is called: under a control with the control's name before."""
    return name if block.attention == "attention" else f"{block.attention} {name}"


def _score_decision(found: ScoreRows, block: Block, movable: Movable | None) -> None:
    """The farthest attention that keeps the decision, and the nearest that changes it."""
    if movable is None:
        reason = MULTI_LABEL if block.encoded.multi_label else NOT_AFFINE
        for row in range(len(block)):
            for metric in (KEEPING, KEEPING_UPPER, DISTANCE, PROOF):
                found.score(block, row, metric.name, math.nan, reason)
        return
    shares, items, weight = movable.shares, movable.items, movable.weight
    missing = NAN_SCORES
    if movable.token_logits.shape[-1] == 2:
        lower = upper = decision_keeping_adversary(shares, items, movable.margins).jsd[:, 0] * weight
    elif block.attention == "attention":
        bounds = decision_keeping_interval(shares, items, movable.token_logits, movable.bias)
        lower, upper = bounds.lower * weight, bounds.upper * weight
    else:
        lower = upper = torch.full_like(weight, math.nan)
        missing = NOT_SEARCHED
    nearest = flip_distance(shares, items, movable.token_logits, movable.bias)
    distance, attention = nearest.jsd * weight, movable.attention(nearest.attention[:, None])[:, 0]
    with torch.no_grad():
        logits = block.encoded.decode(attention[:, None, None].to(block.encoded.attention.dtype))[:, 0]
    after = probabilities(logits.double())
    change = output_change(after, block.encoded.probabilities.double(), False)
    for row, reason in enumerate(nearest.reason):
        empty = NO_TOKEN if not bool(items[row].any()) else None
        found.score(block, row, KEEPING.name, lower[row], empty or missing)
        found.score(block, row, KEEPING_UPPER.name, upper[row], empty or missing)
        found.score(block, row, DISTANCE.name, distance[row], reason)
        undefined = reason if reason in (NO_TOKEN, NAN_SCORES) else None
        proof = math.nan if undefined else float(nearest.attention_proof[row])
        found.score(block, row, PROOF.name, proof, undefined)
        if not math.isnan(float(distance[row])):
            found.variant(
                block,
                row,
                "adversarial",
                _variant(block, "flip"),
                attention_jsd=float(distance[row]),
                output_tvd=float(change[row]),
                probabilities=after[row].tolist(),
                attention=attention[row][items[row]].tolist(),
                exact=True,
            )


EVALUATORS.register("adversarial")(
    Evaluator(
        "adversarial",
        "Jain and Wallace 2019, section 4.2.2",
        METRICS,
        run=run,
        settings=AdversarialSettings,
        needs_labels=True,
        by_label=LabelTest((KEEPING, KEEPING_UPPER, DISTANCE, PROOF), run_decision),
    )
)
