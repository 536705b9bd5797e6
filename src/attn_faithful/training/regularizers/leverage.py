"""Leverage: decisions that rest on the attention, by the exact answers of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.functional.leverage import leverage_loss
from attn_faithful.models.base import looked_up
from attn_faithful.models.bypass import BypassClassifier
from attn_faithful.models.protocol import precise
from attn_faithful.training.regularizers.base import REGULARIZERS, Regularizer, content_of, mean_of_texts


@REGULARIZERS.register("leverage")
class Leverage(Regularizer):
    """How little the decisions rest on the attention, mean over the texts; of the model's decision, right or wrong."""

    name = "leverage"

    def check(self, model: Any) -> None:
        config = model.config
        if tuple(model.sites) != ("pool",):
            raise InputError(
                "The regularizer 'leverage' is there for one attention over the words of a text, but the model attends "
                f"at {', '.join(model.sites)}; leave it out of train.regularizers."
            )
        if config.readout != "affine" or config.multi_label:
            raise InputError(
                "The regularizer 'leverage' needs a read-out that is affine in the attention and one label a text, but "
                f"model.readout is {config.readout!r} and model.output {config.output!r}; set model.readout=affine, or "
                "leave it out of train.regularizers."
            )
        if isinstance(model, BypassClassifier):
            raise InputError(
                "The regularizer 'leverage' asks what decides beside the attention, but got a model with a path around "
                "it, which reads the tokens themselves; leave it out of train.regularizers."
            )

    def loss(self, batch: Mapping[str, Tensor], output: Any, model: Any) -> Tensor:
        values = precise(output.hidden_states)  # (B, T, N), what attention sums up
        if model.scale is not None:
            ids = batch["input_ids"]
            values = values * model.scale(ids, looked_up(model.embedding, ids))[..., None]
        affine = model.affine(values, batch.get("candidates"))
        content = content_of(batch, model)  # (B, T)
        return mean_of_texts(*leverage_loss(output.attentions, content, affine.token_logits, affine.bias))
