"""Stability: attention that stays under small changes of the embeddings (in the line of Hu et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._seeds import generator_for
from attn_faithful.functional.correlation_distance import correlation_distance
from attn_faithful.functional.perturbation import perturbed_embeddings
from attn_faithful.models.base import looked_up
from attn_faithful.models.modes import analysing
from attn_faithful.training.regularizers.attention import attention_of_embeddings
from attn_faithful.training.regularizers.base import REGULARIZERS, Regularizer, mean_of_texts, read_and_content

RADIUS = 0.5  # length of the change of an embedding, in mean norms of the text's embeddings


@REGULARIZERS.register("stability")
class Stability(Regularizer):
    """The correlation distance of attention from that under perturbed embeddings, mean over the texts and heads.

    Every embedding that is read moves by the same length, `RADIUS` times the mean norm of the text's, in a direction
    drawn anew for each step: in the line of a "stable and explainable attention" (Hu et al. 2023), with random changes
    in the place of the worst ones. A correlation, as every divergence is least where attention is uniform, which the
    JSD made it on SST at once; attention by place alone is stable in both (docs/results/stability.md). Both attentions
    are computed without dropout, and the gradient passes both: what they share cancels. Of a hierarchical model
    attention is that over the document, sentence times word; of a pair the text moves, the query does not.
    """

    name = "stability"
    of_attention = True

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        ids = batch["input_ids"]
        read, content = read_and_content(batch, model)
        with analysing(model):
            embedded = looked_up(model.get_input_embeddings(), ids)  # (B, T, E)
            perturbed = perturbed_embeddings(embedded, self._directions(embedded, ids, read), read, RADIUS)
        twice = {name: torch.cat([value, value]) for name, value in batch.items()}
        attention = attention_of_embeddings(twice, torch.cat([embedded, perturbed]), model)  # (2 B, H, T)
        before, after = attention.chunk(2)  # (B, H, T) each
        of_heads = content[:, None].expand_as(before)
        return mean_of_texts(*correlation_distance(*(each.flatten(0, 1) for each in (before, after, of_heads))))

    def _directions(self, embedded: Tensor, ids: Tensor, read: Tensor) -> Tensor:
        """Normal numbers (B, T, E) that depend on the step and the text's own tokens, and not on what stands beside."""
        size = embedded.shape[-1]
        drawn = np.zeros(embedded.shape, dtype=np.float32)  # (B, T, E)
        for row, (of_text, is_read) in enumerate(zip(ids.cpu().numpy(), read.cpu().numpy(), strict=True)):
            tokens = of_text[is_read]
            generator = generator_for(*self.draw, self.name, *tokens)
            drawn[row, is_read] = generator.standard_normal((len(tokens), size), dtype=np.float32)
        return torch.from_numpy(drawn).to(embedded)
