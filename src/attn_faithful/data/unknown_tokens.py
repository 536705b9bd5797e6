"""Tokens of the data that a model's tokenizer does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attn_faithful._checks import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# shares of unknown tokens
_REFUSED = 0.95
_NOTED = 0.2
_FEW = 20  # tokens; fewer are not refused


def unknown_notes(tokenizer: PreTrainedTokenizerBase, rows: Any, name: str) -> list[str]:
    """A note on tokens that a tokenizer does not know; none where they are few.

    Args:
        tokenizer: of the rows.
        rows: encoded texts, with ``input_ids`` and, where tokens are special, ``special_tokens_mask``.
        name: of the data, for messages.

    Raises:
        InputError: nearly no token of the data is known, so that the model sees the same in every text.
    """
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is None or unknown == getattr(tokenizer, "eos_token_id", None):  # bytes know every text
        return []
    known, total = 0, 0
    for i in range(len(rows)):
        row = rows[i]
        ids = np.asarray(row["input_ids"])
        if "special_tokens_mask" in row:
            ids = ids[~np.asarray(row["special_tokens_mask"], dtype=bool)]
        known += int((ids != unknown).sum())
        total += len(ids)
    share = 1 - known / total if total else 0.0
    if share > _REFUSED and total >= _FEW:
        raise InputError(
            f"Expected texts that the model's tokenizer knows, but {total - known} of the {total} tokens of {name} are "
            f"unknown to it, so the model sees the same in every text; load the tokenizer that was saved with the "
            f"model, or take texts in its language."
        )
    if share < _NOTED:
        return []
    return [f"{100 * share:.0f}% of the {total} tokens are unknown to the tokenizer: the model cannot tell them apart."]
