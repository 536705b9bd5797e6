"""Strict dataclasses: settings from a mapping, every key and type checked, all faults at once.

Pydantic checks the values. It cannot make the dataclasses themselves: in strict mode it takes only their instances, and
without it "3" is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache, partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from attn_faithful._checks import Faults, InputError, did_you_mean

_BRANCHES = ("list[", "dict[", "function")  # of a location: which part of a union was tried, and no key


def build(cls: Any, raw: Any, where: str) -> Any:
    """An instance of a dataclass from a mapping.

    Args:
        cls: the dataclass; its fields may be dataclasses again.
        raw: key -> value.
        where: origin of the mapping, for errors.

    Raises:
        InputError: an unknown key, with the nearest one; a value of another type; a missing key; what the dataclass
            itself refuses.
    """
    if not isinstance(raw, Mapping):
        raise InputError(f"{where} must be a mapping of keys, but is {raw!r}.")
    values: dict[str, Any] = {}
    faults = Faults(collect=True)

    def take(key: str, value: Any) -> None:
        values[key] = _field_value(cls, key, value, where)

    for key, value in raw.items():
        # one number may be wrong in several parts, as a batch size of train and twin
        faults.gather(partial(take, key, value), kind=lambda message: message.rsplit(": ", 1)[-1])
    faults.raise_all()
    missing = [field.name for field in fields(cls) if field.name not in values and _is_required(field)]
    if missing:
        raise InputError(f"{where}: the keys {', '.join(missing)} are missing.")
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def typed(hint: Any, value: Any, where: str) -> Any:
    """``value`` if it is of the type that ``hint`` says; a whole number will do for a float."""
    try:
        return _adapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        problem = error.errors()[0]
        keys = [str(part) for part in problem["loc"]]
        place = "".join(f" {key}:" for key in keys if not key.startswith(_BRANCHES))
        raise InputError(f"{where}:{place} {problem['msg']}, but got {problem['input']!r}.") from None


def dataclass_of(hint: Any) -> Any:
    """The dataclass in a type hint such as ``TwinSettings | None``; None where there is none."""
    return next((option for option in _options(hint) if is_dataclass(option)), None)


def _field_value(cls: Any, key: str, value: Any, where: str) -> Any:
    """The value of one field."""
    hints = _hints(cls)
    if key not in hints:
        raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, hints)}")
    hint = hints[key]
    inner = dataclass_of(hint)
    if inner is None:
        if isinstance(value, str) and _lists_names(hint):
            value = [value]  # one name is a list of one
        if isinstance(value, list) and get_origin(hint) is tuple:
            value = tuple(value)  # YAML has lists alone
        return typed(hint, value, f"{where}: {key}")
    if value is None and type(None) in get_args(hint):
        return None
    return build(inner, value, f"{where}: {key}")


@cache
def _hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def _options(hint: Any) -> tuple[Any, ...]:
    """The types of a union; of any other type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _lists_names(hint: Any) -> bool:
    """Whether a type hint is a list of words, and not a word too."""
    options = _options(hint)
    return list[str] in options and str not in options


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
