"""Trains and measures as the recipe says, whatever the surroundings say: variables of a launcher, torch's settings.

`accelerate launch` exports what a user's configuration holds, and Trainer and Accelerate read it: precision,
compilation, steps of accumulation. None of it is in a recipe, so none of it may change a number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from attn_faithful._checks import InputError

_HIDDEN = (
    "ACCELERATE_MIXED_PRECISION",
    "ACCELERATE_DOWNCAST_BF16",
    "XLA_USE_BF16",
    "XLA_DOWNCAST_BF16",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "ACCELERATE_GRADIENT_CLIPPING",
)
_HIDDEN_FAMILIES = ("ACCELERATE_DYNAMO_", "ACCELERATE_FP8_", "FP8_")  # how their names begin
_REFUSED = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism configuration",
}
_FORCED = {  # read by libraries below torch, once for a process
    "NVIDIA_TF32_OVERRIDE": ("0",),
    "ONEDNN_DEFAULT_FPMATH_MODE": ("STRICT",),
    "DNNL_DEFAULT_FPMATH_MODE": ("STRICT",),
}
_YES = ("1", "true", "yes", "on", "y", "t")


@contextmanager
def as_told() -> Iterator[None]:
    """Hide from the libraries inside what their surroundings set; all of it comes back afterwards.

    Inside, numbers are float32 in full: products are not rounded to TF32 or bfloat16, whatever the caller's autocast,
    and new tensors are float32 whatever torch's default type. ``mixed_precision`` of a recipe acts as ever.

    Raises:
        InputError: the launcher asks for FSDP, DeepSpeed, Megatron-LM or a parallelism configuration, which no recipe
            knows; or a variable forces another precision below torch.
    """
    _check()
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if _hides(name)}
    kind = torch.get_default_dtype()
    places = _precisions()
    before = [getattr(place, name) for place, name, _ in places]
    try:
        torch.set_default_dtype(torch.float32)
        for place, name, full in places:
            setattr(place, name, full)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        for (place, name, _), value in zip(places, before, strict=True):
            setattr(place, name, value)
        torch.set_default_dtype(kind)
        for name in [name for name in os.environ if _hides(name)]:  # what Trainer set itself
            os.environ.pop(name)
        os.environ.update(hidden)


def _hides(name: str) -> bool:
    return name in _HIDDEN or name.startswith(_HIDDEN_FAMILIES)


def _check() -> None:
    for name, what in _REFUSED.items():
        if os.environ.get(name, "").strip().lower() in _YES:
            raise InputError(
                f"The launcher asks for {what} ({name}={os.environ[name]}), which changes numbers and is in no recipe; "
                "launch with a configuration without it (accelerate launch --config_file), or unset the variable."
            )
    for name, fine in _FORCED.items():
        value = os.environ.get(name, "").strip()
        if value and value.upper() not in fine:
            raise InputError(
                f"{name}={value} forces products into another precision than float32; unset it and start again."
            )


def _precisions() -> list[tuple[Any, str, Any]]:
    """Where torch keeps the precision of float32 products: the place, the name there, and the value for all of it."""
    backends = torch.backends
    if not hasattr(backends.cudnn, "conv"):  # before torch 2.9
        return [(backends.cuda.matmul, "allow_tf32", False), (backends.cudnn, "allow_tf32", False)]
    every = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
        backends.mkldnn.rnn,
    )
    return [(place, "fp32_precision", "ieee") for place in every]
