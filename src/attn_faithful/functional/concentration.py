"""How concentrated a distribution over tokens is: entropy, support size, Gini."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.distributions import check_distributions
from attn_faithful.functional.readout import defined_rows
from attn_faithful.functional.reasons import NAN_SCORES, NO_MASS, NO_TOKEN, TOO_SHORT, Reasons, first_reasons


def distribution(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Reasons]:
    r"""Scores as shares of their magnitude: ``|s_t| / sum |s|`` over the allowed tokens.

    Args:
        scores: (B, T), any unit and sign; ignored outside ``allowed``.
        allowed: (B, T), bool.

    Returns:
        shares (B, T) in float64, 0 outside ``allowed`` and NaN rows where undefined; and for each example why it is
        ("no content token", "nan in scores", "no mass"), or None.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool.

    Reference:
        Meister et al. (2021), section 3.1 (normalized importance).

    Example:
        >>> shares, reasons = distribution(torch.tensor([[0.5, -0.5, 0.0]]), torch.ones(1, 3, dtype=torch.bool))
        >>> shares.tolist(), reasons
        ([[0.5, 0.5, 0.0]], [None])
    """
    if scores.dim() != 2 or scores.shape != allowed.shape or allowed.dtype != torch.bool:
        raise InputError(
            f"Expected `scores` (B, T) and bool `allowed` of the same shape, but got {tuple(scores.shape)} and "
            f"{tuple(allowed.shape)} of {allowed.dtype}."
        )
    magnitude = torch.where(allowed, scores.double().abs(), 0.0)  # (B, T)
    mass = magnitude.sum(-1)
    empty = ~allowed.any(-1)
    undefined = ~mass.isfinite()
    reasons = first_reasons({NO_TOKEN: empty, NAN_SCORES: undefined, NO_MASS: mass == 0})
    defined = defined_rows(reasons, scores)
    divisor = torch.where(defined, mass, 1.0)
    shares = magnitude / divisor[:, None]
    return torch.where(defined[:, None], shares, math.nan), reasons


def entropy(shares: Tensor) -> Tensor:
    r"""``-sum_t p_t ln p_t``, with ``0 ln 0 = 0``.

    Args:
        shares: (..., T), distributions; NaN rows stay NaN.

    Returns:
        (...), nats; 0 (one token) to ln T (all alike), NaN without a token. Never -0.

    Raises:
        InputError: rows that are no distributions.

    Reference:
        Meister et al. (2021), section 3.1.

    Example:
        >>> round(float(entropy(torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64))), 6)
        0.801819
    """
    if not shares.shape[-1]:
        return shares.double().sum(-1) * math.nan
    check_distributions("shares", shares)
    terms: Tensor = torch.special.xlogy(shares, shares)  # (..., T)
    return -terms.sum(-1) + 0.0  # -0.0 becomes 0.0


def normalized_entropy(shares: Tensor, allowed: Tensor) -> tuple[Tensor, Reasons]:
    r"""Entropy as a share of its largest value: ``-sum_t p_t ln p_t / ln n`` for n allowed tokens.

    Args:
        shares: (B, T), of :func:`distribution`; ignored outside ``allowed``.
        allowed: (B, T), bool.

    Returns:
        (B,), 0 to 1, lower is more concentrated; NaN for fewer than two tokens, where it is 0 / 0, with reasons ("no
        content token", "n<2") and for NaN rows, whose reason :func:`distribution` gives (None here).

    Raises:
        InputError: rows that are no distributions over the allowed tokens.

    Reference:
        Meister et al. (2021), section 3.1.

    Example:
        >>> value, _ = normalized_entropy(torch.tensor([[0.7, 0.2, 0.1]]).double(), torch.ones(1, 3).bool())
        >>> round(float(value), 6)
        0.729847
    """
    _check_shares(shares, allowed)
    counts = allowed.sum(-1)
    reasons = first_reasons({NO_TOKEN: counts == 0, TOO_SHORT: counts < 2})
    largest = counts.clamp(min=2).double().log()
    nothing = counts[:, None] == 0  # (B, 1), rows that are undefined as they are
    on_allowed = torch.where(allowed | nothing, shares, 0.0)  # (B, T)
    share_of_largest = entropy(on_allowed) / largest
    value = share_of_largest.clamp(max=1.0)
    return torch.where(counts > 1, value, math.nan), reasons


def support_size(shares: Tensor) -> Tensor:
    """How many tokens have a share above 0, (...); NaN without a token and for NaN rows.

    Raises:
        InputError: rows that are no distributions.

    Example:
        >>> support_size(torch.tensor([0.6, 0.4, 0.0]))
        tensor(2., dtype=torch.float64)
    """
    check_distributions("shares", shares)
    size = (shares > 0).sum(-1).double()
    if not shares.shape[-1]:
        return torch.full_like(size, math.nan)
    with_nan = shares.isnan().any(-1)
    return torch.where(with_nan, math.nan, size)


def gini(shares: Tensor, allowed: Tensor) -> Tensor:
    r"""Gini's coefficient: ``sum_ij |p_i - p_j| / (2 n)`` over the allowed tokens.

    Args:
        shares: (B, T), distributions over ``allowed``.
        allowed: (B, T), bool.

    Returns:
        (B,), 0 (all alike) to 1 - 1/n (one token); NaN without a token and for NaN rows.

    Raises:
        InputError: rows that are no distributions over the allowed tokens.

    Example:
        >>> gini(torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.ones(1, 4, dtype=torch.bool)).tolist()
        [0.75]
    """
    _check_shares(shares, allowed)
    n = allowed.sum(-1).double()
    allowed_first = torch.where(allowed, shares.double(), -1.0)
    descending = allowed_first.sort(-1, descending=True).values
    descending = descending.clamp(min=0.0)
    length = shares.shape[-1]
    rank = torch.arange(1, length + 1, device=shares.device, dtype=torch.float64)
    # of values in descending order: sum_i (n + 1 - 2 i) p_i / n
    factor = n[:, None] + 1 - 2 * rank  # (B, T)
    value = (factor * descending).sum(-1) / n.clamp(min=1)
    value = value.clamp(min=0.0)
    with_nan = (shares.isnan() & allowed).any(-1)
    return torch.where((n == 0) | with_nan, math.nan, value)


def _check_shares(shares: Tensor, allowed: Tensor) -> None:
    """Raise unless rows are distributions over what is allowed; rows that allow nothing are undefined anyway."""
    if shares.shape != allowed.shape or allowed.dtype != torch.bool:
        raise InputError(
            f"Expected `shares` and bool `allowed` of one shape, but got {tuple(shares.shape)} and "
            f"{tuple(allowed.shape)} of {allowed.dtype}."
        )
    on_allowed = torch.where(allowed, shares, torch.zeros_like(shares))
    check_distributions("shares", on_allowed[allowed.any(-1)])
