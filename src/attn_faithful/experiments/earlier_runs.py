"""Cells that an earlier version finished: their models are taken over, their numbers are not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.sources import load_texts
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.identity import NUMBERS_VERSION, numbers_of
from attn_faithful.store import META, RunFolder

_PARTS = ("data", "tokenizer", "vectors", "train", "twin")  # parts of a recipe to which a version may add names
_EQUAL = ("model", "variants", "seeds", "twin_seeds", "controls")
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
    recipe = cell.recipe.on_disk()
    fingerprint = None
    for earlier in _finished(cell, folder):
        meta = earlier.read_meta()
        if not _alike(recipe, meta, earlier):
            continue
        if fingerprint is None:
            fingerprint = load_texts(cell.recipe.data).fingerprint
        if meta["data"]["fingerprint"] == fingerprint:
            _copy_models(earlier, folder)
            return earlier.path
    return None


def _copy_models(earlier: RunFolder, folder: RunFolder) -> None:
    for path in sorted(earlier.path.iterdir()):
        if path.is_dir() and (path / "training.json").is_file():
            folder.place_folder(path.name, partial(shutil.copytree, path, dirs_exist_ok=True))
        elif path.name.startswith("control-") and path.suffix == ".json":
            folder.place(folder / path.name, partial(shutil.copyfile, path))


def _finished(cell: Cell, folder: RunFolder) -> Iterator[RunFolder]:
    """Finished cells of earlier versions with the same labels, beside the folder."""
    words = cell.folder.rpartition("-")[0]
    for path in sorted(folder.path.parent.glob(f"{words}-*")):
        if path == folder.path or path.name.rpartition("-")[0] != words or not (path / META).is_file():
            continue
        earlier = RunFolder(path)
        try:
            if numbers_of(earlier.read_meta()) < NUMBERS_VERSION:
                yield earlier
        except (InputError, ValueError):  # damaged, or another program's
            continue


def _alike(recipe: Mapping[str, Any], meta: Mapping[str, Any], earlier: RunFolder) -> bool:
    """Whether a finished run's models were trained as the recipe says."""
    earlier_recipe = meta.get("recipe")
    if earlier_recipe is None or "fingerprint" not in meta.get("data", {}):
        return False
    since = [n for (key, value), n in _TRAINED_ANEW.items() if recipe["model"].get(key) == value]
    if numbers_of(meta) < max(since, default=1):
        return False
    recipe = json.loads(json.dumps(recipe))
    if any(recipe[part] != earlier_recipe.get(part) for part in _EQUAL):
        return False
    if not all(_agree(recipe[part], earlier_recipe.get(part)) for part in _PARTS):
        return False
    vectors = recipe["vectors"]["path"]
    return vectors is None or _is_older(Path(vectors), earlier / META)


def _is_older(file: Path, than: Path) -> bool:
    """Whether a file still holds what it held when another was written."""
    return file.is_file() and file.stat().st_mtime < than.stat().st_mtime


def _agree(settings: Mapping[str, Any] | None, earlier: Mapping[str, Any] | None) -> bool:
    """Whether settings are the same, as far as both versions know them."""
    if settings is None or earlier is None:
        return settings is earlier
    known = [name for name in settings if name in earlier and name not in _ELSEWHERE]
    return all(settings[name] == earlier[name] for name in known)
