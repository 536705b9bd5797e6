"""A model with what is needed to evaluate it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful.models.inference import Collate


@dataclass(frozen=True)
class EvaluatedModel:
    """A model with what is needed to evaluate it.

    Attributes:
        model: speaks the protocol.
        collate: makes a batch of rows.
        label_names: in the order of the classes.
        token_ids: "mask", "unk" and "pad" -> id, where the tokenizer has them.
    """

    model: Any
    collate: Collate
    label_names: Sequence[str]
    token_ids: Mapping[str, int | None]

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
