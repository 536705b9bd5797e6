"""A recipe: what to train and test, as strict dataclasses and YAML."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful.training.base import TrainSettings
from attn_faithful.training.twin import TwinSettings

CONTROLS = ("uniform", "imposed")


@dataclass(frozen=True)
class DataSettings:
    """Where the texts come from; see `attn_faithful.data.sources.load_texts` for the meaning of each.

    Attributes:
        source: a Hub id, a folder, a file, or "mock-1" and so on.
        name: what tables call it; None for a short form of the source.
        folder: its name below ``--data-dir``, used in place of `source` where that holds it.
        mock: settings of a planted-token set.
    """

    source: str = "mock-1"
    name: str | None = None
    folder: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    keep: list[str] | None = None
    drop: list[str] | None = None
    label_map: dict[str, str] | None = None
    mock: dict[str, Any] | None = None
    multi_label: bool = False
    drop_none: bool = False
    validation_share: float = 0.1
    limit: int | None = None
    seed: int = 0


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
        metrics: names of the columns.
        rows: the axes' labels, joined by a space -> one number a metric; null where the paper has none.
        band: how far ours may lie from it and count as within, by metric.
    """

    key: list[str]
    metrics: list[str]
    rows: dict[str, list[float | None]]
    band: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """One experiment: a grid of cells, each a base model with its twins.

    Attributes:
        name: of the folder below the output folder.
        claim: the paper and table that it repeats.
        model: settings of `AttentionClassifierConfig`.
        twin: how twins are trained; null for none.
        variants: further twins, each a mapping of what differs from `twin`.
        seeds: one base model each.
        twin_seeds: twins of each base; null for one, keyed by the base's seed.
        controls: of Wiegreffe and Pinter (2019): "uniform" trains the base with uniform attention, "imposed" an MLP
            under the base's attention.
        expected: the paper's numbers.
        grid: dotted key -> values; each combination is a cell. A value may be a mapping that fills in its key.
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
    controls: list[str] = field(default_factory=list)
    expected: Expected | None = None
    grid: dict[str, list[Any]] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for control in self.controls:
            check_choice("control", control, CONTROLS)
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds must be a list of different numbers, but is {self.seeds}.")
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise InputError(f"name must do as a folder's name (letters, digits, . _ -), but is {self.name!r}.")


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number and a key that stands twice is an error."""


_Loader.yaml_implicit_resolvers = copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)


def _mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"line {node.start_mark.line + 1}: the key {key!r} stands twice.")
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; an error names the file."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise InputError(f"There is no recipe {path}.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise InputError(f"{path} is not readable YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a mapping of keys, but holds {type(value).__name__}.")
    return value


def load_recipe(path: str | Path, overrides: Mapping[str, Any] | None = None, smoke: bool = False) -> Recipe:
    """Read, extend and check a recipe before any work.

    Args:
        path: the YAML file; its key ``extends`` names another file beside it, which must not extend again.
        overrides: dotted key -> value, such as ``{"twin.epochs": 5}``; applied last.
        smoke: apply the recipe's smoke overrides.

    Raises:
        InputError: an unknown or mistyped key, with the file, the key and the nearest valid one.
    """
    path = Path(path)
    raw = read_yaml(path)
    if "extends" in raw:
        parent = path.parent / str(raw.pop("extends"))
        base = read_yaml(parent)
        if "extends" in base:
            raise InputError(f"{parent} extends a file itself; {path} may only extend one that does not.")
        raw = merge(base, raw)
    raw.setdefault("name", path.stem)
    return make_recipe(raw, str(path), overrides, smoke)


def make_recipe(
    raw: Mapping[str, Any], where: str, overrides: Mapping[str, Any] | None = None, smoke: bool = False
) -> Recipe:
    """A recipe from a mapping; ``where`` names its origin in errors."""
    raw = copy.deepcopy(dict(raw))
    if smoke:
        for key, value in dict(raw.get("smoke") or {}).items():
            assign(raw, key, value, f"{where}: smoke")
    for key, value in (overrides or {}).items():
        assign(raw, key, value, where)
        raw.get("grid", {}).pop(key, None)  # what is set by hand no longer varies
    recipe: Recipe = build(Recipe, raw, where)
    for variant in recipe.variants:
        if recipe.twin is None:
            raise InputError(f"{where}: variants need a twin, but twin is null.")
        build(TwinSettings, variant, f"{where}: variants")
    for key, values in recipe.grid.items():
        _check_key(key, f"{where}: grid")
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}: grid: {key} must list its values, but is {values!r}.")
    _check_model_keys(recipe.model, f"{where}: model")
    return recipe


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid upon ``base``, mapping by mapping.

    Example:
        >>> merge({"twin": {"epochs": 80, "weight": 1}}, {"twin": {"epochs": 5}})
        {'twin': {'epochs': 5, 'weight': 1}}
    """
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge(merged[key], value) if both else value
    return merged


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
        inner = _dataclass_of(get_type_hints(owner)[part])
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
    """Settings of the model that a recipe may name; the rest follow from the data."""
    from attn_faithful.models.configuration import AttentionClassifierConfig

    given = AttentionClassifierConfig.__annotations__
    return [name for name in given if name not in ("model_type", "keys_to_ignore_at_inference", "vocab_size")]


def _dataclass_of(hint: Any) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((option for option in options if is_dataclass(option)), None)


def build(cls: Any, raw: Any, where: str) -> Any:
    """An instance of a dataclass from a mapping, every key and type checked."""
    if not isinstance(raw, Mapping):
        raise InputError(f"{where} must be a mapping of keys, but is {raw!r}.")
    hints, known = get_type_hints(cls), {f.name: f for f in fields(cls)}
    values: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)}")
        inner = _dataclass_of(hints[key])
        optional = type(None) in get_args(hints[key])
        if inner is not None:
            values[key] = None if value is None and optional else build(inner, value, f"{where}: {key}")
            continue
        try:
            values[key] = TypeAdapter(hints[key]).validate_python(value)
        except ValidationError as error:
            problem = error.errors()[0]
            raise InputError(f"{where}: {key}: {problem['msg']}, but got {problem['input']!r}.") from None
    missing = [n for n, f in known.items() if n not in values and f.default is MISSING and f.default_factory is MISSING]
    if missing:
        raise InputError(f"{where}: the keys {', '.join(missing)} are missing.")
    try:
        return cls(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
