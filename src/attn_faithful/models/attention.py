"""Scores of tokens, and the attention that a projection makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from attn_faithful._registry import Registry
from attn_faithful.functional.projections import project

if TYPE_CHECKING:
    from .configuration import AttentionClassifierConfig

SCORERS: Registry[type[nn.Module]] = Registry("attention")


@SCORERS.register("additive")
class AdditiveScores(nn.Module):
    """``s = w2' tanh(W1 h + b1 [+ Wq q])``, w2 without bias (Jain and Wallace 2019, section 2)."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()
        self.token = nn.Linear(width, size)
        self.query = nn.Linear(query_width, size) if query_width else None
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        features = self.token(hidden)  # (B, T, size)
        if self.query is not None:
            features = features + self.query(query)[:, None]
        return self.score(features.tanh()).squeeze(-1)  # (B, T)


@SCORERS.register("dot")
class DotScores(nn.Module):
    """``s = h'q / sqrt(N)``; without a query a learned vector takes its place."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()
        self.scale = width**-0.5
        self.vector = None if query_width else nn.Linear(width, 1, bias=False)
        # a query of another width than the tokens is mapped to theirs
        self.query = nn.Linear(query_width, width, bias=False) if query_width and query_width != width else None

    def forward(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        if self.vector is not None:
            return self.vector(hidden).squeeze(-1) * self.scale
        query = self.query(query) if self.query is not None else query
        return (hidden @ query[:, :, None]).squeeze(-1) * self.scale  # (B, T)


@SCORERS.register("uniform")
class UniformScores(nn.Module):
    """``s = 0``: the uniform attention of Wiegreffe and Pinter (2019), section 3.1."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()

    def forward(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        return hidden.new_zeros(hidden.shape[:2])


class Attention(nn.Module):
    """Scores the tokens and projects the scores onto the simplex over the allowed ones.

    Args:
        config: names the scorer and the projection with its parameters.
        width: of the tokens' states.
        query_width: of the query; None without one.
    """

    def __init__(self, config: AttentionClassifierConfig, width: int, query_width: int | None = None) -> None:
        super().__init__()
        size = config.attention_size or max(1, width // 2)
        self.projection = config.projection
        self.parameters_of_projection = dict(config.projection_parameters)
        self.scorer = SCORERS[config.attention](width, size, query_width)
        self.alpha_logit = None
        if config.projection == "entmax" and config.learn_alpha:
            start = min(max(config.entmax_alpha, 1.01), 1.99) - 1
            self.alpha_logit = nn.Parameter(torch.logit(torch.tensor(start)))

    def project(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Attention (..., T) from scores, in float32 at least; a row with nothing allowed is all zeros."""
        given = dict(self.parameters_of_projection)
        if self.alpha_logit is not None:
            given["alpha"] = 1 + self.alpha_logit.sigmoid()
        return project(self.projection, scores, allowed, **given)

    def forward(self, hidden: Tensor, allowed: Tensor, query: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = self.scorer(hidden, query)
        return self.project(scores, allowed), scores
