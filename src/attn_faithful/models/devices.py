"""The devices that models compute on: which there are, and how a model gets onto one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attn_faithful._checks import InputError, check_device
from attn_faithful.models.adapted import class_name, original

AUTO = "auto"
DEVICES = (AUTO, "cpu", "cuda", "mps")  # and cuda:0, cuda:1 and so on


def devices_there() -> list[str]:
    """The devices of this machine that tests can be run on, by the names that a user gives.

    Example:
        >>> devices_there()[0]
        'cpu'
    """
    names = ["cpu"]
    if torch.cuda.is_available():
        names.append("cuda")
        names += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return names


def device_named(name: str | torch.device) -> torch.device:
    """The device of a name: "cpu", "cuda" (the process's own), "cuda:1", or "auto" for CUDA where it is, else the CPU.

    Raises:
        InputError: no device has this name, this machine has none, or tests cannot be run there.

    Example:
        >>> device_named("cpu")
        device(type='cpu')
    """
    name = str(name)
    check_device(name, DEVICES)
    there = devices_there()
    if name == AUTO:
        return torch.device("cuda" if "cuda" in there else "cpu")
    if name == "mps":
        raise InputError(
            "device: 'mps' has no float64, in which parts of every test are computed; take "
            f"{' or '.join(map(repr, there))}."
        )
    if name not in there:
        raise InputError(f"device: this machine has no {name!r}; it has {', '.join(map(repr, there))}.")
    return torch.device(name)


def device_of(model: Any) -> torch.device:
    """Where a model's weights are; the CPU for a model without any."""
    for weight in model.parameters():
        place: torch.device = weight.device
        return place
    return torch.device("cpu")


@contextmanager
def on_device(model: Any, name: str | torch.device) -> Iterator[None]:
    """Inside, a model is on a device; afterwards it is where it was. "auto" leaves it where it is.

    Args:
        model: speaks the protocol.
        name: see `device_named`.

    Raises:
        InputError: see `device_named`; or the model has no torch module that could be moved.
    """
    if str(name) == AUTO:
        yield
        return
    target = device_named(name)
    before = device_of(model)
    if torch.empty(0, device=target).device == torch.empty(0, device=before).device:  # cuda is cuda:0, say
        yield
        return
    module = _module(model)
    if module is None:
        raise InputError(
            f"device: {class_name(model)} is no torch module, so it cannot be moved from {before} to {target}; move "
            "what it computes with, and leave device out."
        )
    module.to(target)
    try:
        yield
    finally:
        module.to(before)


def _module(model: Any) -> nn.Module | None:
    """The torch module that holds a model's weights; None where it is not known."""
    inner = original(model)
    for candidate in (inner, getattr(inner, "module", None), getattr(inner, "model", None)):
        if isinstance(candidate, nn.Module):
            return candidate
    return None
