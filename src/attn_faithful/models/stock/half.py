"""A transformer in half precision under a float32 tail: faster, and off by a stated amount."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.models.protocol import probabilities
from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.probe import made_texts

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
DTYPES = ("float32", *HALF)
LENGTHS = (3, 5, 9, 17, 33, 65)  # of the texts that the difference from float32 is measured on
BOUND = 0.02  # of a probability: more than that is not measured with


def put_in_half(model: StockForward, name: str) -> None:
    """Let the blocks of a model compute in half precision, and measure how far its probabilities then are.

    Sets `backbone`, and `rounding`: the largest difference of a probability from float32's on some made-up texts.

    Args:
        model: in float32.
        name: of `HALF`.

    Raises:
        InputError: another name, a model without blocks or in float64, or probabilities off by more than `BOUND`.
    """
    dtype = HALF[check_choice("dtype of half precision", name, HALF)]
    kind = type(model.model).__name__
    if not model.blocks.steps or next(model.model.parameters()).dtype != torch.float32:
        raise InputError(f"dtype: {kind} is no stack of blocks in float32, so no part of it is put into {name}.")
    longest = model.max_tokens or max(LENGTHS)
    texts = made_texts(model, [min(length, longest) for length in LENGTHS])
    exact = _probabilities(model, texts)  # (B, C)
    model.backbone = dtype
    gap = float((_probabilities(model, texts) - exact).abs().max())
    if not gap <= BOUND:  # nor where it is NaN
        model.backbone = None
        raise InputError(
            f"dtype: in {name} the probabilities of {kind} are off by up to {gap:.2g} from those of float32, and "
            f"{BOUND} is allowed; leave dtype out, which measures in float32."
        )
    model.rounding = gap


@torch.no_grad()
def _probabilities(model: StockForward, texts: dict[str, Tensor]) -> Tensor:
    with model.analysing():
        return probabilities(model.run(texts, Trace()), model.multi_label)
