"""From the attended context to the logits."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_faithful._checks import InputError, check_shape


class TanhReadout(nn.Module):
    """``W2 tanh(Wp c + bp [+ Wq q + bq]) + b2``: the read-out of the question answering of Jain and Wallace (2019).

    As in their code the layer inside is half as wide as the context.

    Args:
        width: N, of the context c.
        query_width: of the query q; None without one.
        rows: logits.
    """

    def __init__(self, width: int, query_width: int | None, rows: int) -> None:
        super().__init__()
        size = max(1, width // 2)
        self.context = nn.Linear(width, size)
        self.query = nn.Linear(query_width, size) if query_width else None
        self.output = nn.Linear(size, rows)

    def forward(self, context: Tensor, query: Tensor | None) -> Tensor:
        features = self.context(context)  # (B, M)
        if self.query is not None:
            features = features + self.query(query)
        return self.output(features.tanh())

    def parts(
        self,
        states: Tensor,
        query: Tensor | None,
    ) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        """What the layer inside gets of each token (B, T, M) and of the rest (B, 1, M), and what follows its tanh.

        As the attention weights enter by a sum, ``output((weights @ of_token + of_query).tanh())`` is the read-out.
        All in the precision of the states.
        """
        dtype = states.dtype
        of_query = self.context.bias.to(dtype).expand(len(states), -1)  # (B, M)
        if self.query is not None:
            weight_of_query = self.query.weight.to(dtype)
            bias_of_query = self.query.bias.to(dtype)
            of_query = of_query + F.linear(query, weight_of_query, bias_of_query)
        of_token = F.linear(states, self.context.weight.to(dtype))  # (B, T, M)
        weight = for_later(self.output.weight, dtype)
        bias = for_later(self.output.bias, dtype)

        def output(features: Tensor) -> Tensor:
            return F.linear(features, weight, bias)

        return of_token, of_query[:, None], output


def attended(attention: Tensor, states: Tensor) -> Tensor:
    """The attention-weighted sums (B, N) of states (B, T, N), in their precision; attention (B, T) may have another."""
    weights = attention[:, None].to(states.dtype)  # (B, 1, T)
    return (weights @ states).squeeze(1)


def for_later(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    """A parameter for later use, which then builds no graph unless one is being built now."""
    if not torch.is_grad_enabled():
        parameter = parameter.detach()
    return parameter.to(dtype)


def check_candidates(candidates: Tensor | None, classes: int, multi_label: bool) -> Tensor | None:
    """Candidates (B, C) as bool; None where every class is one.

    Raises:
        InputError: another shape, a text without a candidate (nothing would be left to predict), or several labels.
    """
    if candidates is None:
        return None
    check_shape("candidates", candidates, "B C")
    if multi_label:
        raise InputError("Candidates are for one answer among several, but the output is 'multi_label'.")
    if candidates.shape[1] != classes:
        raise InputError(f"Expected `candidates` for {classes} classes, but got {tuple(candidates.shape)}.")
    candidates = candidates.bool()
    empty = ~candidates.any(1)  # (B,)
    if bool(empty.any()):
        row = int(empty.nonzero()[0, 0])
        raise InputError(f"Expected a candidate in every row, but row {row} has none.")
    return candidates


def among(logits: Tensor, candidates: Tensor | None) -> Tensor:
    """``logits`` (B, ..., C) with -inf at classes that are no candidates (B, C), so that their probability is 0."""
    if candidates is None:
        return logits
    middle_axes = (1,) * (logits.dim() - 2)
    candidates = candidates.view(len(candidates), *middle_axes, -1)
    return logits.masked_fill(~candidates, -float("inf"))
