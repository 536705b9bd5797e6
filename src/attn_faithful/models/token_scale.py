"""A learned scale of what attention weighs: Lin-TaSc (Chrysostomou and Aletras 2021)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError

SCALES = ("tasc_lin",)


class TokenScale(nn.Module):
    """``s_t = u_w sum_d e_td``: a learned number u of the word w times the sum of its embedding e.

    The context becomes ``sum_t a_t s_t h_t``. Attention a and the scores behind it stay as they are, and the read-out
    is as affine in it as before, with ``s_t h_t`` in the place of the states h_t. A scale may be negative.

    Args:
        vocab_size: words that have a scale.

    Reference:
        Chrysostomou and Aletras (2021), section 4, "Lin-TaSc"; where u starts and the sum as in their code.
    """

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every u as it starts: uniform within one over the root of their number."""
        bound = len(self.weight) ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def resize(self, vocab_size: int) -> None:
        """Drop the last words, or give new ones a scale as at the start."""
        resized = TokenScale(vocab_size).to(self.weight)
        kept = min(vocab_size, len(self.weight))
        with torch.no_grad():
            resized.weight[:kept] = self.weight[:kept]
        self.weight = resized.weight

    def forward(self, ids: Tensor | None, embedded: Tensor) -> Tensor:
        """Scales (B, T) of tokens (B, T) with the embeddings (B, T, E).

        Raises:
            InputError: embeddings without the words that they are of.
        """
        if ids is None:
            raise InputError(
                "The model scales its words (scale='tasc_lin'): expected `input_ids` beside `inputs_embeds`, the words "
                "that the embeddings are of."
            )
        return self.weight[ids.long()] * embedded.sum(-1)


def scaled(weights: Tensor, scale: Tensor | None) -> Tensor:
    """Attention (..., T) times the scale of each token (..., T); as it is without a scale."""
    if scale is None:
        return weights
    return weights * scale
