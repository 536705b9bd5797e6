"""Rows that begin like a text, in causal models: what the beginning gives is computed once and not for every row.

A token of a causal model sees none behind it. A text without its token i, or with another one there, has in every layer
the keys and values of the whole text up to i, and only the tokens from i on are run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Reach, Reached, Trace
from attn_faithful.models.stock.packing import lengths_of, packed

Inputs = dict[str, Tensor]
BY_LENGTH = ("dynamic", "longrope")  # rotary embeddings whose angles depend on how long the whole text is
ROWS = 8  # times as many rows as whole texts at most, since each row has keys and values of its whole length


@dataclass(frozen=True, eq=False)
class SharedPrefixes:
    """Of each row the text that it begins like.

    Attributes:
        inputs: what the model reads of the texts, (B, T).
        text: by number, (R,).
        length: how many of the row's first tokens are the text's; fewer than the row has, (R,).
    """

    inputs: Inputs
    text: Tensor
    length: Tensor

    def where(self, rows: Tensor) -> SharedPrefixes:
        """Those of some rows, bool (R,); the others share nothing."""
        return replace(self, length=torch.where(rows, self.length, 0))


@dataclass(frozen=True, eq=False)
class Group:
    """Texts that are run in one forward, and the rows that begin like them, a part a forward.

    Attributes:
        texts: by number, (G,).
        tokens: of the longest.
        parts: rows, (P,) each, that share as much as the first of them shares, or more.
    """

    texts: Tensor
    tokens: int
    parts: list[Tensor]


class PrefixCache:
    """Keys and values of some texts in each attention call of a causal model, by one forward.

    Args:
        model: any.
        inputs: of the texts, (B, T), padding behind them.
    """

    def __init__(self, model: StockForward, inputs: Inputs) -> None:
        self.calls: dict[int, Reached] = {}
        self.longest = inputs["attention_mask"].sum(1).argmax(keepdim=True)  # (1,)
        model.run(inputs, Trace(reach=self._noted))

    def _noted(self, call: int, own: Reached) -> Reached:
        self.calls[call] = own
        return own

    def is_causal(self) -> bool:
        """Whether no call let a token attend to a later one."""
        for _, _, mask in self.calls.values():
            if mask is None or mask.dtype != torch.bool or bool(mask.triu(1).any()):
                return False
        return True

    def before(self, text: Tensor, length: int) -> Reach:
        """What the tokens of rows attend to that are run from a place on.

        Args:
            text: which of the texts each row begins like, (R,).
            length: the place.
        """

        def reached(call: int, own: Reached) -> Reached:
            keys, values, mask = self.calls[call]
            key = torch.cat([keys[text, :, :length], own[0]], dim=2)  # (R, H, T, D)
            value = torch.cat([values[text, :, :length], own[1]], dim=2)
            end = key.shape[2]
            # the longest text tells what each place may attend to: no row has a token behind padding
            of_rows = mask[:, :, length:end, :end].index_select(0, self.longest)  # (1, 1, Q, T)
            return key, value, of_rows

        return reached


def from_place(inputs: Inputs, start: int) -> Inputs:
    """What a model reads of rows (R, T) from a place on, (R, Q)."""
    behind = {name: values[:, start:] for name, values in inputs.items()}
    ids = behind["input_ids"]
    positions = torch.arange(start, start + ids.shape[1], device=ids.device)
    behind["position_ids"] = positions.expand(len(ids), -1)
    return behind


def may_share(model: Any) -> bool:
    """Whether rows of a model may be run from a place on, for all that can be told without running it."""
    for module in model.model.modules():
        kinds = str(getattr(module, "rope_type", ""))
        if any(kind in kinds for kind in BY_LENGTH):
            return False
    return "position_ids" in model.takes and model.probe.reads == "last"


def are_plain(inputs: Inputs, padding: int | None) -> Tensor:
    """Which texts (B, T) stand from the first place on without a gap, and are read at their last token, (B,).

    Args:
        inputs: of the texts.
        padding: the id that the classifier looks for to find the last token; None where it asks the mask.
    """
    mask = inputs["attention_mask"].bool()
    without_gap = mask.sum(1) == lengths_of(mask)
    if padding is None:
        return without_gap
    padding_inside = mask & (inputs["input_ids"] == padding)
    return without_gap & ~padding_inside.any(1)


def prefixes_of_rows(inputs: Inputs, text: Tensor) -> SharedPrefixes:
    """What rows have in common that are made of some texts: each is told to begin like the last row of its text.

    Args:
        inputs: of the rows, (R, T).
        text: of each row, (R,).

    Example:
        >>> ids = torch.tensor([[9, 6, 7], [5, 9, 7], [5, 6, 9]])
        >>> rows = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        >>> prefixes_of_rows(rows, torch.tensor([0, 0, 0])).length
        tensor([0, 1, 2])
    """
    texts, text = text.unique(return_inverse=True)
    rows = torch.arange(len(text), device=text.device)
    last = torch.zeros_like(texts).scatter_reduce(0, text, rows, "amax")  # (B,)
    same = torch.ones_like(inputs["input_ids"], dtype=torch.bool)  # (R, T)
    for values in inputs.values():
        same &= values == values[last[text]]
    length = same.cumprod(1).sum(1)  # (R,)
    length = torch.minimum(length, lengths_of(inputs["attention_mask"]) - 1).clamp(min=0)
    return SharedPrefixes({name: values[last] for name, values in inputs.items()}, text, length)


def groups(
    prefixes: SharedPrefixes,
    lengths: Tensor,
    most: Callable[[int], int],
    padding: int,
) -> list[Group]:
    """Which rows are run behind prefixes: where that leaves out more than it costs.

    Args:
        prefixes: of the rows.
        lengths: tokens of each row, (R,).
        most: how many texts of a length are run together.
        padding: places in one forward that hold nothing to be run, at most: about what starting another forward costs.
    """
    text, shared = prefixes.text.cpu(), prefixes.length.cpu()  # one transfer from a device, and not one a part
    rows = (shared > 0).nonzero()[:, 0]
    texts = text[rows].unique()
    sizes = lengths_of(prefixes.inputs["attention_mask"]).cpu()[texts]
    found = []
    for members in packed(sizes, most, padding):
        of_group = rows[torch.isin(text[rows], texts[members])]
        tokens = int(sizes[members[0]])
        most_rows = ROWS * most(tokens)

        def most_behind(places: int, most_rows: int = most_rows) -> int:
            return min(most(places), most_rows)

        parts = []
        saved = 0
        for part in packed(lengths[of_group], most_behind, padding, shared[of_group]):
            places = of_group[part]
            left_out = len(places) * int(shared[places[0]])
            if left_out > 2 * padding:
                parts.append(places)
                saved += left_out
        if saved > 2 * len(members) * tokens:
            found.append(Group(texts[members], tokens, parts))
    return found
