"""What our classifiers have in common: embeddings, loading, the loss."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from attn_faithful._checks import InputError, check_shape
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.configurations import longest_text
from attn_faithful.models.protocol import AttentionModel
from attn_faithful.models.supported import unknown_id


@dataclass
class AttentionClassifierOutput(ModelOutput):
    """What the forward returns.

    Attributes:
        loss: with labels only; the weighted sum of the examples' losses over their number.
        logits: (B, C); (0, z) for a one-logit model.
        attentions: (B, T), 0 outside the content tokens; of a HAN sentence weight times word weight.
        hidden_states: the encoder's states (B, T, N), on request.
        sentence_attentions: (B, S), hierarchical models only.
        sentence_states: the sentence encoder's states (B, S, N), on request; hierarchical models only.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    attentions: Tensor | None = None
    hidden_states: Tensor | None = None
    sentence_attentions: Tensor | None = None
    sentence_states: Tensor | None = None


class EmbeddingClassifier(PreTrainedModel, AttentionModel):
    """A classifier over word embeddings; those that build on it give it encoders, attention and a read-out."""

    config_class = AttentionClassifierConfig
    main_input_name = "input_ids"

    def __init__(self, config: AttentionClassifierConfig) -> None:
        config.check_settings()  # which may have been changed since
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        self.classes = config.num_labels
        rate = config.classifier_dropout
        self.classifier_dropout = nn.Dropout(config.dropout if rate is None else rate)

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """As `PreTrainedModel.from_pretrained`, but a checkpoint that lacks weights raises."""
        model, info = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        if info["missing_keys"]:
            missing = ", ".join(sorted(info["missing_keys"]))
            raise InputError(f"The checkpoint {args[0]} lacks the weights {missing}; it is incomplete.")
        model.freeze()
        if output_loading_info:
            return (model, info)
        return model

    @classmethod
    def register_for_auto_class(cls, auto_class: Any = "AutoModel") -> None:
        """Nothing to do: what finds the class is saved with the configuration."""

    def _init_weights(self, module: nn.Module) -> None:
        # PyTorch's own initialisation, which the papers' numbers stand on; transformers' default is N(0, 0.02)
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()

    @property
    def has_query(self) -> bool:
        """Whether a second text asks the attention."""
        return bool(self.config.query)

    @property
    def max_tokens(self) -> int | None:
        """The longest text that it reads, in tokens; None for any."""
        return longest_text(self.config)

    def embeddings(self) -> list[nn.Embedding]:
        """All that word vectors go into."""
        return [self.embedding]

    def in_full(self) -> Self:
        """The model itself, or of weights in half precision a copy in float32, in which everything is measured."""
        if any(weight.dtype in (torch.float16, torch.bfloat16) for weight in self.parameters()):
            return copy.deepcopy(self).float()
        return self

    def freeze(self) -> None:
        """Keep the embeddings as they are, where the configuration says so."""
        if self.config.freeze_embeddings:
            for embedding in self.embeddings():
                embedding.requires_grad_(False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.embedding = value

    def load_vectors(self, matrix: Tensor) -> None:
        """Copy word vectors (V, E) into the embeddings.

        Raises:
            InputError: the matrix has another shape than the embedding.
        """
        if matrix.shape != self.embedding.weight.shape:
            raise InputError(
                f"Expected vectors of shape {tuple(self.embedding.weight.shape)}, but got {tuple(matrix.shape)}; "
                "set vocab_size and embedding_size to match the file."
            )
        with torch.no_grad():
            for embedding in self.embeddings():
                embedding.weight.copy_(matrix)

    def embed(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        special_tokens_mask: Tensor | None,
        inputs_embeds: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings (B, T, E), which tokens are read, and which are content, (B, T) bool."""
        self.check_classes()
        if (input_ids is None) == (inputs_embeds is None):
            raise InputError("Expected either `input_ids` or `inputs_embeds`, and not both.")
        if inputs_embeds is None:
            check_shape("input_ids", input_ids, "B T")
            inputs_embeds = looked_up(self.embedding, input_ids)
        read, content = self.masks(inputs_embeds, attention_mask, special_tokens_mask)
        return inputs_embeds, read, content

    @staticmethod
    def masks(
        tokens: Tensor,
        attention_mask: Tensor | None,
        special_tokens_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Which tokens (B, T, ...) are read, and which are content, (B, T) bool."""
        if attention_mask is None:
            read = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        else:
            check_shape("attention_mask", attention_mask, "B T")
            read = attention_mask.bool()
        content = read
        if special_tokens_mask is not None:
            content = read & ~special_tokens_mask.bool()
        return read, content

    def paired(self, values: Tensor) -> Tensor:
        """A one-logit read-out (..., 1) as the pair (0, z); others as they are."""
        if self.config.output == "sigmoid":
            return F.pad(values, (1, 0))
        return values

    def check_classes(self) -> None:
        """Raise where the configuration names another number of classes than the model was built with."""
        if self.config.num_labels != self.classes:
            raise InputError(
                f"The configuration names {self.config.num_labels} classes, but the model was built with "
                f"{self.classes}; name as many, or build a new model with this configuration."
            )

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """As `PreTrainedModel.resize_token_embeddings`, for every embedding of words: a query's too."""
        first = super().resize_token_embeddings(*args, **kwargs)
        for table in self.embeddings():
            if table is not first and table.num_embeddings != first.num_embeddings:
                trained = table.weight.requires_grad
                new = self._get_resized_embeddings(table, first.num_embeddings)
                new.requires_grad_(trained)
                self.replace_embedding(table, new)
        return first

    def replace_embedding(self, table: nn.Embedding, new: nn.Embedding) -> None:
        """Put an embedding in the place of one of the model's."""
        if new is table:
            return
        for name, module in list(self.named_modules()):
            if module is table:
                self.set_submodule(name, new)

    def loss_of(self, logits: Tensor, labels: Tensor | None) -> Tensor | None:
        """The loss; None without a known label."""
        self.check_classes()
        if labels is None:
            return None
        weights = None
        if self.config.class_weights is not None:
            weights = torch.tensor(self.config.class_weights, dtype=logits.dtype, device=logits.device)
        known = labels >= 0
        if labels.dim() > 1:
            known = known.flatten(1).all(1)  # (B,)
        if not bool(known.any()):
            return None
        logits = logits[known]
        labels = labels[known]
        if self.config.multi_label:
            return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), pos_weight=weights)
        impossible = logits.gather(1, labels[:, None]).isneginf()[:, 0]
        if bool(impossible.any()):
            raise InputError(f"Label {int(labels[impossible][0])} is none of its candidates; its loss is infinite.")
        losses = F.cross_entropy(logits, labels, weight=weights, reduction="none")  # (known texts,)
        return losses.sum() / len(losses)


def looked_up(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Embeddings (B, T, E) of ids (B, T).

    Raises:
        InputError: an id beyond the table, such as that of a token that was added to the tokenizer.
    """
    try:
        embedded: Tensor = table(ids.long())  # a tokenizer gives no ids at all as floats
    except IndexError:
        unknown = ids[(ids < 0) | (ids >= table.num_embeddings)]
        raise InputError(unknown_id(table.num_embeddings, int(unknown[0]))) from None
    return embedded
