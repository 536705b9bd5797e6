"""Texts of which one token is deleted at a time: only the states that see it change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_faithful.models.attention import Attention
from attn_faithful.models.encoders import Encoder
from attn_faithful.models.protocol import Batch, Encoded
from attn_faithful.models.recurrent_passes import RecurrentPass, take_tokens
from attn_faithful.models.token_scale import TokenScale, scaled

SCORED = 512  # states scored together: what a processor's cache holds


class PooledModel(Protocol):
    """What deletion asks of a classifier that pools its tokens' states by attention."""

    config: Any
    encoder: Encoder
    attention: Attention
    embedding: nn.Embedding
    scale: TokenScale | None

    @property
    def reads_ids(self) -> bool: ...

    @property
    def reads_alone(self) -> bool: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def __call__(self, **inputs: Tensor) -> Any: ...

    def encode(self, batch: Batch) -> Encoded: ...

    def query_vector(self, ids: Tensor | None, mask: Tensor | None) -> Tensor | None: ...

    def read_out(self, context: Tensor, query: Tensor | None, candidates: Tensor | None) -> Tensor: ...


@dataclass(frozen=True)
class ChangedStates:
    """States that are others in shortened texts.

    Attributes:
        states: (P, n).
        row: (P,), the shortened text of each.
        token: (P,), the token of each, by its place in the whole text.
    """

    states: Tensor
    row: Tensor
    token: Tensor


class Texts:
    """Texts of which one token is deleted at a time; gaps are closed and padding stands behind.

    Args:
        model: in eval mode.
        inputs: of its forward.
        read: (B, T) bool.
    """

    def __init__(
        self,
        model: PooledModel,
        inputs: Mapping[str, Tensor],
        read: Tensor,
    ) -> None:
        self.model = model
        self.query = model.query_vector(inputs.get("query_input_ids"), inputs.get("query_attention_mask"))
        self.candidates = inputs.get("candidates")
        order = torch.argsort(~read, dim=1, stable=True)  # (B, T), positions of the batch, those that are read first
        self.new_place = torch.argsort(order, dim=1)  # (B, T), where each position of the batch went
        self.lengths = read.sum(1)  # (B,)
        content = read  # (B, T)
        special = inputs.get("special_tokens_mask")
        if special is not None:
            content = read & ~special.bool()
        self.content = content.gather(1, order)
        embedded = inputs.get("inputs_embeds")
        if embedded is None:
            embedded = model.embedding(inputs["input_ids"].long())
        self.scale = None
        if model.scale is not None:
            self.scale = model.scale(inputs.get("input_ids"), embedded).gather(1, order)  # (B, T)
        self.states = self.read(take_tokens(embedded, order), read.gather(1, order))  # (B, T, N)
        scorer = model.attention.scorer
        features = scorer.features(self.states, self.query)  # (B, T, size)
        self.scores = scorer.from_features(features)  # (B, T)
        self.other_features = []  # of each half the features without what its states add, (B, T, size)
        for half in self.halves:
            states = self.states[..., half]  # (B, T, n)
            self.other_features.append(features - scorer.part_of_features(states, self.query, half))

    @property
    def halves(self) -> tuple[slice, ...]:
        """Columns of the states that change apart from one another."""
        raise TypeError("texts define halves")

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """States (B, T, N) of the whole texts."""
        raise TypeError("texts define read")

    def changed(self, text: Tensor, place: Tensor) -> list[ChangedStates]:
        """For each half the states that are others in the texts (R,) without the token at each place (R,)."""
        raise TypeError("texts define changed")

    def unchanged(self) -> Tensor:
        """Logits (B, C) of the whole texts."""
        attention = self._project(self.scores, self.content)  # (B, T)
        weights = scaled(attention, self.scale)
        context = (weights[:, None] @ self.states)[:, 0]  # (B, N)
        return self.model.read_out(context, self.query, self.candidates)

    def without(self, text: Tensor, place: Tensor) -> Tensor:
        """Logits (R, C) of the texts (R,), in order, without the token at each place (R,) of the batch."""
        place = self.new_place[text, place]
        changed = self.changed(text, place)
        scores = self.scores[text]  # (R, T)
        for half, other_features, new in zip(self.halves, self.other_features, changed, strict=True):
            scores[new.row, new.token] = self._scores_of(half, other_features, new, text[new.row])
        allowed = self.content[text]  # (R, T)
        rows = torch.arange(len(text), device=text.device)
        allowed[rows, place] = False
        scale = None if self.scale is None else self.scale[text]
        weights = scaled(self._project(scores, allowed), scale)  # (R, T)
        count = torch.bincount(text, minlength=len(self.states)).tolist()
        context = []  # (R, n) a half
        for half, new in zip(self.halves, changed, strict=True):
            context.append(self._context(weights, half, new, count))
        query = None if self.query is None else self.query[text]
        candidates = None if self.candidates is None else self.candidates[text]
        return self.model.read_out(torch.cat(context, dim=-1), query, candidates)

    def _context(
        self,
        weights: Tensor,
        half: slice,
        new: ChangedStates,
        count: list[int],
    ) -> Tensor:
        """One half of the contexts (R, n): old states where they stay, new ones where they change."""
        on_old = weights.clone()  # (R, T)
        on_old[new.row, new.token] = 0
        pairs = zip(on_old.split(count), self.states[..., half], strict=True)
        mixed = torch.cat([of_text @ states for of_text, states in pairs])  # (R, n)
        weighted = new.states.mul_(weights[new.row, new.token, None])  # (P, n)
        return mixed.index_add_(0, new.row, weighted)

    def _scores_of(
        self,
        half: slice,
        other_features: Tensor,
        new: ChangedStates,
        text: Tensor,
    ) -> Tensor:
        """Scores (P,) of changed states, whose texts are ``text`` (P,)."""
        scorer = self.model.attention.scorer
        of_tokens = other_features.flatten(0, 1)  # (B * T, size)
        index = text * other_features.shape[1] + new.token  # (P,)
        parts = zip(new.states.split(SCORED), text.split(SCORED), index.split(SCORED), strict=True)
        scores = [new.states.new_empty(0)]
        for states, texts, indices in parts:
            if self.query is None:
                shape = (1, -1)  # as one text of many tokens
                query = None
            else:
                shape = (-1, 1)  # as texts of one token, each with its query
                query = self.query[texts]
            features = scorer.part_of_features(states.unflatten(0, shape), query, half)
            features += of_tokens.index_select(0, indices).unflatten(0, shape)
            scores.append(scorer.from_features(features).flatten())
        return torch.cat(scores)

    def _project(self, scores: Tensor, allowed: Tensor) -> Tensor:
        return self.model.attention.project(scores, allowed).to(self.states.dtype)


class ConvolvedTexts(Texts):
    """Texts of a convolutional encoder: the windows that span the token change."""

    halves = (slice(None),)

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        inputs = embedded * mask[:, :, None]  # (B, T, E)
        # what each token adds to each filter from each place in its window; behind them a row for no token
        self.taps = []
        for convolution in self.model.encoder.convolutions:
            taps = torch.einsum("bte,fek->btkf", inputs, convolution.weight).flatten(0, 2)  # (B * T * width, F)
            self.taps.append(F.pad(taps, (0, 0, 0, 1)))
        return self.model.encoder(embedded, mask)

    def changed(self, text: Tensor, place: Tensor) -> list[ChangedStates]:
        convolutions = self.model.encoder.convolutions
        reach = max(convolution.kernel_size[0] for convolution in convolutions) // 2
        # positions in the shortened text: from `place` on they belong to the token behind
        steps = torch.arange(-reach, reach, device=place.device)
        centre = place[:, None] + steps  # (R, 2 * reach)
        new_length = self.lengths[text, None] - 1  # (R, 1)
        inside = (centre >= 0) & (centre < new_length)
        row, column = inside.nonzero(as_tuple=True)
        # (P, 1) each
        centre = centre[row, column, None]
        text = text[row, None]
        place = place[row, None]
        states = []
        for convolution, taps in zip(convolutions, self.taps, strict=True):
            index = self._window(convolution.kernel_size[0], centre, text, place, len(taps) - 1)
            states.append(F.embedding_bag(index, taps, mode="sum") + convolution.bias)  # (P, F)
        token = (centre + (centre >= place))[:, 0]  # (P,)
        return [ChangedStates(torch.cat(states, dim=1).relu_(), row, token)]

    def _window(
        self,
        width: int,
        centre: Tensor,
        text: Tensor,
        place: Tensor,
        nothing: int,
    ) -> Tensor:
        """The taps (P, width) under the windows around each centre (P, 1); ``nothing`` beyond the text's ends."""
        steps = torch.arange(width, device=place.device)
        window = centre + steps - width // 2  # (P, width), places in the shortened text
        token = window + (window >= place)  # (P, width), places in the whole text
        index = ((text * self.content.shape[1]) + token) * width + steps
        inside = (window >= 0) & (window < self.lengths[text] - 1)
        return torch.where(inside, index, nothing)


class RecurrentTexts(Texts):
    """Texts of one recurrent layer: the states behind the token change ahead, and those before it back."""

    @property
    def halves(self) -> tuple[slice, ...]:
        ways = len(self.model.encoder.ways)
        size = self.model.encoder.width // ways
        return tuple(slice(way * size, (way + 1) * size) for way in range(ways))

    def read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        size = mask.shape[1]
        columns = torch.arange(size, device=mask.device)
        first = size - self.lengths  # (B,), as texts end together
        # (B, T) each, the token that each column reads
        ahead = (columns + self.lengths[:, None]) % size
        back = (size - 1 - columns).expand_as(mask)
        self.passes = []
        # a model of one direction has no way for the second order
        for networks, order in zip(self.model.encoder.ways, (ahead, back), strict=False):
            self.passes.append(RecurrentPass(networks[0], embedded, order, first))
        return torch.cat([one.states for one in self.passes], dim=-1)

    def changed(self, text: Tensor, place: Tensor) -> list[ChangedStates]:
        return [ChangedStates(*one.changed(text, place)) for one in self.passes]
