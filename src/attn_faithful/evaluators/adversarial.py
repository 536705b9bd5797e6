"""How far can attention move before the prediction does? (Jain and Wallace 2019, section 4.2.2, and past it)

Three answers: the attention farthest from the model's that leaves the prediction within eps, the farthest that keeps
the decision, and the nearest that changes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.adversarial_decision import add_decision
from attn_faithful.evaluators.adversarial_heads import add_heads
from attn_faithful.evaluators.adversarial_metrics import (
    ACCURACY,
    DECISION,
    HEADS,
    JSD,
    LIKELIHOOD,
    METRICS,
    RATIO,
    REACHABLE,
    TVD,
    UPPER,
)
from attn_faithful.evaluators.adversarial_search import FAST, SearchSettings, search
from attn_faithful.evaluators.adversarial_steps import farther
from attn_faithful.evaluators.base import EVALUATORS, Block, Evaluator, LabelTest
from attn_faithful.evaluators.movable_attention import Movable, movable_of
from attn_faithful.evaluators.predictions import predictions_under, variant_name, weights_on_items
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows, VariantColumns, nan_where
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.functional.adversary_classes import adversary_interval
from attn_faithful.functional.divergences import jsd, kl, largest_jsd
from attn_faithful.functional.reasons import (
    NAN_SCORES,
    NO_BOUND,
    NO_MASS,
    NO_TOKEN,
    NOT_SEARCHED,
    TOO_SHORT,
    UNLABELLED,
    WHERE_NO_MASS,
    first_reasons,
)
from attn_faithful.functional.tail_certificates import Effort

METHODS = ("auto", "exact", "adam")
ROUNDING = 1e-6  # of float32 probabilities, in "within eps"


@dataclass(frozen=True)
class AdversarialSettings:
    """How alternatives are found.

    Attributes:
        method: "exact" for read-outs that are affine in the attention: the maximum for two classes, an interval for
            more; "adam" is the paper's gradient search; "auto" is exact where it can be.
        eps: largest change of the prediction, TVD; the paper has 0.01, and 0.05 for question answering.
        k: alternatives that are stored; exact ones share no token of their support with one another.
        search: of the gradient search; its eps and k are these. None takes the paper's for "adam" and fewer, longer
            steps (`adversarial_search.FAST`) for "auto", where it may have to run a whole stack of layers at each;
            "auto" goes on from what it finds along tangents of the read-out (`adversarial_steps`).
        bins, halvings, boxes: how hard proofs for transformers models are tried, see `tail_certificates.Effort`; empty
            bins leave them out, and attacks are all that is run.
    """

    method: str = "auto"
    eps: float = 0.01
    k: int = 1
    search: SearchSettings | None = None
    bins: tuple[int, ...] = (1, 4)
    halvings: int = 6
    boxes: int = 0

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        if not 0 <= self.eps < 1:
            raise InputError(f"eps must be at least 0 and below 1, but is {self.eps}.")
        if self.k < 1:
            raise InputError(f"k must be at least 1, but is {self.k}.")
        if min(self.bins, default=1) < 1:
            raise InputError(f"bins must be numbers of at least 1, or none for no proofs, but is {self.bins}.")
        for name, value in (("halvings", self.halvings), ("boxes", self.boxes)):
            if value < 0:
                raise InputError(f"{name} must be at least 0, but is {value}.")
        if self.boxes and not self.bins:
            raise InputError(f"boxes follow bins, but boxes is {self.boxes} and bins is empty; give bins, such as [1].")

    @property
    def effort(self) -> Effort:
        return Effort(self.bins, self.halvings, self.boxes)


@dataclass(frozen=True)
class Alternatives:
    """The alternatives to the attention of a block.

    Attributes:
        attention: (B, K, S, T), NaN where there is none.
        jsd: (B, K), nats, the farthest first.
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
    alternatives = _alternatives(block, movable, settings)
    after, change = predictions_under(block, alternatives.attention)
    rows = ScoreRows()
    rows.add_columns(block, _columns(block, alternatives, after, change))
    rows.add_variants(block, _variants(block, alternatives, after, change))
    add_decision(rows, block, movable)
    add_heads(rows, block, movable, settings.effort)
    return rows


def run_decision(block: Block, settings: AdversarialSettings) -> ScoreRows:
    """The farthest attention that keeps the decision and the nearest that changes it, of a block of one label."""
    rows = ScoreRows()
    movable = movable_of(block)
    add_decision(rows, block, movable)
    add_heads(rows, block, movable, settings.effort)
    return rows


def _alternatives(block: Block, movable: Movable | None, settings: AdversarialSettings) -> Alternatives:
    if settings.method == "adam":
        return _searched(block, settings)
    if movable is not None:
        return _solved(block, movable, settings)
    if block.is_control:
        return _not_searched(block, settings, "adam", NO_BOUND)
    return _searched(block, settings)


def _solved(block: Block, movable: Movable, settings: AdversarialSettings) -> Alternatives:
    """The maximum for two classes, bounds for more."""
    if movable.classes == 2:
        best = exact_adversary(movable.shares, movable.items, movable.margins, settings.eps, settings.k)
        distance = best.jsd * movable.weight[:, None]  # (B, K)
        attention = movable.attention(best.attention)  # (B, K, T)
        return Alternatives(attention[:, :, None], distance, distance[:, 0], "exact")
    if block.is_control:
        return _not_searched(block, settings, "interval", NOT_SEARCHED)
    bounds = adversary_interval(movable.shares, movable.items, movable.token_logits, movable.bias, settings.eps)
    # (B,) each
    lower = bounds.lower * movable.weight
    upper = bounds.upper * movable.weight
    attention = movable.attention(bounds.attention[:, None])  # (B, 1, T)
    return Alternatives(attention[:, :, None], lower[:, None], upper, "interval")


def _not_searched(
    block: Block,
    settings: AdversarialSettings,
    method: str,
    unbounded: str,
) -> Alternatives:
    """No alternatives: a search is run for the model's own attention alone, and bounds without a search say little."""
    nothing = torch.full((len(block), settings.k), math.nan, dtype=torch.float64)
    attention = nothing[:, :, None, None].expand(-1, -1, *block.items.shape[1:])  # (B, K, S, T)
    return Alternatives(attention, nothing, nothing[:, 0], method, NOT_SEARCHED, unbounded)


def _searched(block: Block, settings: AdversarialSettings) -> Alternatives:
    """The farthest alternatives within the limit that a gradient search finds."""
    usual = SearchSettings() if settings.method == "adam" else FAST
    chosen = settings.search or usual
    chosen = replace(chosen, eps=settings.eps, k=max(settings.k, chosen.k))
    attention = search(block, chosen).double()  # (B, K, S, T)
    if settings.method == "auto":
        attention = farther(block, attention, settings.eps)  # one more
    own_attention = block.encoded.attention.double()[:, None]  # (B, 1, S, T)
    _, change = predictions_under(block, attention)
    moved = block.over_slots(jsd(attention, own_attention, validate_args=False))  # (B, K)
    # the model's own attention keeps every limit: the largest JSD within eps is 0 where nothing else does
    within = change <= settings.eps + ROUNDING  # (B, K)
    has_item = block.items.flatten(1).any(1)  # (B,)
    moved = torch.where(within, moved, 0.0).masked_fill(~has_item[:, None], math.nan)
    attention = torch.where(within[..., None, None], attention, own_attention)
    order = moved.argsort(dim=1, descending=True, stable=True)[:, : settings.k]
    index = order[..., None, None].expand(-1, -1, *attention.shape[2:])  # (B, k, S, T)
    attention = attention.gather(1, index)
    nothing = torch.full((len(block),), math.nan, dtype=torch.float64)
    return Alternatives(attention, moved.gather(1, order), nothing, "adam", unbounded=NO_BOUND)


def _columns(
    block: Block,
    best: Alternatives,
    after: Tensor,
    change: Tensor,
) -> list[ScoreColumn]:
    """Metrics of the farthest alternative.

    Args:
        block: the examples.
        best: their alternatives.
        after: (B, K, C), probabilities under them.
        change: (B, K), how far these lie from the prediction.
    """
    own_attention = block.encoded.attention.double()
    items = block.items
    # (B,) each
    largest = best.jsd[:, 0]
    reach = block.over_slots(largest_jsd(own_attention, items))
    unlikely = block.over_slots(kl(best.attention[:, 0], own_attention, validate_args=False))
    ratio = torch.where(reach > 0, largest / reach, math.nan).clamp(max=1.0)
    label_list = [-1] * len(block) if block.labels is None else block.labels
    labels = torch.tensor(label_list, device=after.device)
    is_right = (after[:, 0].argmax(-1) == labels).double()
    is_right = is_right.masked_fill((labels < 0) | largest.isnan(), math.nan)

    # (B,) bool: why a value may be undefined
    no_item = ~items.flatten(1).any(1)
    several = (items.sum(-1) > 1).any(1)
    nowhere = reach == 0
    empty = first_reasons({NO_TOKEN: no_item})
    no_ratio = first_reasons({NO_TOKEN: no_item, NO_MASS: nowhere & several, TOO_SHORT: nowhere & ~several})
    no_accuracy = first_reasons({NO_TOKEN: no_item, UNLABELLED: labels < 0})
    no_likelihood = first_reasons({NO_TOKEN: no_item, WHERE_NO_MASS: unlikely.isinf()})
    unlikely = unlikely.masked_fill(unlikely.isinf(), math.nan)
    distance = nan_where(empty, change[:, 0])
    return [
        ScoreColumn(JSD.name, largest, empty, best.missing),
        ScoreColumn(UPPER.name, best.upper, empty, best.unbounded),
        ScoreColumn(REACHABLE.name, reach, empty),
        ScoreColumn(RATIO.name, ratio, no_ratio, best.missing),
        ScoreColumn(TVD.name, distance, empty, best.missing),
        ScoreColumn(ACCURACY.name, is_right, no_accuracy, best.missing),
        ScoreColumn(LIKELIHOOD.name, unlikely, no_likelihood, best.missing),
    ]


def _variants(
    block: Block,
    best: Alternatives,
    after: Tensor,
    change: Tensor,
) -> Sequence[VariantColumns]:
    """Every alternative that there is; `after` and `change` as for `_columns`."""
    alternatives = []
    for rank in range(best.jsd.shape[1]):
        is_exact = best.method == "exact" and rank == 0
        further = {
            "attention_jsd": best.jsd[:, rank],
            "output_tvd": change[:, rank],
            "probabilities": after[:, rank],
            "attention": weights_on_items(best.attention[:, rank], block.items),
            "exact": [is_exact] * len(block),
        }
        name = variant_name(block, f"{best.method}-{rank + 1}")
        exists = ~best.jsd[:, rank].isnan()
        alternatives.append(VariantColumns("adversarial", name, exists, further))
    return alternatives


EVALUATORS.register("adversarial")(
    Evaluator(
        "adversarial",
        "Jain and Wallace 2019, section 4.2.2",
        metrics=METRICS,
        run=run,
        settings=AdversarialSettings,
        needs_labels=True,
        by_label=LabelTest((*DECISION, *HEADS), run_decision),
    )
)
