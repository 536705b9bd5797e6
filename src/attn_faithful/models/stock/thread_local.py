"""What threads that share a model must not see of one another."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

_GUARD = threading.Lock()
_LOCKS: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()


def lock_of(model: nn.Module) -> Any:
    """The lock of a model: one thread at a time reads or replaces its attention, and may do so within itself."""
    with _GUARD:
        return _LOCKS.setdefault(model, threading.RLock())


class _OfThread(threading.local):
    """Of this thread: configuration (by identity) -> attributes that it reads otherwise."""

    def __init__(self) -> None:
        self.overrides: dict[int, dict[str, Any]] = {}


_OF_THREAD = _OfThread()
_USERS: dict[int, int] = {}  # configuration -> contexts in which some of its attributes are overridden


class _Overridden:
    """Put before a configuration's class: attributes that a thread overrides stand before its own."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Nothing to set up: what the configuration's class set up holds."""

    def __getattribute__(self, name: str) -> Any:
        overrides = _OF_THREAD.overrides.get(id(self))
        if overrides is not None and name in overrides:
            return overrides[name]
        # not by `super`: another thread may give the class back meanwhile
        return _own_class(type(self)).__getattribute__(self, name)


def _own_class(now: type) -> type:
    """The class that a configuration has when nobody overrides anything."""
    if issubclass(now, _Overridden):
        return now.__mro__[2]
    return now


@cache
def _overridden_class(own: type) -> type:
    return type(own.__name__, (_Overridden, own), {"__module__": own.__module__})


@contextmanager
def overriding(configs: Iterable[Any], **values: Any) -> Iterator[None]:
    """Configurations that this thread reads otherwise inside, and every other thread as they are.

    Args:
        configs: of transformers.
        values: attribute -> what stands in its place.
    """
    overrides = _OF_THREAD.overrides
    configs = list(configs)
    before = {id(config): overrides.get(id(config)) for config in configs}
    begun: list[Any] = []
    try:
        for config in configs:
            begun.append(config)
            _begin(config)
            overrides[id(config)] = {**(before[id(config)] or {}), **values}
        yield
    finally:
        for config in begun:
            earlier = before[id(config)]
            if earlier is None:
                overrides.pop(id(config), None)
            else:
                overrides[id(config)] = earlier
            _end(config)


def _begin(config: Any) -> None:
    with _GUARD:
        _USERS[id(config)] = _USERS.get(id(config), 0) + 1
        if _USERS[id(config)] == 1:
            object.__setattr__(config, "__class__", _overridden_class(type(config)))


def _end(config: Any) -> None:
    with _GUARD:
        users = _USERS.get(id(config), 0) - 1
        if users > 0:
            _USERS[id(config)] = users
            return
        _USERS.pop(id(config), None)
        object.__setattr__(config, "__class__", _own_class(type(config)))
