"""What flags say, as keys of a recipe."""

from __future__ import annotations

import argparse
from typing import Any

from attn_faithful._checks import InputError


def recipe_overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags of a command that trains say, as dotted keys of a recipe."""
    flags = {
        "train.batch_size": given.batch_size,
        "twin.batch_size": given.batch_size,
        "seeds": numbers("--seeds", given.seeds, int),
        "vectors.path": given.vectors,
    }
    return joined(set_flags(flags), data_overrides(given))


def data_overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of the data, and then ``--set``, as dotted keys of a recipe."""
    from attn_faithful.experiments.strict_yaml import read_value

    flags: dict[str, Any] = {"data.limit": given.limit}
    for name in ("text_column", "query_column", "label_column"):
        flags[f"data.{name}"] = getattr(given, name, None)
    for name in ("keep", "drop"):
        flags[f"data.{name}"] = listed(getattr(given, name, None))
    if getattr(given, "map", None):
        pairs = [pair("--map", part) for part in given.map.split(",")]
        flags["data.label_map"] = dict(pairs)
    settings: dict[str, Any] = {}
    for text in given.set:
        key, value = pair("--set", text)
        settings[key] = read_value(value, f"--set {key}")
    return joined(set_flags(flags), settings)


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Keys of a recipe that flags and ``--set`` say.

    Raises:
        InputError: both say one of them, and differ.
    """
    for key in first.keys() & second.keys():
        if first[key] != second[key]:
            raise InputError(
                f"{key} is told twice, {first[key]!r} and {second[key]!r}, by a flag and by --set; leave one out."
            )
    return {**first, **second}


def split_keys(overrides: dict[str, Any], command: str, part: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Dotted keys of the data as they are, and another part of a recipe as a mapping of its keys.

    Args:
        overrides: of `data_overrides`.
        command: that takes no others, in words.
        part: of a recipe.

    Raises:
        InputError: a key of a third part.
    """
    data: dict[str, Any] = {}
    of_part: dict[str, Any] = {}
    for key, value in overrides.items():
        if key.startswith(f"{part}."):
            _put(of_part, key.removeprefix(f"{part}."), value)
        elif key.startswith("data."):
            data[key] = value
        else:
            raise InputError(f"--set {key}: {command} takes keys of data and {part} only.")
    return data, of_part


def _put(settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key, whose last part may be that of a mapping inside, such as regularizers.deceive."""
    name, _, rest = key.partition(".")
    if not rest:
        settings[name] = value
        return
    inner = settings.get(name)
    settings[name] = dict(inner) if isinstance(inner, dict) else {}
    _put(settings[name], rest, value)


def set_flags(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were set."""
    return {key: value for key, value in flags.items() if value is not None}


def listed(text: str | None) -> list[str] | None:
    """The parts of a flag with commas between."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [part for part in parts if part]


def numbers(flag: str, text: str | None, kind: type) -> list[Any] | None:
    """The numbers of a flag with commas between."""
    if text is None:
        return None
    try:
        return list(map(kind, text.split(",")))
    except ValueError:
        raise InputError(f"{flag} expects numbers with commas between, such as 10,50, but got {text!r}.") from None


def pair(flag: str, text: str) -> tuple[str, str]:
    """Name and value of a flag such as ``--set NAME=VALUE``."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise InputError(f"{flag} expects NAME=VALUE, but got {text!r}.")
    return key.strip(), value.strip()
