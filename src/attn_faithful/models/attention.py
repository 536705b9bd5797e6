"""Scores of tokens, and the attention that a projection makes of them."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_faithful._registry import Registry
from attn_faithful.functional.projections import project

SCORERS: Registry[type[Scorer]] = Registry("attention")


class AttentionSettings(Protocol):
    """What attention takes of a configuration; see `AttentionClassifierConfig` for the meaning."""

    attention: str
    projection: str
    entmax_alpha: float
    learn_alpha: bool

    @property
    def projection_parameters(self) -> dict[str, float]: ...

    def attention_width(self, width: int) -> int: ...


class Scorer(nn.Module):
    """Scores of tokens: any function of features that are affine in the token's state.

    What is shared by many texts, such as one half of a recurrent encoder's states, is then mapped once for all.
    """

    def forward(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        """Scores (B, T) of states (B, T, N) under a query (B, Nq)."""
        return self.from_features(self.features(hidden, query))

    def features(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        """Features (B, T, size) of states (B, T, N)."""
        raise TypeError("a scorer defines features")

    def part_of_features(self, hidden: Tensor, query: Tensor | None, columns: slice) -> Tensor:
        """What the given columns of the states, ``hidden`` (B, T, n), add to the features (B, T, size)."""
        raise TypeError("a scorer defines part_of_features")

    def from_features(self, features: Tensor) -> Tensor:
        """Scores (B, T) of features (B, T, size)."""
        raise TypeError("a scorer defines from_features")


@SCORERS.register("additive")
class AdditiveScores(Scorer):
    """``s = w2' tanh(W1 h + b1 [+ Wq q])``, w2 without bias (Jain and Wallace 2019, section 2)."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()
        self.token = nn.Linear(width, size)
        self.query = nn.Linear(query_width, size) if query_width else None
        self.score = nn.Linear(size, 1, bias=False)

    def features(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        features = self.token(hidden)  # (B, T, size)
        if self.query is None:
            return features
        of_query = self.query(query)  # (B, size)
        return features + of_query[:, None]

    def part_of_features(self, hidden: Tensor, query: Tensor | None, columns: slice) -> Tensor:
        return F.linear(hidden, self.token.weight[:, columns])

    def from_features(self, features: Tensor) -> Tensor:
        return self.score(features.tanh()).squeeze(-1)


@SCORERS.register("dot")
class DotScores(Scorer):
    """``s = h'q / sqrt(N)``; without a query a learned vector takes its place."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()
        self.scale = width**-0.5
        self.vector = None if query_width else nn.Linear(width, 1, bias=False)
        self.query = None
        if query_width and query_width != width:
            # a query of another width than the tokens is mapped to theirs
            self.query = nn.Linear(query_width, width, bias=False)

    def features(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        return self.part_of_features(hidden, query, slice(None))

    def part_of_features(self, hidden: Tensor, query: Tensor | None, columns: slice) -> Tensor:
        if self.vector is not None:
            return F.linear(hidden, self.vector.weight[:, columns])
        if self.query is not None:
            query = self.query(query)  # (B, N)
        return hidden @ query[:, columns, None]  # (B, T, 1)

    def from_features(self, features: Tensor) -> Tensor:
        return features.squeeze(-1) * self.scale


@SCORERS.register("uniform")
class UniformScores(Scorer):
    """``s = 0``: the uniform attention of Wiegreffe and Pinter (2019), section 3.2."""

    def __init__(self, width: int, size: int, query_width: int | None) -> None:
        super().__init__()

    def features(self, hidden: Tensor, query: Tensor | None) -> Tensor:
        return hidden.new_zeros(*hidden.shape[:2], 1)

    def part_of_features(self, hidden: Tensor, query: Tensor | None, columns: slice) -> Tensor:
        return self.features(hidden, query)

    def from_features(self, features: Tensor) -> Tensor:
        return features.squeeze(-1)


class Attention(nn.Module):
    """Scores the tokens and projects the scores onto the simplex over the allowed ones.

    Args:
        config: names the scorer and the projection with its parameters.
        width: of the tokens' states.
        query_width: of the query; None without one.
    """

    def __init__(self, config: AttentionSettings, width: int, query_width: int | None = None) -> None:
        super().__init__()
        size = config.attention_width(width)
        self.projection = config.projection
        self.parameters_of_projection = dict(config.projection_parameters)
        self.scorer = SCORERS[config.attention](width, size, query_width)
        self.alpha_logit = None
        if config.projection == "entmax" and config.learn_alpha:
            # the learned alpha lies between 1 and 2, and where it starts the sigmoid still has a slope
            alpha = min(max(config.entmax_alpha, 1.01), 1.99)
            self.start = torch.logit(torch.tensor(alpha - 1, device="cpu")).item()  # where it is loaded too
            self.alpha_logit = nn.Parameter(torch.tensor(self.start))

    def reset_parameters(self) -> None:
        """The learned alpha as it starts."""
        if self.alpha_logit is not None:
            nn.init.constant_(self.alpha_logit, self.start)

    def project(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Attention (..., T) from scores, in float32 at least; a row with nothing allowed is all zeros."""
        parameters = dict(self.parameters_of_projection)
        if self.alpha_logit is not None:
            parameters["alpha"] = 1 + self.alpha_logit.sigmoid()
        return project(self.projection, scores, allowed, **parameters)

    def log_weights(self, scores: Tensor, allowed: Tensor) -> Tensor | None:
        """The logarithm of softmax attention up to a constant a row, in float64; None for other projections."""
        if self.projection != "softmax":
            return None
        temperature = self.parameters_of_projection["temperature"]
        log_weights = (scores.double() / temperature).masked_fill(~allowed, -torch.inf)  # (B, T)
        return log_weights[:, None]

    def forward(
        self,
        hidden: Tensor,
        allowed: Tensor,
        query: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attention (B, T) over states (B, T, N), and the scores (B, T) that it is made of."""
        scores = self.scorer(hidden, query)  # (B, T)
        attention = self.project(scores, allowed)  # (B, T)
        return attention, scores
