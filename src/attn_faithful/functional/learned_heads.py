"""One weight a head, so that the mix of all heads' attention follows importance: ridge regression over many texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.rankings import kendall_tau_b

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of the ridge, in shares of the columns' mean square
FOLDS = 5
ROUNDING = 1e-9  # share of the largest importance by which the others may differ and yet be equal

Text = tuple[Tensor, Tensor]  # attention (T, F) and importance (T,)


@dataclass(frozen=True, eq=False)
class HeadFit:
    """Weights of heads, and how well weights of other texts foretell a text's importance.

    Attributes:
        weights: (F,) float64, a weight a head: standard deviations of importance a unit of attention.
        strength: of the ridge, one of `STRENGTHS`.
        r_squared: of held-out texts, the share of the importance's variation within texts that the mix explains; 1 is
            all of it, 0 what a constant explains, and less is worse than that.
        tau: of held-out texts, the mean of Kendall's tau-b of the mix with importance; NaN where no text has one.
        texts: how many texts there were with two items or more and without NaN.
    """

    weights: Tensor
    strength: float
    r_squared: float
    tau: float
    texts: int


@dataclass(frozen=True, eq=False)
class _Moments:
    """What a text, or several, add to the normal equations: ``square`` is of importance alone."""

    gram: Tensor  # (F, F)
    product: Tensor  # (F,)
    square: float

    @classmethod
    def of(cls, attention: Tensor, importance: Tensor) -> _Moments:
        x = attention - attention.mean(0)  # (T, F)
        y = _standardised(importance)  # (T,)
        items = len(y)
        return cls(x.T @ x / items, x.T @ y / items, float(y @ y) / items)

    @classmethod
    def total(cls, parts: Sequence[_Moments]) -> _Moments:
        gram = torch.stack([part.gram for part in parts]).sum(0)
        product = torch.stack([part.product for part in parts]).sum(0)
        return cls(gram, product, math.fsum(part.square for part in parts))

    def error(self, weights: Tensor) -> float:
        """The squared error of weights (F,)."""
        explained = 2 * float(weights @ self.product) - float(weights @ self.gram @ weights)
        return self.square - explained

    def ridges(self) -> list[Tensor]:
        """The weights (F,) at each strength."""
        values, vectors = torch.linalg.eigh(self.gram)
        rotated = vectors.T @ self.product  # (F,)
        scale = float(self.gram.diagonal().mean())
        return [vectors @ (rotated / (values.clamp(min=0) + strength * scale)) for strength in STRENGTHS]


def fit_heads(attention: Sequence[Tensor], importance: Sequence[Tensor]) -> HeadFit:
    r"""Weights of heads whose mix of attention is nearest to importance, for all texts together.

    ``min_w sum_i 1 / n_i sum_t (y_it - w . x_it)^2 + strength s |w|^2``, where the importance ``y_it`` of item t in
    text i is taken less its mean over the text and in standard deviations of the text, and the attention ``x_it`` of
    each head to it less its mean: neither the level nor the size of a text's importance counts, only how it is dealt.
    ``s`` is the mean square of a column. The strength is that of `STRENGTHS` with the least squared
    error on texts left out, in `FOLDS` parts (text i in part i modulo 5); of equal ones the largest.

    Args:
        attention: of each text (T, F): the attention of every head to each item.
        importance: of each text (T,), any unit, positive where an item speaks for the decision. Texts of one item, or
            with a NaN, are left out.

    Returns:
        the weights, and how well they foretell texts that were left out.

    Raises:
        InputError: fewer texts than parts; or attention or importance that does not differ within any text.

    Reference:
        Cohen-Wang et al. (2025), AT2, which regresses the effect of removing parts of a context on heads' attention.

    Example:
        >>> texts = torch.rand(8, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> fit = fit_heads(list(texts), list(texts @ torch.tensor([1.0, -2.0, 0.0]).double()))
        >>> [round(float(weight), 2) for weight in fit.weights], round(fit.tau, 2)
        ([1.56, -3.1, 0.13], 0.93)
    """
    texts = _usable(attention, importance)
    parts = []
    for fold in range(FOLDS):
        of_fold = [_Moments.of(x, y) for x, y in texts[fold::FOLDS]]
        parts.append(_Moments.total(of_fold))
    whole = _Moments.total(parts)
    for what, square in (("attention", float(whole.gram.diagonal().sum())), ("importance", whole.square)):
        if square == 0:
            raise InputError(f"Expected texts whose {what} differs from item to item, but in each it is constant.")
    without = []  # of each part the weights at every strength that the other parts give
    for fold in range(FOLDS):
        others = [*parts[:fold], *parts[fold + 1 :]]
        without.append(_Moments.total(others).ridges())
    errors = []
    for place in range(len(STRENGTHS)):
        of_parts = [part.error(ridges[place]) for part, ridges in zip(parts, without, strict=True)]
        errors.append(math.fsum(of_parts))
    chosen = max(place for place, error in enumerate(errors) if error == min(errors))
    held_out = [ridges[chosen] for ridges in without]
    return HeadFit(
        weights=whole.ridges()[chosen],
        strength=STRENGTHS[chosen],
        r_squared=1 - errors[chosen] / whole.square,
        tau=_mean_tau(texts, held_out),
        texts=len(texts),
    )


def _standardised(importance: Tensor) -> Tensor:
    """A text's importance (T,) less its mean, in standard deviations; 0 where it is constant up to rounding."""
    y = importance - importance.mean()
    deviation = y.square().mean().sqrt()
    if float(deviation) <= ROUNDING * float(importance.abs().max()):
        return torch.zeros_like(y)
    return y / deviation


def _usable(attention: Sequence[Tensor], importance: Sequence[Tensor]) -> list[Text]:
    """Texts of two items or more without a NaN, in float64."""
    check_same_length(("attention", "importance"), (attention, importance))
    texts = []
    for x, y in zip(attention, importance, strict=True):
        if len(y) > 1 and bool(x.isfinite().all()) and bool(y.isfinite().all()):
            texts.append((x.double(), y.double()))
    if len(texts) < FOLDS:
        raise InputError(
            f"Expected at least {FOLDS} texts of two items or more to fit weights of heads on, but got {len(texts)}; "
            "give more texts."
        )
    return texts


def _mean_tau(texts: Sequence[Text], held_out: Sequence[Tensor]) -> float:
    """The mean of Kendall's tau-b between importance and the mix by the weights (F,) of the other parts."""
    taus = []
    for number, (x, y) in enumerate(texts):
        mix = x @ held_out[number % FOLDS]  # (T,)
        value = kendall_tau_b(mix.numpy(), y.numpy()).value
        if not math.isnan(value):
            taus.append(value)
    return math.fsum(taus) / len(taus) if taus else math.nan
