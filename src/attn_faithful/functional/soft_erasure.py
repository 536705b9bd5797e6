"""Soft erasure: entries of embeddings kept by chance, more of them where a token is more important."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.erasure import comprehensiveness, sufficiency
from attn_faithful.functional.reasons import NAN_SCORES, NO_MASS, NO_TOKEN, Reasons, first_reasons


def keep_probabilities(importance: Tensor, content: Tensor, share: float | None = None) -> tuple[Tensor, Reasons]:
    r"""With which probability soft sufficiency keeps each entry of a token's embedding.

    ``q_t = a_t^+ / max_s a_s^+`` without a share, the paper's importance from 0 to 1; ``a^+`` is ``max(a, 0)``: what
    speaks against the decision is kept least. How much of a text that keeps is up to the ranking, and moves the numbers
    by itself. With a share s the mean over the text is s for every ranking: ``q_t = min(1, c a_t^+)`` with the c that
    makes it so; where fewer tokens than that are above 0 they are kept whole, and all others alike.

    Args:
        importance: (B, T), any unit; ignored outside ``content``.
        content: (B, T), bool.
        share: mean of q over the content tokens of each text, above 0 and below 1; None for the paper's scale.

    Returns:
        q (B, T), float64, probability, 0 outside ``content`` and in texts that are undefined; and for each text why it
        is ("no content token", "nan in scores", "no mass": without a share, nothing is above 0), or None.

    Raises:
        InputError: other shapes, ``content`` that is not bool, a share out of range.

    Reference:
        Zhao and Aletras (2023), "Incorporating attribution importance for improving faithfulness metrics".

    Example:
        >>> importance, content = torch.tensor([[4.0, 1.0, -2.0, 0.0]]), torch.ones(1, 4, dtype=torch.bool)
        >>> keep_probabilities(importance, content)[0].tolist()
        [[1.0, 0.25, 0.0, 0.0]]
        >>> keep_probabilities(importance, content, share=0.25)[0].tolist()
        [[0.8, 0.2, 0.0, 0.0]]
        >>> keep_probabilities(importance, content, share=0.75)[0].tolist()
        [[1.0, 1.0, 0.5, 0.5]]
    """
    check_shape("importance", importance, "B T")
    if importance.shape != content.shape or content.dtype != torch.bool:
        raise InputError(
            f"Expected bool `content` of shape {tuple(importance.shape)}, but got {tuple(content.shape)} of "
            f"{content.dtype}."
        )
    if share is not None and not 0 < share < 1:
        raise InputError(f"Expected `share` above 0 and below 1, but got {share}; None is the paper's scale.")
    with_nan = (importance.isnan() & content).any(-1)  # (B,)
    usable = content & ~with_nan[:, None]
    above = torch.where(usable, importance.double().clamp(min=0), 0.0)  # (B, T)
    largest = above.amax(-1, keepdim=True) if above.shape[1] else above.sum(-1, keepdim=True)  # (B, 1)
    flags = {NO_TOKEN: ~content.any(-1), NAN_SCORES: with_nan}
    relative = above / torch.where(largest > 0, largest, 1.0)  # (B, T), 0 to 1
    if share is not None:
        return _with_mean(relative, usable, share), first_reasons(flags)
    return relative, first_reasons({**flags, NO_MASS: largest[:, 0] <= 0})


def _with_mean(relative: Tensor, usable: Tensor, share: float) -> Tensor:
    """``min(1, c r)`` of r (B, T) with a mean of ``share`` over the usable tokens; the zeros share what is missing."""
    wanted = share * usable.sum(-1, keepdim=True).double()  # (B, 1), the sum of each text
    by_size = relative.sort(dim=-1, descending=True).values  # (B, T)
    # for each k: the k largest are kept whole, and the others share the rest in proportion
    others = by_size.flip(-1).cumsum(-1).flip(-1)  # (B, T)
    whole = torch.arange(relative.shape[1], device=relative.device)
    scale = (wanted - whole) / torch.where(others > 0, others, 1.0)
    fits = (others > 0) & (scale * by_size <= 1)
    first = fits.byte().argmax(-1, keepdim=True) if relative.shape[1] else whole.expand(len(relative), 0)
    scaled = (relative * scale.gather(-1, first)).clamp(max=1)
    is_zero = usable & (relative == 0)
    positive = (usable & ~is_zero).sum(-1, keepdim=True)  # (B, 1)
    left = (wanted - positive) / is_zero.sum(-1, keepdim=True).clamp(min=1)
    with_zeros = torch.where(is_zero, left, 1.0)
    found = torch.where(fits.any(-1, keepdim=True), scaled, with_zeros)
    return torch.where(usable, found, 0.0)


def soft_nc(p_full: Tensor, p_without: Tensor, p_zero: Tensor) -> Tensor:
    r"""Soft normalized comprehensiveness: ``max(0, p_y(x) - p_y(x'')) / max(0, p_y(x) - p_y(0))``, mean over draws.

    x'' keeps what soft sufficiency drops, and 0 is the text with all embeddings 0.

    Args:
        p_full: (B,), probability of the target class y for the whole text.
        p_without: (B, K), for the text of each of K draws.
        p_zero: (B,), for the text with the embeddings 0.

    Returns:
        (B,), ratio, from 0, higher is more faithful; 1 loses as much as all embeddings 0. NaN where these lose nothing.

    Reference:
        Zhao and Aletras (2023).

    Example:
        >>> soft_nc(torch.tensor([0.75]), torch.tensor([[0.5, 0.75]]), torch.tensor([0.25])).tolist()
        [0.25]
    """
    lost = comprehensiveness(p_full, p_without).clamp(min=0).mean(1)
    return lost / _lost_at_zero(p_full, p_zero)


def soft_ns(p_full: Tensor, p_only: Tensor, p_zero: Tensor) -> Tensor:
    r"""Soft normalized sufficiency: ``(S(x') - S(0)) / (1 - S(0))``, ``S(z) = 1 - max(0, p_y(x) - p_y(z))``.

    That is ``1 - max(0, p_y(x) - p_y(x')) / max(0, p_y(x) - p_y(0))``, mean over draws.

    Args:
        p_full: (B,), probability of the target class y for the whole text.
        p_only: (B, K), for the text of each of K draws.
        p_zero: (B,), for the text with the embeddings 0.

    Returns:
        (B,), ratio, at most 1, higher is more faithful; 0 loses as much as all embeddings 0. NaN where these lose
        nothing.

    Reference:
        Zhao and Aletras (2023).

    Example:
        >>> soft_ns(torch.tensor([0.75]), torch.tensor([[0.5, 0.75]]), torch.tensor([0.25])).tolist()
        [0.75]
    """
    lost = sufficiency(p_full, p_only).clamp(min=0).mean(1)
    return 1 - lost / _lost_at_zero(p_full, p_zero)


def _lost_at_zero(p_full: Tensor, p_zero: Tensor) -> Tensor:
    """What the target loses with all embeddings 0, (B,); NaN where that is nothing."""
    lost = comprehensiveness(p_full, p_zero[:, None])[:, 0]
    return torch.where(lost > 0, lost, torch.nan)
