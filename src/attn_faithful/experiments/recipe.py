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
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.recipe_file import check_folder_name, find_recipe, read_recipe
from attn_faithful.experiments.strict_yaml import build, dataclass_of, merge, typed
from attn_faithful.training.base import TrainSettings
from attn_faithful.training.trainer import check_trackers
from attn_faithful.training.twin import TwinSettings

CONTROLS = ("uniform", "imposed")
WITH = "with"  # of a value in the grid: further keys that go with it
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
        model: ``architecture`` ("flat" or "hierarchical"), and settings of its `AttentionClassifierConfig` or
            `HANConfig`.
        twin: how twins are trained; null for none.
        variants: further twins, each a mapping of what differs from `twin`.
        seeds: one base model each.
        twin_seeds: twins of each base; null for one, keyed by the base's seed.
        evaluation: which tests the base goes through on the test split, and how.
        controls: of Wiegreffe and Pinter (2019): "uniform" trains the base with uniform attention, "imposed" an MLP
            under the base's attention.
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
    controls: list[str] = field(default_factory=list)
    expected: Expected | None = None
    grid: dict[str, list[Any]] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for control in self.controls:
            check_choice("control", control, CONTROLS)
        for name in ("seeds", "twin_seeds"):
            seeds = getattr(self, name)
            if seeds is not None and (not seeds or len(set(seeds)) != len(seeds)):
                raise InputError(f"{name} must be a list of different numbers, but is {seeds}.")
        check_folder_name("name", self.name)


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
    return make_recipe(read_recipe(path), str(find_recipe(path)), overrides, smoke)


def make_recipe(
    raw: Mapping[str, Any], where: str, overrides: Mapping[str, Any] | None = None, smoke: bool = False
) -> Recipe:
    """A recipe from a mapping; ``where`` names its origin in errors."""
    raw = copy.deepcopy(dict(raw))
    for part in ("grid", "smoke"):
        build(_Part, {part: raw.get(part, {})}, where)
        for key in raw.get(part, {}):
            _check_key(key, f"{where}: {part}")
    if smoke:
        for key, value in raw.get("smoke", {}).items():
            assign(raw, key, value, f"{where}: smoke")
    for key, value in (overrides or {}).items():
        assign(raw, key, value, where)
        _no_longer_varies(raw.get("grid", {}), key)
    recipe: Recipe = build(Recipe, raw, where)
    _check_twins(recipe, f"{where}: variants")
    for key, values in recipe.grid.items():
        _check_key(key, f"{where}: grid")
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}: grid: {key} must list its values, but is {values!r}.")
    _check_model_keys(recipe.model, f"{where}: model")
    if not recipe.grid:  # where it varies, each cell is checked by itself
        _check_model(recipe, f"{where}: model")
        _check_mock(recipe.data, f"{where}: data: mock")
    for part, settings in (("train", recipe.train), ("twin", recipe.twin)):
        try:
            check_trackers([] if settings is None else settings.trackers)
        except InputError as error:
            raise InputError(f"{where}: {part}: trackers: {error}") from None
    return recipe


def _no_longer_varies(grid: dict[str, Any], key: str) -> None:
    """What is set by hand is no axis, and goes with no value of another."""
    grid.pop(key, None)
    for values in grid.values():
        for value in values if isinstance(values, list) else ():
            if isinstance(value, dict) and isinstance(value.get(WITH), dict):
                value[WITH].pop(key, None)


@dataclass(frozen=True)
class _Part:
    """The parts of a recipe that are read before the rest is built."""

    grid: dict[str, Any] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)


def _check_twins(recipe: Recipe, where: str) -> None:
    """Every variant is one of `TwinSettings`, with a name, and so a folder, of its own."""
    if recipe.twin is None:
        if recipe.variants:
            raise InputError(f"{where} need a twin, but twin is null.")
        return
    names = [recipe.twin.variant]
    for variant in recipe.variants:
        build(TwinSettings, variant, where)
        names.append(build(TwinSettings, {**asdict(recipe.twin), **variant}, where).variant)
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: {name!r} stands twice; let them differ in objective, weight, max_tvd or start.")


def _check_model(recipe: Recipe, where: str) -> None:
    from attn_faithful.models.architectures import FLAT, config_class, settings_of

    settings = dict(recipe.model)
    try:
        architecture = settings.pop("architecture", FLAT)
        known = settings_of(architecture)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if other := [key for key in settings if key not in known]:
        raise InputError(f"{where}: the architecture {architecture!r} has no setting {other[0]!r}.")
    # its own annotations alone: those of transformers name modules that are not loaded
    own = {key: known[key] for key in settings}
    hints = get_type_hints(type("Own", (), {"__annotations__": own, "__module__": config_class(FLAT).__module__}))
    values = {key: typed(hints[key], value, f"{where}: {key}") for key, value in settings.items()}
    output = values.get("output")
    if output is not None and (output == "multi_label") != recipe.data.multi_label:
        raise InputError(f"{where}: output {output!r} does not go with data.multi_label {recipe.data.multi_label}.")
    try:
        config_class(architecture)(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check_mock(data: DataSettings, where: str) -> None:
    if data.mock and data.source.lower().startswith("mock-"):
        try:
            mock_spec(data.source, **{"seed": data.seed, **data.mock})
        except InputError as error:
            raise InputError(f"{where}: {error}") from None


def assign(raw: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key; a mapping fills in what is there."""
    _check_key(key, where)
    *parents, last = key.split(".")
    place = raw
    for parent in parents:
        if not isinstance(place.get(parent), dict):
            place[parent] = {}
        place = place[parent]
    both = isinstance(value, Mapping) and isinstance(place.get(last), Mapping) and key != "grid"
    place[last] = merge(place[last], value) if both else value


def _check_key(key: str, where: str) -> None:
    owner: Any = Recipe
    parts = key.split(".")
    for depth, part in enumerate(parts):
        names = [f.name for f in fields(owner)]
        if part not in names:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(part, names)}")
        inner = dataclass_of(get_type_hints(owner)[part])
        if inner is None:
            if part == "model" and depth + 2 == len(parts):
                _check_model_keys({parts[-1]: None}, where)
            return
        owner = inner


def _check_model_keys(settings: Mapping[str, Any], where: str) -> None:
    known = model_keys()
    for key in settings:
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")


def model_keys() -> list[str]:
    """Settings of the model that a recipe may name; the rest follow from the data or from ``train``."""
    from attn_faithful.models.architectures import ARCHITECTURES, settings_of

    elsewhere = ("model_type", "keys_to_ignore_at_inference", "vocab_size", "pad_token_id", "class_weights", "query")
    names = dict.fromkeys(name for architecture in ARCHITECTURES for name in settings_of(architecture))
    return ["architecture", *(name for name in names if name not in elsewhere)]
