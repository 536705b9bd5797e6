"""Erasure of the most important tokens, from probabilities: comprehensiveness, sufficiency, AOPC (ERASER)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.reasons import NAN_SCORES, NO_TOKEN, Reasons, first_reasons

SHARES = (0.01, 0.05, 0.10, 0.20, 0.50)  # ERASER's bins

ROUNDING = 1e-6  # of float32 probabilities
_EXACT = 1e-9  # items; 0.07 * 100 is 7.000000000000001 and must not become 8


def erasure_counts(n: Tensor, shares: Sequence[float] = SHARES) -> Tensor:
    r"""How many of n tokens each share takes: ``ceil(share n)``, so at least 1 wherever there is a token.

    The paper takes the top 1%, 5%, 10%, 20% and 50% of the tokens and is silent about rounding; rounding down would
    remove nothing from most sentences.

    Args:
        n: (B,), content tokens of each example.
        shares: K numbers above 0 and at most 1.

    Returns:
        (B, K), tokens; 0 where n is 0.

    Raises:
        InputError: a share out of range, or none.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> erasure_counts(torch.tensor([19, 1, 0])).tolist()
        [[1, 1, 2, 4, 10], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    """
    check_shape("n", n, "B")
    if not shares or not all(0 < share <= 1 for share in shares):
        raise InputError(f"Expected `shares` above 0 and at most 1, but got {tuple(shares)}; 0.05 is 5%.")
    fractions = torch.tensor(shares, dtype=torch.float64, device=n.device)
    exact = n.double()[:, None] * fractions  # (B, K)
    return (exact - _EXACT).ceil().long()


def top_masks(importance: Tensor, content: Tensor, counts: Tensor) -> tuple[Tensor, Reasons]:
    r"""The most important content tokens of each example, as many as each count says.

    Higher is more important: pass magnitudes of signed scores, unless what speaks against the target is to come last.
    Tokens that tie are taken from the first position on.

    Args:
        importance: (B, T), any unit; ignored outside ``content``.
        content: (B, T), bool.
        counts: (B, K), tokens, at least 0; cut to the content tokens that there are.

    Returns:
        masks (B, K, T), bool, never outside ``content``; and for each example why nothing is chosen ("no content
        token", "nan in scores"), or None.

    Raises:
        InputError: other shapes, ``content`` that is not bool, a negative count.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> importance = torch.tensor([[0.1, 0.4, 0.4, 0.9]])
        >>> content = torch.tensor([[True, True, True, False]])
        >>> masks, reasons = top_masks(importance, content, torch.tensor([[1, 2]]))
        >>> masks.int().tolist(), reasons
        ([[[0, 1, 0, 0], [0, 1, 1, 0]]], [None])
    """
    check_shape("importance", importance, "B T")
    check_shape("counts", counts, "B K", "pass counts[:, None] for one count an example")
    if importance.shape != content.shape or content.dtype != torch.bool or len(counts) != len(content):
        raise InputError(
            f"Expected `importance` (B, T), bool `content` of the same shape and `counts` (B, K), but got "
            f"{tuple(importance.shape)}, {tuple(content.shape)} of {content.dtype} and {tuple(counts.shape)}."
        )
    if bool((counts < 0).any()):
        raise InputError(f"Expected `counts` of at least 0, but got {counts.tolist()}.")
    empty = ~content.any(-1)
    with_nan = (importance.isnan() & content).any(-1)
    reasons = first_reasons({NO_TOKEN: empty, NAN_SCORES: with_nan})
    # content tokens first, the most important of them ahead; both sorts are stable
    ranked = torch.where(content, importance, 0)
    by_importance = ranked.argsort(dim=-1, descending=True, stable=True)
    order = content_first(by_importance, content)
    place = order.argsort(-1)  # (B, T)
    is_top = place[:, None] < counts[:, :, None]  # (B, K, T)
    selectable = content & ~with_nan[:, None]
    return is_top & selectable[:, None], reasons


def content_first(order: Tensor, content: Tensor) -> Tensor:
    """An order (B, T) of positions with the content tokens ahead, each group in the order that it had.

    Example:
        >>> content_first(torch.tensor([[2, 0, 1]]), torch.tensor([[True, True, False]])).tolist()
        [[0, 1, 2]]
    """
    behind = ~content.gather(-1, order)
    by_content = behind.byte().argsort(dim=-1, stable=True)
    return order.gather(-1, by_content)


def comprehensiveness(p_full: Tensor, p_without: Tensor) -> Tensor:
    r"""How much the prediction loses with its most important tokens: ``p_y(x) - p_y(x without the top k)``.

    Args:
        p_full: (B,), probability of the target class y for the whole text.
        p_without: (B, K), for the text without the top tokens of each of K bins; NaN where undefined.

    Returns:
        (B, K), probability, -1 to 1, higher is more faithful; NaN for NaN.

    Raises:
        InputError: other shapes, numbers outside 0 to 1.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> comprehensiveness(torch.tensor([0.75]), torch.tensor([[0.5, 0.25]])).tolist()
        [[0.25, 0.5]]
    """
    return _lost("p_without", p_full, p_without)


def sufficiency(p_full: Tensor, p_only: Tensor) -> Tensor:
    r"""How much the prediction loses with all but its most important tokens: ``p_y(x) - p_y(only the top k)``.

    Args:
        p_full: (B,), probability of the target class y for the whole text.
        p_only: (B, K), for the top tokens of each of K bins alone; NaN where undefined.

    Returns:
        (B, K), probability, -1 to 1, lower is more faithful; NaN for NaN.

    Raises:
        InputError: other shapes, numbers outside 0 to 1.

    Reference:
        DeYoung et al. (2020), section 4.2.

    Example:
        >>> sufficiency(torch.tensor([0.75]), torch.tensor([[0.25, 0.75]])).tolist()
        [[0.5, 0.0]]
    """
    return _lost("p_only", p_full, p_only)


def aopc(values: Tensor, at_zero: Tensor | None = None) -> Tensor:
    r"""Area over the perturbation curve: the mean over bins, ``(1 / K) sum_k v_k``.

    The paper prints ``1 / (|B| + 1) sum_{k=0}^{|B|}``: one term more, for the bin of no token at all. The scores that
    ERASER publishes are the mean over the K bins, and so is the default here. ``at_zero`` gives the printed one.

    Args:
        values: (B, K), of :func:`comprehensiveness` or :func:`sufficiency`.
        at_zero: (B,), the value where the top 0 tokens are taken: 0 for comprehensiveness, ``p_y(x) - p_y(empty
            text)`` for sufficiency. None leaves it out.

    Returns:
        (B,), probability, -1 to 1, in the direction of ``values``; NaN if one of the bins is.

    Raises:
        InputError: other shapes, no bin.

    Reference:
        DeYoung et al. (2020), section 4.2; Samek et al. (2017).

    Example:
        >>> values = torch.tensor([[0.25, 0.5]])
        >>> aopc(values).tolist(), aopc(values, at_zero=torch.zeros(1)).tolist()
        ([0.375], [0.25])
    """
    check_shape("values", values, "B K")
    if at_zero is not None:
        if at_zero.shape != values.shape[:1]:
            raise InputError(f"Expected `at_zero` of shape ({len(values)},), but got {tuple(at_zero.shape)}.")
        first = at_zero.to(values.dtype)[:, None]
        values = torch.cat([first, values], dim=1)
    if values.shape[1] == 0:
        raise InputError("Expected `values` of one bin at least, but got (B, 0).")
    return values.mean(1, dtype=torch.float64)


def _lost(name: str, p_full: Tensor, p_other: Tensor) -> Tensor:
    check_shape("p_full", p_full, "B")
    check_shape(name, p_other, "B K", "pass p[:, None] for one bin")
    if len(p_full) != len(p_other):
        raise InputError(f"Expected as many `p_full` as rows of `{name}`, but got {len(p_full)} and {len(p_other)}.")
    for label, p in (("p_full", p_full), (name, p_other)):
        wrong = (p < -ROUNDING) | (p > 1 + ROUNDING)
        if bool(wrong.any()):
            raise InputError(
                f"Expected `{label}` of probabilities, 0 to 1, but got {float(p[wrong][0]):.6g}; pass those of the "
                "target class, not logits."
            )
    return p_full.double()[:, None] - p_other.double()
