"""Which head of a twin stands for which head of its base, and how far they are apart once matched.

Attention of one layer is (B, H, Q, T): a distribution over T keys for each head and query; other rows raise. A row of
zeros says nothing and counts nowhere. Divergences are in nats (0 to ln 2); a mean over nothing is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.distributions import check_distributions
from attn_faithful.functional.divergences import LN2, jsd

# Terms of the JSD between all pairs of heads held at once: 1.6 MB, a core's cache; three times as fast as 16 MB.
_CELLS = 200_000


def content_attention(attention: Tensor, content: Tensor) -> Tensor:
    r"""Attention among the content tokens alone: ``a_t / sum over content s of a_s`` on content, 0 elsewhere.

    Special tokens take most of the mass in many heads of BERT; what is left says which words a head looks at. A row
    without mass on content becomes zeros.

    Args:
        attention: (B, H, Q, T), probabilities.
        content: (B, T), bool; the keys that count.

    Returns:
        (B, H, Q, T), in the type of the attention, differentiable; rows sum to 1 or are 0.

    Raises:
        InputError: other shapes, ``content`` that is not bool, a weight below 0.

    Example:
        >>> row = torch.tensor([0.8, 0.15, 0.05, 0.0])[None, None, None]
        >>> print(content_attention(row, torch.tensor([[False, True, True, False]]))[0, 0, 0])
        tensor([0.0000, 0.7500, 0.2500, 0.0000])
    """
    check_shape("attention", attention, "B H Q T")
    if content.shape != (attention.shape[0], attention.shape[3]) or content.dtype != torch.bool:
        raise InputError(
            f"Expected bool `content` (B, T) of attention {tuple(attention.shape)}, but got {tuple(content.shape)} of "
            f"{content.dtype}."
        )
    if bool((attention.detach() < 0).any()):
        raise InputError("Expected `attention` of weights of at least 0, but one is below; pass attention, not scores.")
    kept = attention * content[:, None, None]
    mass = kept.sum(-1, keepdim=True)
    shared: Tensor = kept / torch.where(mass > 0, mass, 1.0)
    return shared


def head_distances(twin: Tensor, base: Tensor, rows: Tensor) -> Tensor:
    r"""Mean JSD over an example's rows between every head of the twin and every head of the base.

    ``D[b, i, j] = mean over real queries q of JSD(twin[b, i, q], base[b, j, q])``. Examples stand alone, so those of
    several batches are joined by `torch.cat`.

    Args:
        twin, base: (B, H, Q, T), attention of one layer.
        rows: (B, Q), bool; the queries that are real.

    Returns:
        (B, H, H), nats, 0 (equal) to ln 2, float64; NaN where no real row has mass in both heads.

    Raises:
        InputError: other shapes, ``rows`` that is not bool, real rows that are no distributions.

    Reference:
        Amini and Kosseim, section 7 (attention of several heads), with the JSD of section 3.2, equation 2.

    Example:
        >>> heads = torch.eye(2)[None, :, None]  # one query, two heads that look at one token each
        >>> head_distances(heads, heads, torch.tensor([[True]]))[0]
        tensor([[0.0000, 0.6931],
                [0.6931, 0.0000]], dtype=torch.float64)
    """
    _check_pair(twin, base, rows)
    examples = rows.nonzero()[:, 0]  # (R,) whose each real row is
    p, q = (x.transpose(1, 2)[rows].double() for x in (twin, base))  # (R, H, T)
    check_distributions("twin", p, zero_rows=True)
    check_distributions("base", q, zero_rows=True)
    h, t = p.shape[1:]
    total, count = (torch.zeros(len(rows), h, h, dtype=torch.float64, device=twin.device) for _ in range(2))
    size = max(1, _CELLS // max(1, h * h * t))
    for a, b, of in zip(*(torch.split(x, size) for x in (p, q, examples)), strict=True):
        one, other = a.sum(-1)[:, :, None], b.sum(-1)[:, None]
        both = a[:, :, None] + b[:, None]  # (r, H, H, T), twice the middle
        apart = 0.5 * (_log_sum(a)[:, :, None] + _log_sum(b)[:, None] - _log_sum(both) + LN2 * (one + other))
        defined = (one > 0) & (other > 0)
        total.index_add_(0, of, torch.where(defined, apart.clamp(0.0, LN2), 0.0))
        count.index_add_(0, of, defined.double())
    return torch.where(count > 0, total / count, torch.nan)


def _log_sum(weights: Tensor) -> Tensor:
    """``sum over t of w_t ln w_t``, with 0 for weights of 0; three times as fast as xlogy."""
    smallest = torch.finfo(weights.dtype).tiny
    return (weights.clamp(min=smallest).log_() * weights).sum(-1)


def match_heads(distances: Tensor) -> NDArray[np.int64]:
    r"""The assignment of the twin's heads to the base's that makes their mean distance smallest (Hungarian method).

    One assignment for all examples: a head that does the work of another in one text only is not the same head.

    Args:
        distances: (B, H, H) as :func:`head_distances` gives them, or their mean (H, H); NaN is left out of the mean,
            and a pair without any value counts as ln 2.

    Returns:
        (H,), for each head of the twin its head of the base.

    Raises:
        InputError: other shapes, a distance that is infinite.

    Reference:
        Kuhn (1955), The Hungarian method for the assignment problem; Amini and Kosseim, section 7.

    Example:
        >>> match_heads(torch.tensor([[0.5, 0.1], [0.3, 0.6]])).tolist()
        [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    if distances.ndim not in (2, 3) or distances.shape[-1] != distances.shape[-2]:
        raise InputError(f"Expected `distances` (B, H, H) or (H, H), but got {tuple(distances.shape)}.")
    if bool(distances.isinf().any()):
        raise InputError("Expected `distances` in nats, 0 to ln 2, or NaN, but one is infinite.")
    mean = distances.double().nanmean(0) if distances.ndim == 3 else distances.double()
    costs = torch.where(mean.isnan(), LN2, mean).cpu().numpy()
    found: NDArray[np.int64] = linear_sum_assignment(costs)[1]
    return found


def matched_distances(distances: Tensor, assignment: Sequence[int] | NDArray[np.int64]) -> Tensor:
    r"""Mean distance over matched heads: ``mean over i of D[b, i, assignment[i]]``.

    Args:
        distances: (B, H, H), of :func:`head_distances`.
        assignment: (H,), of :func:`match_heads`.

    Returns:
        (B,), nats, 0 to ln 2; heads without a value are left out of the mean, NaN where all are.

    Raises:
        InputError: other shapes, or no assignment of H heads.

    Reference:
        Amini and Kosseim, section 7.

    Example:
        >>> matched_distances(torch.tensor([[[0.5, 0.1], [0.3, 0.6]]]), [1, 0])
        tensor([0.2000])
    """
    check_shape("distances", distances, "B H H")
    chosen = _checked(assignment, distances.shape[1]).to(distances.device)
    index = chosen[None, :, None].expand(len(distances), -1, 1)
    return distances.gather(2, index).squeeze(2).nanmean(1)


def matched_jsd(
    twin: Tensor,
    base: Tensor,
    rows: Tensor,
    assignment: Sequence[int] | NDArray[np.int64],
    eps: float = 0.0,
    validate_args: bool = True,
) -> Tensor:
    r"""Mean JSD over an example's heads and rows under an assignment, without the other pairs: what a twin trains on.

    Args:
        twin, base: (B, H, Q, T), attention of one layer.
        rows: (B, Q), bool; the queries that are real.
        assignment: (H,), of :func:`match_heads`.
        eps: as in :func:`attn_faithful.functional.divergences.jsd`: 0 is exact, above 0 has finite gradients.
        validate_args: whether to raise for rows that are no distributions.

    Returns:
        (B,), nats, 0 to ln 2; the same as :func:`matched_distances` of :func:`head_distances`; NaN where no real row
        has mass in any two matched heads.

    Raises:
        InputError: other shapes, ``rows`` that is not bool, real rows that are no distributions, or no assignment of H
            heads.

    Reference:
        Amini and Kosseim, section 3.2, equation 2, and section 7.

    Example:
        >>> heads = torch.eye(2)[None, :, None]
        >>> rows = torch.tensor([[True]])
        >>> matched_jsd(heads, heads.flip(1), rows, [1, 0]), matched_jsd(heads, heads, rows, [1, 0])
        (tensor([0.], dtype=torch.float64), tensor([0.6931], dtype=torch.float64))
    """
    _check_pair(twin, base, rows)
    chosen = _checked(assignment, twin.shape[1]).to(base.device)
    if validate_args:
        _check_rows(twin, base, rows)
    examples = rows.nonzero()[:, 0]
    p, q = (x.transpose(1, 2)[rows] for x in (twin, base[:, chosen]))  # (R, H, T)
    defined = (p.sum(-1) > 0) & (q.sum(-1) > 0)  # (R, H)
    apart = torch.where(defined, jsd(p, q, eps, validate_args=False), 0.0)
    nothing = apart.new_zeros(len(rows), twin.shape[1])
    total = nothing.index_add(0, examples, apart)  # (B, H)
    count = nothing.index_add(0, examples, defined.to(apart.dtype))
    heads = (count > 0).sum(1)
    mean = (total / count.clamp(min=1)).sum(1) / heads.clamp(min=1)
    return torch.where(heads > 0, mean, torch.nan)


def _check_pair(twin: Tensor, base: Tensor, rows: Tensor) -> None:
    check_shape("twin", twin, "B H Q T")
    if twin.shape != base.shape:
        raise InputError(
            f"Expected attention of one layer, but the twin's is {tuple(twin.shape)}, the base's {tuple(base.shape)}."
        )
    if rows.shape != (twin.shape[0], twin.shape[2]) or rows.dtype != torch.bool:
        raise InputError(
            f"Expected bool `rows` (B, Q) of attention {tuple(twin.shape)}, but got {tuple(rows.shape)} of "
            f"{rows.dtype}."
        )


def _check_rows(twin: Tensor, base: Tensor, rows: Tensor) -> None:
    """Raise unless the real rows of all heads are distributions, or zeros."""
    check_distributions("twin", twin.detach().transpose(1, 2)[rows], zero_rows=True)
    check_distributions("base", base.detach().transpose(1, 2)[rows], zero_rows=True)


def _checked(assignment: Sequence[int] | NDArray[np.int64], heads: int) -> Tensor:
    found = torch.as_tensor(np.asarray(assignment, dtype=np.int64))
    if sorted(found.tolist()) != list(range(heads)):
        raise InputError(f"Expected an assignment that names each of {heads} heads once, but got {found.tolist()}.")
    return found
