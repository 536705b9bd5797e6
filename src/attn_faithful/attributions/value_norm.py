"""Norm of what each value vector adds to a token's state, of transformers models alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item, norms
from attn_faithful.attributions.layered_text import LayeredText, calls_at, layered_text
from attn_faithful.models.modes import analysing
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.layers import patched
from attn_faithful.models.stock.model import StockModel

NUMBERS = 2**24  # of transformed vectors in memory at once
SAME = 1e-4  # share of an output's size by which two ways to compute it in float32 may differ


@SOURCES.register("value_norm")
@torch.no_grad()
def value_norm(request: Request) -> Attribution:
    """Length of what each token's value adds to the read token's state: ``|| sum_h a_h f_h(x) ||``; 0 and up.

    ``f_h(x)`` is the head's value vector through the layer's output projection, without that projection's bias. Vectors
    are summed over the heads before their length is taken, so heads may cancel out. Where the classifier reads all
    tokens it is the mean of the lengths. The setting `layers` counts at the site of all layers.

    Raises:
        InputError: the output of the site's attention goes into no linear map.

    Reference:
        Kobayashi et al. (2020), section 3, equations 3 to 7.
    """
    text = layered_text(request, "value_norm")
    calls = calls_at(request, text, "value_norm")
    trace = Trace(read=set(calls))
    with analysing(text.model), _projections(text.model, trace, calls) as maps:
        text.model.run(text.inputs, trace)
    by_call = []
    for call in calls:
        if call not in maps:
            raise InputError(
                f"The source 'value_norm' found no linear map that the attention of layer {call} of "
                f"{type(text.model.model).__name__} goes into; choose 'raw_attention'."
            )
        lengths = _lengths(text, trace.seen[call], text.row_shares(call), maps[call])
        by_call.append(text.at_tokens(call, lengths))
    values = torch.stack(by_call).mean(0)  # (B, T)
    return Attribution(by_item(request, values))


@contextmanager
def _projections(model: StockModel, trace: Trace, calls: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """The linear maps (H * D, N) that the attention of some layers goes into, found in the one forward run inside.

    A module is one if it is given a layer's output and nothing else, and answers as a linear map and a bias would. Of
    several around one another the outermost counts, which holds what adapters add.
    """
    maps: dict[int, Tensor] = {}
    tried: set[int] = set()

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            call = trace.count - 1
            alone = len(args) == 1 and not kwargs
            wanted = call in calls and call not in tried
            if wanted and alone and _is_output(args[0], trace.seen[call]):
                # trying a module calls it, and those in it
                tried.add(call)
                matrix = _matrix(forward, args[0], output)
                tried.discard(call)
                if matrix is not None:
                    maps[call] = matrix
            return output

        return called

    with_weights = []
    for module in model.model.modules():
        if next(module.parameters(), None) is not None:
            with_weights.append(module)
    with patched(with_weights, lambda module: wrapped(module.forward)):
        yield maps


def _is_output(inputs: Any, call: Call) -> bool:
    """Whether a module is given what the attention function has just returned, its heads side by side."""
    batch, heads, rows, _ = call.attention.shape
    shape = (batch, rows, heads * call.value.shape[-1])
    if not isinstance(inputs, Tensor) or inputs.shape != shape:
        return False
    output = call.attention.to(call.value.dtype) @ call.value  # (B, H, Q, D)
    heads_joined = output.transpose(1, 2).flatten(2)  # (B, Q, H D)
    return _alike(inputs, heads_joined)


def _matrix(forward: Callable[..., Any], inputs: Tensor, output: Any) -> Tensor | None:
    """The linear map (N', N) of a module, without its bias; None for what is none."""
    if not isinstance(output, Tensor) or output.shape[:-1] != inputs.shape[:-1]:
        return None
    size = inputs.shape[-1]
    # zeros give the bias, and each unit vector a row of the matrix on top of it
    nothing = inputs.new_zeros(1, 1, size)
    bias = forward(nothing)
    units = torch.eye(size, dtype=inputs.dtype, device=inputs.device)
    matrix = (forward(units[None]) - bias)[0]  # (H D, N)
    linear = inputs @ matrix + bias
    return matrix if _alike(linear, output) else None


def _alike(values: Tensor, expected: Tensor) -> bool:
    error = (values - expected).abs().max()
    scale = expected.abs().max()
    return bool(error <= SAME * scale)


def _lengths(text: LayeredText, call: Call, shares: Tensor, matrix: Tensor) -> Tensor:
    """Lengths (B, T) of what the keys give the rows, in the mean over the rows by ``shares`` (B, Q)."""
    size = call.value.shape[-1]
    by_head = matrix.view(1, -1, size, matrix.shape[-1])  # (1, H, D, N)
    projection = text.chosen_heads(by_head)[0]
    weights = text.chosen_heads(call.attention)  # (B, H, Q, T)
    values = text.chosen_heads(call.value)  # (B, H, T, D)
    lengths = weights.new_zeros(len(weights), weights.shape[-1], dtype=torch.float64)
    for example, share in enumerate(shares):
        vectors = (values[example] @ projection).transpose(0, 1)  # (T, H, N)
        rows = share.nonzero()[:, 0]  # (R,)
        rows_at_once = max(1, NUMBERS // vectors[:, 0].numel())
        for part in rows.split(rows_at_once):
            weights_of_rows = weights[example][:, part].permute(2, 1, 0)  # (T, R, H)
            mixed = weights_of_rows @ vectors  # (T, R, N)
            lengths[example] += norms(mixed) @ share[part]
    return lengths
