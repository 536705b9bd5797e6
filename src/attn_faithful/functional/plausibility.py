"""Does importance point at the tokens that people marked as the reason? Agreement with human rationales.

Plausible is not faithful: an explanation may convince people and say nothing about the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.erasure import content_first, top_masks
from attn_faithful.functional.readout import defined_rows
from attn_faithful.functional.reasons import (
    NAN_SCORES,
    NO_RATIONALE,
    NO_TOKEN,
    NOTHING_SELECTED,
    Reasons,
    first_reasons,
)


@dataclass(frozen=True, eq=False)
class Agreement:
    """How selected tokens agree with a rationale, for each of B examples.

    Attributes:
        precision: (B,), 0 to 1, the share of what was selected that is right.
        recall: (B,), 0 to 1, the share of the rationale that was found.
        f1: (B,), 0 to 1, their harmonic mean, 0 where both are 0.
        reasons: why an example's three numbers are NaN ("no rationale token", "no selected token"), else None.
    """

    precision: Tensor
    recall: Tensor
    f1: Tensor
    reasons: Reasons


def auprc(importance: Tensor, rationale: Tensor, content: Tensor) -> tuple[Tensor, Reasons]:
    r"""Area under the precision-recall curve of finding the rationale's tokens by their importance.

    Average precision: ``sum_k (R_k - R_{k-1}) P_k`` over the distinct importances from the highest down, with P_k and
    R_k the precision and recall of all tokens at least as important. Tokens that tie enter together, so a tie prefers
    no position; equal importance everywhere gives the share of rationale tokens.

    Args:
        importance: (B, T), any unit, higher first: pass magnitudes of signed scores; ignored outside ``content``.
        rationale: (B, T), bool, marked by people; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B,), above 0 to 1, higher is more plausible; :func:`random_auprc` is what chance gives. NaN with a reason: "no
        content token", "nan in scores", "no rationale token" (it may have been truncated away), else None.

    Raises:
        InputError: other shapes, masks that are not bool.

    Reference:
        DeYoung et al. (2020), section 4.1.

    Example:
        >>> importance, rationale = torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[True, False, True]])
        >>> value, _ = auprc(importance, rationale, torch.ones(1, 3, dtype=torch.bool))
        >>> round(float(value), 6)
        0.833333
    """
    _check_masks(importance, rationale=rationale, content=content)
    positive = rationale & content
    empty = ~content.any(-1)
    with_nan = (importance.isnan() & content).any(-1)
    without_rationale = ~positive.any(-1)
    reasons = first_reasons({NO_TOKEN: empty, NAN_SCORES: with_nan, NO_RATIONALE: without_rationale})
    by_importance = importance.argsort(-1, descending=True)
    order = content_first(by_importance, content)
    ranked = importance.gather(-1, order)  # (B, T)
    is_content = content.gather(-1, order)
    hits = positive.gather(-1, order)

    place = torch.arange(content.shape[-1], device=content.device)
    precision_at = hits.cumsum(-1) / (place + 1.0).double()  # (B, T), of the tokens up to each place
    ends = _ends_of_ties(ranked, is_content)
    precision = precision_at.gather(-1, ends)
    n_positive = positive.sum(-1).clamp(min=1)
    value = (precision * hits).sum(-1) / n_positive
    return torch.where(defined_rows(reasons, value), value, math.nan), reasons


def _ends_of_ties(ranked: Tensor, is_content: Tensor) -> Tensor:
    """Of ranked importances (B, T), content tokens first: the last place of the tie that each place belongs to."""
    length = ranked.shape[-1]
    place = torch.arange(length, device=ranked.device)
    next_differs = ranked[:, 1:] != ranked[:, :-1]
    ends_tie = is_content.clone()
    ends_tie[:, :-1] &= next_differs | ~is_content[:, 1:]
    own_end = torch.where(ends_tie, place, length)
    # the nearest end at or behind each place
    end = own_end.flip(-1).cummin(-1).values.flip(-1)
    return end.clamp(max=max(length - 1, 0))


def random_auprc(rationale: Tensor, content: Tensor) -> tuple[Tensor, Reasons]:
    r"""The average precision that importance in random order has on average, exactly.

    ``((m - 1) + (n - m) H_n / n) / (n - 1)`` for m rationale tokens of n, with ``H_n = 1 + 1/2 + ... + 1/n``: the mean
    over all orders of n tokens without ties. It tends to the share m / n for long texts and lies above it for short
    ones: one token of 10 gives .29, not .1.

    Args:
        rationale: (B, T), bool; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B,), above 0 to 1; NaN with a reason ("no content token", "no rationale token"), else None.

    Raises:
        InputError: other shapes, masks that are not bool.

    Reference:
        Bestgen (2015), "Exact expected average precision of the random baseline for system evaluation".

    Example:
        >>> value, _ = random_auprc(torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool))
        >>> round(float(value), 6)
        0.75
    """
    share, reasons = rationale_share(rationale, content)
    n = content.sum(-1).double()
    m = (rationale & content).sum(-1).double()
    one = torch.ones_like(n)
    harmonic = torch.digamma(n + 1) - torch.digamma(one)
    numerator = (m - 1) + (n - m) * harmonic / n
    value = numerator / (n - 1).clamp(min=1)
    value = torch.where(n == 1, share, value)
    return torch.where(defined_rows(reasons, value), value, math.nan), reasons


def rationale_share(rationale: Tensor, content: Tensor) -> tuple[Tensor, Reasons]:
    """Share of the content tokens that are in the rationale: the :func:`auprc` of importance that is equal everywhere.

    Args:
        rationale: (B, T), bool; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B,), above 0 to 1; NaN with a reason ("no content token", "no rationale token"), else None.

    Raises:
        InputError: other shapes, masks that are not bool.

    Example:
        >>> value, _ = rationale_share(torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool))
        >>> float(value)
        0.5
    """
    _check_masks(content, rationale=rationale, content=content)
    n = content.sum(-1)
    m = (rationale & content).sum(-1)
    reasons = first_reasons({NO_TOKEN: n == 0, NO_RATIONALE: m == 0})
    share = m.double() / n.clamp(min=1)
    return torch.where(defined_rows(reasons, share), share, math.nan), reasons


def select_top(importance: Tensor, content: Tensor, counts: Tensor) -> tuple[Tensor, Reasons]:
    """A selection out of importance: as many of the highest tokens as ``counts`` says, the first position on ties.

    Take ``(rationale & content).sum(-1)`` for as many tokens as the rationale has, or a share of the text with
    ``erasure_counts(content.sum(-1), (share,))[:, 0]``. ERASER takes the mean share of a data set's rationales.

    Args:
        importance: (B, T), any unit, higher first; ignored outside ``content``.
        content: (B, T), bool.
        counts: (B,), tokens.

    Returns:
        (B, T), bool; and for each example why nothing is selected ("no content token", "nan in scores"), or None.

    Raises:
        InputError: other shapes, ``content`` that is not bool, a negative count.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> content = torch.ones(1, 3, dtype=torch.bool)
        >>> select_top(torch.tensor([[0.2, 0.5, 0.3]]), content, torch.tensor([2]))[0].tolist()
        [[False, True, True]]
    """
    check_shape("counts", counts, "B")
    masks, reasons = top_masks(importance, content, counts[:, None])
    return masks[:, 0], reasons


def token_f1(selected: Tensor, rationale: Tensor) -> Agreement:
    r"""Agreement of selected tokens with the rationale: ``F1 = 2 |S & R| / (|S| + |R|)``.

    Args:
        selected: (B, T), bool, for example of :func:`select_top`.
        rationale: (B, T), bool; leave out what the model never saw, or it counts as missed.

    Returns:
        :class:`Agreement`, higher is more plausible.

    Raises:
        InputError: other shapes, masks that are not bool.

    Reference:
        DeYoung et al. (2020), section 4.1.

    Example:
        >>> found = token_f1(torch.tensor([[True, True, False]]), torch.tensor([[False, True, False]]))
        >>> float(found.precision), float(found.recall), round(float(found.f1), 6)
        (0.5, 1.0, 0.666667)
    """
    _check_masks(selected, selected=selected, rationale=rationale)
    hits = (selected & rationale).sum(-1)
    n_selected = selected.sum(-1)
    n_rationale = rationale.sum(-1)
    return _agreement(hits, n_selected, n_rationale)


def iou_f1(selected: Tensor, rationale: Tensor, threshold: float = 0.5) -> Agreement:
    r"""Agreement of selected spans with the rationale's spans, where a partial overlap counts as a hit.

    A span is a run of consecutive positions. A selected span S is a hit if some span R of the rationale has
    ``|S & R| / |S | R| >= threshold``; precision is hits over selected spans, recall hits over the rationale's spans.
    From a threshold of .5 on no two selected spans can hit the same one, so recall stays at or below 1.

    Args:
        selected: (B, T), bool, for example of :func:`select_top`.
        rationale: (B, T), bool; leave out what the model never saw, or it counts as missed.
        threshold: 0.5 to 1.

    Returns:
        :class:`Agreement`, higher is more plausible.

    Raises:
        InputError: other shapes, masks that are not bool, a threshold out of range.

    Reference:
        DeYoung et al. (2020), section 4.1.

    Example:
        >>> selected = torch.tensor([[True, True, False, True, False]])
        >>> found = iou_f1(selected, torch.tensor([[True, False, False, False, False]]))
        >>> float(found.precision), float(found.recall)
        (0.5, 1.0)
    """
    _check_masks(selected, selected=selected, rationale=rationale)
    if not 0.5 <= threshold <= 1:
        raise InputError(f"Expected `threshold` of 0.5 to 1, but got {threshold}; below it one span could hit two.")
    selected_spans = _Spans.of(selected)
    rationale_spans = _Spans.of(rationale)
    # what two spans share is one run, and belongs to no other two
    shared = _Spans.of(selected & rationale)
    size_of_both = selected_spans.sizes_at(shared.first) + rationale_spans.sizes_at(shared.first)
    union = size_of_both - shared.sizes
    overlap = torch.zeros(selected.shape, dtype=torch.float64, device=selected.device)
    overlap[shared.first] = shared.sizes / union.double()
    hits = (overlap >= threshold).sum(-1)
    n_selected = selected_spans.first.sum(-1)
    n_rationale = rationale_spans.first.sum(-1)
    return _agreement(hits, n_selected, n_rationale)


@dataclass(frozen=True, eq=False)
class _Spans:
    """The runs of consecutive positions of all texts.

    Attributes:
        number: (B, T), which run a position belongs to, counted over all texts; -1 for none.
        first: (B, T), bool, the first position of each run.
        sizes: (R,), positions of each run.
    """

    number: Tensor
    first: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, mask: Tensor) -> _Spans:
        first = mask.clone()
        first[:, 1:] &= ~mask[:, :-1]
        number = first.flatten().cumsum(0) - 1
        number = torch.where(mask, number.view(mask.shape), -1)
        sizes = torch.bincount(number[mask])
        return cls(number, first, sizes)

    def sizes_at(self, tokens: Tensor) -> Tensor:
        """The sizes of the spans that hold the marked tokens, in the order of the tokens."""
        return self.sizes[self.number[tokens]]


def _agreement(hits: Tensor, selected: Tensor, marked: Tensor) -> Agreement:
    """From how many tokens or spans (B,) hit, are selected and are marked."""
    reasons = first_reasons({NO_RATIONALE: marked == 0, NOTHING_SELECTED: selected == 0})
    defined = defined_rows(reasons, hits)
    hits = hits.double()
    precision = hits / selected.clamp(min=1)
    recall = hits / marked.clamp(min=1)
    f1 = 2 * hits / (selected + marked).clamp(min=1)
    return Agreement(
        precision=torch.where(defined, precision, math.nan),
        recall=torch.where(defined, recall, math.nan),
        f1=torch.where(defined, f1, math.nan),
        reasons=reasons,
    )


def _check_masks(importance: Tensor, **masks: Tensor) -> None:
    for name, mask in masks.items():
        check_shape(name, mask, "B T")
        if mask.dtype != torch.bool or mask.shape != importance.shape:
            shapes = ", ".join(f"`{label}` {tuple(m.shape)} of {m.dtype}" for label, m in masks.items())
            raise InputError(
                f"Expected bool masks (B, T) of the shape of the scores, {tuple(importance.shape)}, but got {shapes}."
            )
