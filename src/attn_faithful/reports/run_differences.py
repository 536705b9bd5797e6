"""What runs differ in: only those that differ in nothing but seeds are averaged; the others are told apart in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from typing import Any

from attn_faithful.records.meta import RunMeta
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.data_labels import DATA, SHORT, name_data, tails

NUMBERS = "numbers"
# where a missing name means the default
_FREE = (
    "evaluation.settings.",
    "recipe.evaluation.settings.",
    "recipe.model.",
    "recipe.train.regularizers.",
    "recipe.train.masking",
)
_NO_DIFFERENCE = ("seed", "seeds", "twin_seeds", "trackers", "name", "claim", "expected", "grid", "smoke", "data")
_FILES = ("path", "source_file")  # of a file its name counts: where it lies is no difference
_ORIGIN = "model from"
# what identifies a model and its tokenizer beside where it came from, told where nothing else tells runs apart
_INGREDIENTS = (
    "attention",
    "told",
    "adapters",
    "tokenizer",
    "weights",
    "configuration",
    "structure",
    "device",
    "source_file",
)
_COMPARED = ("units", "special_tokens", "target", "settings", "sources")  # of how models were tested
_MODEL = "model"  # the folder in a run's that holds its model

Facts = Mapping[str, Any]  # dotted name -> value


def told_apart(metas: Sequence[RunMeta]) -> list[dict[str, str]]:
    """The axes of each run, with more where others have the same: two share theirs where they differ in seeds alone.

    Data sets that differ get different labels; what else differs gets an axis of its own, such as units or split, or
    numbers where an earlier version of the package made them.

    Args:
        metas: meta.json of each run.
    """
    axes = [dict(meta.axes) for meta in metas]
    name_data(axes, metas)
    facts = [differences(meta) for meta in metas]
    columns: dict[str, _Column] = {}
    by_axes = by_key(range(len(metas)), lambda i: tuple(axes[i].items()))
    for members in by_axes.values():
        for column in _columns([facts[i] for i in members]):
            columns.setdefault(column.name, column)
            for i, label in zip(members, column.labels, strict=True):
                axis = _free_name(column.name, metas[i].axes)
                axes[i][axis] = label
    _fill(axes, facts, columns)
    return axes


def _fill(axes: Sequence[dict[str, str]], facts: Sequence[Facts], columns: Mapping[str, _Column]) -> None:
    """Give the columns that tell some runs apart to the others too, who share them with their seeds."""
    settings = [column for column in columns.values() if _is_setting(column.fact)]
    for labels, values in zip(axes, facts, strict=True):
        for column in settings:
            value = values.get(column.fact)
            if column.name not in labels and value is not None:
                labels[column.name] = _cut(_word(value, set()))


def differences(meta: RunMeta) -> dict[str, Any]:
    """All but seeds that a run's numbers depend on, flat: dotted name -> value."""
    facts: dict[str, Any] = {
        NUMBERS: _numbers(meta),
        DATA: meta.data.fingerprint,
        "split": meta.split,
        _ORIGIN: None if meta.model is None else str(meta.model),
    }
    identity = meta.identity or {}
    for name in _INGREDIENTS:
        facts[name] = identity.get(name)
    if facts["weights"] is None and meta.weights:  # runs of earlier versions
        facts["weights"] = json.dumps(meta.weights, sort_keys=True)
    for part in ("evaluation", "recipe", "twin"):
        settings = getattr(meta, part) or {}
        facts |= _flat(settings, f"{part}.")
    return facts


def differing(first: RunMeta, second: RunMeta) -> list[tuple[str, str, str]]:
    """What two runs differ in beside their texts: dotted name, and the value of each in short words.

    Args:
        first, second: meta.json of each.
    """
    facts = [differences(first), differences(second)]
    found = []
    for fact in _shown(facts):
        one, other = _labels([known.get(fact) for known in facts], fact)
        found.append((fact, one, other))
    if first.seed != second.seed:
        found.append(("seed", str(first.seed), str(second.seed)))
    return found


def comparable(meta: RunMeta) -> str:
    """What must agree for two models' numbers to stand beside each other: data, split, how they were tested."""
    evaluation = meta.evaluation or (meta.recipe or {}).get("evaluation") or {}
    facts = [_numbers(meta), meta.data.fingerprint, meta.split or "test"]
    facts += [evaluation.get(name) for name in _COMPARED]
    return json.dumps(facts, sort_keys=True)


def _numbers(meta: RunMeta) -> int:
    if meta.numbers is None:
        return 1
    return meta.numbers


def _flat(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _NO_DIFFERENCE:
            continue
        if isinstance(value, Mapping):
            facts |= _flat(value, f"{prefix}{name}.")
        elif name in _FILES and value is not None:
            facts[prefix + name] = PurePath(str(value)).name
        else:
            facts[prefix + name] = value
    return facts


# what else differs


@dataclass(frozen=True)
class _Column:
    """A column that tells some runs of equal axes apart.

    Attributes:
        name: its head.
        fact: that it tells.
        labels: one a run.
    """

    name: str
    fact: str
    labels: Sequence[str]


def _columns(facts: Sequence[Facts]) -> list[_Column]:
    """The columns that tell some runs of equal axes apart; none where they differ in seeds alone."""
    columns: dict[str, _Column] = {}
    for fact in _shown(facts):
        name = fact.rpartition(".")[2]
        if name in columns:
            name = fact
        values = [known.get(fact) for known in facts]
        columns[name] = _Column(name, fact, _labels(values, fact))
    return list(columns.values())


def _shown(facts: Sequence[Facts]) -> list[str]:
    """The facts that differ and do not follow from those shown before."""
    names = dict.fromkeys(chain.from_iterable(facts))
    varying = [name for name in names if name != DATA and _varies(name, facts)]  # the label of the data tells
    shown: list[str] = []
    for name in varying:
        if not _is_setting(name) and name != _ORIGIN:
            continue
        # one version of the package may not know the name
        unknown_to_some = any(name not in values for values in facts) and not name.startswith(_FREE)
        if not unknown_to_some or not _follows(name, shown, facts):
            shown.append(name)
    for name in _INGREDIENTS:
        if name in varying and not _follows(name, shown, facts):
            shown.append(name)
    return shown


def _varies(name: str, facts: Sequence[Facts]) -> bool:
    distinct = {_hashable(values.get(name)) for values in facts}
    return len(distinct) > 1


def _is_setting(name: str) -> bool:
    return "." in name or name in (NUMBERS, "split")


def _follows(name: str, shown: Sequence[str], facts: Sequence[Facts]) -> bool:
    """Whether what is shown already says which value a fact has."""

    def said(values: Facts) -> tuple[str, ...]:
        return tuple(_hashable(values.get(other)) for other in shown)

    alike = by_key(facts, said)
    return not any(_varies(name, members) for members in alike.values())


def _hashable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _labels(values: Sequence[Any], fact: str) -> list[str]:
    """Values in short words, different ones where the values are."""
    if fact == _ORIGIN:
        return _origins(values)
    shared = _in_every_list(values)
    words = [_word(value, shared) for value in values]
    keys = list(map(_hashable, values))
    distinct = list(dict.fromkeys(keys))
    if len(set(words)) == len(distinct) and max(map(len, words)) <= SHORT:
        return words
    numbered = []
    for word, key in zip(words, keys, strict=True):
        place = distinct.index(key) + 1
        numbered.append(f"{word[: SHORT - 4]} #{place}")
    return numbered


def _in_every_list(values: Sequence[Any]) -> set[str]:
    """The words that stand in all of some lists; none where a value is no list."""
    if not all(isinstance(value, list) for value in values):
        return set()
    return set.intersection(*(set(map(str, value)) for value in values))


def _origins(values: Sequence[Any]) -> list[str]:
    """Where models came from, by what differs in their paths."""
    paths = [str(value) for value in dict.fromkeys(values) if value is not None]
    differing = tails(list(map(_without_model, paths)))
    labels: dict[Any, str] = dict(zip(paths, differing, strict=True))
    labels[None] = "memory"
    return [labels[value] for value in values]


def _without_model(path: str) -> str:
    parts = PurePath(path)
    if parts.name == _MODEL and len(parts.parts) > 1:
        return str(parts.parent)
    return path


def _cut(word: str) -> str:
    if len(word) <= SHORT:
        return word
    return f"{word[: SHORT - 2]}.."


def _word(value: Any, shared: set[str]) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        only_here = [word for word in map(str, value) if word not in shared]
        return ", ".join(only_here) or "no more"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return json.dumps(value)
    return str(value)


def _free_name(name: str, axes: Mapping[str, str]) -> str:
    if name in axes:
        return f"{name} (setting)"
    return name
