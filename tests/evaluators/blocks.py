"""Blocks of random examples for tests of evaluators."""

from __future__ import annotations

from dataclasses import replace

import torch

from attn_faithful.evaluators.base import Block
from attn_faithful.models.protocol import Affine, Encoded


def random_block(lengths=(5, 1, 0, 7, 2), classes=2, seed=0, attention=None, multi_label=False, affine=True) -> Block:
    """Texts of these lengths with random attention and token logits, float64, keyed by their place.

    Args:
        attention: rows to use in place of random ones, as long as their texts.
        affine: whether the block says that its read-out is affine (it is, either way).
    """
    generator = torch.Generator().manual_seed(seed)
    size = max(lengths) + 1  # one position of padding
    allowed = torch.arange(size) < torch.tensor(lengths)[:, None]
    weights = torch.rand(len(lengths), size, generator=generator, dtype=torch.float64) * allowed
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)
    for row, values in enumerate(attention or []):
        weights[row, : len(values)] = torch.tensor(values, dtype=torch.float64)
    token_logits = 3 * torch.randn(len(lengths), size, classes, generator=generator, dtype=torch.float64)
    bias = 0.3 * torch.randn(len(lengths), classes, generator=generator, dtype=torch.float64)
    if classes == 2 and not multi_label:
        token_logits[..., 0], bias[..., 0] = 0.0, 0.0  # as one logit is stored

    def decode(given: torch.Tensor) -> torch.Tensor:
        return given[:, :, 0] @ token_logits + bias[:, None]

    encoded = Encoded(
        attention=weights[:, None],
        allowed=allowed[:, None],
        content=allowed,
        items="token",
        logits=decode(weights[:, None, None])[:, 0],
        decode=decode,
        affine=Affine(token_logits, bias) if affine else None,
        multi_label=multi_label,
    )
    names = [f"e{i}" for i in range(len(lengths))]
    return Block(names, [f"key-{seed}-{i}" for i in range(len(lengths))], 0, "pool", encoded)


def keeping(block: Block, kept, seed=0) -> Block:
    """The block with one more position, a special token that keeps this share of each text's weight in every slot."""
    old = block.encoded
    generator = torch.Generator().manual_seed(seed)
    kept = torch.tensor(kept, dtype=torch.float64)[:, None, None].expand(-1, old.attention.shape[1], 1)
    attention = torch.cat([old.attention * (1 - kept), kept], -1)
    allowed = torch.cat([old.allowed, torch.ones_like(kept, dtype=torch.bool)], -1)
    content = torch.cat([old.content, torch.zeros_like(old.content[:, :1])], -1)
    special = torch.randn(len(block), 1, old.logits.shape[-1], generator=generator, dtype=torch.float64)

    def decode(given: torch.Tensor) -> torch.Tensor:
        return old.decode(given[..., :-1]) + given[:, :, 0, -1:] * special

    affine = old.affine
    if affine is not None:
        affine = Affine(torch.cat([affine.token_logits, special], 1), affine.bias)
    encoded = replace(
        old,
        attention=attention,
        allowed=allowed,
        content=content,
        decode=decode,
        affine=affine,
        logits=decode(attention[:, None])[:, 0],
    )
    return replace(block, encoded=encoded)


def values(found, metric, source=None):
    """example -> value of one metric, and example -> reason."""
    table = found.scores
    value_of, reason_of = {}, {}
    for row, example in enumerate(table["example"]):
        if table["metric"][row] == metric and source in (None, table["source"][row]):
            value_of[example] = table["value"][row]
            reason_of[example] = table["reason"][row]
    return value_of, reason_of
