"""Leverage: that a decision rests on the attention, as a loss made of exact answers, for an affine read-out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attn_faithful.functional.readout import (
    as_distributions,
    checked_readout,
    decided,
    defined_rows,
    first_least,
    lead,
    leads,
    max_or_infinity,
    min_or_infinity,
    total,
)
from attn_faithful.functional.reasons import ATTENTION_PROOF, NO_TOKEN, ONE_ITEM

Flags = dict[str, Tensor]  # reason -> (B,) bool, the texts that are undefined for it


def leverage_loss(attention: Tensor, allowed: Tensor, token_logits: Tensor, bias: Tensor) -> tuple[Tensor, Flags]:
    r"""How little a decision rests on the attention, differentiable.

    ``max(0, tanh(l / 2))^2 + sum_t a_t (max m - m_t) / (max m - min m)``

    Here l is how far the decision's logit leads the best other class where all tokens weigh the same, and
    ``tanh(l / 2)`` the margin between the two's probabilities. At ``l < 0`` even attention flips the decision, so that
    the text is not attention-proof: the part is the margin of that answer, relaxed from the worst token to the mean of
    all.

    m_t is the lead over the runner-up at token t. Under all attentions that lead lies between min m and max m, exactly,
    as it is linear in the attention; the other part is how much of this reach the attention leaves unused. It is 0
    where all of it is on the token that says most for the decision, and where all tokens say the same. So the loss is 0
    where the decision needs attention, and attention is where it speaks most for the decision.

    Differentiable: the first part in the token logits and the bias, the second in the attention alone. It holds what
    the tokens say, as its gradient is to move attention to what speaks for the decision, and not the other way round.

    The decision is the argmax under the attention, right or wrong, and the runner-up the best other class; the lowest
    index on ties.

    Args:
        attention: (B, T), distributions over ``allowed``; ignored elsewhere.
        allowed: (B, T), bool.
        token_logits: (B, T, C), what each token alone would say, without the bias.
        bias: (B, C); classes with -inf never count.

    Returns:
        (B,) in the type of ``token_logits``, 0 to 2, lower is more leverage. NaN where undefined, with the texts of
        each reason: "no content token", "one item" (it has no other attention), "attention-proof" (no other class
        counts). No gradient comes from an undefined text. NaN scores give NaN, which no reason explains.

    Raises:
        InputError: other shapes, ``allowed`` that is not bool, attention that is negative or does not sum to 1.

    Reference:
        :func:`~.flip_distance.attention_proof` and the adversary of Jain and Wallace (2019), section 4.2.2, as a loss.

    Example:
        >>> attention, allowed = torch.tensor([[0.9, 0.1]]), torch.ones(1, 2, dtype=torch.bool)
        >>> token_logits = torch.tensor([[[0.0, 2.0], [0.0, -1.0]]])
        >>> value, _ = leverage_loss(attention, allowed, token_logits, torch.zeros(1, 2))
        >>> round(float(value), 4)  # tanh(0.25)^2 + 0.1
        0.16
    """
    shares, held_logits, held_bias, reasons = checked_readout(attention, allowed, token_logits, bias)
    shares = as_distributions(shares, defined_rows(reasons, shares))
    counts = allowed.sum(-1)  # (B,)
    classes = (bias != -math.inf).sum(-1)  # (B,)
    flags = {NO_TOKEN: counts == 0, ONE_ITEM: counts == 1, ATTENTION_PROOF: classes < 2}
    defined = defined_rows(reasons, shares) & ~torch.stack(list(flags.values())).any(0)  # (B,)
    # what is undefined counts as zeros, so that no gradient meets a NaN
    kept = allowed & defined[:, None]  # (B, T)
    decision = decided(shares, held_logits, held_bias)

    kept_logits = torch.where(kept[..., None], token_logits, 0.0).double()
    even_logits = total(kept_logits) / counts.clamp(min=1)[:, None]  # (B, C)
    even_logits = even_logits + torch.where(defined[:, None], bias, 0.0).double()
    even_margin = torch.tanh(lead(even_logits, decision) / 2).clamp(min=0.0)  # (B,)

    unused = _unused_by_token(shares, kept, held_logits, held_bias, decision)  # (B, T)
    unused_reach = total(torch.where(kept, attention, 0.0).double() * unused)  # (B,)

    value = torch.where(defined, even_margin.square() + unused_reach, math.nan)
    return value.to(token_logits.dtype), flags


def _unused_by_token(shares: Tensor, kept: Tensor, token_logits: Tensor, bias: Tensor, decision: Tensor) -> Tensor:
    """What each token alone leaves unused of the reach of the lead over the runner-up, (B, T), 0 to 1."""
    margins, others = leads(token_logits, bias, decision, 0.0)  # (B, C, T), (B, C)
    own_leads = torch.where(others, (shares[:, None] * margins).sum(-1), math.inf)  # (B, C)
    rival = first_least(own_leads)
    of_rival = margins.gather(1, rival[:, None, None].expand(-1, 1, margins.shape[-1]))[:, 0]  # (B, T)
    highest = max_or_infinity(torch.where(kept, of_rival, -math.inf))[:, None]  # (B, 1)
    lowest = min_or_infinity(torch.where(kept, of_rival, math.inf))[:, None]
    has_reach = kept & (highest > lowest)  # (B, T)
    reach = torch.where(has_reach, highest - lowest, 1.0)
    return torch.where(has_reach, highest - of_rival, 0.0) / reach
