"""Renamed keys of recipes: old spellings are read with a warning, and run folders keep them; nothing here needs torch.

The digest in a folder's name and meta.json are made of the old keys, so that finished runs stay valid.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from attn_faithful._checks import InputError

WITH = "with"  # of a value in the grid: further keys that go with it
TESTS = "evaluation.tests"
TEST_SETTINGS = "evaluation.test_settings"

RENAMED = {
    "controls": "wiegreffe_pinter",
    "evaluation.also": "evaluation.extra_sources",
    "evaluation.settings": TEST_SETTINGS,
    "evaluation.sources.of": "evaluation.sources.outcome",
}
_WRITTEN = {TEST_SETTINGS: f"{TESTS}, a mapping of each test to its settings"}  # where the warning says another key
_STORED = {new: old for old, new in RENAMED.items()}


class OldSpellingWarning(FutureWarning):
    """A key, flag or argument is given by its old name; the warning names the new one."""


def warn_of_old(where: str, old: str, new: str) -> None:
    """Warn that `old` is read as `new`; ``where`` names its origin, "" where the name says it all."""
    origin = f"{where}: " if where else ""
    warnings.warn(f"{origin}{old} is now {new}.", OldSpellingWarning, stacklevel=3)


class Spelling:
    """Rewrites old keys as the present ones, and remembers those that it met.

    Attributes:
        where: origin of the keys, for warnings and errors.
        met: old key that was renamed -> what is written in its place.

    Example:
        >>> spelling = Spelling("mine.yaml")
        >>> spelling.evaluation({"also": ["saliency"], "tests": {"flips": {"random": 3}, "entropy": None}})
        {'extra_sources': ['saliency'], 'tests': ['flips', 'entropy'], 'test_settings': {'flips': {'random': 3}}}
        >>> spelling.dotted({"evaluation.tests.flips.random": 5})
        {'evaluation.test_settings.flips.random': 5}
        >>> spelling.met
        {'evaluation.also': 'evaluation.extra_sources'}
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.met: dict[str, str] = {}

    def warn(self) -> None:
        """Warn of every old key once."""
        for old, new in self.met.items():
            warn_of_old(self.where, old, new)
        self.met = {}

    def recipe(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of a recipe."""
        recipe = self._renamed(raw, "")
        readers = {"evaluation": self.evaluation, "smoke": self.dotted, "grid": self._grid}
        for part, read in readers.items():
            if isinstance(recipe.get(part), Mapping):
                recipe[part] = read(recipe[part])
        return recipe

    def evaluation(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of the part ``evaluation``; tests that are given with their settings are told apart from them."""
        evaluation = self._renamed(raw, "evaluation")
        sources, tests = evaluation.get("sources"), evaluation.get("tests")
        if isinstance(sources, Mapping):
            evaluation["sources"] = self._renamed(sources, "evaluation.sources")
        if isinstance(tests, Mapping):
            evaluation["tests"], settings = names_and_settings(tests)
            others = evaluation.get("test_settings") or {}
            if isinstance(others, Mapping):
                evaluation["test_settings"] = {**others, **settings}
        return evaluation

    def dotted(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Dotted keys of a recipe with their values."""
        present: dict[str, Any] = {}
        for old, value in values.items():
            key = self.key(old)
            if key != old and key in values:
                raise self._both(old, key)
            present[key] = self._value(key, value)
        return present

    def key(self, key: Any) -> Any:
        """A dotted key; what is no text stays as it is."""
        if not isinstance(key, str):
            return key
        if key.startswith(f"{TESTS}."):
            return key.replace(TESTS, TEST_SETTINGS, 1)
        for old, new in RENAMED.items():
            if key == old or key.startswith(f"{old}."):
                self.met[old] = _WRITTEN.get(new, new)
                return key.replace(old, new, 1)
        return key

    def _renamed(self, settings: Mapping[str, Any], part: str) -> dict[str, Any]:
        """The keys of one part of a recipe."""
        present: dict[str, Any] = {}
        for name, value in settings.items():
            dotted = _dotted(part, name)
            if dotted not in RENAMED:
                present[name] = value
                continue
            key = self.key(dotted)
            last = key.rpartition(".")[2]
            if last in settings:
                raise self._both(dotted, key)
            present[last] = value
        return present

    def _value(self, key: Any, value: Any) -> Any:
        """The value of a dotted key, which may be a part of a recipe."""
        if not isinstance(value, Mapping):
            return value
        if key == "evaluation":
            return self.evaluation(value)
        if key == "evaluation.sources":
            return self._renamed(value, key)
        if key == "grid":
            return self._grid(value)
        return value

    def _grid(self, grid: Mapping[str, Any]) -> dict[str, Any]:
        """The axes of a grid, with what goes with each of their values."""
        axes = self.dotted(grid)
        for key, values in axes.items():
            if isinstance(values, list):
                axes[key] = [self._grid_value(key, value) for value in values]
        return axes

    def _grid_value(self, key: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        present = dict(self._value(key, value))
        if isinstance(present.get(WITH), Mapping):
            present[WITH] = self.dotted(present[WITH])
        return present

    def _both(self, old: str, new: str) -> InputError:
        return InputError(f"{self.where}: {old} is the old name of {new}, and both are given; leave {old} out.")


def names_and_settings(tests: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of tests, and the settings of those that have any.

    Example:
        >>> names_and_settings({"correlation": None, "permutation": {"permutations": 500}})
        (['correlation', 'permutation'], {'permutation': {'permutations': 500}})
    """
    settings = {test: value for test, value in tests.items() if value is not None and value != {}}
    return list(tests), settings


# what run folders hold


def stored(settings: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """Settings by the keys of meta.json and of digests.

    Args:
        settings: by their present names.
        part: of a recipe that they are; "" for all of it.

    Example:
        >>> stored({"extra_sources": [], "sources": {"outcome": "logit"}}, "evaluation")
        {'also': [], 'sources': {'of': 'logit'}}
    """
    on_disk: dict[str, Any] = {}
    for name, value in settings.items():
        dotted = _dotted(part, name)
        if dotted in _STORED:
            name = _STORED[dotted].rpartition(".")[2]
        if isinstance(value, Mapping):
            value = stored(value, dotted)
        on_disk[name] = value
    return on_disk


def _dotted(part: str, name: str) -> str:
    """The dotted key of a name in a part of a recipe; "" is all of it."""
    return f"{part}.{name}" if part else name


def stored_key(key: str) -> str:
    """A dotted key as run folders hold it.

    Example:
        >>> stored_key("train.epochs"), stored_key("evaluation.test_settings.flips.random")
        ('train.epochs', 'evaluation.settings.flips.random')
    """
    for new, old in _STORED.items():
        if key == new or key.startswith(f"{new}."):
            return key.replace(new, old, 1)
    return key


def stored_grid_value(key: str, value: Any) -> Any:
    """A value of a grid's axis with the keys that run folders hold, for its label."""
    if not isinstance(value, Mapping):
        return value
    own_settings = {name: setting for name, setting in value.items() if name != WITH}
    on_disk = stored(own_settings, key)
    if WITH in value:
        on_disk[WITH] = {stored_key(name): setting for name, setting in value[WITH].items()}
    return on_disk
