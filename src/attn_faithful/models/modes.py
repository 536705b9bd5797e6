"""Eval mode of models that threads may share, and the time in which one of them alone has a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from attn_faithful.models.adapted import original
from attn_faithful.models.stock.thread_local import lock_of


@dataclass
class _Modes:
    """The modes of a model's modules before its first user put it into eval mode, and how many use it now."""

    before: list[tuple[nn.Module, bool]]
    users: int = 0


_MODES: WeakKeyDictionary[nn.Module, _Modes] = WeakKeyDictionary()
_OWNERS: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # -> the thread that alters its weights
_CHANGED = threading.Condition()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; every module's own mode comes back afterwards, also after an exception.

    Where threads share a model its modes come back with the last of them, and none enters while another alters it.
    """
    with _CHANGED:
        _CHANGED.wait_for(lambda: _OWNERS.get(model, get_ident()) == get_ident())
        modes = _MODES.get(model)
        if modes is None:
            modes = _Modes([(module, module.training) for module in model.modules()])
            _MODES[model] = modes
        modes.users += 1
        model.eval()
    try:
        yield
    finally:
        with _CHANGED:
            modes.users -= 1
            if not modes.users:
                del _MODES[model]
                for module, training in modes.before:
                    module.training = training
                _CHANGED.notify_all()


@contextmanager
def analysing(model: Any) -> Iterator[None]:
    """Eval mode, float32, and no cuDNN, which refuses the backward pass of a recurrent network in eval mode."""
    device = next(model.parameters()).device.type
    enabled = torch.backends.cudnn.enabled
    with evaluating(original(model)), torch.autocast(device, enabled=False):
        try:
            # not by cudnn.flags(), which reads all settings and refuses old and new kinds of them together
            torch.backends.cudnn.enabled = False
            yield
        finally:
            torch.backends.cudnn.enabled = enabled


@contextmanager
def altering(model: nn.Module) -> Iterator[None]:
    """A model for one thread inside, which may alter its weights: the others wait until it is left as it was.

    It begins once no thread is evaluating the model, so that one which is must not ask for it.
    """
    with lock_of(model):
        with _CHANGED:
            _CHANGED.wait_for(lambda: model not in _MODES and model not in _OWNERS)
            _OWNERS[model] = get_ident()
        try:
            yield
        finally:
            with _CHANGED:
                del _OWNERS[model]
                _CHANGED.notify_all()
