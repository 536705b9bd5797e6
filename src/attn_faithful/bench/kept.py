"""What was computed for a model of the set, kept in a file until what it depends on changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_faithful._atomic import write_text
from attn_faithful.store import strict


def read_kept(file: Path, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `keep` wrote for the same state; None where it wrote nothing, or the file cannot be read.

    Args:
        file: of one model.
        state: what the content depends on, as JSON has it.
    """
    if not file.is_file():
        return None
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if not isinstance(entry, dict) or any(entry.get(key) != value for key, value in state.items()):
        return None
    return entry


def keep(file: Path, state: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Write a file whole: a state and what was computed in it; NaN becomes None."""
    text = json.dumps(strict({**state, **content}), ensure_ascii=False, allow_nan=False)
    write_text(file, text + "\n")
