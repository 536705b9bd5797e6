"""A digest of code that somebody wrote by hand: two models of one class and other code are two models."""

from __future__ import annotations

import hashlib
import inspect
import sysconfig
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

_SCALARS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_written(thing: Any) -> bool:
    """Whether a class or function is neither of this package nor of one that is installed.

    Example:
        >>> is_written(nn.Linear), is_written(is_written)
        (False, False)
    """
    module = inspect.getmodule(thing)
    name = getattr(thing, "__module__", None) or ""
    if name.partition(".")[0] in ("attn_faithful", "builtins"):
        return False
    file = getattr(module, "__file__", None)
    return file is None or not str(file).startswith(_INSTALLED)


def value_digest(value: Any) -> str:
    """A digest of a value that code uses: numbers, words, tensors, functions, classes, and lists and mappings of them.

    Of anything else nothing is known, and each call gives another digest: what cannot be told apart is never taken for
    the same.
    """
    seen = hashlib.sha256()
    for part in _parts(value, set()):
        seen.update(part)
    return seen.hexdigest()


def tensor_parts(value: Tensor) -> Iterator[bytes]:
    """Type, shape and bits of a tensor."""
    held = value.detach().cpu().contiguous()
    yield f"{held.dtype} {tuple(held.shape)} ".encode()
    if held.is_quantized:
        yield str(held.q_scale() if held.qscheme() == torch.per_tensor_affine else held.q_per_channel_scales()).encode()
        held = held.int_repr()
    yield held.reshape(-1).view(torch.uint8).numpy().tobytes() if held.numel() else b""


def _parts(value: Any, above: set[int]) -> Iterator[bytes]:
    """The bytes of a value and of all that it uses; ``above`` are the ids of what is being read already."""
    yield f"{type(value).__name__}:".encode()
    if isinstance(value, _SCALARS):
        yield repr(value).encode()
        return
    if isinstance(value, Tensor):
        yield from tensor_parts(value)
        return
    if id(value) in above:
        return
    above = above | {id(value)}
    if isinstance(value, Mapping):
        for key in value:
            yield repr(key).encode()
            yield from _parts(value[key], above)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _parts(one, above)
    elif isinstance(value, set | frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, above)
        if not isinstance(value.__self__, nn.Module):  # its weights are read where it stands
            yield from _parts(value.__self__, above)
    elif isinstance(value, partial):
        yield from _parts((value.func, value.args, value.keywords), above)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, above)
    elif isinstance(value, type):
        yield from _of_class(value, above)
    elif isinstance(value, nn.Module):
        yield from _of_module(value, above)
    elif callable(value) and hasattr(value, "__qualname__"):  # built in
        yield f"{value.__module__}.{value.__qualname__}".encode()
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
    else:
        yield uuid.uuid4().bytes


def _of_function(function: FunctionType, above: set[int]) -> Iterator[bytes]:
    yield f"{function.__module__}.{function.__qualname__}".encode()
    if not is_written(function):
        return
    yield from _parts(function.__defaults__, above)
    yield from _parts(function.__kwdefaults__, above)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield from _parts(held, above)
    yield from _of_code(function.__code__, function.__globals__, above)


def _of_code(code: CodeType, known: Mapping[str, Any], above: set[int]) -> Iterator[bytes]:
    """What the code does, its constants, and what it takes of the file around it and of other files of one's own."""
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, known, above)
        else:
            yield repr(constant).encode()
    own = [known[name] for name in code.co_names if name in known]
    files = [value for value in own if isinstance(value, ModuleType) and is_written(value)]
    own += [vars(file)[name] for file in files for name in code.co_names if name in vars(file)]
    for value in own:
        plain = isinstance(value, (*_SCALARS, Tensor, list, tuple, dict))
        if plain or (isinstance(value, FunctionType | type) and is_written(value)):
            yield from _parts(value, above)


def _of_class(value: type, above: set[int]) -> Iterator[bytes]:
    yield f"{value.__module__}.{value.__qualname__}".encode()
    if not is_written(value):
        return
    for base in value.__bases__:
        yield from _parts(base, above)
    for name, held in sorted(vars(value).items()):
        inner = getattr(held, "__func__", held)
        inner = getattr(inner, "fget", inner)
        if isinstance(inner, (FunctionType, *_SCALARS)) and name not in ("__doc__", "__firstlineno__", "__module__"):
            yield name.encode()
            yield from _parts(inner, above)


def _of_module(value: nn.Module, above: set[int]) -> Iterator[bytes]:
    yield from _parts(type(value), above)
    for name, weight in sorted([*value.named_parameters(), *value.named_buffers()]):
        yield name.encode()
        yield from tensor_parts(weight)
