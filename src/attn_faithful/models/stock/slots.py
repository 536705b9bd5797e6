"""The heads of one layer as slots: whose rows are read, and what becomes of the layer when they are others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attn_faithful.functional.projections import project
from attn_faithful.models.stock.interface import Alter, Call


class Slots:
    """What some heads of a layer did, a slot each.

    Positions are those of the text: in a decoder's own attention, whose input is the text one position later, each
    token stands where it stands in the text, and the token that starts the decoder at the end of the text.

    Args:
        call: of the attention function.
        rows: whose attention is read, bool (B, Q).
        reading: "token", one row a text; "mean" over the rows; "all", a slot a head and row.
        heads: which.
        shifted: whether the keys are a decoder's input, the text one position later.
        projection: what made the weights.

    Attributes:
        attention, allowed: (B, S, T); a row that is not read has no weight and allows nothing.
        scores: (B, S, T), None for "mean".
        pooled: mean over heads and rows, (B, T).
    """

    def __init__(
        self,
        call: Call,
        rows: Tensor,
        reading: str,
        heads: Sequence[int],
        shifted: bool,
        projection: str,
    ) -> None:
        self.rows = rows
        self.reading = reading
        self.keys = keys_of_text(rows) if shifted else None
        self.heads = torch.tensor(list(heads), device=rows.device)
        self.parameters = call.parameters
        self.projection = projection
        self.size = call.attention.shape[1]  # heads of the layer
        attention = self._to_text(call.attention)  # (B, H, Q, T)
        allowed = self._to_text(call.allowed).expand_as(attention)  # (B, H, Q, T)
        is_read = rows[:, None, :, None]  # (B, 1, Q, 1)
        if reading == "token":
            text = torch.arange(len(rows), device=rows.device)
            place = rows.int().argmax(1)  # (B,)
            # of the one row that is read
            self.own = attention[text, :, place]  # (B, H, T)
            self.attention = self.own[:, self.heads]
            self.allowed = allowed[text, :, place][:, self.heads]
            self.scores = self._to_text(call.scores)[text, :, place][:, self.heads]
        elif reading == "mean":
            self.attention = self._mean(attention[:, self.heads])
            self.allowed = (allowed & is_read).any(2)[:, self.heads]
            self.scores = None
        else:
            # (B, S, T) each, S being heads times rows
            self.attention = (attention * is_read)[:, self.heads].flatten(1, 2)
            self.allowed = (allowed & is_read)[:, self.heads].flatten(1, 2)
            self.scores = self._to_text(call.scores)[:, self.heads].flatten(1, 2)
        self.count = self.attention.shape[1]
        by_head = self.attention  # (B, H, T)
        if reading == "all":
            by_head = self._mean(attention[:, self.heads])
        self.pooled = by_head.mean(1)

    def project(self, scores: Tensor, allowed: Tensor) -> Tensor:
        """Weights of scores (..., T)."""
        return project(self.projection, scores, allowed, **self.parameters)

    def _mean(self, attention: Tensor) -> Tensor:
        """(B, H, Q, T) -> (B, H, T), over the rows that are read."""
        rows = self.rows[:, None, :, None].to(attention.dtype)  # (B, 1, Q, 1)
        total = (attention * rows).sum(2)
        return total / rows.sum(2).clamp(min=1)

    def _to_text(self, values: Tensor) -> Tensor:
        """(B, H, Q, T) by key -> by position in the text."""
        if self.keys is None:
            return values
        keys = self.keys[:, None, None].expand_as(values)  # (B, H, Q, T)
        return values.gather(-1, keys)

    def _to_layer(self, values: Tensor, texts: Tensor) -> Tensor:
        """(R, H, T) by position in some texts (R,) -> by key."""
        if self.keys is None:
            return values
        keys = self.keys[texts][:, None].expand_as(values)  # (R, H, T)
        return torch.zeros_like(values).scatter(-1, keys, values)

    def whole(self, weights: Tensor, texts: Tensor) -> Tensor:
        """Weights (R, H, T) of all heads in the one row that is read, from those of the slots (R, S, T)."""
        weights = torch.where(self.allowed[texts], weights.to(self.own.dtype), 0.0)
        if len(self.heads) == self.size:
            return self._to_layer(weights, texts)
        of_all_heads = self.own[texts].index_copy(1, self.heads, weights)  # (R, H, T)
        return self._to_layer(of_all_heads, texts)

    def values(self, of_keys: Tensor, texts: Tensor) -> Tensor:
        """Value vectors (R, S, T, V) of the slots of some texts (R,), 0 where nothing is allowed.

        Args:
            of_keys: the layer's, by key, (B, H, T, V).
            texts: whose.
        """
        of_text = self._to_text(of_keys.transpose(2, 3)).transpose(2, 3)  # (B, H, T, V)
        allowed = self.allowed[texts][..., None]  # (R, S, T, 1)
        return torch.where(allowed, of_text[texts][:, self.heads], 0.0)

    def altered(self, weights: Tensor, texts: Tensor) -> Alter:
        """What becomes of the layer's weights under those of the slots (R, S, T), for some texts (R,)."""
        weights = self._to_layer(weights, texts)  # (R, S, T), by key
        rows = self.rows[texts][:, None, :, None]  # (R, 1, Q, 1)

        def alter(own: Tensor, allowed: Tensor) -> Tensor:
            chosen = own[:, self.heads]  # (R, heads, Q, T)
            new = weights.to(own.dtype)
            # to (R, heads, Q, T) as well
            if self.reading == "token":
                new = new[:, :, None].expand_as(chosen)
            elif self.reading == "all":
                new = new.view(len(new), -1, *chosen.shape[2:])
            else:
                mean = self._to_layer(self.attention[texts], texts)  # (R, heads, T)
                new = self._dealt(chosen, new[:, :, None], mean[:, :, None], allowed)
            # rows that are not read stay
            return own.index_copy(1, self.heads, torch.where(rows, new, chosen))

        return alter

    @staticmethod
    def _dealt(
        own: Tensor,
        new: Tensor,
        mean: Tensor,
        allowed: Tensor,
    ) -> Tensor:
        """Rows (R, H, Q, T) of which each weight changes in the proportion in which its mean (R, H, 1, T) does.

        A weight whose mean is 0 has no proportion: every row that may have it gets the new mean.
        """
        positive = mean > 0
        proportion = torch.where(positive, new / torch.where(positive, mean, 1.0), 1.0)  # (R, H, 1, T)
        without_mean = torch.where(positive, 0.0, new)  # (R, H, 1, T)
        rows = own * proportion
        rows = rows + without_mean * allowed
        total = rows.sum(-1, keepdim=True)
        return rows / torch.where(total > 0, total, 1.0)


def keys_of_text(rows: Tensor) -> Tensor:
    """The key (B, T) of each position of texts in a decoder whose input starts one position before them.

    Args:
        rows: bool (B, T), true at the last token of each text at least.

    Example:
        >>> keys_of_text(torch.tensor([[True, True, True, False]]))
        tensor([[1, 2, 0, 3]])
    """
    place = torch.arange(rows.shape[1], device=rows.device).expand_as(rows)  # (B, T)
    last = (place * rows).amax(1, keepdim=True)  # (B, 1)
    at_or_behind_last = torch.where(place == last, 0, place)
    return torch.where(place < last, place + 1, at_or_behind_last)
