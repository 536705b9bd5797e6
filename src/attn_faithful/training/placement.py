"""Where models are trained: on CUDA where it is, unless the CPU is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from attn_faithful._checks import InputError
from attn_faithful.models.devices import AUTO, device_named

_asked: ContextVar[str] = ContextVar("attn_faithful_training_device", default=AUTO)


@contextmanager
def training_on(name: str) -> Iterator[None]:
    """Inside, models are trained on a device: "auto", "cpu" or "cuda".

    Raises:
        InputError: see `models.devices.device_named`; or one of several GPUs but the first, which Trainer cannot take.
    """
    device = device_named(name)
    if device.index:
        raise InputError(
            f"device: models are trained on the first GPU that torch sees, and not on {name!r}; start with "
            f"CUDA_VISIBLE_DEVICES={device.index} and leave the number out."
        )
    token = _asked.set(name)
    try:
        yield
    finally:
        _asked.reset(token)


def trains_on_cpu() -> bool:
    """Whether models are trained on the CPU."""
    return _asked.get() == "cpu" or not torch.cuda.is_available()
