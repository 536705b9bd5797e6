"""How values stand in JSON: null for NaN, and only the keys that a type knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

NAN = math.nan

Json = Mapping[str, Any]


def number_or_nan(value: float | None) -> float:
    """A number of a JSON file, NaN where it is undefined."""
    return NAN if value is None else value


def known_fields(cls: type[Any], values: Json) -> dict[str, Any]:
    """The entries of a mapping that are fields of a dataclass."""
    names = {entry.name for entry in fields(cls)}
    return {name: value for name, value in values.items() if name in names}


def numbers_defined(cls: type[Any], values: dict[str, Any]) -> dict[str, Any]:
    """The values with NaN for null in every field that is declared a float."""
    for entry in fields(cls):
        if entry.type == "float" and entry.name in values:
            values[entry.name] = number_or_nan(values[entry.name])
    return values
