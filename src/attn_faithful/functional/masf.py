"""MaSF: how unusual a text is to a model, by its activations among those of reference texts (max, Simes, Fisher)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError

Activations = Sequence[Tensor]  # of each layer the largest value of each unit over a text's tokens, (n, U)

LEAST = 50  # texts of a half: p-values in steps of 2%; with fewer than 20 none could be below .05
OUTSIDE = 0.05  # the p-value below which a text lies outside
_TIES = 1e-6  # what tells texts apart whose statistic of a layer is equal: that of most usual texts is 1
_DIGITS = 9  # in which statistics are compared: rounding must break no tie


@dataclass(frozen=True, eq=False)
class Masf:
    r"""The distribution of texts that a model was trained on, as its activations show it.

    With ``t_u`` the largest value of a unit u over a text's tokens, a half A of m reference texts and a half B of n:

    - unit: ``q_u = min(1, 2 min(1 + #{a: t_u(a) <= t_u}, 1 + #{a: t_u(a) >= t_u}) / (m + 1))``, two-sided;
    - layer of U units (Simes): ``s = min_k U q_(k) / k``, of equal ones first that with the smaller mean of q, and
      since units depend on each other its place among all of B and the text itself: ``r = #{s(b) <= s} / (n + 1)``;
    - all layers (Fisher): ``f = -2 sum ln r``, and since layers depend on each other its place among the same:
      ``p = #{f(b) >= f} / (n + 1)``.

    As A says what is unusual and B how unusual texts are, p is valid for any text that is drawn as those of B were,
    however units and layers depend on each other: ``P(p <= x) <= x``.

    Attributes:
        units: of each layer the values of A, rising, (U, m).
        simes: of each layer the statistics of B, (L, n).

    Reference:
        Haroush et al. (2022), "A statistical framework for efficient out of distribution detection in deep neural
        networks"; as in Madsen et al. (2024), "Faithfulness measurable masked language models", section 4.3. Their last
        place is among all texts; here among a half that took no part before, so that p is valid.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> first, second = torch.randn(2, 200, 8, generator=generator)
        >>> masf = Masf.of([first], [second])
        >>> masf.p_values([torch.zeros(1, 8)]).item() > 0.5, masf.p_values([torch.full((1, 8), 9.0)]).item() < 0.05
        (True, True)
    """

    units: tuple[Tensor, ...]
    simes: Tensor

    @classmethod
    def of(cls, first: Activations, second: Activations) -> Masf:
        """The distribution of reference texts.

        Args:
            first: of each layer (m, U), what unusual means.
            second: of each layer (n, U), how unusual texts are.

        Raises:
            InputError: fewer than `LEAST` texts in a half, other layers in the second, or values that are not finite.
        """
        _check(first, second)
        units = tuple(layer.T.contiguous().sort(-1).values for layer in first)
        return cls(units, _simes_of_layers(units, second))

    def p_values(self, activations: Activations) -> Tensor:
        """The p-value (R,) of each text, float64, above 0 and at most 1; low where it is unusual.

        Args:
            activations: of each layer (R, U).

        Returns:
            NaN for a text with a value that is not finite, such as one without a token.
        """
        finite = torch.stack([layer.isfinite().all(1) for layer in activations]).all(0)  # (R,)
        simes = _simes_of_layers(self.units, [layer.nan_to_num() for layer in activations])  # (L, R)
        n = self.simes.shape[1]
        own = simes.new_zeros(simes.shape[1])  # (R,), Fisher's statistic of each text
        others = simes.new_zeros(simes.shape[1], n)  # (R, n), that of B beside it
        for known, of_texts in zip(self.simes, simes, strict=True):
            in_order = known.sort().values
            at_most = torch.searchsorted(in_order, of_texts, right=True)  # (R,)
            own -= 2 * ((1 + at_most).double() / (n + 1)).log()
            at_most_known = torch.searchsorted(in_order, known, right=True)  # (n,)
            with_text = at_most_known + (of_texts[:, None] <= known)  # (R, n)
            others -= 2 * (with_text.double() / (n + 1)).log()
        unusual = others.round(decimals=_DIGITS) >= own.round(decimals=_DIGITS)[:, None]  # (R, n)
        p = (1 + unusual.sum(1)).double() / (n + 1)
        return torch.where(finite, p, math.nan)


def _simes_of_layers(units: Sequence[Tensor], activations: Activations) -> Tensor:
    """Simes' p-value (L, R) of texts' units in each layer."""
    return torch.stack([_simes(_unit_p(known, layer)) for known, layer in zip(units, activations, strict=True)])


def _unit_p(known: Tensor, values: Tensor) -> Tensor:
    """Two-sided p-values (U, R) of values (R, U) among known ones (U, m), rising."""
    m = known.shape[1]
    values = values.T.contiguous().to(known.dtype)  # (U, R)
    at_most = torch.searchsorted(known, values, right=True)
    at_least = m - torch.searchsorted(known, values)
    fewer = torch.minimum(at_most, at_least)
    return (2 * (1 + fewer).double() / (m + 1)).clamp(max=1.0)


def _simes(p: Tensor) -> Tensor:
    """Simes' p-values (R,) of those of units (U, R), equal ones in the order of the mean of these."""
    units = len(p)
    places = torch.arange(1, units + 1, dtype=torch.float64, device=p.device)  # (U,)
    scaled = p.sort(0).values * (units / places)[:, None]
    return (scaled.amin(0) + _TIES * p.mean(0)).round(decimals=_DIGITS)


def _check(first: Activations, second: Activations) -> None:
    widths = [[layer.shape[1] for layer in half] for half in (first, second)]
    if not widths[0] or widths[0] != widths[1]:
        raise InputError(f"Expected the same layers in both halves, one at least, but got {widths[0]} and {widths[1]}.")
    for half in (first, second):
        if len(half[0]) < LEAST:
            raise InputError(f"Expected at least {LEAST} texts in each half, but got {len(half[0])}; give more.")
        if not all(bool(layer.isfinite().all()) for layer in half):
            raise InputError("Expected finite activations, but some are NaN or infinite; leave these texts out.")
