"""A model with what is needed to evaluate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful.functional.masf import Masf
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import Collate, batch_of, encode_block
from attn_faithful.models.protocol import Batch, Encoded


@dataclass(frozen=True, eq=False)
class Reference:
    """What erased texts are compared with.

    Attributes:
        masf: None where there is none.
        reason: why there is none.
    """

    masf: Masf | None
    reason: str | None = None


@dataclass(frozen=True)
class EvaluatedModel:
    """A model with what is needed to evaluate it.

    Attributes:
        model: speaks the protocol.
        collate: makes a batch of rows.
        label_names: in the order of the classes.
        token_ids: "mask", "unk" and "pad" -> id, where the tokenizer has them.
        head_weights: (L, H), for the source "learned_heads"; None where none were fitted.
        reference: what erased texts are compared with; None where nothing asks whether they are in distribution.
    """

    model: Any
    collate: Collate
    label_names: Sequence[str]
    token_ids: Mapping[str, int | None]
    head_weights: Tensor | None = None
    reference: Reference | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        tokenizer: Any,
        collate: Collate,
        label_names: Sequence[str],
    ) -> EvaluatedModel:
        """A model with the ids of its tokenizer that may replace a token."""
        token_ids = {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("mask", "unk", "pad")}
        return cls(model, collate, label_names, token_ids)

    @property
    def masking(self) -> str | None:
        """How the model was trained with masks; None where it was not."""
        return getattr(self.model.config, "masking", None)

    def batch(self, rows: Any, block: Block) -> Batch:
        """The inputs of a block."""
        return batch_of(self.model, rows, self.collate, block)

    def encode_block(
        self,
        rows: Any,
        block: Block,
        site: str,
    ) -> tuple[Batch, Encoded]:
        """The inputs of a block, and what the model does with them at a site; see `models.inference`."""
        return encode_block(self.model, rows, self.collate, block, site)

    @torch.no_grad()
    def encode(self, batch: Batch, site: str) -> Encoded:
        """What the model does with some inputs at a site, without gradients."""
        encoded: Encoded = self.model.encode(batch, site)
        return encoded
