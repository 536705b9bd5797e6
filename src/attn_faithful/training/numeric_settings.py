"""Precision as the recipe sets it: a launcher's variables and torch's settings are hidden while a run computes.

`accelerate launch` exports what a user's configuration holds, and Trainer and Accelerate read it: precision,
compilation, steps of accumulation. None of it is in a recipe, so none of it may change a number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class PrecisionSetting:
    """A place where torch keeps the precision of float32 products.

    Attributes:
        owner, name: the attribute.
        full: its value for full float32.
    """

    owner: Any
    name: str
    full: Any

    def get(self) -> Any:
        return getattr(self.owner, self.name)

    def set(self, value: Any) -> None:
        setattr(self.owner, self.name, value)


@contextmanager
def recipe_precision() -> Iterator[None]:
    """Hide the precision and launcher settings of the surroundings; all of them are restored afterwards.

    Inside, numbers are float32 in full: products are not rounded to TF32 or bfloat16, whatever the caller's autocast,
    and new tensors are float32 whatever torch's default type. ``mixed_precision`` of a recipe acts as ever.

    Raises:
        InputError: the launcher asks for FSDP, DeepSpeed, Megatron-LM or a parallelism configuration, which no recipe
            knows; or a variable forces another precision below torch.
    """
    _check()
    hidden = _pop_hidden_variables()
    default_dtype = torch.get_default_dtype()
    settings = _precision_settings()
    values = [setting.get() for setting in settings]
    try:
        torch.set_default_dtype(torch.float32)
        for setting in settings:
            setting.set(setting.full)
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            yield
    finally:
        for setting, value in zip(settings, values, strict=True):
            setting.set(value)
        torch.set_default_dtype(default_dtype)
        _pop_hidden_variables()  # those that Trainer set itself
        os.environ.update(hidden)


def _pop_hidden_variables() -> dict[str, str]:
    """Remove the variables of a launcher from the environment."""
    names = [name for name in os.environ if name in _HIDDEN or name.startswith(_HIDDEN_FAMILIES)]
    return {name: os.environ.pop(name) for name in names}


def _check() -> None:
    for name, what in _REFUSED.items():
        if os.environ.get(name, "").strip().lower() in _YES:
            raise InputError(
                f"The launcher asks for {what} ({name}={os.environ[name]}), which changes numbers and is in no recipe; "
                "launch with a configuration without it (accelerate launch --config_file), or unset the variable."
            )
    for name, allowed in _FORCED.items():
        value = os.environ.get(name, "").strip()
        if value and value.upper() not in allowed:
            raise InputError(
                f"{name}={value} forces products into another precision than float32; unset it and start again."
            )


def _precision_settings() -> list[PrecisionSetting]:
    backends = torch.backends
    if not hasattr(backends.cudnn, "conv"):  # before torch 2.9
        owners = (backends.cuda.matmul, backends.cudnn)
        return [PrecisionSetting(owner, "allow_tf32", False) for owner in owners]
    owners = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
        backends.mkldnn.rnn,
    )
    return [PrecisionSetting(owner, "fp32_precision", "ieee") for owner in owners]
