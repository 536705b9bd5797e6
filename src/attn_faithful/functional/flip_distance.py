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

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.divergences import jsd
from attn_faithful.functional.reasons import ATTENTION_PROOF, NAN_SCORES, NO_TOKEN, first_reasons

LARGEST = 1e300  # a larger score is as good as infinite: differences and sums of several would be

_MASS_TOLERANCE = 1e-3
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
    reason: list[str | None]


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
    attention, token_logits, bias, reason = checked_readout(attention, allowed, token_logits, bias)
    defined = torch.tensor([r is None for r in reason], dtype=torch.bool, device=attention.device)
    attention = as_distributions(attention, defined)
    decision = decided(attention, token_logits, bias)
    margins = _margins(token_logits, bias, decision)  # (B, C, T)
    least = _least(margins, allowed)  # (B, C)

    distance = torch.full_like(bias, math.inf)
    rows, classes = (defined[:, None] & (least < 0)).nonzero(as_tuple=True)
    ends = _nearest(attention[rows], margins[rows, classes], allowed[rows], -least[rows, classes])
    distance[rows, classes] = jsd(ends, attention[rows], validate_args=False)
    flips = distance.isfinite().any(-1)
    nearest = _first_least((distance > distance.amin(-1, keepdim=True) + _SAME).double())

    value = torch.where(flips, distance.gather(1, nearest[:, None])[:, 0], math.nan)
    end = torch.where(allowed, math.nan, torch.zeros_like(attention))
    best = classes == nearest[rows]
    end[rows[best]] = ends[best]
    proof = defined & ~flips
    reason = [ATTENTION_PROOF if p else r for p, r in zip(proof.tolist(), reason, strict=True)]
    smallest = torch.where(defined, least.amin(-1), math.nan)
    return FlipDistance(value, end, torch.where(flips, nearest, -1), proof, smallest, reason)


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
    nothing = torch.zeros(token_logits.shape[:2], device=token_logits.device)
    _, token_logits, bias, reason = checked_readout(nothing, allowed, token_logits, bias)
    check_shape("decision", decision, "B")
    if len(decision) != len(bias) or bool(((decision < 0) | (decision >= bias.shape[-1])).any()):
        raise InputError(
            f"Expected `decision` with one class from 0 to {bias.shape[-1] - 1} for each of {len(bias)} examples, "
            f"but got {decision.tolist()}."
        )
    least = _least(_margins(token_logits, bias, decision), allowed)
    defined = torch.tensor([r is None for r in reason], dtype=torch.bool, device=bias.device)
    return defined & (least >= 0).all(-1)


def checked_readout(
    attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor, list[str | None]]:
    """The same in float64 with 0 where nothing counts, and why an example is undefined, or None.

    Raises:
        InputError: other shapes, no class, ``allowed`` that is not bool.
    """
    check_shape("token_logits", token_logits, "B T C")
    b, t, c = token_logits.shape
    if not c:
        raise InputError("Expected `token_logits` of one class at least, but got none.")
    for name, value, shape in (("attention", attention, (b, t)), ("allowed", allowed, (b, t)), ("bias", bias, (b, c))):
        if tuple(value.shape) != shape:
            raise InputError(
                f"Expected `{name}` of shape {shape} beside `token_logits` {(b, t, c)}, but got {tuple(value.shape)}; "
                "pass one slot of attention for each example."
            )
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` of type torch.bool, but got {allowed.dtype}; pass allowed.bool().")
    counts = bias != -math.inf
    attention = torch.where(allowed, attention.detach().double(), 0.0)
    token_logits = torch.where(allowed[:, :, None] & counts[:, None], token_logits.detach().double(), 0.0)
    bias = bias.detach().double()
    finite = attention.isfinite().all(-1) & (token_logits.abs() <= LARGEST).all(-1).all(-1)
    finite &= ((bias.abs() <= LARGEST) | ~counts).all(-1)
    reason = first_reasons({NO_TOKEN: ~allowed.any(-1), NAN_SCORES: ~finite})
    attention, bias = (torch.where(finite[:, None], x, 0.0) for x in (attention, bias))
    return attention, torch.where(finite[:, None, None], token_logits, 0.0), bias, reason


def decided(attention: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    """The class (B,) with the highest logit, the lowest index on ties."""
    # A matrix product may round each column in its own way, which would break ties.
    return _first_least(-(total(attention[:, :, None] * token_logits) + bias))


def total(values: Tensor) -> Tensor:
    """Sum over the tokens (axis 1) in their order: zeros between them change no bit, so padding decides no tie."""
    return values.cumsum(1)[:, -1] if values.shape[1] else values.sum(1)


def _first_least(values: Tensor) -> Tensor:
    """The lowest index of the smallest value; torch leaves open which one argmin takes."""
    index = torch.arange(values.shape[-1], device=values.device)
    least = values == values.amin(-1, keepdim=True)
    return torch.where(least, index, values.shape[-1]).amin(-1)


def as_distributions(attention: Tensor, defined: Tensor) -> Tensor:
    """Weights (B, T), 0 where nothing counts, divided by their sums.

    Raises:
        InputError: a defined row is no distribution.
    """
    mass = attention.sum(-1)
    wrong = (defined & (((mass - 1).abs() > _MASS_TOLERANCE) | (attention < 0).any(-1))).nonzero()[:, 0].tolist()
    if wrong:
        raise InputError(
            f"Expected `attention` of at least 0 that sums to 1 over `allowed`, but example {wrong[0]} sums to "
            f"{mass[wrong[0]]:.6g} and has a smallest weight of {attention[wrong[0]].min():.6g}; put what other "
            "positions keep into the bias."
        )
    mass = total(attention)[:, None]
    return attention / torch.where(mass > 0, mass, 1.0)


def _margins(token_logits: Tensor, bias: Tensor, decision: Tensor) -> Tensor:
    """By how much the decision leads each class at each token (B, C, T); infinite for itself and masked classes."""
    decision = decision[:, None]
    own = token_logits.gather(2, decision[:, :, None].expand(-1, token_logits.shape[1], 1))
    ahead = bias.gather(1, decision) - bias
    others = (bias != -math.inf) & (torch.arange(bias.shape[-1], device=bias.device) != decision)
    return torch.where(others[:, None], own - token_logits + ahead[:, None], math.inf).transpose(1, 2)


def _least(margins: Tensor, allowed: Tensor) -> Tensor:
    """The smallest margin of each class (B, C), infinite where nothing is allowed."""
    return F.pad(torch.where(allowed[:, None], margins, math.inf), (0, 1), value=math.inf).amin(-1)


def _nearest(attention: Tensor, margins: Tensor, allowed: Tensor, depth: Tensor) -> Tensor:
    """The distributions (P, T) nearest to ``attention`` whose mean margin is 0; the smallest margin is ``-depth``.

    Margins enter as ``d = (m - min m) / depth``: then the mean of d has to fall to 1, without cancellation.
    """
    if not attention.numel():
        return attention
    d = torch.where(allowed, (margins + depth[:, None]) / depth[:, None], math.inf)
    lowest = F.one_hot(_first_least(d), d.shape[1])
    held = allowed & (attention > _NO_WEIGHT)
    weights = torch.where(held, attention, 0.0)
    d = torch.where(held, d, 1.0).clamp(max=_WIDEST)
    mean = (weights * d).sum(-1)
    ratio, bound = _search(weights, d, mean)
    end = weights * ratio
    left = torch.where(bound, 1 - end.sum(-1), 0.0).clamp(min=0.0)
    end = end + left[:, None] * lowest
    return torch.where(mean[:, None] > 1, end / end.sum(-1, keepdim=True), attention)


def _search(weights: Tensor, d: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Factors ``a_t / a0_t`` (P, T) at which the mean of ``d`` is 1, and where tokens without attention get some (P,).

    With ``w = exp(-2 lambda d)`` the factors are ``w / (y + 1 - w)``, where y in 0 to 1 stands for mu: 0 is the bound
    ``e = 2`` of the smallest margin. Newton's steps are taken on the logarithm of the mean, which is almost straight;
    where one leaves the bracket or the last gained too little, the bracket is halved in the logarithm of lambda.
    """
    floor = torch.where(d == 0, weights, 0.0).sum(-1)
    # lambda is the slope of the distance: by convexity at least JSD / (start - 1), where JSD is at least TVD^2 / 2
    # (Pinsker) and TVD at least (start - 1) / max d. With any y >= 0 the mean is at most 1 / (2 lambda).
    low, high = (start - 1) / (2 * d.amax(-1).clamp(min=1.0) ** 2), torch.full_like(start, 0.5)
    spread = (weights * (d - start[:, None]) ** 2).sum(-1)
    first = start * start.log() / (4 * spread)  # Newton's step from lambda = 0
    done = start <= 1
    lam = torch.where((first > low) & (first < high), first, (low * high).sqrt()).where(~done, high)
    y, before = torch.ones_like(start), torch.full_like(start, math.inf)
    for _ in range(_OUTER_STEPS):
        w, b = torch.exp(-2 * lam[:, None] * d), -torch.expm1(-2 * lam[:, None] * d)
        y = _unit_mass(weights * w, b, floor, y)
        q = 1 / (y[:, None] + b)
        part = weights * w * q
        mean = (part * d).sum(-1)
        off = mean.log()
        low, high = torch.where(off > 0, lam, low), torch.where(off > 0, high, lam)
        done = done | (off.abs() <= _OUTER) | (high - low <= 4e-16 * high)
        if bool(done.all()):
            break
        pull = part * q  # how the mass falls with y
        middle = torch.where(y > 0, (pull * d).sum(-1) / pull.sum(-1), 0.0)
        slope = 2 * (1 + y) * (pull * (d - middle[:, None]) ** 2).sum(-1)
        step = lam + mean * off / slope
        good = (step > low) & (step < high) & (off.abs() <= 0.5 * before)
        # What is done stays as it is, whatever stands beside it in the batch.
        lam = torch.where(done, lam, torch.where(good, step, (low * high).sqrt()))
        before = off.abs()
    return w * q, y == 0


def _unit_mass(weights: Tensor, b: Tensor, floor: Tensor, y: Tensor) -> Tensor:
    """The y (P,) at which ``sum_t weights_t / (y + b_t)`` is 1, or ``floor`` if the sum is below 1 there.

    Newton's steps are taken on 1 over the sum, which is concave and increasing: after the first they only rise.
    """
    done = torch.zeros_like(floor, dtype=torch.bool)
    for _ in range(_INNER_STEPS):
        q = 1 / (y[:, None] + b)
        part = weights * q
        mass = part.sum(-1)
        step = y + mass * (mass - 1) / (part * q).sum(-1)
        step = torch.where(mass > 0, step, floor).maximum(floor)  # every w may have come to 0
        done = done | ((mass - 1).abs() <= _INNER) | (step == y)
        if bool(done.all()):
            break
        y = torch.where(done, y, step)
    return y
