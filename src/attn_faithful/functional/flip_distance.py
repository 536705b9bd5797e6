"""How little of a move of attention changes the decision, exactly, for a read-out that is affine in the attention.

With logits ``sum_t a_t z_t + b`` and the decision y, another class c overtakes y where ``sum_t a_t m_t < 0`` with the
margins ``m_t = z_ty - z_tc + b_y - b_c``. JSD is convex in a, so the nearest such attention is one convex problem with
one linear constraint for each c, and the nearest of all is the smallest of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._checks import check_shape
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.readout import (
    as_distributions,
    check_decision,
    checked_readout,
    decided,
    defined_rows,
    first_least,
    leads,
    min_or_infinity,
)
from attn_faithful.functional.reasons import ATTENTION_PROOF, Reasons, first_reasons, or_else

_SAME = 1e-12  # classes as near as this are equally near, so that rounding does not choose between them

# Weights this small are 0: their reciprocals would not be finite, and the distance is continuous in them.
_NO_WEIGHT = 1e-200
_WIDEST = 1e100  # of margins over the smallest one's size, for the same reason

# Relative errors at which the searches stop, a few roundings of a sum; the limits are never reached in practice.
_INNER, _OUTER = 4e-15, 1e-14
_INNER_STEPS, _OUTER_STEPS = 60, 200


@dataclass(frozen=True)
class FlipDistance:
    """The nearest attention at which the decision changes, one an example.

    Attributes:
        jsd: (B,), nats, 0 (a tie already) to ln 2; NaN where the decision cannot change.
        attention: (B, T), the tie of two classes behind which it changes; NaN without one, 0 outside ``allowed``.
        flips_to: (B,), the class that wins past that tie, the lowest of those equally near; -1 where there is none.
        attention_proof: (B,) bool, whether no attention at all changes the decision.
        smallest_margin: (B,), the least that the decision's logit leads any other class's under any attention;
            infinite without another class, NaN where undefined.
        reason: why ``jsd`` is NaN: "attention-proof", "no content token", "nan in scores"; None where it is defined.
    """

    jsd: Tensor
    attention: Tensor
    flips_to: Tensor
    attention_proof: Tensor
    smallest_margin: Tensor
    reason: Reasons


def flip_distance(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> FlipDistance:
    r"""The smallest JSD from the attention to one that changes the decision; the global minimum, for any C.

    ``min_c min_a JSD(a, attention)`` over distributions ``a`` on the allowed tokens with ``sum_t a_t m_tc <= 0``. At
    the minimum ``a_t = a0_t e_t / (2 - e_t)`` with ``e_t = exp(-2 (lambda m_t + mu)) < 2``; tokens without attention
    get some only if their margin is below those of all others, at the bound ``e_t = 2``, and then the first of them
    takes the mass that is left.

    The decision is the argmax of the logits, the lowest index on ties. It changes where another class's logit is
    strictly above its own; a tie alone, whatever the index, is no change. So the value is an infimum: the end point is
    a tie, and a smallest margin of exactly 0 cannot flip. Classes with a bias of -inf (masked candidates) never count.

    Args:
        attention: (B, T), distributions over ``allowed``, normalized here in float64; ignored elsewhere.
        allowed: (B, T), bool.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C).

    Returns:
        :class:`FlipDistance`, float64: nats, 0 (a tie already) to ln 2; higher means that attention pins the decision
        down. A score that is not finite or beyond 1e300 (among allowed tokens and classes that count) counts as "nan
        in scores".

    Raises:
        InputError: other shapes, ``allowed`` that is not bool, attention that is negative or does not sum to 1.

    Reference:
        The adversary of Jain and Wallace, section 4.2.2, turned round: the least change that flips the decision.

    Example:
        >>> attention, allowed = torch.tensor([[0.6, 0.4]]), torch.ones(1, 2, dtype=torch.bool)
        >>> found = flip_distance(attention, allowed, torch.tensor([[[0.0, 3.0], [0.0, -1.0]]]), torch.zeros(1, 2))
        >>> print(f"{found.jsd.item():.6f} {found.attention[0, 1]:.4f} {found.flips_to.item()}")
        0.064181 0.7500 0
    """
    attention, token_logits, bias, reasons = checked_readout(attention, allowed, token_logits, bias)
    defined = defined_rows(reasons, attention)
    attention = as_distributions(attention, defined)
    decision = decided(attention, token_logits, bias)
    margins, _ = leads(token_logits, bias, decision, math.inf)  # (B, C, T)
    least = _least_margins(margins, allowed)  # (B, C)

    # one convex problem for each of P pairs of an example and a class that some attention puts first
    can_flip = defined[:, None] & (least < 0)
    rows, classes = can_flip.nonzero(as_tuple=True)
    depths = -least[rows, classes]
    ties = _nearest_ties(attention[rows], margins[rows, classes], allowed[rows], depths)  # (P, T)
    distances = torch.full_like(bias, math.inf)  # (B, C)
    distances[rows, classes] = jsd(ties, attention[rows], validate_args=False)

    flips = distances.isfinite().any(-1)
    least_distance = distances.amin(-1, keepdim=True)
    farther = distances > least_distance + _SAME  # (B, C)
    nearest = first_least(farther.double())  # (B,)
    nearest_distance = distances.gather(1, nearest[:, None])[:, 0]
    nearest_tie = torch.where(allowed, math.nan, torch.zeros_like(attention))  # (B, T)
    of_nearest = classes == nearest[rows]
    nearest_tie[rows[of_nearest]] = ties[of_nearest]

    proof = defined & ~flips
    return FlipDistance(
        jsd=torch.where(flips, nearest_distance, math.nan),
        attention=nearest_tie,
        flips_to=torch.where(flips, nearest, -1),
        attention_proof=proof,
        smallest_margin=torch.where(defined, least.amin(-1), math.nan),
        reason=or_else(reasons, first_reasons({ATTENTION_PROOF: proof})),
    )


def attention_proof(token_logits: Tensor, bias: Tensor, allowed: Tensor, decision: Tensor) -> Tensor:
    r"""Whether no attention distribution at all changes the decision: every margin ``m_tc`` is at least 0.

    Only signs are looked at, so this is cheap. A change and its ties are meant as in :func:`flip_distance`.

    Args:
        token_logits: (B, T, C), without the bias.
        bias: (B, C); classes with -inf never count.
        allowed: (B, T), bool.
        decision: (B,), the class that is decided now.

    Returns:
        (B,) bool; False too where no token is allowed or a score is not finite.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool, a decision that is not a class.

    Reference:
        The adversary of Jain and Wallace, section 4.2.2, turned round, where there is none.

    Example:
        >>> token_logits = torch.tensor([[[0.0, 3.0], [0.0, 1.0]], [[0.0, 3.0], [0.0, -1.0]]])
        >>> allowed, decision = torch.ones(2, 2, dtype=torch.bool), torch.ones(2, dtype=torch.long)
        >>> attention_proof(token_logits, torch.zeros(2, 2), allowed, decision).tolist()
        [True, False]
    """
    no_attention = torch.zeros(token_logits.shape[:2], device=token_logits.device)
    _, token_logits, bias, reasons = checked_readout(no_attention, allowed, token_logits, bias)
    check_shape("decision", decision, "B")
    check_decision(decision, *bias.shape)
    margins, _ = leads(token_logits, bias, decision, math.inf)
    least = _least_margins(margins, allowed)
    return defined_rows(reasons, bias) & (least >= 0).all(-1)


def _least_margins(margins: Tensor, allowed: Tensor) -> Tensor:
    """The smallest margin of each class (B, C), infinite where nothing is allowed."""
    allowed_margins = torch.where(allowed[:, None], margins, math.inf)
    return min_or_infinity(allowed_margins)


def _nearest_ties(attention: Tensor, margins: Tensor, allowed: Tensor, depth: Tensor) -> Tensor:
    """The distributions (P, T) nearest to ``attention`` whose mean margin is 0; the smallest margin is ``-depth``.

    Margins enter as ``d = (m - min m) / depth``: then the mean of d has to fall to 1, without cancellation.
    """
    if not attention.numel():
        return attention
    depth = depth[:, None]
    d = (margins + depth) / depth  # (P, T)
    d = torch.where(allowed, d, math.inf)
    lowest = F.one_hot(first_least(d), d.shape[1])
    attended = allowed & (attention > _NO_WEIGHT)
    weights = torch.where(attended, attention, 0.0)
    d = torch.where(attended, d, 1.0).clamp(max=_WIDEST)
    mean = (weights * d).sum(-1)  # (P,)

    ratio, at_bound = _search(weights, d, mean)
    tie = weights * ratio
    missing = torch.where(at_bound, 1 - tie.sum(-1), 0.0)
    rest = missing.clamp(min=0.0)
    tie = tie + rest[:, None] * lowest
    tie = tie / tie.sum(-1, keepdim=True)
    return torch.where(mean[:, None] > 1, tie, attention)


def _search(weights: Tensor, d: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Factors ``a_t / a0_t`` (P, T) at which the mean of ``d`` is 1, and where tokens without attention get some (P,).

    With ``w = exp(-2 lambda d)`` the factors are ``w / (y + 1 - w)``, where y in 0 to 1 stands for mu: 0 is the bound
    ``e = 2`` of the smallest margin. Newton's steps are taken on the logarithm of the mean, which is almost straight;
    where one leaves the bracket or the last gained too little, the bracket is halved in the logarithm of lambda.
    """
    floor = torch.where(d == 0, weights, 0.0).sum(-1)  # (P,)
    low, high = _bracket(d, start)
    spread = (weights * (d - start[:, None]) ** 2).sum(-1)
    first = start * start.log() / (4 * spread)  # Newton's step from lambda = 0
    within = (first > low) & (first < high)
    lam = torch.where(within, first, (low * high).sqrt())
    done = start <= 1
    lam = torch.where(done, high, lam)

    y = torch.ones_like(start)
    error_before = torch.full_like(start, math.inf)
    for _ in range(_OUTER_STEPS):
        exponent = -2 * lam[:, None] * d  # (P, T)
        w = torch.exp(exponent)
        b = -torch.expm1(exponent)
        weighted = weights * w
        y = _unit_mass(weighted, b, floor, y)  # (P,)
        q = 1 / (y[:, None] + b)
        part = weighted * q
        mean = (part * d).sum(-1)
        error = mean.log()
        low = torch.where(error > 0, lam, low)
        high = torch.where(error > 0, high, lam)
        narrow = high - low <= 4e-16 * high
        done = done | narrow | (error.abs() <= _OUTER)
        if bool(done.all()):
            break
        pull = part * q  # how the mass falls with y
        middle = (pull * d).sum(-1) / pull.sum(-1)
        middle = torch.where(y > 0, middle, 0.0)
        spread = (pull * (d - middle[:, None]) ** 2).sum(-1)
        slope = 2 * (1 + y) * spread
        step = lam + mean * error / slope
        within = (step > low) & (step < high)
        good = within & (error.abs() <= 0.5 * error_before)
        next_lam = torch.where(good, step, (low * high).sqrt())
        # What is done stays as it is, whatever stands beside it in the batch.
        lam = torch.where(done, lam, next_lam)
        error_before = error.abs()
    return w * q, y == 0


def _bracket(d: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the largest lambda (P,) that can bring the mean of ``d`` from ``start`` to 1.

    Lambda is the slope of the distance: by convexity at least JSD / (start - 1), where JSD is at least TVD^2 / 2
    (Pinsker) and TVD at least (start - 1) / max d. With any y >= 0 the mean is at most 1 / (2 lambda).
    """
    widest = d.amax(-1).clamp(min=1.0)
    low = (start - 1) / (2 * widest**2)
    return low, torch.full_like(start, 0.5)


def _unit_mass(weights: Tensor, b: Tensor, floor: Tensor, y: Tensor) -> Tensor:
    """The y (P,) at which ``sum_t weights_t / (y + b_t)`` is 1, or ``floor`` if the sum is below 1 there.

    Newton's steps are taken on 1 over the sum, which is concave and increasing: after the first they only rise.
    """
    done = torch.zeros_like(floor, dtype=torch.bool)
    for _ in range(_INNER_STEPS):
        q = 1 / (y[:, None] + b)
        part = weights * q
        mass = part.sum(-1)
        pull = (part * q).sum(-1)  # how the mass falls with y
        step = y + mass * (mass - 1) / pull
        step = torch.where(mass > 0, step, floor).maximum(floor)  # every w may have come to 0
        done = done | ((mass - 1).abs() <= _INNER) | (step == y)
        if bool(done.all()):
            break
        y = torch.where(done, y, step)
    return y
