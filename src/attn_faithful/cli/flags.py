"""What flags say, as keys of a recipe."""

from __future__ import annotations

import argparse
from typing import Any

from attn_faithful._checks import InputError


def recipe_overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags of a command that trains say, as dotted keys of a recipe."""
    training = {f"{part}.batch_size": given.batch_size for part in ("train", "twin")}
    training |= {"seeds": numbers("--seeds", given.seeds, int), "vectors.path": given.vectors}
    return joined({key: value for key, value in training.items() if value is not None}, data_overrides(given))


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


def data_overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of the data, and then ``--set``, as dotted keys of a recipe."""
    from attn_faithful.experiments.strict_yaml import read_value

    found: dict[str, Any] = {}

    def put(key: str, value: Any) -> None:
        if value is not None:
            found[key] = value

    put("data.limit", given.limit)
    for name in ("text_column", "query_column", "label_column"):
        put(f"data.{name}", getattr(given, name, None))
    for name in ("keep", "drop"):
        put(f"data.{name}", listed(getattr(given, name, None)))
    if getattr(given, "map", None):
        found["data.label_map"] = dict(pair("--map", part) for part in given.map.split(","))
    told: dict[str, Any] = {}
    for text in given.set:
        key, value = pair("--set", text)
        told[key] = read_value(value, f"--set {key}")
    return joined(found, told)


def listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def numbers(flag: str, text: str | None, kind: type) -> list[Any] | None:
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{flag} expects numbers with commas between, such as 10,50, but got {text!r}.") from None


def pair(flag: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise InputError(f"{flag} expects NAME=VALUE, but got {text!r}.")
    return key.strip(), value.strip()
