"""Ways past blocks whose outputs are known: taken only where they were tried and gave what the whole model gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from attn_faithful.models.stock.model import StockModel

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@torch.no_grad()
def try_shortcuts(model: StockModel) -> None:
    """Set `skips` (known blocks are left out) and `single` (at the last layer other tokens too) where they hold."""
    for site in model.sites[:-1]:
        model.skips = model.single = False
        whole = _tried(model, site)
        model.skips = True
        if not torch.allclose(_tried(model, site), whole, **CLOSE):
            model.skips = False
            return
    model.single = True
    model.single = torch.allclose(_tried(model, site), whole, **CLOSE)


def _tried(model: StockModel, site: str) -> Tensor:
    """Logits of the probe's texts where each head sees only the first position that it may."""
    encoded = model.encode(model.probe.texts, site)
    first = encoded.allowed & (encoded.allowed.cumsum(-1) == 1)
    return encoded.decode(first.to(encoded.attention.dtype)[:, None])
