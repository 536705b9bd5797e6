"""What dealing the attention weights to other tokens can do, exactly, over all permutations.

A read-out that is affine in the attention needs only ``permuted attention @ token_logits``, and the extremes over all
T! permutations come from sorting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.rankings import TIE_TOLERANCE
from attn_faithful.functional.readout import checked_readout, decided, defined_rows, logits_of, total
from attn_faithful.functional.reasons import CONSTANT_ATTENTION, NAN_SCORES, NO_TOKEN, TOO_SHORT, Reasons, first_reasons

ENUMERATED = 5  # items of one slot, up to which all permutations are gone through instead of drawn

_ONE_SLOT = "pass attention[:, 0] of a site with one slot"


def permutable(attention: Tensor, allowed: Tensor) -> tuple[Tensor, Reasons]:
    r"""Whether a permutation of the weights can change the attention at all.

    It cannot for fewer than two tokens, and not for equal weights: sorted neighbours a and b are equal if their gap is
    at most ``1e-6 max(|a|, |b|)``.

    Args:
        attention: (B, T), ignored outside ``allowed``.
        allowed: (B, T), bool: the tokens whose weights are dealt.

    Returns:
        (B,) bool; and for each example why it cannot, the first that holds of "no content token", "n<2", "nan in
        scores", "constant attention", or None where it can.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool.

    Reference:
        The texts about which Jain and Wallace, section 4.2.1, algorithm 2, can say nothing.

    Example:
        >>> attention = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
        >>> allowed = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
        >>> permutable(attention, allowed)
        (tensor([False,  True, False]), ['constant attention', None, 'n<2'])
    """
    check_shape("attention", attention, "B T", _ONE_SLOT)
    weights, undefined = _checked("attention", attention, allowed)
    weights = _sorted(weights, allowed)
    low, high = weights[:, :-1], weights[:, 1:]  # behind the allowed ones are zeros, which no weight is below
    larger = torch.maximum(low.abs(), high.abs())
    differ = high - low > TIE_TOLERANCE * larger  # (B, T - 1)
    constant = ~differ.any(1)
    n = allowed.sum(1)
    reasons = first_reasons({NO_TOKEN: n == 0, TOO_SHORT: n == 1, NAN_SCORES: undefined, CONSTANT_ATTENTION: constant})
    return defined_rows(reasons, weights), reasons


def permutation_extremes(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
    r"""The smallest and the largest of ``sum_t a_pi(t) s_t`` over all permutations pi of the allowed tokens.

    By the rearrangement inequality: weights ascending times ``s`` descending, and both ascending. A bias is not part
    of it.

    Args:
        attention: (B, T), of any mass, ignored outside ``allowed``.
        allowed: (B, T), bool: the tokens whose weights are dealt.
        margins: (B, T) or (B, T, C), what each token says: ``s``.

    Returns:
        smallest and largest, each (B,) or (B, C), float64, in the unit of the margins; some permutation reaches each.
        NaN where no token is allowed or a value is not finite.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool.

    Reference:
        Over all permutations what Jain and Wallace, section 4.2.1, algorithm 2, samples; Hardy, Littlewood and Polya
        (1952), section 10.2, for the inequality.

    Example:
        >>> attention, allowed = torch.tensor([[0.5, 0.25, 0.25]]), torch.ones(1, 3, dtype=torch.bool)
        >>> permutation_extremes(attention, allowed, torch.tensor([[2.0, -2.0, 1.0]]))
        (tensor([-0.2500], dtype=torch.float64), tensor([0.7500], dtype=torch.float64))
    """
    weights, values, undefined = _both(attention, allowed, margins)
    weights = _sorted(weights, allowed)
    if values.dim() == 3:
        weights = weights[:, :, None]
    smallest = -total(weights * _sorted(-values, allowed))  # (B,) or (B, C)
    largest = total(weights * _sorted(values, allowed))
    return smallest.masked_fill(undefined, math.nan), largest.masked_fill(undefined, math.nan)


def permutation_certificate(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> Tensor:
    r"""Whether no permutation of the weights over the allowed tokens changes the decision.

    The decision y is the argmax of ``attention @ token_logits + bias``, the lowest index on ties. It stands under all
    permutations exactly if for every other class c the smallest ``z_y - z_c`` over them is above 0, or 0 and c > y:
    where that fails for one c, the permutation that reaches the smallest puts c before y, so whichever class wins
    there, it is not y. So False means, for any number of classes, that some permutation changes the decision (but not
    to which class); up to the rounding of float64 at ties. It says nothing about how much probabilities move.

    Args:
        attention: (B, T), of any mass, ignored outside ``allowed``; weight that other positions keep is in the bias.
        allowed: (B, T), bool: the tokens whose weights are dealt.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); classes with -inf (masked candidates) never count.

    Returns:
        (B,) bool; False too where no token is allowed or a score is not finite.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool.

    Reference:
        Over all permutations what Jain and Wallace, section 4.2.1, algorithm 2, samples.

    Example:
        >>> attention, allowed = torch.tensor([[0.8, 0.2]]), torch.ones(1, 2, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 3.0], [0.0, -1.0]]])
        >>> permutation_certificate(attention, allowed, token_logits, torch.tensor([[0.0, 0.0]])).item()
        False
        >>> permutation_certificate(attention, allowed, token_logits, torch.tensor([[0.0, 0.5]])).item()
        True
    """
    attention, token_logits, bias, reasons = checked_readout(attention, allowed, token_logits, bias)
    decision = decided(attention, token_logits, bias)
    margins = logits_of(token_logits, decision) - token_logits  # (B, T, C)
    smallest, _ = permutation_extremes(attention, allowed, margins)  # (B, C)
    decision = decision[:, None]
    decision_bias = bias.gather(1, decision)
    smallest_lead = smallest + decision_bias - bias  # (B, C)
    classes = torch.arange(bias.shape[1], device=bias.device)
    wins_tie = (smallest_lead == 0) & (classes > decision)
    never_counts = (classes == decision) | (bias == -math.inf)
    stands = (smallest_lead > 0) | wins_tie | never_counts
    return stands.all(1) & defined_rows(reasons, bias)


def permutation_moments(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and variance of ``sum_t a_pi(t) s_t`` over all n! permutations pi of the n allowed tokens.

    ``mean = sum_t a_t * mean s``, ``variance = sum_t (a_t - mean a)^2 sum_t (s_t - mean s)^2 / (n - 1)``, 0 for n = 1.

    Args:
        attention: (B, T), of any mass, ignored outside ``allowed``.
        allowed: (B, T), bool: the tokens whose weights are dealt.
        margins: (B, T) or (B, T, C), what each token says: ``s``.

    Returns:
        mean in the unit of the margins and variance in its square, each (B,) or (B, C), float64; NaN where no token is
        allowed or a value is not finite.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool.

    Reference:
        Over all permutations what Jain and Wallace, section 4.2.1, algorithm 2, samples; Hoeffding (1951) for the
        moments.

    Example:
        >>> attention, allowed = torch.tensor([[0.75, 0.25]]), torch.ones(1, 2, dtype=torch.bool)
        >>> permutation_moments(attention, allowed, torch.tensor([[2.0, -2.0]]))  # 1 and -1
        (tensor([0.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    weights, values, undefined = _both(attention, allowed, margins)
    if values.dim() == 3:
        weights, allowed = weights[:, :, None], allowed[:, :, None]
    n = allowed.sum(1)
    mass = weights.sum(1)
    mean_value = values.sum(1) / n.clamp(min=1)
    mean = mass * mean_value
    spread = _spread(weights, allowed, n) * _spread(values, allowed, n)
    variance = spread / (n - 1).clamp(min=1)
    return mean.masked_fill(undefined, math.nan), variance.masked_fill(undefined, math.nan)


def _spread(values: Tensor, allowed: Tensor, n: Tensor) -> Tensor:
    """``sum over the n allowed tokens of (x_t - mean x)^2``."""
    mean = values.sum(1) / n.clamp(min=1)
    deviations = torch.where(allowed, values - mean[:, None], 0.0)
    return deviations.square().sum(1)


def permuted_indices(n: int, k: int, generator: torch.Generator, identity: bool = False) -> Tensor:
    r"""Permutations of n items without the identity: all of them up to n = 5, beyond that k random ones.

    ``weights[permuted_indices(n, k, generator)]`` (K, n) deals the weights K times. A permutation is one of places: one
    that exchanges equal weights leaves the weights as they are, and counts.

    Args:
        n: items, at least 0.
        k: permutations to draw where n is above 5, at least 1.
        generator: on the CPU, keyed by what the draw is for, so that nothing depends on the order of work.
        identity: draw k of all permutations for any n, the identity among them, as the authors' code does.

    Returns:
        (K, n), int64, on the CPU. For n up to 5 K is n! - 1, in lexicographic order, whatever k and the generator (no
        row for fewer than two items); else K is k, drawn independently and evenly (up to ties of 53 random bits), the
        identity drawn again.

    Raises:
        InputError: n or k out of range, a generator elsewhere.

    Reference:
        Jain and Wallace, section 4.2.1, algorithm 2: ``Permute``.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> permuted_indices(3, 100, generator).tolist()
        [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
        >>> permuted_indices(9, 100, generator).shape
        torch.Size([100, 9])
    """
    return joint_permutations([n], k, [generator], identity)[0]


def joint_permutations(
    counts: Sequence[int], k: int, generators: Sequence[torch.Generator], identity: bool = False
) -> list[Tensor]:
    r"""Permutations of several slots at once, each within its slot: :func:`permuted_indices` for one slot.

    All of them but the one that leaves every slot as it is, where there are at most 120 (5!): ``prod_s n_s! - 1``.
    Beyond, k random ones, drawn independently for every slot, those that leave every slot as it is drawn again.

    Args:
        counts: for each of S slots its items, at least 0.
        k: permutations to draw where all would be too many, at least 1.
        generators: one a slot, as there.
        identity: as there.

    Returns:
        for each slot (K, n_s), int64, on the CPU; the K-th of all slots belong together.

    Raises:
        InputError: a count or k out of range, a generator elsewhere, not one generator a slot.

    Example:
        >>> generators = [torch.Generator(), torch.Generator()]
        >>> [order.tolist() for order in joint_permutations([2, 2], 100, generators)]
        [[[0, 1], [1, 0], [1, 0]], [[1, 0], [0, 1], [1, 0]]]
    """
    _check_draws(counts, k, generators)
    if identity:
        return _drawn_orders(counts, k, generators)
    if max(counts, default=0) <= ENUMERATED:
        n_orders = math.prod(map(math.factorial, counts))
        if n_orders <= math.factorial(ENUMERATED):
            return _all_but_identity(counts)
    return _drawn_without_identity(counts, k, generators)


def _check_draws(counts: Sequence[int], k: int, generators: Sequence[torch.Generator]) -> None:
    for n in counts:
        if n < 0 or k < 1:
            raise InputError(f"Expected `n` of at least 0 and `k` of at least 1, but got {n} and {k}.")
    for generator in generators:
        if generator.device.type != "cpu":
            raise InputError(
                f"Expected `generator` on the CPU, but got one on {generator.device}; the draws must not depend on the "
                "device."
            )
    if len(generators) != len(counts):
        raise InputError(f"Expected a generator for each of {len(counts)} slots, but got {len(generators)}.")


def _all_but_identity(counts: Sequence[int]) -> list[Tensor]:
    orders_of_slots = [list(itertools.permutations(range(n))) for n in counts]
    joint = list(itertools.product(*orders_of_slots))[1:]  # in lexicographic order the identity comes first
    by_slot = []
    for slot, n in enumerate(counts):
        orders = [order_of_slots[slot] for order_of_slots in joint]
        tensor = torch.tensor(orders, dtype=torch.int64)
        by_slot.append(tensor.view(len(joint), n))
    return by_slot


def _drawn_without_identity(counts: Sequence[int], k: int, generators: Sequence[torch.Generator]) -> list[Tensor]:
    orders = _drawn_orders(counts, k, generators)
    while True:
        is_identity = torch.ones(k, dtype=torch.bool)  # (K,), whether nothing moves in any slot
        for n, order in zip(counts, orders, strict=True):
            in_place = order == torch.arange(n)  # (K, n)
            is_identity &= in_place.all(1)
        again = is_identity.nonzero()[:, 0]
        if not len(again):
            return orders
        new_orders = _drawn_orders(counts, len(again), generators)
        for order, new_order in zip(orders, new_orders, strict=True):
            order[again] = new_order


def _drawn_orders(counts: Sequence[int], k: int, generators: Sequence[torch.Generator]) -> list[Tensor]:
    return [_drawn(n, k, generator) for n, generator in zip(counts, generators, strict=True)]


def _drawn(n: int, k: int, generator: torch.Generator) -> Tensor:
    """(k, n), each permutation as likely."""
    keys = torch.rand(k, n, generator=generator, dtype=torch.float64)
    return torch.from_numpy(keys.numpy().argsort(axis=1))  # numpy's sort takes a third of torch's time


def _checked(name: str, values: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """``values`` (B, T) or (B, T, C) in float64 with 0 where nothing counts, and where they are undefined."""
    check_shape("allowed", allowed, "B T")
    if tuple(values.shape[:2]) != tuple(allowed.shape):
        raise InputError(
            f"Expected `{name}` over the tokens of `allowed` {tuple(allowed.shape)}, but got {tuple(values.shape)}."
        )
    if allowed.dtype != torch.bool:
        raise InputError(f"Expected `allowed` of type torch.bool, but got {allowed.dtype}; pass allowed.bool().")
    counts = _over_classes(allowed, values)
    values = torch.where(counts, values.double(), 0.0)
    finite = values.isfinite()
    defined = finite.all(1) & counts.any(1)
    return torch.where(finite, values, 0.0), ~defined


def _both(attention: Tensor, allowed: Tensor, margins: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (B, T), margins (B, T) or (B, T, C), and where a result (B,) or (B, C) is undefined."""
    check_shape("attention", attention, "B T", _ONE_SLOT)
    if margins.dim() != 3:
        check_shape("margins", margins, "B T", "or (B, T, C) for several classes")
    weights, without_weights = _checked("attention", attention, allowed)
    values, without_values = _checked("margins", margins, allowed)
    if values.dim() == 3:
        without_weights = without_weights[:, None]
    return weights, values, without_weights | without_values


def _sorted(values: Tensor, allowed: Tensor) -> Tensor:
    """Finite values ascending along the tokens, the allowed ones first, 0 behind them."""
    counts = _over_classes(allowed, values)
    allowed_first = torch.where(counts, values, math.inf)
    ascending = allowed_first.sort(dim=1).values
    return torch.where(ascending.isfinite(), ascending, 0.0)


def _over_classes(allowed: Tensor, values: Tensor) -> Tensor:
    """The mask (B, T) with an axis for the classes, where the values (B, T, C) have one."""
    if values.dim() == 2:
        return allowed
    return allowed[:, :, None]
