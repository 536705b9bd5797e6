"""Importance that is read off, and importance that means nothing."""

from __future__ import annotations

import torch

from attn_faithful._checks import check_same_length
from attn_faithful._seeds import seed_for
from attn_faithful.attributions.base import SOURCES, Attribution, Request, one_attention


@SOURCES.register("attention")
def attention(request: Request) -> Attribution:
    """The weight that the model put on each token, 0 to 1."""
    return Attribution(one_attention(request, "attention"))


@SOURCES.register("random")
def random(request: Request) -> Attribution:
    """Uniform draws from [0, 1): what any other source must beat.

    An example's draws depend on the seed, its key and the number of its content tokens, and on nothing else.
    """
    content = request.encoded.content.cpu()
    check_same_length(("keys", "examples"), (request.keys, content))
    values = torch.zeros(content.shape, dtype=torch.float64)
    for row, key in enumerate(request.keys):
        generator = torch.Generator().manual_seed(seed_for(request.seed, key, "random source"))
        count = int(content[row].sum())
        values[row, content[row]] = torch.rand(count, generator=generator, dtype=torch.float64)
    return Attribution(values)
