"""Does the prediction need the items that a ranking puts first, and are they enough for it? (DeYoung et al. 2020)

Items are deleted from the text, or masked in it, and the model run again, so attention is judged as a ranking of the
text like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.aopc_scores import add_undefined, check_beam
from attn_faithful.evaluators.base import (
    EVALUATORS,
    RANKED,
    Block,
    Evaluator,
    LabelTest,
    check_rankings,
    sources_of,
)
from attn_faithful.evaluators.erasure_aopc import add_aopc
from attn_faithful.evaluators.erasure_operators import DELETE, MASK, OPERATORS, Erase, Operator
from attn_faithful.evaluators.score_rows import ScoreRows, VariantColumns, is_defined, nan_where
from attn_faithful.evaluators.soft_erasure import METRICS as SOFT_METRICS
from attn_faithful.evaluators.soft_erasure import SOFT, add_soft
from attn_faithful.functional.erasure import (
    SHARES,
    aopc,
    comprehensiveness,
    erasure_counts,
    sufficiency,
    top_masks,
)
from attn_faithful.functional.masf import OUTSIDE
from attn_faithful.functional.reasons import MULTI_LABEL, NAN_PROBABILITIES, NO_TOKEN, first_reasons, or_else
from attn_faithful.models.protocol import probabilities

METRICS = (*DELETE.metrics, *MASK.metrics, *SOFT_METRICS)

# A shortened text is a run of the model: a MiniLM takes a second for as many. With six rankings a text of 28 items has
# a beam of one set.
BEAM_BUDGET = 1000


@dataclass(frozen=True)
class ErasureSettings:
    """Which rankings are compared, and how much of a text is erased.

    Attributes:
        rankings: sources whose largest values come first, signed ones as they are; "attention" may be among them, and
            "random" is the control.
        shares: of a text's items, each rounded up; the defaults are ERASER's.
        operators: "delete", "mask" and "soft": what erases items, each of which is run. Empty for deletion, and for
            models that were trained with masks for masks too.
        in_distribution: whether it is asked how unusual erased texts are to the model: a forward more for each.
        soft_share: of a text's embeddings that "soft" keeps, the same for every ranking; None for as much as the
            ranking itself has, as in the paper.
        draws: of "soft", of each ranking.
        beam: where the limits of AOPC are not exact, the sets of each size that a beam search for them keeps; 0 for no
            AOPC there.
        beam_budget: shortened texts that this search runs, of a text, at most; n items take about n^2.
    """

    rankings: list[str] = field(default_factory=lambda: [*RANKED, "random"])
    shares: list[float] = field(default_factory=lambda: list(SHARES))
    operators: list[str] = field(default_factory=list)
    in_distribution: bool = True
    soft_share: float | None = 0.5
    draws: int = 5
    beam: int = 1
    beam_budget: int = BEAM_BUDGET

    def __post_init__(self) -> None:
        check_rankings(self.rankings)
        erasure_counts(torch.zeros(1), self.shares)  # refuses bad shares
        for operator in self.operators:
            check_choice("operator", operator, (*OPERATORS, SOFT))
        if len(set(self.operators)) < len(self.operators):
            raise InputError(f"operators must name each once, but is {self.operators}.")
        if self.soft_share is not None and not 0 < self.soft_share < 1:
            raise InputError(f"soft_share must lie between 0 and 1, but is {self.soft_share}.")
        if self.draws < 1:
            raise InputError(f"draws must be 1 or more, but is {self.draws}.")
        check_beam(self.beam, self.beam_budget)

    def chosen(self, masking: str | None) -> list[Operator]:
        """The operators for a model that was trained with masks in such a way, or None."""
        if self.operators:
            return [OPERATORS[name] for name in self.operators if name != SOFT]
        return [DELETE] if masking is None else [DELETE, MASK]


@dataclass(frozen=True)
class Curve:
    """What one ranking's top items do at each share.

    Attributes:
        without, only: (B, K) over the shares: the loss without the top items, and with them alone; NaN with a reason.
        p_values: (B, 2 K) how unusual the texts without the top items are, then those with them alone; NaN where
            unknown, None where nobody asks.
        reasons: why the values of an example are NaN; None where they are numbers.
    """

    without: Tensor
    only: Tensor
    p_values: Tensor | None
    reasons: Sequence[str | None]


def run(block: Block, settings: ErasureSettings) -> ScoreRows:
    """Erase the top items of every ranking from the text, then all others.

    The target is the predicted class of the whole text, whatever the sources' target is. Alternatives hold the
    comprehensiveness at each share. Items that tie are taken from the first position on.

    Args:
        block: examples at a site; the slots of an example are one set of items.
        settings: see `ErasureSettings`.
    """
    rows = ScoreRows()
    for operator in settings.chosen(block.masking):
        erase = operator.of(block)
        if block.encoded.multi_label:
            _add_refused(rows, block, operator, settings, MULTI_LABEL)
        elif erase is None:
            _add_refused(rows, block, operator, settings, operator.missing)
        else:
            _add(rows, block, operator, settings, erase)
    if SOFT in settings.operators:
        add_soft(rows, block, settings.rankings, settings.soft_share, settings.draws)
    return rows


def _add_refused(rows: ScoreRows, block: Block, operator: Operator, settings: ErasureSettings, reason: str) -> None:
    """Add the numbers of an operator that a model's texts cannot be judged by: NaN with a reason."""
    nothing = torch.full((len(block),), math.nan)
    for name in settings.rankings:
        values = {operator.comprehensiveness: nothing, operator.sufficiency: nothing}
        rows.add(block, values, source=name, otherwise=reason)
        if block.in_distribution is not None:
            rows.add(block, {operator.outside: nothing}, source=name, otherwise=reason)
    add_undefined(rows, block, operator.aopc, settings.rankings, [reason] * len(block))


def _add(rows: ScoreRows, block: Block, operator: Operator, settings: ErasureSettings, erase: Erase) -> None:
    """Add the numbers of an operator."""
    for name, curve in _curves(block, operator, settings, erase).items():
        values = {operator.comprehensiveness: aopc(curve.without), operator.sufficiency: aopc(curve.only)}
        rows.add(block, values, curve.reasons, source=name)
        columns = {"changes": curve.without}
        if curve.p_values is not None:
            columns["p_values"] = curve.p_values
            _add_outside(rows, block, operator, name, curve)
        alternative = VariantColumns("erasure", operator.variant(name), is_defined(curve.reasons), columns)
        rows.add_variants(block, [alternative])
    add_aopc(rows, block, operator, erase, settings.rankings, settings.beam, settings.beam_budget)


def _add_outside(rows: ScoreRows, block: Block, operator: Operator, ranking: str, curve: Curve) -> None:
    """Add the share of a ranking's erased texts that are unusual to the model, of those that have a token."""
    known = ~curve.p_values.isnan()  # (B, 2 K)
    count = known.sum(1)
    outside = (curve.p_values < OUTSIDE).sum(1)
    share = outside.double() / count.clamp(min=1)
    share = share.masked_fill(count == 0, math.nan)
    rows.add(block, {operator.outside: share}, curve.reasons, ranking, block.in_distribution.reason or NO_TOKEN)


def _curves(block: Block, operator: Operator, settings: ErasureSettings, erase: Erase) -> Mapping[str, Curve]:
    """The curve of every ranking; all texts of all rankings are run together."""
    content = block.encoded.content  # (B, T)
    counts = erasure_counts(content.sum(1), settings.shares)  # (B, K)
    reasons_of = {}
    # the whole text stands beside the others, so that what removes nothing changes nothing, to the last bit
    keep = [torch.ones_like(content)[:, None]]
    for name in settings.rankings:
        top, reasons_of[name] = top_masks(block.importance(name).double(), content, counts)  # (B, K, T)
        keep += [~top, top | ~content[:, None]]
    kept = torch.cat(keep, dim=1)  # (B, 1 + 2 K a ranking, T)
    logits = erase(kept).double()  # (B, 1 + 2 K a ranking, C)
    predicted = block.encoded.logits.argmax(-1).to(logits.device)  # (B,)
    index = predicted[:, None, None].expand(-1, logits.shape[1], 1)
    target = probabilities(logits).gather(2, index)[..., 0]  # (B, 1 + 2 K a ranking)
    full = target[:, 0]
    parts = target[:, 1:].split(counts.shape[1], dim=1)  # (B, K) each: without and with the top items of each ranking
    p_values = _p_values(block, operator, kept[:, 1:])  # (B, 2 K a ranking)
    curves = {}
    for place, (name, reasons) in enumerate(reasons_of.items()):
        without, only = parts[2 * place : 2 * place + 2]
        of_ranking = None
        if p_values is not None:
            width = 2 * counts.shape[1]
            of_ranking = p_values[:, place * width : (place + 1) * width]
        curves[name] = _curve(full, without, only, of_ranking, reasons)
    return curves


def _p_values(block: Block, operator: Operator, keep: Tensor) -> Tensor | None:
    """How unusual the texts with the items ``keep`` (B, K, T) left are, (B, K); None where nobody asks."""
    if block.in_distribution is None:
        return None
    p_values = block.in_distribution.p_values.get(operator.name)
    if p_values is None:
        return torch.full(keep.shape[:2], math.nan, dtype=torch.float64)
    return p_values(keep)


def _curve(
    full: Tensor,
    without: Tensor,
    only: Tensor,
    p_values: Tensor | None,
    reasons: Sequence[str | None],
) -> Curve:
    """One ranking's curve, from the target's probability for the full text (B,) and for its parts (B, K)."""
    has_nan = full.isnan() | without.isnan().any(1) | only.isnan().any(1)
    reasons = or_else(reasons, first_reasons({NAN_PROBABILITIES: has_nan}))
    lost_without = nan_where(reasons, comprehensiveness(full, without))
    lost_alone = nan_where(reasons, sufficiency(full, only))
    if p_values is not None:
        p_values = nan_where(reasons, p_values)
    return Curve(lost_without, lost_alone, p_values, reasons)


EVALUATORS.register("erasure")(
    Evaluator(
        "erasure",
        "DeYoung et al. 2020, section 4.2",
        metrics=METRICS,
        run=run,
        settings=ErasureSettings,
        sources=sources_of,
        under_controls=False,
        by_label=LabelTest(METRICS, run),
    )
)
