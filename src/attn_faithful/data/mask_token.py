"""A token that takes the place of masked ones, for tokenizers that have none."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MASK = "[MASK]"


def with_mask_token(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer where it has a mask token, else a copy of it with one behind its last id.

    All other ids stay, and the same characters in a text are never the mask: where they are a word already, the mask is
    spelt with more brackets.

    Args:
        tokenizer: of any model.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> tokenizer = train_tokenizer(["a bad film"])
        >>> masking = with_mask_token(tokenizer)
        >>> len(tokenizer), len(masking), masking.mask_token_id, tokenizer.mask_token_id
        (5, 6, 5, None)
        >>> masking("a [MASK] film")["input_ids"] == tokenizer("a [MASK] film")["input_ids"]
        True
    """
    if tokenizer.mask_token_id is not None:
        return tokenizer
    mask = MASK
    vocabulary = tokenizer.get_vocab()
    while mask in vocabulary:
        mask = f"[{mask}]"
    masking = copy.deepcopy(tokenizer)
    masking.add_special_tokens({"mask_token": mask})
    return masking
