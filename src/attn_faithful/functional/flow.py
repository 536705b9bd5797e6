"""The most that can flow to each token through many layers of attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from torch import Tensor

from attn_faithful._checks import InputError, check_shape
from attn_faithful.functional.rollout import with_residual

UNIT = 2**30  # a capacity of 1, in the whole numbers that scipy's maximum flow takes

_ROUNDING = 1e-6  # of float32 shares

Array = npt.NDArray[Any]


def attention_flow(attention: Tensor, start: Tensor, sinks: Tensor) -> Tensor:
    r"""The maximum flow from what is read at the top to each token at the bottom.

    The network has a node for each token before and after each layer. Capacities are attention and the way around it
    in equal parts, ``(W_l + I) / 2`` with rows divided by their sums, from a token after layer l to those before it; a
    source leads to the tokens after the last layer, with ``start`` as capacities. Each token is a sink of its own, so a
    text of n tokens takes n flows. They are found by Dinic's algorithm on capacities rounded to 2^-30, and the value is
    that of the cut which it proves the smallest, in float64: exact unless another cut is as small up to the rounding.

    Args:
        attention: (B, L, T, T), the heads' weights as one, the layer nearest to the input first; row i holds what the
            token i takes from each.
        start: (B, T), shares of the tokens whose last states are read: 1 at one, or equal shares of several.
        sinks: (B, T), bool, the tokens that are asked about.

    Returns:
        (B, T) in float64 on the CPU, 0 to 1, NaN outside ``sinks`` and where a text's numbers are not finite. They do
        not sum to 1: each flow has the network for itself.

    Raises:
        InputError: other shapes, ``sinks`` that is not bool, weights below 0, shares outside 0 to 1.

    Reference:
        Abnar and Zuidema (2020), section 3, attention flow.

    Example:
        >>> layer = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
        >>> stack = torch.stack([layer, layer])[None]
        >>> attention_flow(stack, torch.tensor([[1.0, 0.0]]), torch.ones(1, 2).bool()).tolist()
        [[0.75, 0.5]]
    """
    check_shape("attention", attention, "B L T T")
    if tuple(start.shape) != tuple(attention.shape[::3]) or start.shape != sinks.shape or sinks.dtype != torch.bool:
        raise InputError(
            f"Expected `attention` (B, L, T, T), `start` (B, T) and bool `sinks` (B, T), but got "
            f"{tuple(attention.shape)}, {tuple(start.shape)} and {tuple(sinks.shape)} of {sinks.dtype}."
        )
    outside = (start < 0) | (start > 1 + _ROUNDING)
    if bool(outside.any()) or bool((attention < 0).any()):
        raise InputError("Expected `start` of shares, 0 to 1, and `attention` of at least 0, but got others.")
    layers = with_residual(attention).cpu().numpy()  # (B, L, T, T)
    shares = start.double().cpu().numpy()  # (B, T)
    finite_layers = np.isfinite(layers).all((1, 2, 3))
    finite = finite_layers & np.isfinite(shares).all(1)
    flows = torch.full(sinks.shape, math.nan, dtype=torch.float64)
    for row in np.flatnonzero(finite).tolist():
        network = _Network(layers[row], shares[row])
        for token in sinks[row].nonzero()[:, 0].tolist():
            flows[row, token] = network.into(token)
    return flows


class _Network:
    """Layers (L, T, T) of capacities below a source of (T,); node T l + t is the token t before layer l, from 0."""

    def __init__(self, layers: Array, start: Array) -> None:
        self.layers = layers
        self.start = start
        depth, self.size = layers.shape[:2]
        self.source = (depth + 1) * self.size
        reached = start > 0  # (T,), of the tokens above a layer those that anything flows to
        tails = [np.full(int(reached.sum()), self.source)]
        heads = [depth * self.size + reached.nonzero()[0]]
        capacities = [start[reached]]
        # downwards, so that only edges from tokens that something flows to are laid
        for below in reversed(range(depth)):
            upper, lower = (layers[below] * reached[:, None]).nonzero()
            tails.append((below + 1) * self.size + upper)
            heads.append(below * self.size + lower)
            capacities.append(layers[below][upper, lower])
            reached = np.isin(np.arange(self.size), lower)
        edges = (np.concatenate(tails), np.concatenate(heads))
        units = np.concatenate(capacities) * UNIT
        whole_units = np.rint(units).astype(np.int32)
        nodes = self.source + 1
        self.graph = csr_matrix((whole_units, edges), shape=(nodes, nodes))

    def into(self, token: int) -> float:
        """The maximum flow to a token before the first layer."""
        # scipy's own value is of rounded capacities; the cut is summed over the exact ones
        flow = maximum_flow(self.graph, self.source, token, method="dinic").flow
        residual = self.graph - flow
        residual.eliminate_zeros()
        reachable = breadth_first_order(residual, self.source, return_predecessors=False)
        reached = np.zeros(self.source + 1, dtype=bool)
        reached[reachable] = True
        # the flow is as large as the cut between what the source still reaches and the rest
        reached_by_level = reached[:-1].reshape(-1, self.size)  # (L + 1, T)
        cut = self.start @ ~reached_by_level[-1]
        for below, capacities in enumerate(self.layers):
            from_reached = reached_by_level[below + 1] @ capacities
            cut += from_reached @ ~reached_by_level[below]
        return float(cut)
