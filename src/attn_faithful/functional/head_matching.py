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

# Terms of the JSD between all pairs of heads in memory at once: 1.6 MB, a core's cache; three times as fast as 16 MB.
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
    on_content: Tensor = attention * content[:, None, None]  # (B, H, Q, T)
    mass = on_content.sum(-1, keepdim=True)
    divisor = torch.where(mass > 0, mass, 1.0)
    return on_content / divisor


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
    example_of_row = rows.nonzero()[:, 0]  # (R,)
    p = twin.transpose(1, 2)[rows].double()  # (R, H, T)
    q = base.transpose(1, 2)[rows].double()
    check_distributions("twin", p, zero_rows=True)
    check_distributions("base", q, zero_rows=True)
    h, t = p.shape[1:]
    total = torch.zeros(len(rows), h, h, dtype=torch.float64, device=twin.device)
    count = torch.zeros_like(total)
    terms_of_row = max(1, h * h * t)
    step = max(1, _CELLS // terms_of_row)
    for start in range(0, len(p), step):
        part = slice(start, start + step)
        examples = example_of_row[part]
        distances, defined = _all_pairs(p[part], q[part])  # (R, H, H)
        distances = torch.where(defined, distances, 0.0)
        total.index_add_(0, examples, distances)
        count.index_add_(0, examples, defined.double())
    return torch.where(count > 0, total / count, torch.nan)


def _all_pairs(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """JSD (R, H, H) between every two heads of rows (R, H, T), and where both have mass."""
    p_mass = p.sum(-1)[:, :, None]  # (R, H, 1)
    q_mass = q.sum(-1)[:, None]  # (R, 1, H)
    both = p[:, :, None] + q[:, None]  # (R, H, H, T), twice the middle
    alone = _log_sum(p)[:, :, None] + _log_sum(q)[:, None]  # (R, H, H)
    twice_jsd = alone - _log_sum(both) + LN2 * (p_mass + q_mass)
    distances = (0.5 * twice_jsd).clamp(0.0, LN2)
    return distances, (p_mass > 0) & (q_mass > 0)


def _log_sum(weights: Tensor) -> Tensor:
    """``sum over t of w_t ln w_t``, with 0 for weights of 0; three times as fast as xlogy."""
    smallest = torch.finfo(weights.dtype).tiny
    logs = weights.clamp(min=smallest).log_()
    return (logs * weights).sum(-1)


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
    mean = distances.double()
    if distances.ndim == 3:
        mean = mean.nanmean(0)
    costs = torch.where(mean.isnan(), LN2, mean)  # (H, H)
    base_heads: NDArray[np.int64]
    _, base_heads = linear_sum_assignment(costs.cpu().numpy())
    return base_heads


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
    base_heads = _checked(assignment, distances.shape[1]).to(distances.device)
    index = base_heads[None, :, None].expand(len(distances), -1, 1)
    matched = distances.gather(2, index).squeeze(2)  # (B, H)
    return matched.nanmean(1)


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
    base_heads = _checked(assignment, twin.shape[1]).to(base.device)
    if validate_args:
        _check_rows(twin, base, rows)
    example_of_row = rows.nonzero()[:, 0]  # (R,)
    p = twin.transpose(1, 2)[rows]  # (R, H, T)
    # each of the twin's heads beside its own of the base
    q = base[:, base_heads].transpose(1, 2)[rows]
    defined = (p.sum(-1) > 0) & (q.sum(-1) > 0)  # (R, H)
    distances = jsd(p, q, eps, validate_args=False)
    distances = torch.where(defined, distances, 0.0)
    zeros = distances.new_zeros(len(rows), twin.shape[1])
    total = zeros.index_add(0, example_of_row, distances)  # (B, H)
    count = zeros.index_add(0, example_of_row, defined.to(distances.dtype))
    means = total / count.clamp(min=1)
    n_heads = (count > 0).sum(1)  # (B,)
    mean_over_heads = means.sum(1) / n_heads.clamp(min=1)
    return torch.where(n_heads > 0, mean_over_heads, torch.nan)


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
    for name, attention in (("twin", twin), ("base", base)):
        by_row = attention.detach().transpose(1, 2)  # (B, Q, H, T)
        check_distributions(name, by_row[rows], zero_rows=True)


def _checked(assignment: Sequence[int] | NDArray[np.int64], heads: int) -> Tensor:
    base_heads = torch.as_tensor(np.asarray(assignment, dtype=np.int64))
    if sorted(base_heads.tolist()) != list(range(heads)):
        raise InputError(
            f"Expected an assignment that names each of {heads} heads once, but got {base_heads.tolist()}."
        )
    return base_heads
