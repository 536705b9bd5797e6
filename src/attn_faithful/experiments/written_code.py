"""A digest of code that somebody wrote by hand: two models of one class and other code are two models."""

from __future__ import annotations

import dis
import hashlib
import inspect
import json
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_SCALARS = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, np.generic)
_CODE = (FunctionType, MethodType, BuiltinFunctionType, partial, type)
_READABLE = (*_SCALARS, set, frozenset, Tensor, np.ndarray, *_CODE)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_MODULES = frozenset(vars(nn.Module()))  # what torch itself holds of a module
_NO_SETTING = ("name_or_path", "gradient_checkpointing", "loss_type", "kernel_config")
_OF_NO_MATTER = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype", "use_cache")
# modules that were renamed: digests, and with them the names of run folders, keep the former name
_FORMER_MODULES = {
    "attn_faithful.models.pooled": "attn_faithful.models.modeling",
    "attn_faithful.models.stock.model": "attn_faithful.models.stock",
    "attn_faithful.models.wrapped": "attn_faithful.models.own",
}
_LEFT_BY_LIBRARIES = ("_stored_dtype", "_is_hf_initialized", "_compiled_call_impl")


def _installed_folders() -> tuple[str, ...]:
    """Where installed packages lie: the environment's own folders, and those of the user and the system on the path."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    return tuple(folders)


_INSTALLED = _installed_folders()


class _Plain:
    """A class whose instances are their attributes and nothing else."""


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
    """A digest of a value that code uses.

    Known are numbers, words, tensors, arrays, functions, classes, modules, plain objects, lists and mappings of them.

    Of anything else nothing is known, and each call gives another digest: what cannot be told apart is never taken for
    the same.
    """
    return _hashed(_Reader().parts(value))


def structure_digest(network: nn.Module) -> str:
    """A digest of what a network is beside its weights: class, code, settings and hooks of each of its modules."""
    return _hashed(_Reader().structure(network))


def configuration_facts(config: Any) -> Any:
    """A configuration without what changes no number."""
    if not hasattr(config, "to_dict"):
        return repr(config)
    facts = without(config.to_dict(), _OF_NO_MATTER)
    for name, former in getattr(config, "later_settings", {}).items():
        if facts.get(name) == former:
            del facts[name]
    return facts


def without(value: Any, names: Sequence[str]) -> Any:
    """A mapping, and the mappings in it, without some keys; anything else as it is."""
    if isinstance(value, Mapping):
        return {str(key): without(inner, names) for key, inner in value.items() if key not in names}
    return value


def _hashed(parts: Iterable[bytes]) -> str:
    seen = hashlib.sha256()
    for part in parts:
        seen.update(part)
    return seen.hexdigest()


def tensor_parts(value: Tensor) -> Iterator[bytes]:
    """Type, shape and bits of a tensor."""
    values = value.detach().cpu().contiguous()
    yield f"{values.dtype} {tuple(values.shape)} ".encode()
    if values.is_quantized:
        per_tensor = values.qscheme() == torch.per_tensor_affine
        scale = values.q_scale() if per_tensor else values.q_per_channel_scales()
        yield str(scale).encode()
        values = values.int_repr()
    if values.numel():
        yield values.reshape(-1).view(torch.uint8).numpy().tobytes()


class _Reader:
    """Reads a value and all that it uses as bytes.

    Attributes:
        above: ids of the lists and mappings that are being read.
        met: id -> place and value of the functions, classes, modules and objects that were read: once is enough.
    """

    def __init__(self) -> None:
        self.above: list[int] = []
        self.met: dict[int, tuple[int, Any]] = {}

    def parts(self, value: Any) -> Iterator[bytes]:
        """The bytes of a value."""
        yield f"{type(value).__name__}:".encode()
        if isinstance(value, _SCALARS):
            yield repr(value).encode()
        elif isinstance(value, Tensor):
            yield from tensor_parts(value)
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            yield f"{value.dtype} {value.shape} ".encode()
            yield value.tobytes()
        elif isinstance(value, set | frozenset):
            yield repr(sorted(map(repr, value))).encode()
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif isinstance(value, Mapping | list | tuple):
            yield from self._of_many(value)
        elif id(value) in self.met:
            yield f"{self.met[id(value)][0]}".encode()
        else:
            self.met[id(value)] = len(self.met), value  # the value too, or its id may become another's
            yield from self._of_one(value)

    def _of_many(self, values: Mapping[Any, Any] | Sequence[Any]) -> Iterator[bytes]:
        if id(values) in self.above:
            return
        self.above.append(id(values))
        if isinstance(values, Mapping):
            for key in values:
                yield repr(key).encode()
                yield from self.parts(values[key])
        else:
            for value in values:
                yield from self.parts(value)
        self.above.pop()

    def _of_one(self, value: Any) -> Iterator[bytes]:
        if isinstance(value, MethodType):
            yield from self.parts(value.__func__)
            if not isinstance(value.__self__, nn.Module):  # it is read where it stands
                yield from self.parts(value.__self__)
        elif isinstance(value, partial):
            yield from self.parts((value.func, value.args, value.keywords))
        elif isinstance(value, FunctionType):
            yield from self._of_function(value)
        elif isinstance(value, type):
            yield from self._of_class(value)
        elif isinstance(value, nn.Module):
            yield from self.structure(value)
            for name, weight in sorted([*value.named_parameters(), *value.named_buffers()]):
                yield name.encode()
                yield from tensor_parts(weight)
        elif type(value).__basicsize__ == _Plain.__basicsize__ and hasattr(value, "__dict__"):
            yield from self._of_object(value)
        elif hasattr(value, "__wrapped__"):  # a function that remembers what it gave
            yield from self.parts(value.__wrapped__)
        elif callable(value) and hasattr(value, "__qualname__"):  # built in
            module = getattr(value, "__module__", None)  # methods of built-in classes, as str.lower, have none
            yield f"{module}.{value.__qualname__}".encode()
            if isinstance(getattr(value, "__self__", None), Tensor | np.ndarray):
                yield from self.parts(value.__self__)
        else:
            yield uuid.uuid4().bytes

    def _of_object(self, value: Any) -> Iterator[bytes]:
        """A plain object: its class and its attributes; of an installed class only where they are simple."""
        attributes = vars(value)
        if is_written(type(value)) or all(map(_readable, attributes.values())):
            yield from self.parts(type(value))
            yield from self.parts(dict(sorted(attributes.items())))
        else:
            yield uuid.uuid4().bytes

    def _of_function(self, function: FunctionType) -> Iterator[bytes]:
        yield _address(function).encode()
        if not is_written(function):
            return
        yield from self.parts(function.__defaults__)
        yield from self.parts(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                contents = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            yield from self.parts(contents)
        yield from self._of_code(function.__code__, function.__globals__)

    def _of_code(self, code: CodeType, known: Mapping[str, Any]) -> Iterator[bytes]:
        """What the code does, its constants, and what it takes of the file around it and of one's own other files."""
        yield code.co_code
        yield repr(code.co_names).encode()
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self._of_code(constant, known)
            else:
                yield repr(constant).encode()
        steps = dis.get_instructions(code)
        loaded = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
        used = [known[name] for name in dict.fromkeys(loaded) if name in known]
        for value in list(used):
            if isinstance(value, ModuleType) and is_written(value):
                attributes = vars(value)
                used += [attributes[name] for name in code.co_names if name in attributes]
        for value in used:
            if not _is_installed(value):
                yield from self.parts(value)

    def _of_class(self, value: type) -> Iterator[bytes]:
        yield _address(value).encode()
        if not is_written(value):
            return
        for base in value.__bases__:
            yield from self.parts(base)
        for name, attribute in sorted(vars(value).items()):
            inner = getattr(attribute, "__func__", attribute)  # of static methods and those of the class
            inner = getattr(inner, "fget", getattr(inner, "func", inner))  # of properties, cached or not
            is_own = isinstance(inner, FunctionType) or not name.startswith("__")
            if is_own and _readable(inner):
                yield name.encode()
                yield from self.parts(inner)

    # modules

    def structure(self, network: nn.Module) -> Iterator[bytes]:
        """What a network is beside its weights."""
        for name, module in network.named_modules():
            yield name.encode()
            yield from self.parts(type(module))
            for key, value in self._settings(module):
                yield key.encode()
                yield from self.parts(value)
            config = getattr(module, "config", None)
            if hasattr(config, "to_dict") and id(config) not in self.met:
                self.met[id(config)] = len(self.met), config
                facts = [configuration_facts(config), getattr(config, "_attn_implementation", None)]
                yield json.dumps(facts, sort_keys=True, default=repr).encode()
            for hooks in _HOOKS:
                yield from self.parts(list((getattr(module, hooks, None) or {}).values()))

    def _settings(self, module: nn.Module) -> Iterator[tuple[str, Any]]:
        """Attributes of a module: of one written by hand all of them, of others what is simple and public."""
        written = is_written(type(module))
        for key, value in sorted(vars(module).items()):
            if key in _OF_MODULES or key in _NO_SETTING or key in _LEFT_BY_LIBRARIES or hasattr(value, "to_dict"):
                continue
            public = not key.startswith("_") and value is not None
            if written or (public and _readable(value)):
                yield key, value


def _address(thing: type | FunctionType) -> str:
    """The dotted name of a class or function."""
    module = _FORMER_MODULES.get(thing.__module__, thing.__module__)
    return f"{module}.{thing.__qualname__}"


def _readable(value: Any) -> bool:
    """Whether a value is simple, or a list or mapping of what is."""
    if isinstance(value, Mapping):
        return all(map(_readable, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_readable, value))
    return isinstance(value, _READABLE)


def _is_installed(value: Any) -> bool:
    """Whether a name stands for a module, or for a function or class of a library."""
    if isinstance(value, ModuleType):
        return True
    return isinstance(value, FunctionType | type) and not is_written(value)
