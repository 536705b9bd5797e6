"""Configuration of the hierarchical attention classifiers."""

from __future__ import annotations

import copy

from attn_faithful._checks import InputError
from attn_faithful.models.configuration import AttentionClassifierConfig


class HANConfig(AttentionClassifierConfig):
    """Word encoder and attention in each sentence, sentence encoder and attention over the sentences, read-out.

    The defaults are those of Yang et al. (2016) and Serrano and Smith (2019), appendix A.1. What is not named here is
    as in `AttentionClassifierConfig` and holds at both levels; there is no query and no scale, and the read-out is
    affine.

    Args:
        attention_size: width of the additive layers; None for that of the encoder's states.
        dropout: before the word encoder, in training only.
        sentence_dropout: before the sentence encoder; None for `dropout`.
        classifier_dropout: on the document's vector; None for `dropout`.

    Raises:
        InputError: as `AttentionClassifierConfig`; or a query, another read-out, or a scale.

    Example:
        >>> HANConfig(vocab_size=100, num_labels=5).encoder
        'gru'
    """

    model_type = "hierarchical_attention_classifier"
    model_class = "attn_faithful.models.han.HANClassifier"

    embedding_size: int = 200
    encoder: str = "gru"
    hidden_size: int = 50
    kernel_sizes: list[int] | tuple[int, ...] = (3, 5)
    sentence_dropout: float | None = None

    def attention_width(self, width: int) -> int:
        return self.attention_size or width

    def sentence_level(self, width: int) -> HANConfig:
        """The same one level up, where what is read has the given width."""
        config = copy.copy(self)
        config.embedding_size = width
        return config

    def check_settings(self) -> None:
        # imported here: a configuration must load without torch modules
        from attn_faithful.models.configuration_checks import check_rate

        super().check_settings()
        if self.query or self.readout != "affine" or self.scale is not None:
            raise InputError(
                "A hierarchical model has no query, no scale and an affine read-out; leave query, scale and readout "
                "out."
            )
        check_rate("sentence_dropout", self.sentence_dropout)
