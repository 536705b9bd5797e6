"""Cells that an earlier version finished: their models are taken over, their numbers are not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.sources import load_texts
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.identity import NUMBERS_VERSION, numbers_of
from attn_faithful.store import META, RunFolder

_SETTINGS = ("data", "tokenizer", "vectors", "train", "twin")  # parts of a recipe to which a version may add names
_WHOLE = ("model", "variants", "seeds", "twin_seeds", "controls")
_ELSEWHERE = ("source", "name", "folder", "local")  # of the data: where they lie; what they hold has a fingerprint
# what is trained otherwise since the version: a model of an earlier one is not what the recipe asks for
_TRAINED_ANEW = {("architecture", "hierarchical"): 2, ("encoder", "transformer"): 2}


def take_over(cell: Cell, folder: RunFolder) -> Path | None:
    """Copy the models of a cell that was trained alike into a folder that is not begun; its tests then run anew.

    Args:
        cell: what is to be done.
        folder: where to; the cells of earlier versions lie beside it.

    Returns:
        the folder that they came from; None where there is none.
    """
    if (folder / "model").is_dir():
        return None
    texts = None
    for other in _finished(cell, folder):
        meta = other.read_meta()
        if not _alike(cell.recipe.on_disk(), meta, other):
            continue
        texts = texts or load_texts(cell.recipe.data)
        if meta["data"]["fingerprint"] != texts.fingerprint:
            continue
        for path in sorted(other.path.iterdir()):
            if path.is_dir() and (path / "training.json").is_file():
                folder.place_folder(path.name, lambda target, path=path: _copy(path, target))
            elif path.name.startswith("control-") and path.suffix == ".json":
                folder.place(folder / path.name, lambda target, path=path: shutil.copyfile(path, target))
        return other.path
    return None


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True)


def _finished(cell: Cell, folder: RunFolder) -> Iterator[RunFolder]:
    """Finished cells of earlier versions with the same labels, beside the folder."""
    words = cell.folder.rpartition("-")[0]
    for path in sorted(folder.path.parent.glob(f"{words}-*")):
        if path == folder.path or path.name.rpartition("-")[0] != words or not (path / META).is_file():
            continue
        other = RunFolder(path)
        try:
            if numbers_of(other.read_meta()) < NUMBERS_VERSION:
                yield other
        except (InputError, ValueError):  # damaged, or another program's
            continue


def _alike(recipe: Mapping[str, Any], meta: Mapping[str, Any], other: RunFolder) -> bool:
    """Whether a finished run's models were trained as the recipe says."""
    theirs = meta.get("recipe")
    if theirs is None or "fingerprint" not in meta.get("data", {}):
        return False
    since = [n for (key, value), n in _TRAINED_ANEW.items() if recipe["model"].get(key) == value]
    if numbers_of(meta) < max(since, default=1):
        return False
    ours = json.loads(json.dumps(recipe))
    if any(ours[part] != theirs.get(part) for part in _WHOLE):
        return False
    for part in _SETTINGS:
        if not _agree(ours[part], theirs.get(part)):
            return False
    vectors = recipe["vectors"]["path"]
    if vectors is None:
        return True
    file = Path(vectors)  # that it still holds what it held
    return file.is_file() and file.stat().st_mtime < (other / META).stat().st_mtime


def _agree(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> bool:
    """Whether settings are the same, as far as both versions know them."""
    if ours is None or theirs is None:
        return ours is theirs
    return all(ours[name] == theirs[name] for name in ours if name in theirs and name not in _ELSEWHERE)
