"""Where recipes lie, and what stands in their files; nothing here needs torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.experiments.spellings import Spelling
from attn_faithful.experiments.strict_yaml import merge, read_yaml

RECIPES = Path(__file__).parents[1] / "recipes"


def check_folder_name(what: str, name: str) -> str:
    """``name``, unless it could not be the name of one folder in another: it begins with a letter, a digit or _."""
    if not re.fullmatch(r"\w[\w.-]{0,99}", name):
        raise InputError(
            f"{what} must do as a folder's name (at most 100 letters, digits, . _ -, the first no dot or hyphen), but "
            f"is {name!r:.120}."
        )
    return name


def find_recipe(path: str | Path) -> Path:
    """A recipe's file; where there is none of that name, the one that travels with the package.

    Example:
        >>> find_recipe("quickstart").name, find_recipe("recipes/papers/meister_2021.yaml").name
        ('quickstart.yaml', 'meister_2021.yaml')
    """
    path = Path(path)
    parts = path.parts[1:] if path.parts[:1] == ("recipes",) else path.parts
    is_there = path.exists() and not path.is_dir()  # a folder of runs may have the name of a recipe
    if is_there or not parts:
        return path
    packaged = RECIPES.joinpath(*parts).with_suffix(".yaml")
    return packaged if packaged.is_file() else path


def read_recipe(path: str | Path, spelling: Spelling | None = None) -> dict[str, Any]:
    """The keys of a recipe's file by their present names, laid upon those of the file that it extends.

    Args:
        path: the YAML file, or the name of one of the package's own; its key ``extends`` names another file beside
            it, which must not extend again.
        spelling: remembers the old keys that it meets.

    Raises:
        InputError: no such file, or one that cannot be read.
    """
    path = find_recipe(path)
    spelling = spelling or Spelling(str(path))
    raw = spelling.recipe(read_yaml(path))
    if "extends" in raw:
        parent = path.parent / str(raw.pop("extends"))
        base = spelling.recipe(read_yaml(parent))
        if "extends" in base:
            raise InputError(f"{parent} extends a file itself; {path} may only extend one that does not.")
        raw = merge(base, raw)
    raw.setdefault("name", path.stem)
    return raw
