"""The metadata of a card: YAML that keeps every name, with signs of markup escaped."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from attn_faithful._checks import check_licence
from attn_faithful.reports.escaping import plain

UNKNOWN = "unknown"  # what the Hub calls a licence that nobody named
_SIGNS = re.compile("[<>&$`]")


class _Dumper(yaml.SafeDumper):
    """Quotes strings with signs of markup, as escapes work in quotation marks alone."""


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _SIGNS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def front_matter(metadata: Mapping[str, Any]) -> str:
    """The metadata of a card between rules of dashes; the YAML gives every name back, on one line.

    Example:
        >>> print(front_matter({"license": "mit", "model_name": "a <b>"}))
        ---
        license: mit
        model_name: "a \\x3Cb\\x3E"
        ---
    """
    text = yaml.dump(_plain(metadata), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{_SIGNS.sub(_escaped, text)}---"


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02X}"


def licence_of(model: Path, licence: str | None = None) -> str:
    """The identifier of a model's licence: ``licence`` itself, else that of the folder's own card, or "unknown".

    Raises:
        InputError: no identifier.
    """
    if licence is not None:
        return check_licence(licence)
    return _licence_in(model / "README.md") or UNKNOWN


def _licence_in(card: Path) -> str | None:
    """The licence that a card's metadata name."""
    if not card.is_file():
        return None
    block = re.match(r"---\s*\n(.*?)\n---", card.read_text(encoding="utf-8"), re.DOTALL)
    if block is None:
        return None
    try:
        metadata = yaml.safe_load(block[1])
    except yaml.YAMLError:
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("license"), str):
        return None
    return str(metadata["license"])
