"""The inputs of texts without some of their tokens, as those of texts that never had them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from attn_faithful.models.recurrent_passes import take_tokens

BY_TOKEN = {"input_ids", "special_tokens_mask", "token_type_ids", "sentence_ids"}  # inputs of a number a token


def shortened(inputs: Mapping[str, Tensor], text: Tensor, kept: Tensor, length: int) -> dict[str, Tensor]:
    """The inputs of some texts (P,) with the tokens ``kept`` (P, T) alone, in the first ``length`` places.

    Args:
        inputs: of all texts.
        text: which of them, by number.
        kept: bool, tokens that are read.
        length: at least as many as any of them keeps.
    """
    order = torch.argsort(~kept, dim=1, stable=True)[:, :length]  # (P, length)
    texts = {name: value[text] for name, value in inputs.items()}
    for name in BY_TOKEN & texts.keys():
        texts[name] = texts[name].gather(1, order)
    if "inputs_embeds" in texts:
        texts["inputs_embeds"] = take_tokens(texts["inputs_embeds"], order)
    texts["attention_mask"] = kept.gather(1, order)
    return texts
