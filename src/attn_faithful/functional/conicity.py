"""Conicity: how much the states that one attention weighs point the same way."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.reasons import NO_DIRECTION, NO_TOKEN, TOO_SHORT

Flags = dict[str, Tensor]  # reason -> (B,) bool, the texts that are undefined for it


def conicity(states: Tensor, content: Tensor) -> tuple[Tensor, Flags]:
    r"""Mean alignment of a text's states to their mean: ``mean_t |cos(h_t, mean_s h_s)|``, differentiable.

    States that are 0, as those of a ReLU may be, have no direction and are left out of the outer mean.

    Args:
        states: (B, T, N), of the encoder; ignored outside ``content``.
        content: (B, T), bool.

    Returns:
        (B,) in the type of ``states``, 0 to 1: 1 where all states lie on one line, near 0 where each points another
        way; NaN where undefined, with the texts of each reason ("no content token", "n<2", "states or their mean are
        0": fewer than two have a direction) for :func:`~attn_faithful.functional.reasons.first_reasons`. No gradient
        comes from an undefined text. NaN states give NaN, which no reason explains.

    Raises:
        InputError: other shapes, ``content`` that is not bool.

    Reference:
        Mohankumar et al. (2020), section 3.1, after Chandrahas et al. (2018); the absolute value is that of their code.

    Example:
        >>> states = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
        >>> value, _ = conicity(states, torch.tensor([[True, True, False]]))
        >>> round(float(value), 4)
        0.7071
    """
    if states.dim() != 3 or content.shape != states.shape[:2] or content.dtype != torch.bool:
        raise InputError(
            f"Expected `states` (B, T, N) and bool `content` (B, T), but got {tuple(states.shape)} and "
            f"{tuple(content.shape)} of {content.dtype}."
        )
    counts = content.sum(-1)  # (B,)
    kept = torch.where(content[:, :, None], states, 0.0)  # (B, T, N)
    mean = kept.sum(1) / counts.clamp(min=1)[:, None]  # (B, N)
    squares = kept.square().sum(-1)  # (B, T)
    square_of_mean = mean.square().sum(-1)  # (B,)
    directed = content & (squares != 0)  # (B, T)
    directions = directed.sum(-1)  # (B,)
    is_zero = (directions < 2) | (square_of_mean == 0)  # (B,)
    flags = {NO_TOKEN: counts == 0, TOO_SHORT: counts < 2, NO_DIRECTION: is_zero}
    # a root has no gradient at 0
    lengths = torch.where(squares == 0, 1.0, squares).sqrt()  # (B, T)
    length_of_mean = torch.where(square_of_mean == 0, 1.0, square_of_mean).sqrt()  # (B,)
    products = (kept * mean[:, None]).sum(-1)  # (B, T)
    alignment = products.abs() / (lengths * length_of_mean[:, None])  # (B, T), 0 where there is no direction
    value = (alignment.sum(-1) / directions.clamp(min=1)).clamp(max=1.0)
    return torch.where(is_zero, torch.nan, value), flags


def mean_conicity(states: Tensor, slots: Tensor) -> tuple[Tensor, Flags]:
    """Mean over the attentions of a text of the conicity of the states that each weighs, differentiable.

    Args:
        states: (B, T, N), of the encoder; ignored outside the slots.
        slots: (B, S, T) bool, what each attention weighs: all content of a flat text, a sentence of a document.

    Returns:
        (B,), as of :func:`conicity`: the mean over the slots where it is defined; NaN where it is in none, with the
        texts of each reason ("no content token"; "n<2": no slot has two; "states or their mean are 0": in every slot
        that has). NaN states give NaN, which no reason explains.

    Raises:
        InputError: other shapes, ``slots`` that are not bool.

    Reference:
        Mohankumar et al. (2020), section 3.1, for one slot.

    Example:
        >>> states = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [3.0, 3.0], [5.0, 1.0]]])
        >>> slots = torch.tensor([[[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]]).bool()
        >>> value, _ = mean_conicity(states, slots)  # of .7071, 1 and nothing
        >>> round(float(value), 4)
        0.8536
    """
    is_shaped = states.dim() == slots.dim() == 3 and slots[:, 0].shape == states.shape[:2]
    if not is_shaped or slots.dtype != torch.bool:
        raise InputError(
            f"Expected `states` (B, T, N) and bool `slots` (B, S, T), but got {tuple(states.shape)} and "
            f"{tuple(slots.shape)} of {slots.dtype}."
        )
    counts = slots.sum(-1)  # (B, S)
    text, slot = (counts > 0).nonzero(as_tuple=True)  # (M,) each, the slots that hold anything
    members = slots[text, slot]  # (M, T)
    longest = int(counts.max()) if counts.numel() else 0
    place = members.int().argsort(dim=-1, descending=True, stable=True)[:, :longest]  # (M, L), a slot's states in front
    values, flags_of_slots = conicity(states[text[:, None], place], members.gather(1, place))  # (M,)
    undefined = torch.stack(list(flags_of_slots.values())).any(0)  # (M,)
    by_slot = values.new_zeros(counts.shape).index_put((text, slot), torch.where(undefined, 0.0, values))  # (B, S)
    is_defined = torch.zeros_like(slots[:, :, 0]).index_put((text, slot), ~undefined)  # (B, S)
    defined = is_defined.sum(-1)  # (B,)
    flags = {
        NO_TOKEN: (counts == 0).all(-1),
        TOO_SHORT: (counts < 2).all(-1),
        NO_DIRECTION: defined == 0,
    }
    return torch.where(defined == 0, torch.nan, by_slot.sum(-1) / defined.clamp(min=1)), flags
