"""Which shortcuts give a stock model's own logits: each is tried on the probe's texts, and left out where it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.interface import Alter, Trace
from attn_faithful.models.stock.last_block import LastBlock, can_end_early, query_layers
from attn_faithful.models.stock.layers import repeated
from attn_faithful.models.stock.prefix import PrefixCache, from_place, may_share

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # within which logits by a shortcut are those of the whole model
COMMON = 3  # tokens of the probe's texts that another text has too


@dataclass(frozen=True)
class Whole:
    """Logits of the probe's texts by the whole model.

    Attributes:
        own: under the model's own attention, (B, C).
        elsewhere: of each layer's site, where its heads see only the first position that they may, (B, 1, C).
    """

    own: Tensor
    elsewhere: dict[str, Tensor]

    @classmethod
    def of(cls, model: Any) -> Whole:
        """Of a model without shortcuts: a forward, and one of copies of the texts, a layer is altered in each."""
        seen = model.seen(model.probe.texts)
        inputs = model.inputs(model.probe.texts)
        sites = model.sites[:-1]
        text = torch.arange(len(seen.logits), device=seen.logits.device)
        texts = text.repeat(len(sites))  # (L * B,)
        trace = Trace()
        for layer, rows in enumerate(torch.arange(len(texts), device=texts.device).split(len(text))):
            slots = model.slots_of(seen.calls[layer], layer, inputs)
            first = _first_positions(slots.allowed)  # (B, S, T)
            trace.alter[layer] = _in_rows(rows, slots.altered(first[texts], texts))
        with model.analysing():
            logits = model.run(repeated(inputs, texts), trace)  # (L * B, C)
        by_layer = logits.view(len(sites), len(text), 1, -1)  # (L, B, 1, C)
        return cls(seen.logits, dict(zip(sites, by_layer, strict=True)))

    def has(self, model: Any, *sites: str) -> bool:
        """Whether the model's logits at some sites are these."""
        return all(self._has_at(model, site) for site in sites)

    def _has_at(self, model: Any, site: str) -> bool:
        return _agrees(partial(_logits_of_first_positions, model, site), self.elsewhere[site])

    def has_own(self, model: Any) -> bool:
        """Whether the model's logits where nobody asks for attention are these."""
        return _agrees(partial(model.logits_of, model.probe.texts), self.own)


@torch.no_grad()
def try_shortcuts(model: Any) -> None:
    """Set `skips`, `single`, `ends_early`, `one_row_changes`, `gradients_end_early` and `shares_prefixes`.

    All but the last two are tried together, and one after another where they do not hold together.
    """
    whole = Whole.of(model)
    if not _all_hold(model, whole):
        _switch_off(model)
        _try_each(model, whole)
    if model.ends_early:
        model.gradients_end_early = _has_the_gradients_of_the_whole(model)
    model.shares_prefixes = _prefixes_hold(model, whole)


def _all_hold(model: Any, whole: Whole) -> bool:
    """Switch on all shortcuts but that of gradients; whether the model's logits are those of the whole one."""
    model.skips = model.single = True
    if not _may_end_early(model):
        return False
    model.ends_early = model.one_row_changes = True
    try:
        model.query_layers = _query_layers(model)
    except Exception:  # whatever the model's code raises
        return False
    return whole.has_own(model) and whole.has(model, *whole.elsewhere)


def _switch_off(model: Any) -> None:
    model.skips = model.single = model.ends_early = model.one_row_changes = False
    model.query_layers = []


def _try_each(model: Any, whole: Whole) -> None:
    """Switch on the shortcuts that hold, each beside those before it."""
    *lower, last = whole.elsewhere
    model.skips = True
    model.skips = whole.has(model, *whole.elsewhere)
    if not model.skips:
        return
    model.single = True
    model.single = whole.has(model, last)
    if not _may_end_early(model):
        return
    model.ends_early = True
    model.ends_early = whole.has_own(model) and whole.has(model, last)
    if not model.ends_early:
        return
    model.query_layers = _query_layers(model)
    if not whole.has_own(model):
        model.query_layers = []
    model.one_row_changes = True
    model.one_row_changes = whole.has(model, *lower)


def _may_end_early(model: Any) -> bool:
    """Whether the last block could be run for the token alone that the classifier reads."""
    return bool(model.needs_one_token(len(model.probe.heads) - 1)) and can_end_early(model)


def _prefixes_hold(model: Any, whole: Whole) -> bool:
    """Whether the probe's texts have their logits where other texts that begin like them give what they begin with."""
    if not may_share(model):
        return False
    texts = model.probe.texts
    others = texts["input_ids"].clone()  # (B, T)
    others[:, COMMON:] = others[:, :1]
    with model.analysing():
        cache = PrefixCache(model, {**texts, "input_ids": others})
        reach = cache.before(torch.arange(len(others), device=others.device), COMMON)
        behind = partial(model.predicted, from_place(texts, COMMON), reach)
        return cache.is_causal() and _agrees(behind, whole.own)


def _query_layers(model: Any) -> list[nn.Module]:
    """The last block's layers of queries."""
    texts = model.probe.texts
    place = model.probe.place(texts, model.config)
    with model.analysing():
        return query_layers(LastBlock(model, texts, place, []))


def _has_the_gradients_of_the_whole(model: Any) -> bool:
    """Whether forwards that end early have the gradients with respect to embeddings that whole ones have."""
    try:
        whole = _gradients(model)
        model.gradients_end_early = True
        return _agrees(partial(_gradients, model), whole)
    except Exception:  # of a model that takes no embeddings nobody asks such gradients
        return False


@torch.enable_grad()
def _gradients(model: Any) -> Tensor:
    """Gradients (B, T, E) of the logits of the probe's texts with respect to embeddings, in shares of the largest."""
    texts = model.probe.texts
    embedded = model.get_input_embeddings()(texts["input_ids"])
    leaf = embedded.detach().requires_grad_()
    with model.analysing():
        logits = model(**texts, inputs_embeds=leaf).logits
    weights = torch.linspace(1.0, 2.0, logits.shape[-1], device=logits.device, dtype=logits.dtype)
    (gradients,) = torch.autograd.grad((logits * weights).sum(), leaf)
    largest = gradients.abs().max()
    shares: Tensor = gradients / largest
    return shares


def _agrees(shortcut: Callable[[], Tensor], complete: Tensor) -> bool:
    """Whether a shortcut gives the logits of the whole model; one that its code cannot take raises anything."""
    try:
        logits = shortcut()
    except Exception:
        return False
    return torch.allclose(logits.to(complete.dtype), complete, **CLOSE)


def _in_rows(rows: Tensor, alter: Alter) -> Alter:
    """What alters attention (R, H, Q, T) in some of its rows alone."""

    def altered(own: Tensor, allowed: Tensor) -> Tensor:
        return own.index_copy(0, rows, alter(own, allowed)[rows])

    return altered


def _logits_of_first_positions(model: Any, site: str) -> Tensor:
    """Logits (B, 1, C) of the probe's texts where each head of a site sees only the first position that it may."""
    encoded = model.encode(model.probe.texts, site)
    attention = _first_positions(encoded.allowed)
    logits: Tensor = encoded.decode(attention[:, None])
    return logits


def _first_positions(allowed: Tensor) -> Tensor:
    """Attention (B, S, T) on the first position that each slot may see, bool (B, S, T)."""
    first = allowed & (allowed.cumsum(-1) == 1)
    return first.float()
