"""Configuration of the attention classifiers with a path around their attention."""

from __future__ import annotations

from attn_faithful._checks import InputError
from attn_faithful.models.configuration import AttentionClassifierConfig


class BypassConfig(AttentionClassifierConfig):
    """Embedding, encoder, attention that pools the tokens, affine read-out, and a path around all of these.

    The settings are those of `AttentionClassifierConfig`; there is no query, and the read-out is affine.

    Raises:
        InputError: as `AttentionClassifierConfig`; or a query, or another read-out.

    Example:
        >>> BypassConfig(vocab_size=100, encoder="mlp").readout
        'affine'
    """

    model_type = "bypass_attention_classifier"
    model_class = "attn_faithful.models.bypass.BypassClassifier"

    def check_settings(self) -> None:
        super().check_settings()
        if self.query or self.readout != "affine":
            raise InputError(
                "Expected a model with a path around its attention to have no query and an affine read-out, but got "
                f"query {self.query!r} and readout {self.readout!r}; leave query and readout out."
            )
