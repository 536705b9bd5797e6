"""Projections turn attention scores into attention: a distribution over the allowed tokens of each row.

Shared by all of them: scores (..., T) are real, `allowed` is boolean and broadcasts to them; the result has the shape
of the scores, sums to 1 over the allowed tokens, is exactly 0 elsewhere, and equals the projection of the row with the
forbidden tokens cut out. A row with nothing allowed is all zeros, and so is its gradient. A score of -inf is forbidden;
a NaN among the allowed scores makes its row NaN. Half precision is computed, and returned, in float32, because the
ranks of small weights are lost otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from entmax import entmax15 as _entmax15
from entmax import entmax_bisect as _entmax_bisect
from torch import Tensor

from attn_faithful._checks import InputError, did_you_mean
from attn_faithful._registry import Registry

Projection = Callable[..., Tensor]

PROJECTIONS: Registry[Projection] = Registry("projection")

PROJECTION_PARAMETERS: dict[str, tuple[str, ...]] = {
    "softmax": ("temperature",),
    "sparsemax": (),
    "sparsegen": ("lam",),
    "entmax15": (),
    "entmax": ("alpha",),
}

# Below this distance from 1 alpha-entmax is expanded to first order: bisection loses the gradient with respect to
# alpha like 1e-16 / (alpha - 1)^3, the expansion its value like (alpha - 1)^2.
_ALPHA_NEAR_ONE = 1e-4

_LOG_NOTHING = -1e3  # of a probability that is 0 in float64; its square must stay finite


def _gaps(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Scores minus their row's largest allowed score (<= 0 where allowed, 0 elsewhere), and what is allowed.

    Every projection here ignores a shift of the row, so the shift is a constant for the gradient.
    """
    if not scores.is_floating_point():
        raise InputError(f"Expected `scores` of a floating type, but got {scores.dtype}; pass scores.float().")
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` of type torch.bool, but got {allowed.dtype}; pass allowed.bool().")
    if not scores.dim():
        raise InputError("Expected `scores` of shape (..., T), but got a single number.")
    try:
        allowed = allowed.expand_as(scores)
    except RuntimeError:
        raise InputError(
            f"Expected `allowed` of the shape of `scores` {tuple(scores.shape)}, but got {tuple(allowed.shape)}; "
            "it must say for each score whether the token may be attended."
        ) from None
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    allowed = allowed & (scores != -math.inf)
    if scores.shape[-1] == 0:
        return scores, allowed
    lowest = torch.finfo(scores.dtype).min
    allowed_scores = torch.where(allowed, scores.detach(), lowest)
    top = allowed_scores.amax(-1, keepdim=True)  # (..., 1)
    return torch.where(allowed, scores - top, 0.0), allowed


def _guarded(gaps: Tensor, allowed: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """``solve(gaps)`` with zeros where nothing is allowed; a row with NaN is kept from the solver and becomes NaN."""
    if gaps.numel() == 0:
        return gaps
    undefined = gaps.isnan().any(-1, keepdim=True)
    attention = solve(torch.where(undefined, 0.0, gaps))  # (..., T)
    attention = torch.where(allowed, attention, 0.0)
    return torch.where(undefined & allowed, math.nan, attention)


@PROJECTIONS.register("softmax")
def softmax(scores: Tensor, allowed: Tensor, temperature: float = 1.0) -> Tensor:
    r"""Exponential weights: ``a_t = exp(z_t / temperature) / sum_u exp(z_u / temperature)``.

    Args:
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.
        temperature: above 0; towards 0 all mass goes to the largest score, towards infinity the row is uniform.

    Returns:
        (..., T), probabilities; never exactly 0 in real arithmetic where allowed.

    Raises:
        InputError: wrong types or shapes, or a temperature that is not positive and finite.

    Reference:
        Bahdanau et al. (2015), section 3.1 (attention as a softmax of scores).

    Example:
        >>> softmax(torch.tensor([0.0, -120.0, -121.0]), torch.tensor([False, True, True])).round(decimals=4)
        tensor([0.0000, 0.7311, 0.2689])
    """
    if not 0 < temperature < math.inf:
        raise InputError(f"Expected `temperature` above 0 and finite, but got {temperature}.")
    gaps, allowed = _gaps(scores, allowed)
    lowest = torch.finfo(gaps.dtype).min
    temperature = max(temperature, torch.finfo(gaps.dtype).tiny)  # less would be 0 in this type

    def solve(g: Tensor) -> Tensor:
        # torch.softmax subtracts the row's log-sum-exp, so that rows far below 0 keep their ratios.
        z = torch.where(allowed, g / temperature, lowest)
        return torch.softmax(z, -1)

    return _guarded(gaps, allowed, solve)


@PROJECTIONS.register("sparsemax")
def sparsemax(scores: Tensor, allowed: Tensor) -> Tensor:
    r"""Euclidean projection onto the simplex: ``argmin_a ||a - z||^2``, so ``a_t = max(z_t - tau, 0)``.

    Args:
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.

    Returns:
        (..., T), probabilities, often exactly 0. Differentiable twice.

    Raises:
        InputError: wrong types or shapes.

    Reference:
        Martins and Astudillo (2016), section 2.

    Example:
        >>> sparsemax(torch.tensor([1.0, 0.5, 0.0]), torch.tensor([True, True, True]))
        tensor([0.7500, 0.2500, 0.0000])
        >>> sparsemax(torch.tensor([0.3, 0.1, 9.0]), torch.tensor([True, True, False])).round(decimals=4)
        tensor([0.6000, 0.4000, 0.0000])
    """
    return sparsegen(scores, allowed, 0.0)


@PROJECTIONS.register("sparsegen")
def sparsegen(scores: Tensor, allowed: Tensor, lam: float | Tensor = 0.0) -> Tensor:
    r"""Sparsemax with a regularised sparsity: ``argmin_a ||a - z||^2 - lam ||a||^2 = sparsemax(z / (1 - lam))``.

    Args:
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.
        lam: below 1, a number or a tensor that broadcasts to (..., 1) and may carry a gradient; towards 1 all mass
            goes to the largest score, towards minus infinity the row is uniform, 0 is sparsemax.

    Returns:
        (..., T), probabilities, often exactly 0.

    Raises:
        InputError: wrong types or shapes, or ``lam`` outside (-inf, 1).

    Reference:
        Laha et al. (2018), section 3 (sparsegen-lin).

    Example:
        >>> z = torch.tensor([1.0, 0.5, 0.0])
        >>> sparsegen(z, torch.ones(3, dtype=torch.bool), lam=-1.0).round(decimals=4)
        tensor([0.5833, 0.3333, 0.0833])
    """
    _check_range("lam", lam, -math.inf, 1.0, "(-inf, 1)")
    gaps, allowed = _gaps(scores, allowed)
    width: Tensor | float
    if isinstance(lam, Tensor):
        width = 1 - _one_a_row("lam", lam, gaps)
    else:
        width = min(1 - lam, torch.finfo(gaps.dtype).max / 2)

    def solve(g: Tensor) -> Tensor:
        # The threshold is at least -1 after the shift, so -2 is outside any support: extreme scores stay finite.
        if isinstance(width, Tensor):
            z = torch.maximum(g, -2 * width.detach()) / width
        else:
            z = g.clamp(min=-2 * width) / width
        z = torch.where(allowed, z, -2.0)
        return _sparsemax_of_gaps(z)

    return _guarded(gaps, allowed, solve)


def _sparsemax_of_gaps(z: Tensor) -> Tensor:
    """Sparsemax of rows whose largest entry is 0; plain torch, so it has second derivatives and compiles."""
    # the k largest are the support, for the largest k with k z_k > z_1 + ... + z_k - 1
    ordered = z.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1
    length = z.shape[-1]
    rank = torch.arange(1, length + 1, device=z.device, dtype=z.dtype)
    in_support = rank * ordered > excess
    support = in_support.sum(-1, keepdim=True).clamp(min=1)  # (..., 1), its size
    tau = excess.gather(-1, support - 1) / support
    return (z - tau).clamp(min=0)


@PROJECTIONS.register("entmax15")
def entmax15(scores: Tensor, allowed: Tensor) -> Tensor:
    r"""Alpha-entmax with alpha 1.5, by sorting: ``a_t = max(z_t / 2 - tau, 0)^2``.

    Args:
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.

    Returns:
        (..., T), probabilities, sometimes exactly 0. First derivatives only.

    Raises:
        InputError: wrong types or shapes.

    Reference:
        Peters et al. (2019), section 3.

    Example:
        >>> entmax15(torch.tensor([1.0, 0.5, -3.0]), torch.tensor([True, True, True])).round(decimals=4)
        tensor([0.6740, 0.3260, 0.0000])
    """
    gaps, allowed = _gaps(scores, allowed)

    def solve(g: Tensor) -> Tensor:
        # Nothing below -2 is in the support; the bound keeps the squares in the sort-based threshold small.
        z = torch.where(allowed, g.clamp(min=-4.0), -4.0)
        attention: Tensor = _entmax15(z, dim=-1)
        return attention

    return _guarded(gaps, allowed, solve)


@PROJECTIONS.register("entmax")
def entmax(scores: Tensor, allowed: Tensor, alpha: float | Tensor = 1.5) -> Tensor:
    r"""Tsallis-regularised argmax: ``argmax_a a'z + H_alpha(a)``, ``a_t = max((alpha-1) z_t - tau, 0)^(1/(alpha-1))``.

    Args:
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.
        alpha: at least 1, a number or a tensor that broadcasts to (..., 1) and may be learned; 1 is softmax,
            2 is sparsemax, larger is sparser.

    Returns:
        (..., T), probabilities; exact zeros where alpha > 1. First derivatives only. Near 1 it is softmax plus
        its first-order term in alpha, so that a learned alpha keeps its gradient there.

    Raises:
        InputError: wrong types or shapes, or alpha below 1 or not finite.

    Reference:
        Peters et al. (2019), section 3; Correia et al. (2019), section 3 (gradient with respect to alpha).

    Example:
        >>> z, ok = torch.tensor([1.0, 0.5, 0.0]), torch.ones(3, dtype=torch.bool)
        >>> entmax(z, ok, alpha=2.0)
        tensor([0.7500, 0.2500, 0.0000])
        >>> bool(torch.allclose(entmax(z, ok, alpha=1.0), softmax(z, ok)))
        True
    """
    _check_range("alpha", alpha, 1.0, math.inf, "[1, inf)", closed=True)
    if not isinstance(alpha, Tensor) and alpha == 2:
        return sparsemax(scores, allowed)
    gaps, allowed = _gaps(scores, allowed)
    # Powers of 1 / (alpha - 1) magnify rounding, hence double precision where the device has it.
    precise = torch.float32 if gaps.device.type == "mps" else torch.float64
    order = _one_a_row("alpha", torch.as_tensor(alpha, dtype=precise), gaps)
    near = order - 1 < _ALPHA_NEAR_ONE

    def solve(g: Tensor) -> Tensor:
        g = g.to(precise)
        safe = torch.where(near, 2.0, order)
        bound = (-2 / (safe - 1)).detach()
        z = torch.where(allowed, torch.maximum(g, bound), bound)
        attention: Tensor = _entmax_bisect(z, safe, dim=-1)
        if bool(near.any()):
            attention = torch.where(near, _near_softmax(g, allowed, order), attention)
        return attention

    return _guarded(gaps, allowed, solve).to(gaps.dtype)


def _near_softmax(gaps: Tensor, allowed: Tensor, alpha: Tensor) -> Tensor:
    """Alpha-entmax to first order in alpha - 1 (Correia et al. 2019, proposition 1 at alpha = 1)."""
    lowest = torch.finfo(gaps.dtype).min
    log_p = torch.log_softmax(torch.where(allowed, gaps, lowest), -1)
    log_p = torch.where(allowed, log_p.clamp(min=_LOG_NOTHING), 0.0)
    p = torch.where(allowed, log_p.exp(), 0.0)
    square = log_p.square()
    mean_square = (p * square).sum(-1, keepdim=True)
    slope = -0.5 * p * (square - mean_square)  # with respect to alpha, at alpha = 1
    return (p + (alpha - 1) * slope).clamp(min=0)


def _one_a_row(name: str, value: Tensor, gaps: Tensor) -> Tensor:
    rows = (*gaps.shape[:-1], 1)
    try:
        return value.to(gaps.device).expand(rows)
    except RuntimeError:
        raise InputError(
            f"Expected `{name}` to broadcast to {rows}, but got {tuple(value.shape)}; "
            "give one number a row, with a last axis of 1."
        ) from None


def _check_range(
    name: str,
    value: float | Tensor,
    low: float,
    high: float,
    text: str,
    closed: bool = False,
) -> None:
    for end in _ends(value):
        above = low < end or (closed and low == end)
        if not (above and end < high):
            raise InputError(f"Expected `{name}` in {text}, but got {end}.")


def _ends(value: float | Tensor) -> tuple[float, ...]:
    """The smallest and the largest of a tensor's numbers, or the number itself."""
    if not isinstance(value, Tensor):
        return (value,)
    if not value.numel():
        return ()
    value = value.detach()
    return float(value.min()), float(value.max())


def project(name: str, scores: Tensor, allowed: Tensor, **params: float | Tensor) -> Tensor:
    """Attention from scores by the projection called ``name``.

    Args:
        name: one of ``PROJECTIONS``.
        scores: (..., T), any real numbers.
        allowed: (..., T), bool.
        params: those of ``PROJECTION_PARAMETERS[name]``; the others keep their defaults.

    Returns:
        (..., T), probabilities.

    Raises:
        InputError: an unknown projection or parameter, or what the projection itself refuses.

    Example:
        >>> project("sparsegen", torch.tensor([1.0, 0.5]), torch.tensor([True, True]), lam=0.5)
        tensor([1., 0.])
    """
    projection = PROJECTIONS[name]
    known = PROJECTION_PARAMETERS[name]
    for parameter in params:
        if parameter not in known:
            hint = did_you_mean(parameter, known) if known else " It takes none."
            raise InputError(f"Unknown parameter {parameter!r} of projection {name!r}.{hint}")
    return projection(scores, allowed, **params)
