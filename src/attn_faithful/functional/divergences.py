"""How far two distributions are apart: over classes (TVD) and over tokens (JSD, KL).

Logarithms are natural; nothing is square-rooted. Zeros are legal everywhere, so padding needs no mask.

What is no distribution (a negative weight, a sum off by more than 1e-3) raises, as it does from lists; nothing is
normalized in silence. A row with NaN gives NaN, and zeros in both are a padded text without items.
``validate_args=False`` leaves the check out, for inner loops and for rows that are distributions by construction, or
parts of one of equal mass.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.distributions import check_distributions, check_part, check_probabilities

LN2 = math.log(2.0)

_SMALLEST = torch.finfo(torch.float64).tiny  # normal numbers end here: half of a smaller one may be 0


def _pair(p: Tensor, q: Tensor, double: bool) -> tuple[Tensor, Tensor]:
    if p.shape[-1:] != q.shape[-1:]:
        raise InputError(
            f"Expected two distributions over the same items, but got shapes {tuple(p.shape)} and {tuple(q.shape)}; "
            "their last axes must be equal."
        )
    try:
        torch.broadcast_shapes(p.shape, q.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:
        raise InputError(
            f"Expected distributions of shapes that broadcast, but got {tuple(p.shape)} and {tuple(q.shape)}."
        ) from None
    dtype = torch.float64
    if not double:
        of_both = torch.promote_types(p.dtype, q.dtype)
        dtype = torch.promote_types(of_both, torch.float32)
    return p.to(dtype), q.to(dtype)


def _checked(p: Tensor, q: Tensor, double: bool, validate_args: bool) -> tuple[Tensor, Tensor]:
    """Two distributions in one type."""
    pair = _pair(p, q, double)
    if validate_args:
        check_distributions("p", p, zero_rows=True)
        check_distributions("q", q, zero_rows=True)
        _check_zeros(p.detach(), q.detach())
    return pair


def _check_zeros(p: Tensor, q: Tensor) -> None:
    """Raise where a row of one is zeros, and of the other neither zeros nor undefined."""
    p_empty = (p == 0).all(-1)
    q_empty = (q == 0).all(-1)
    undefined = p.isnan().any(-1) | q.isnan().any(-1)
    wrong = (p_empty != q_empty) & ~undefined
    if bool(wrong.any()):
        raise InputError(
            "Expected two distributions (at least 0, sum 1), or zeros in both for a text without items, but a row of "
            "one is zeros and of the other is not; leave undefined rows out."
        )


def _check_eps(eps: float) -> None:
    if not 0 <= eps < math.inf:
        raise InputError(f"Expected `eps` of 0 (evaluation) or above (training), but got {eps}.")


def tvd(p: Tensor, q: Tensor, validate_args: bool = True) -> Tensor:
    r"""Total variation distance: ``0.5 sum_c |p_c - q_c|``.

    Over the full class distribution it lies in 0 to 1 and equals the sTVD of Amini and Kosseim, whose TVD sums over one
    output head only and is half of it.

    Args:
        p, q: (..., C), probabilities; they broadcast.
        validate_args: whether to raise for what is no distribution.

    Returns:
        (...), 0 (equal) to 1 (no common class), in the inputs' type (float32 for half precision).

    Raises:
        InputError: shapes that do not go together, rows that are no distributions.

    Reference:
        Jain and Wallace (2019), section 4; Amini and Kosseim, section 3.2, equations 1 and 5.

    Example:
        >>> tvd(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])).round(decimals=6)
        tensor(0.3000)
    """
    p, q = _checked(p, q, False, validate_args)
    return 0.5 * (p - q).abs().sum(-1)


def multilabel_tvd(p: Tensor, q: Tensor, validate_args: bool = True) -> Tensor:
    r"""Mean distance of independent labels: ``(1 / C) sum_c |p_c - q_c|``; each label's is its two-class TVD.

    Args:
        p, q: (..., C), a probability a label; they broadcast.
        validate_args: whether to raise for what is no probability.

    Returns:
        (...), 0 (equal) to 1, in the inputs' type (float32 for half precision).

    Raises:
        InputError: shapes that do not go together, numbers outside 0 to 1.

    Reference:
        Amini and Kosseim, section 3.2, equations 1 and 5, each label taken as its own head.

    Example:
        >>> multilabel_tvd(torch.tensor([0.9, 0.2]), torch.tensor([0.5, 0.2])).round(decimals=6)
        tensor(0.2000)
    """
    p, q = _pair(p, q, double=False)
    if validate_args:
        check_probabilities("p", p)
        check_probabilities("q", q)
    return (p - q).abs().mean(-1)


def kl(p: Tensor, q: Tensor, eps: float = 0.0, validate_args: bool = True) -> Tensor:
    r"""Kullback-Leibler divergence of p from q: ``sum_t p_t (log(p_t + eps) - log(q_t + eps))``.

    Args:
        p, q: (..., T), probabilities; they broadcast.
        eps: 0 in evaluation: ``0 log 0 = 0``, in float64, no gradient at zeros. Above 0 in training (1e-10): the
            inputs' type, finite with finite gradients everywhere.
        validate_args: whether to raise for what is no distribution.

    Returns:
        (...), nats; 0 (equal) to infinity, which it is where some ``q_t = 0 < p_t`` and eps is 0. Not symmetric.

    Raises:
        InputError: shapes that do not go together, rows that are no distributions, or a negative eps.

    Reference:
        Amini and Kosseim, section 3.2, equation 3.

    Example:
        >>> a, b = torch.tensor([[0.2, 0.4, 0.4], [0.9, 0.05, 0.05]], dtype=torch.float64)
        >>> print(f"{kl(a, b):.6f} {kl(b, a):.6f}")
        1.362738 1.145726
        >>> kl(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))
        tensor(inf, dtype=torch.float64)
    """
    _check_eps(eps)
    p, q = _checked(p, q, eps == 0, validate_args)
    if eps > 0:
        log_ratio = torch.log(p + eps) - torch.log(q + eps)
        return (p * log_ratio).sum(-1)
    # xlogy keeps NaN, which a comparison with 0 would hide; adding 0.0 turns -0.0 into 0.0.
    terms: Tensor = torch.special.xlogy(p, p) - torch.special.xlogy(p, q)
    return terms.sum(-1).clamp(min=0.0) + 0.0


def jsd(p: Tensor, q: Tensor, eps: float = 0.0, validate_args: bool = True) -> Tensor:
    r"""Jensen-Shannon divergence: ``0.5 KL(p || m) + 0.5 KL(q || m)`` with ``m = (p + q) / 2``.

    Args:
        p, q: (..., T), probabilities; they broadcast.
        eps: 0 in evaluation: exact, in float64, exactly 0 for equal inputs. Above 0 in training (1e-10): the inputs'
            type, finite gradients everywhere, not clamped.
        validate_args: whether to raise for what is no distribution.

    Returns:
        (...), nats; 0 (equal) to ln 2 (no common token); symmetric. A divergence, not its square root.

    Raises:
        InputError: shapes that do not go together, rows that are no distributions, or a negative eps.

    Reference:
        Jain and Wallace (2019), section 4; Amini and Kosseim, section 3.2, equation 2.

    Example:
        >>> print(f"{jsd(torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])):.6f}")
        0.101749
    """
    _check_eps(eps)
    p, q = _checked(p, q, eps == 0, validate_args)
    if eps == 0:  # half of the smallest number is 0, and would give an infinite divergence
        p = torch.where(p.abs() < _SMALLEST, 0.0, p)
        q = torch.where(q.abs() < _SMALLEST, 0.0, q)
    middle = 0.5 * (p + q)
    from_p = kl(p, middle, eps, validate_args=False)
    from_q = kl(q, middle, eps, validate_args=False)
    value = 0.5 * (from_p + from_q)
    if eps > 0:
        return value
    return value.clamp(max=LN2)


def scaled_jsd(p: Tensor, q: Tensor, eps: float = 0.0, validate_args: bool = True) -> Tensor:
    r"""Jensen-Shannon divergence as a share of its largest value: ``JSD(p, q) / ln 2``.

    Args:
        p, q: (..., T), probabilities; they broadcast.
        eps: as in :func:`jsd`.
        validate_args: whether to raise for what is no distribution.

    Returns:
        (...), 0 (equal) to 1 (no common token).

    Raises:
        InputError: shapes that do not go together, rows that are no distributions, or a negative eps.

    Reference:
        Amini and Kosseim, section 3.2, equation 6.

    Example:
        >>> scaled_jsd(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
        tensor(1., dtype=torch.float64)
    """
    return jsd(p, q, eps, validate_args) / LN2


def largest_jsd(attention: Tensor, allowed: Tensor) -> Tensor:
    r"""The largest JSD from ``attention`` that dealing its weight on the allowed tokens anew can give.

    JSD is convex in its other argument, so the maximum is on a corner of the simplex: all of the mass ``m`` that the
    allowed tokens hold on the least attended of them, of weight ``a``: ``0.5 (m ln(2 m / (m + a)) + a ln(2 a / (m + a))
    + (m - a) ln 2)``. What other positions hold (special tokens) stays there and adds nothing.

    Args:
        attention: (..., T), probabilities; weight outside ``allowed`` is kept, and m is 1 without any.
        allowed: (..., T), bool; broadcasts.

    Returns:
        (...), nats, float64; 0 for one allowed token, towards m ln 2 for long texts, NaN where no token is allowed.

    Raises:
        InputError: shapes that do not go together, ``allowed`` that is not bool, weights below 0 or of more than 1.

    Reference:
        Jain and Wallace (2019), section 4.2.2 (the divergence that adversarial attention maximises).

    Example:
        >>> print(f"{largest_jsd(torch.tensor([0.6, 0.3, 0.1]), torch.tensor([True, True, True])):.6f}")
        0.525597
    """
    if attention.shape[-1:] != allowed.shape[-1:] or not attention.dim() or allowed.dtype != torch.bool:
        raise InputError(
            f"Expected `attention` and bool `allowed` over the same tokens, but got shapes {tuple(attention.shape)} "
            f"and {tuple(allowed.shape)} of {allowed.dtype}."
        )
    check_part("attention", attention, allowed)
    _pair(attention, allowed, double=True)
    weights = torch.where(allowed, attention.double(), math.inf)  # broadcasts the two
    if weights.shape[-1] == 0:
        return weights.sum(-1) * math.nan
    mass = torch.where(allowed, weights, 0.0).sum(-1)  # (...)
    some = allowed.any(-1)
    least = torch.where(some, weights.amin(-1), math.nan)
    both = torch.where(mass > 0, mass + least, 1.0)
    of_mass = torch.special.xlogy(mass, 2 * mass / both)
    of_least = torch.special.xlogy(least, 2 * least / both)
    twice_jsd: Tensor = of_mass + of_least + (mass - least) * LN2
    largest = 0.5 * twice_jsd
    return largest.clamp(min=0.0, max=LN2) + 0.0
