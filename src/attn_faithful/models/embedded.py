"""Texts by the embeddings of their tokens: what a model's forward takes in the place of ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful.models.adapted import forward_arguments, input_embeddings
from attn_faithful.models.protocol import Batch


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """Texts that a model can be run on with other embeddings.

    Attributes:
        model: speaks the protocol.
        embedded: (B, T, E), its own, without gradient.
        inputs: what else its forward takes of the texts.
    """

    model: Any
    embedded: Tensor
    inputs: dict[str, Tensor]

    @classmethod
    def of(cls, model: Any, batch: Batch) -> EmbeddedTexts | None:
        """The texts of a batch; None of a model that takes no embeddings."""
        takes = forward_arguments(model)
        table = input_embeddings(model)
        if table is None or "inputs_embeds" not in takes:
            return None
        embedded = batch.get("inputs_embeds")
        if embedded is None:
            with torch.no_grad():
                embedded = table(batch["input_ids"].long())
        replaced = {"inputs_embeds", "labels"}
        if not model.reads_ids:
            replaced.add("input_ids")
        inputs = {name: value for name, value in batch.items() if name in takes - replaced}
        return cls(model, embedded.detach(), inputs)

    def logits(self, embedded: Tensor) -> Tensor:
        """Logits (B, C) of the texts with the embeddings (B, T, E), in the mode that the model is in."""
        logits: Tensor = self.model(inputs_embeds=embedded, **self.inputs).logits
        return logits
