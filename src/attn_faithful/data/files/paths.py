"""Paths that users write, checked: what they name, and the nearest name where there is nothing."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from attn_faithful._checks import InputError, MissingSourceError

SUFFIXES = ("parquet", "csv", "tsv", "json", "jsonl")
_SIMILAR = 0.8  # of difflib's ratio: the name that was meant


def user_path(text: str | Path) -> Path:
    """The path with ``~`` as the user's folder; one that names nobody, or no path at all, is an error."""
    try:
        path = Path(text).expanduser()
        path.exists()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Expected a path, but got {str(text)!r:.120}: {error}.") from None
    return path


def suffix_of(path: Path) -> str:
    """The suffix of a file in small letters without the dot."""
    return path.suffix.lower().lstrip(".")


def check_there(source: str) -> Path:
    """The path that a source names; an error where there is nothing, and the source cannot be an id of the Hub."""
    path = user_path(source)
    if path.exists():
        return path
    parts = source.replace("\\", "/").split("/")
    if _is_path(source, parts):
        raise MissingSourceError(
            f"Expected a file or folder at {source!r}, but there is none; check the path.{_did_you_mean(path)}"
        )
    if suffix_of(path) or len(parts) > 1:
        hint = _did_you_mean(path)
        if hint:
            raise MissingSourceError(f"There is no file or folder {source!r}.{hint}")
    return path


def _is_path(source: str, parts: list[str]) -> bool:
    """Whether a source is no id of the Hub, which is ``name`` or ``owner/name``."""
    if source.startswith((".", "/", "~")) or "\\" in source:
        return True
    return len(parts) > 2 or not parts[-1] or suffix_of(Path(source)) in SUFFIXES


def _did_you_mean(path: Path) -> str:
    """A question after a path of nearly the same name; nothing where there is none."""
    try:
        names = [neighbour.name for neighbour in path.parent.iterdir()]
    except OSError:
        return ""
    visible = [name for name in names if not name.startswith(".")]
    near = get_close_matches(path.name, visible, n=1, cutoff=_SIMILAR)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
