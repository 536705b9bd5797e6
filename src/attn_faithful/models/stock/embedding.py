"""Embeddings in place of those that a stock model looks up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.stock.layers import patched


@contextmanager
def embedding(model: nn.Module, ids: Tensor, embedded: Tensor | None) -> Iterator[None]:
    """Embeddings (B, T, E) in place of those of the ids inside, wherever the model looks them up; None for its own.

    Raises:
        InputError: the model never looks up the ids.
    """
    if embedded is None:
        yield
        return
    own = model.get_input_embeddings()
    tables = [own]
    for module in model.modules():
        tied = getattr(module, "weight", None) is own.weight and module is not own
        if tied and isinstance(module, nn.Embedding):
            tables.append(module)
    used = [False]

    def in_place(table: nn.Module) -> Callable[..., Tensor]:
        scale = getattr(table, "embed_scale", 1.0) / getattr(own, "embed_scale", 1.0)
        return _looked_up(table.forward, ids, embedded, scale, used)

    with patched(tables, in_place):
        yield
        if not used[0]:
            raise InputError(f"{type(model).__name__} never looks up the texts' ids in its input embeddings.")


def _looked_up(
    forward: Callable[..., Tensor],
    ids: Tensor,
    embedded: Tensor,
    scale: float,
    used: list[bool],
) -> Callable[..., Tensor]:
    def looked_up(numbers: Tensor) -> Tensor:
        if numbers.shape != ids.shape:
            return forward(numbers)
        if torch.equal(numbers, ids):
            used[0] = True
            return embedded * scale
        if torch.equal(numbers[:, 1:], ids[:, :-1]):
            # a decoder's input: the same text, one position later
            start = forward(numbers[:, :1])
            return torch.cat([start, embedded[:, :-1] * scale], dim=1)
        return forward(numbers)  # what is no text, such as the types of GPT-2's tokens

    return looked_up
