"""Attention on marked tokens: how much of it there is, and losses that drive it away from them or to them."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.reasons import NO_RATIONALE, NO_TOKEN, NOTHING_IMPERMISSIBLE

Flags = dict[str, Tensor]  # reason -> (B,) bool, the texts that are undefined for it


def marked_mass(shares: Tensor, marked: Tensor, content: Tensor) -> tuple[Tensor, Flags]:
    """Sum of the shares at the marked content tokens.

    Args:
        shares: (B, T), a distribution over the content tokens; ignored outside them.
        marked: (B, T), bool.
        content: (B, T), bool.

    Returns:
        (B,), 0 to 1; NaN with the texts of each reason ("no content token", "no impermissible token").

    Raises:
        InputError: other shapes, masks that are not bool.

    Reference:
        Pruthi et al. (2020), section 3.1: attention mass over the impermissible tokens.

    Example:
        >>> marked, content = torch.tensor([[True, False, True]]), torch.tensor([[True, True, False]])
        >>> round(float(marked_mass(torch.tensor([[0.3, 0.7, 0.0]]), marked, content)[0]), 4)
        0.3
    """
    _check(shares, marked, content)
    chosen = marked & content
    empty, bare = ~content.any(-1), ~chosen.any(-1)
    mass = torch.where(chosen, shares, 0.0).sum(-1)  # (B,)
    return torch.where(bare, torch.nan, mass), {NO_TOKEN: empty, NOTHING_IMPERMISSIBLE: bare}


def hidden_mass_loss(attention: Tensor, marked: Tensor, content: Tensor) -> tuple[Tensor, Flags]:
    """Penalty of attention on impermissible tokens: ``-log(1 - mass)``, differentiable.

    It is computed as ``-log`` of the attention on the other content tokens, which does not cancel where the mass is
    near 1. Where no attention is left on them, as under sparsemax, it is the ``-log`` of the smallest normal number,
    without gradient.

    Args:
        attention: (B, T), a distribution over the content tokens.
        marked: (B, T), bool, the impermissible tokens.
        content: (B, T), bool.

    Returns:
        (B,) from 0; 0 where nothing is marked. NaN with the texts of each reason ("no content token").

    Raises:
        InputError: other shapes, masks that are not bool.

    Reference:
        Pruthi et al. (2020), equation 1.

    Example:
        >>> marked, content = torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool)
        >>> round(float(hidden_mass_loss(torch.tensor([[0.5, 0.5]]), marked, content)[0]), 4)
        0.6931
    """
    _check(attention, marked, content)
    empty = ~content.any(-1)
    bare = ~(marked & content).any(-1)
    permitted = torch.where(content & ~marked, attention, 0.0).sum(-1)  # (B,)
    # nothing marked: no loss and no gradient, whatever the rounding of the sum
    permitted = torch.where(bare, 1.0, permitted)
    tiny = torch.finfo(attention.dtype).tiny
    loss = -permitted.clamp(min=tiny).log()
    return torch.where(empty, torch.nan, loss), {NO_TOKEN: empty}


def rationale_divergence(attention: Tensor, marked: Tensor, content: Tensor) -> tuple[Tensor, Flags]:
    r"""Distance of attention from a rationale: ``KL(r || a)``, ``r`` equal over the marked tokens, differentiable.

    ``-(1 / m) sum over the m marked tokens of log(m a_t)``. An attention of 0 counts as the smallest normal number,
    without gradient.

    Args:
        attention: (B, T), a distribution over the content tokens.
        marked: (B, T), bool, the tokens of the rationale.
        content: (B, T), bool.

    Returns:
        (B,) nats, from 0: 0 where the rationale's tokens alone share attention equally. NaN with the texts of each
        reason ("no content token", "no rationale token").

    Raises:
        InputError: other shapes, masks that are not bool.

    Example:
        >>> marked, content = torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool)
        >>> round(float(rationale_divergence(torch.tensor([[0.5, 0.5]]), marked, content)[0]), 4)
        0.6931
    """
    _check(attention, marked, content)
    chosen = marked & content
    empty, bare = ~content.any(-1), ~chosen.any(-1)
    count = chosen.sum(-1).clamp(min=1)  # (B,)
    tiny = torch.finfo(attention.dtype).tiny
    surprise = -(torch.where(chosen, attention, 1.0).clamp(min=tiny).log())  # (B, T), 0 where not chosen
    loss = surprise.sum(-1) / count - count.to(attention.dtype).log()
    return torch.where(bare, torch.nan, loss), {NO_TOKEN: empty, NO_RATIONALE: bare}


def _check(attention: Tensor, marked: Tensor, content: Tensor) -> None:
    masks_fit = marked.shape == content.shape == attention.shape
    are_bool = marked.dtype == content.dtype == torch.bool
    if attention.dim() != 2 or not masks_fit or not are_bool:
        raise InputError(
            f"Expected attention (B, T) and bool masks of the same shape, but got {tuple(attention.shape)}, marked "
            f"{tuple(marked.shape)} of {marked.dtype} and content {tuple(content.shape)} of {content.dtype}."
        )
