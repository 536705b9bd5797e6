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
from attn_faithful.models.blocks import Block, distinct_blocks
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
        return replace(
            self,
            tvd=_spread(self.tvd, n, places),
            by_layer=_spread(self.by_layer, n, places),
            base=_spread(self.base, n, places),
            twin=_spread(self.twin, n, places),
            content_mass=_spread(self.content_mass, n, places),
        )


def _spread(values: np.ndarray, n: int, places: Sequence[int]) -> np.ndarray:
    """Values at their places among n, NaN elsewhere."""
    spread = np.full((n, *values.shape[1:]), np.nan)
    spread[list(places)] = values
    return spread


def layer_heads(
    model: StockModel,
    call: Call,
    layer: int,
    batch: Batch,
    keys: str,
) -> Tensor:
    """Attention of one layer, (B, H, Q, T), among the content tokens ("content") or all tokens of each text ("all")."""
    return content_attention(call.attention, _keys(model, layer, batch, keys))


def _keys(
    model: StockModel,
    layer: int,
    batch: Batch,
    keys: str,
) -> Tensor:
    """Which keys (B, T) of a layer are content, or tokens at all."""
    chosen = batch["attention_mask"].bool()
    if keys == "content" and batch.get("special_tokens_mask") is not None:
        chosen = chosen & ~batch["special_tokens_mask"].bool()
    if model.probe.shifted[layer]:
        # a decoder's input: a special token that starts it, and the text
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
    layers = list(base.layers if layers is None else layers)
    comparison = _HeadComparison(base, twin, layers, keys, len(rows))

    def cost(length: int) -> int:
        weights = sum(comparison.heads) * length * length
        return max(length, weights // CELLS)

    for block in distinct_blocks(rows, cost):
        texts = [rows[place] for place in block.first]
        batch = collate(texts)
        batch.pop("labels", None)
        batch = {name: value.to(base.device) for name, value in batch.items()}
        comparison.add(block, batch)
    return comparison.outputs()


class _HeadComparison:
    """Base and twin on n examples, filled block by block.

    Args:
        base, twin: of one architecture.
        layers: whose heads are compared.
        keys: "content" or "all".
        n: examples.
    """

    def __init__(
        self,
        base: StockModel,
        twin: StockModel,
        layers: list[int],
        keys: str,
        n: int,
    ) -> None:
        self.base = base
        self.models = (base, twin)
        self.layers = layers
        self.keys = keys
        self.heads = [base.probe.heads[layer] for layer in layers]
        self.distances = []  # (n, H, H) a layer
        for heads in self.heads:
            self.distances.append(torch.zeros(n, heads, heads, dtype=torch.float64))
        self.content_mass = torch.zeros(n, len(layers), 2, dtype=torch.float64)
        self.probabilities = torch.zeros(2, n, base.config.num_labels, dtype=torch.float64)

    def add(self, block: Block, batch: Batch) -> None:
        """Compare the texts of a block and write the numbers to all of its places."""
        outputs = [model.seen(batch, set(self.layers)) for model in self.models]
        for which, output in enumerate(outputs):
            chances = probabilities(output.logits, self.base.multi_label).double().cpu()  # (B, C)
            self.probabilities[which, block.places] = chances[block.row]
        for nth, layer in enumerate(self.layers):
            calls = [output.calls[layer] for output in outputs]
            self._add_layer(nth, calls, block, batch)

    def _add_layer(
        self,
        nth: int,
        calls: list[Call],
        block: Block,
        batch: Batch,
    ) -> None:
        layer = self.layers[nth]
        queries = batch["attention_mask"].bool()  # (B, Q)
        # (B, H, Q, T) each
        of_base, of_twin = (layer_heads(self.base, call, layer, batch, self.keys) for call in calls)
        distances = head_distances(of_twin, of_base, queries).cpu()  # (B, H, H)
        self.distances[nth][block.places] = distances[block.row]
        content = _keys(self.base, layer, batch, "content")[:, None, None]  # (B, 1, 1, T)
        for which, call in enumerate(calls):
            attention = layer_heads(self.base, call, layer, batch, "all")  # (B, H, Q, T)
            mass = (attention * content).sum(-1).mean(1)  # (B, Q)
            mean = (mass * queries).sum(1) / queries.sum(1).clamp(min=1)  # (B,)
            mean = mean.double().cpu()
            self.content_mass[block.places, nth, which] = mean[block.row]

    def outputs(self) -> StockOutputs:
        """All examples, with the heads of each layer matched over them."""
        assignments = [match_heads(distances) for distances in self.distances]
        by_layer = []  # (n,) each
        for distances, assignment in zip(self.distances, assignments, strict=True):
            by_layer.append(matched_distances(distances, assignment))
        base, twin = self.probabilities
        measure = divergences.multilabel_tvd if self.base.multi_label else divergences.tvd
        return StockOutputs(
            layers=self.layers,
            tvd=measure(twin, base, validate_args=False).numpy(),
            by_layer=torch.stack(by_layer, dim=1).numpy(),
            assignments=assignments,
            base=base.numpy(),
            twin=twin.numpy(),
            content_mass=self.content_mass.numpy(),
        )
