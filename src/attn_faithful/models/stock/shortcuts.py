"""Which shortcuts give a stock model's own logits: each is tried on the probe's texts, and left out where it fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.last_block import LastBlock, can_end_early, query_layers

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # within which logits by a shortcut are those of the whole model


@torch.no_grad()
def try_shortcuts(model: Any) -> None:
    """Set `skips`, `single`, `ends_early`, `gradients_end_early` and `one_row_changes` of a `StockModel`."""
    complete = {}
    for site in model.sites[:-1]:
        # the decoder asks these whenever it is called
        model.skips = False
        complete[site] = _logits_of_first_positions(model, site)  # (B, 1, C)
        model.skips = True
        if not _agrees(partial(_logits_of_first_positions, model, site), complete[site]):
            model.skips = False
            return
    *lower, last = complete
    model.single = True
    model.single = _agrees(partial(_logits_of_first_positions, model, last), complete[last])
    if not (model.needs_one_token(len(model.probe.heads) - 1) and can_end_early(model)):
        return
    texts = model.probe.texts
    with model.analysing():
        whole = model.run(texts, Trace())  # (B, C)
    model.ends_early = True
    model.ends_early = _agrees(partial(model.logits_of, texts), whole) and _agrees(
        partial(_logits_of_first_positions, model, last), complete[last]
    )
    if not model.ends_early:
        return
    model.query_layers = _query_layers(model, texts)
    if not _agrees(partial(model.logits_of, texts), whole):
        model.query_layers = []
    model.gradients_end_early = _has_the_gradients_of_the_whole(model)
    model.one_row_changes = True
    for site in lower:
        if not _agrees(partial(_logits_of_first_positions, model, site), complete[site]):
            model.one_row_changes = False


def _query_layers(model: Any, texts: dict[str, Tensor]) -> list[nn.Module]:
    """The last block's layers of queries."""
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


def _logits_of_first_positions(model: Any, site: str) -> Tensor:
    """Logits of the probe's texts where each head of a site sees only the first position that it may."""
    encoded = model.encode(model.probe.texts, site)
    first = encoded.allowed & (encoded.allowed.cumsum(-1) == 1)  # (B, S, T)
    attention = first.to(encoded.attention.dtype)
    logits: Tensor = encoded.decode(attention[:, None])
    return logits
