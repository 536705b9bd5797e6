"""A stock model and its twin side by side over a data set: how far their predictions and their heads are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful.functional import divergences
from attn_faithful.functional.head_matching import content_attention, head_distances, match_heads, matched_distances
from attn_faithful.models.blocks import distinct_blocks
from attn_faithful.models.inference import Collate
from attn_faithful.models.protocol import Batch, probabilities
from attn_faithful.models.stock.interface import Call
from attn_faithful.models.stock.model import StockModel

KEYS = ("content", "all")
CELLS = 256  # attention weights that count as one cell of a block: of all layers, 32 MB a block


@dataclass(frozen=True)
class StockOutputs:
    """A twin beside its base on n examples and L layers.

    Attributes:
        layers: by number.
        tvd: of the predictions, (n,), 0 to 1.
        by_layer: JSD over matched heads and real queries, (n, L), nats; NaN where no query has mass on the keys.
        assignments: of each layer, for each head of the twin its head of the base.
        base, twin: class probabilities, (n, C).
        content_mass: mean attention on content tokens over heads and real queries, (n, L, 2): the base's, the twin's.
    """

    layers: list[int]
    tvd: np.ndarray
    by_layer: np.ndarray
    assignments: list[np.ndarray]
    base: np.ndarray
    twin: np.ndarray
    content_mass: np.ndarray

    @property
    def jsd(self) -> np.ndarray:
        """Mean over the layers, (n,); NaN where no layer has a value."""
        return torch.from_numpy(self.by_layer).nanmean(1).numpy()

    def among(self, n: int, places: Sequence[int]) -> StockOutputs:
        """These examples at their places among n, of which the others are NaN."""
        if len(places) == n:
            return self
        spread = {}
        for name in ("tvd", "by_layer", "base", "twin", "content_mass"):
            own: np.ndarray = getattr(self, name)
            spread[name] = np.full((n, *own.shape[1:]), np.nan)
            spread[name][list(places)] = own
        return replace(self, **spread)


def layer_heads(model: StockModel, call: Call, layer: int, batch: Batch, keys: str) -> Tensor:
    """Attention of one layer, (B, H, Q, T), among the content tokens ("content") or all tokens of each text ("all")."""
    return content_attention(call.attention, _keys(model, layer, batch, keys))


def _keys(model: StockModel, layer: int, batch: Batch, keys: str) -> Tensor:
    """Which keys (B, T) of a layer are content, or tokens at all."""
    chosen = batch["attention_mask"].bool()
    if keys == "content" and batch.get("special_tokens_mask") is not None:
        chosen = chosen & ~batch["special_tokens_mask"].bool()
    if model.probe.shifted[layer]:  # a decoder's input: a special token that starts it, and the text
        start = torch.full_like(chosen[:, :1], keys == "all")
        chosen = torch.cat([start, chosen[:, :-1]], dim=1)
    return chosen


@torch.no_grad()
def stock_twin_outputs(
    base: StockModel,
    twin: StockModel,
    rows: Any,
    collate: Collate,
    layers: Sequence[int] | None = None,
    keys: str = "content",
) -> StockOutputs:
    """Run base and twin over a data set, block by block, and match their heads on it.

    What is held beside one block is a number a pair of heads, layer and example: 7 MB for 1,000 texts and the 6 layers
    of 12 heads of a small BERT.

    Args:
        base, twin: of one architecture.
        rows: encoded examples.
        collate: makes batches.
        layers: whose heads are compared; None for the base's.
        keys: "content": attention among the content tokens, of which each row's weights sum to 1; "all": with special
            tokens.
    """
    check_choice("keys", keys, KEYS)
    chosen = list(base.layers if layers is None else layers)
    heads = [base.probe.heads[n] for n in chosen]
    n, classes = len(rows), base.config.num_labels
    apart = [torch.zeros(n, h, h, dtype=torch.float64) for h in heads]
    mass = torch.zeros(n, len(chosen), 2, dtype=torch.float64)
    chances = torch.zeros(2, n, classes, dtype=torch.float64)
    for block in distinct_blocks(rows, lambda length: max(length, sum(heads) * length * length // CELLS)):
        batch = collate([rows[i] for i in block.first])
        batch.pop("labels", None)
        batch = {name: value.to(base.device) for name, value in batch.items()}
        queries = batch["attention_mask"].bool()
        places, row = block.places, block.row
        seen = [model.seen(batch, set(chosen)) for model in (base, twin)]
        for which, found in enumerate(seen):
            chances[which, places] = probabilities(found.logits, base.multi_label).double().cpu()[row]
        for nth, layer in enumerate(chosen):
            both = [layer_heads(base, found.calls[layer], layer, batch, keys) for found in seen]
            apart[nth][places] = head_distances(both[1], both[0], queries).cpu()[row]
            content = _keys(base, layer, batch, "content")[:, None, None]
            for which, found in enumerate(seen):
                held = (layer_heads(base, found.calls[layer], layer, batch, "all") * content).sum(-1).mean(1)  # (B, Q)
                mean = (held * queries).sum(1) / queries.sum(1).clamp(min=1)  # (B,)
                mass[places, nth, which] = mean.double().cpu()[row]
    assignments = [match_heads(distances) for distances in apart]
    pairs = zip(apart, assignments, strict=True)
    by_layer = torch.stack([matched_distances(distances, assignment) for distances, assignment in pairs], dim=1)
    measure = divergences.multilabel_tvd if base.multi_label else divergences.tvd
    tvd = measure(chances[1], chances[0], validate_args=False)
    return StockOutputs(
        chosen, tvd.numpy(), by_layer.numpy(), assignments, chances[0].numpy(), chances[1].numpy(), mass.numpy()
    )
