"""A recipe: what to train and test, as strict dataclasses and YAML."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful.data.planted import mock_spec
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments.control_plan import IMPOSED_TWIN
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.model_settings import check_model, check_model_keys
from attn_faithful.experiments.recipe_file import check_folder_name, find_recipe, read_recipe
from attn_faithful.experiments.roar.settings import RoarSettings
from attn_faithful.experiments.spellings import (
    TEST_SETTINGS,
    TESTS,
    WITH,
    Spelling,
    names_and_settings,
    stored,
)
from attn_faithful.experiments.strict_settings import build, dataclass_of
from attn_faithful.experiments.strict_yaml import merge
from attn_faithful.training.settings import TrainSettings, TwinSettings, check_trackers

WIEGREFFE_PINTER = ("uniform", "mlp", "imposed_uniform", "imposed", IMPOSED_TWIN)
VALUE = "value"  # of a value in the grid that is no mapping, where it has a name or further keys


@dataclass(frozen=True)
class TokenizerSettings:
    """How texts become tokens; see `attn_faithful.data.encoding.train_tokenizer`.

    Attributes:
        pre_tokenizer: "words" or "whitespace"; None for what suits the data.
        max_length: longer texts are cut, counted and reported; None for no limit.
    """

    pre_tokenizer: str | None = None
    min_df: int = 1
    lowercase: bool = True
    digits: str | None = "qqq"
    max_vocabulary: int | None = None
    max_length: int | None = None


@dataclass(frozen=True)
class VectorSettings:
    """Word vectors that the embeddings begin with; without a path they begin at random."""

    path: str | None = None
    missing: str = "normal"


@dataclass(frozen=True)
class Expected:
    """What a paper printed, to stand beside ours.

    Attributes:
        key: names of the axes that a row is found by, such as [data, encoder].
        metrics: names of the columns: "base_f1", "tvd" and so on of the first twin, or of a test "metric source class",
            the class an index or "all".
        rows: the axes' labels, joined by a space -> one number a metric; null where the paper has none.
        band: how far ours may lie from it and count as within, by metric, without source and class.
    """

    key: list[str]
    metrics: list[str]
    rows: dict[str, list[float | None]]
    band: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, row in self.rows.items():
            if len(row) != len(self.metrics):
                raise InputError(
                    f"rows: {name} must hold {len(self.metrics)} numbers, one a metric, but holds {len(row)}."
                )


@dataclass(frozen=True)
class Recipe:
    """One experiment: a grid of cells, each a base model with its twins.

    Attributes:
        name: of the folder below the output folder.
        claim: the paper and table that it repeats.
        model: ``architecture`` ("flat", "hierarchical" or "bypass"), and settings of its `AttentionClassifierConfig`,
            `HANConfig` or `BypassConfig`.
        twin: how twins are trained; null for none.
        variants: further twins, each a mapping of what differs from `twin`.
        seeds: one base model each.
        twin_seeds: twins of each base; null for one, keyed by the base's seed.
        evaluation: which tests the base goes through on the test split, and how.
        wiegreffe_pinter: controls of Wiegreffe and Pinter (2019) to train: "uniform" is the base with uniform
            attention; "mlp" an MLP with attention of its own, "imposed_uniform" one under uniform attention, "imposed"
            one under the base's, and "imposed_twin" one under that of each twin.
        roar: which sources of the bases are judged by training anew on masked texts; null for none.
        expected: the paper's numbers.
        grid: dotted key -> values; each combination is a cell. A value may be a mapping that fills in its key; its
            entry ``with`` sets further dotted keys, such as {tokenizer.min_df: 5}.
        smoke: dotted key -> value, overrides that make the recipe run in seconds.
    """

    name: str = "run"
    claim: str = ""
    data: DataSettings = field(default_factory=DataSettings)
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    vectors: VectorSettings = field(default_factory=VectorSettings)
    model: dict[str, Any] = field(default_factory=dict)
    train: TrainSettings = field(default_factory=TrainSettings)
    twin: TwinSettings | None = field(default_factory=TwinSettings)
    variants: list[dict[str, Any]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=lambda: [2])
    twin_seeds: list[int] | None = None
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    wiegreffe_pinter: list[str] = field(default_factory=list)
    roar: RoarSettings | None = None
    expected: Expected | None = None
    grid: dict[str, list[Any]] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for control in self.wiegreffe_pinter:
            check_choice("control", control, WIEGREFFE_PINTER)
        for name, seeds in (("seeds", self.seeds), ("twin_seeds", self.twin_seeds)):
            if seeds is not None and (not seeds or len(set(seeds)) != len(seeds)):
                raise InputError(f"{name} must be a list of different numbers, but is {seeds}.")
        check_folder_name("name", self.name)

    def twins(self, where: str = "variants") -> list[TwinSettings]:
        """The settings of every twin of a base, the recipe's own first; ``where`` names their origin in errors."""
        if self.twin is None:
            return []
        own = asdict(self.twin)
        return [self.twin, *(build(TwinSettings, {**own, **variant}, where) for variant in self.variants)]

    def on_disk(self) -> dict[str, Any]:
        """The recipe by the keys of meta.json and of digests, which keep the old names."""
        settings = stored(asdict(self))
        del settings["roar"]  # what is made of the finished cells changes none of their numbers
        # runs without impermissible words, regularizers or masks keep the names that they had before there were any
        if self.data.impermissible is None:
            del settings["data"]["impermissible"]
        del settings["train"]["regularizers"]
        if self.train.active_regularizers:
            settings["train"]["regularizers"] = self.train.active_regularizers
        if self.train.masking is None:
            del settings["train"]["masking"]
        return settings


def load_recipe(path: str | Path, overrides: Mapping[str, Any] | None = None, smoke: bool = False) -> Recipe:
    """Read, extend and check a recipe before any work.

    Args:
        path: the YAML file, or the name of one of the package's own; its key ``extends`` names another file beside
            it, which must not extend again.
        overrides: dotted key -> value, such as ``{"twin.epochs": 5}``; applied last.
        smoke: apply the recipe's smoke overrides.

    Raises:
        InputError: an unknown or mistyped key, with the file, the key and the nearest valid one.
    """
    spelling = Spelling(str(find_recipe(path)))
    return _make(read_recipe(path, spelling), spelling, overrides or {}, smoke)


def make_recipe(
    raw: Mapping[str, Any], where: str, overrides: Mapping[str, Any] | None = None, smoke: bool = False
) -> Recipe:
    """A recipe from a mapping; ``where`` names its origin in errors."""
    spelling = Spelling(where)
    return _make(spelling.recipe(copy.deepcopy(dict(raw))), spelling, overrides or {}, smoke)


def _make(raw: dict[str, Any], spelling: Spelling, overrides: Mapping[str, Any], smoke: bool) -> Recipe:
    """A recipe from its keys by their present names."""
    where = spelling.where
    overrides = spelling.dotted(overrides)
    spelling.warn()
    for part in ("grid", "smoke"):
        build(_Part, {part: raw.get(part, {})}, where)
        for key in raw.get(part, {}):
            _check_key(key, f"{where}: {part}")
    if smoke:
        for key, value in raw.get("smoke", {}).items():
            assign(raw, key, value, f"{where}: smoke")
    for key, value in overrides.items():
        assign(raw, key, value, where)
        _no_longer_varies(raw.get("grid", {}), key)
    recipe: Recipe = build(Recipe, raw, where)
    _check(recipe, where)
    return recipe


def _check(recipe: Recipe, where: str) -> None:
    """Raise where parts of a recipe do not go together."""
    _check_twins(recipe, where)
    for key, values in recipe.grid.items():
        _check_key(key, f"{where}: grid")
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}: grid: {key} must list its values, but is {values!r}.")
    check_model_keys(recipe.model, f"{where}: model")
    if not recipe.grid:  # where it varies, each cell is checked by itself
        check_model(recipe.model, recipe.data.multi_label, f"{where}: model")
        _check_mock(recipe.data, f"{where}: data: mock")
    for part, settings in (("train", recipe.train), ("twin", recipe.twin)):
        if settings is None:
            continue
        try:
            check_trackers(settings.trackers)
        except InputError as error:
            raise InputError(f"{where}: {part}: trackers: {error}") from None


def _no_longer_varies(grid: dict[str, Any], key: str) -> None:
    """What is set by hand is no axis, and goes with no value of another."""
    grid.pop(key, None)
    for values in grid.values():
        if not isinstance(values, list):
            continue
        for value in values:
            if isinstance(value, dict) and isinstance(value.get(WITH), dict):
                value[WITH].pop(key, None)


@dataclass(frozen=True)
class _Part:
    """The parts of a recipe that are read before the rest is built."""

    grid: dict[str, Any] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)


def _check_twins(recipe: Recipe, where: str) -> None:
    """Every variant is one of `TwinSettings`, with a name, and so a folder, of its own; nothing asks for no twin's."""
    if recipe.twin is None:
        if recipe.variants:
            raise InputError(f"{where}: variants need a twin, but twin is null.")
        if IMPOSED_TWIN in recipe.wiegreffe_pinter:
            raise InputError(
                f"{where}: wiegreffe_pinter: the control {IMPOSED_TWIN!r} is an MLP under a twin's attention, but twin "
                "is null; leave the control out, or describe a twin."
            )
        return
    where = f"{where}: variants"
    for variant in recipe.variants:
        build(TwinSettings, variant, where)
    names = [settings.variant for settings in recipe.twins(where)]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: {name!r} stands twice; let them differ in objective, weight, max_tvd or start.")


def _check_mock(data: DataSettings, where: str) -> None:
    if not data.mock or not data.source.lower().startswith("mock-"):
        return
    try:
        mock_spec(data.source, **{"seed": data.seed, **data.mock})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def assign(raw: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key; a mapping fills in what is there."""
    if key == TESTS and isinstance(value, Mapping):
        names, settings = names_and_settings(value)
        assign(raw, TESTS, names, where)
        assign(raw, TEST_SETTINGS, settings, where)
        return
    _check_key(key, where)
    *parents, last = key.split(".")
    part = raw
    for parent in parents:
        if not isinstance(part.get(parent), dict):
            part[parent] = {}
        part = part[parent]
    if isinstance(value, Mapping) and isinstance(part.get(last), Mapping) and key != "grid":
        part[last] = merge(part[last], value)
    else:
        part[last] = value


def _check_key(key: str, where: str) -> None:
    """Raise unless a dotted key is one of a recipe."""
    owner: Any = Recipe
    parts = key.split(".")
    for depth, part in enumerate(parts):
        names = [f.name for f in fields(owner)]
        if part not in names:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(part, names)}")
        inner = dataclass_of(get_type_hints(owner)[part])
        if inner is None:
            if part == "model" and depth + 2 == len(parts):
                check_model_keys([parts[-1]], where)
            return
        owner = inner
