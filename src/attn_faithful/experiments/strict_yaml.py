"""Strict YAML: what recipes are read with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from attn_faithful._checks import InputError

_KINDS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "seq", "map")}
_DEEPEST = 30  # mappings and lists within one another
_VALUES = 100_000  # with what aliases repeat: a few lines of them stand for billions
_BYTES = 2**20  # of a file
_UNREADABLE = (yaml.YAMLError, ValueError, KeyError, OSError)  # KeyError: !!bool of another word


class StrictLoader(yaml.SafeLoader):
    """YAML of what JSON has and no more: dates are words, 1e-3 is a number, a key that stands twice is an error."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InputError(f"Expected at most {_DEEPEST} levels of lists and mappings, but there are more.")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _KINDS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
StrictLoader.yaml_constructors = {
    tag: construct for tag, construct in yaml.SafeLoader.yaml_constructors.items() if tag is None or tag in _KINDS
}
StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def _mapping(loader: StrictLoader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key, times in Counter(key for key in keys if isinstance(key, Hashable)).items():
        if times > 1:
            raise InputError(f"line {node.start_mark.line + 1}: the key {key!r} stands twice.")
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an error names the file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_BYTES + 1)
        if len(text) > _BYTES:
            raise InputError(f"Expected a recipe of at most {_BYTES} characters, but it has more.")
        value = _bounded(yaml.load(text, Loader=StrictLoader))
    except FileNotFoundError:
        raise InputError(f"There is no recipe {path}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except _UNREADABLE as error:
        raise InputError(f"{path} is not readable YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a mapping of keys, but holds {type(value).__name__}.")
    return value


def read_value(text: str, where: str) -> Any:
    """A value as it would stand in a recipe; ``where`` names its origin in errors.

    Example:
        >>> read_value("1e-3", "--set"), read_value("[lstm, mlp]", "--set")
        (0.001, ['lstm', 'mlp'])
    """
    try:
        return _bounded(yaml.load(text, Loader=StrictLoader))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except _UNREADABLE as error:
        raise InputError(f"{where} is not readable YAML: {' '.join(str(error).split())}.") from None


def _bounded(value: Any) -> Any:
    """The value, unless aliases make more of it than a recipe can be about."""
    waiting = [value]
    seen = 0
    while waiting:
        item = waiting.pop()
        seen += 1
        if seen > _VALUES:
            raise InputError(f"Expected at most {_VALUES} values, but aliases (*) or long lists make it more.")
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return value


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``base``, mapping by mapping.

    Example:
        >>> merge({"twin": {"epochs": 80, "weight": 1}}, {"twin": {"epochs": 5}})
        {'twin': {'epochs': 5, 'weight': 1}}
    """
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged
