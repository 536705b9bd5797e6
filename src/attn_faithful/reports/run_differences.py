"""What runs differ in: only those that differ in nothing but seeds are averaged; the others are told apart in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from typing import Any

from attn_faithful.records.meta import RunMeta
from attn_faithful.reports.by_key import by_key

NUMBERS, DATA = "numbers", "data"
# where a missing name means the default
_FREE = (
    "evaluation.settings.",
    "recipe.evaluation.settings.",
    "recipe.model.",
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
_SHORT = 40  # letters of a label
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
    _name_data(axes, metas)
    facts = [differences(meta) for meta in metas]
    columns: dict[str, _Column] = {}
    for members in by_key(range(len(metas)), lambda i: tuple(axes[i].items())).values():
        for column in _columns([facts[i] for i in members]):
            columns.setdefault(column.name, column)
            for i, label in zip(members, column.labels, strict=True):
                axes[i][_free_name(column.name, metas[i].axes)] = label
    _fill(axes, facts, columns)
    return axes


def _fill(axes: Sequence[dict[str, str]], facts: Sequence[Facts], columns: Mapping[str, _Column]) -> None:
    """Give the columns that tell some runs apart to the others too, who share them with their seeds."""
    for labels, values in zip(axes, facts, strict=True):
        for name, column in columns.items():
            value = values.get(column.fact)
            if name not in labels and value is not None and _is_setting(column.fact):
                labels[name] = _cut(_word(value, set()))


def differences(meta: RunMeta) -> dict[str, Any]:
    """All but seeds that a run's numbers depend on, flat: dotted name -> value."""
    facts = {
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
        facts |= _flat(getattr(meta, part) or {}, f"{part}.")
    return facts


def comparable(meta: RunMeta) -> str:
    """What must agree for two models' numbers to stand beside each other: data, split, how they were tested."""
    evaluation = meta.evaluation or (meta.recipe or {}).get("evaluation") or {}
    facts = [_numbers(meta), meta.data.fingerprint, meta.split or "test"]
    facts += [evaluation.get(name) for name in _COMPARED]
    return json.dumps(facts, sort_keys=True)


def _numbers(meta: RunMeta) -> int:
    return 1 if meta.numbers is None else meta.numbers


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


# data sets of one label


def _name_data(axes: list[dict[str, str]], metas: Sequence[RunMeta]) -> None:
    """Give data sets that differ different labels."""
    with_data = [i for i, labels in enumerate(axes) if DATA in labels]
    for label, members in by_key(with_data, lambda i: axes[i][DATA]).items():
        data_sets = by_key(members, lambda i: metas[i].data.fingerprint)
        if len(data_sets) == 1:
            continue
        firsts = [metas[same[0]] for same in data_sets.values()]
        for same, name in zip(data_sets.values(), _data_labels(label, firsts), strict=True):
            for i in same:
                axes[i][DATA] = name


def _data_labels(label: str, metas: Sequence[RunMeta]) -> list[str]:
    """Different words for data sets of one label: the folder, how many texts, the classes; else the fingerprint."""
    ways: tuple[Callable[[Sequence[RunMeta]], list[str]], ...] = (_folders, _sizes, _classes, _fingerprints)
    for way in ways:
        words = way(metas)
        if all(words) and len(set(words)) == len(words) and max(map(len, words)) <= _SHORT:
            return [f"{label} ({word})" for word in words]
    return [f"{label} ({i})" for i in range(1, len(metas) + 1)]


def _folders(metas: Sequence[RunMeta]) -> list[str]:
    sources = [_source(meta) for meta in metas]
    differing = tails(list(map(str, sources)))
    return ["" if source is None else tail for source, tail in zip(sources, differing, strict=True)]


def _source(meta: RunMeta) -> str | None:
    settings = (meta.recipe or {}).get("data") or {}
    return meta.data.source or settings.get("source")


def _sizes(metas: Sequence[RunMeta]) -> list[str]:
    splits = [meta.data.splits.get(meta.split or "test") for meta in metas]
    return ["" if split is None else f"{split['n']} texts" for split in splits]


def _classes(metas: Sequence[RunMeta]) -> list[str]:
    return ["/".join(meta.label_names) for meta in metas]


def _fingerprints(metas: Sequence[RunMeta]) -> list[str]:
    return [str(meta.data.fingerprint)[:8] for meta in metas]


def tails(paths: Sequence[str]) -> list[str]:
    """The part of each path by which it differs from the others: what they begin and end with alike is left out.

    Example:
        >>> tails(["/data/a/test.csv", "/data/b/test.csv"]), tails(["runs/x-1/model", "user/name"])
        (['a', 'b'], ['runs/x-1/model', 'user/name'])
    """
    parts = [PurePath(path).parts for path in paths]
    if len(set(parts)) < 2:
        return list(paths)
    least = min(map(len, parts))
    front = _shared([path[:least] for path in parts])
    back = _shared([path[::-1][: least - front] for path in parts])
    middles = ["/".join(path[front : len(path) - back]) for path in parts]
    if all(middles) and len(set(middles)) == len(set(parts)):
        return middles
    return ["/".join(path[front:]) or path[-1] for path in parts]


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """How many of the first parts are the same in all paths, which have as many parts as each other."""
    for place, parts in enumerate(zip(*paths, strict=True)):
        if len(set(parts)) > 1:
            return place
    return len(paths[0])


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
        short = fact.rpartition(".")[2]
        name = fact if short in columns else short
        columns[name] = _Column(name, fact, _labels([values.get(fact) for values in facts], fact))
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
    return len({_hashable(values.get(name)) for values in facts}) > 1


def _is_setting(name: str) -> bool:
    return "." in name or name in (NUMBERS, "split")


def _follows(name: str, shown: Sequence[str], facts: Sequence[Facts]) -> bool:
    """Whether what is shown already says which value a fact has."""
    alike = by_key(facts, lambda values: tuple(_hashable(values.get(other)) for other in shown))
    return not any(_varies(name, members) for members in alike.values())


def _hashable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _labels(values: Sequence[Any], fact: str) -> list[str]:
    """Values in short words, different ones where the values are."""
    if fact == _ORIGIN:
        return _origins(values)
    shared: set[str] = set()
    if all(isinstance(value, list) for value in values):
        shared = set.intersection(*(set(map(str, value)) for value in values))
    words = [_word(value, shared) for value in values]
    keys = list(map(_hashable, values))
    distinct = list(dict.fromkeys(keys))
    if len(set(words)) == len(distinct) and max(map(len, words)) <= _SHORT:
        return words
    return [f"{word[: _SHORT - 4]} #{distinct.index(key) + 1}" for word, key in zip(words, keys, strict=True)]


def _origins(values: Sequence[Any]) -> list[str]:
    """Where models came from, by what differs in their paths."""
    paths = [str(value) for value in dict.fromkeys(values) if value is not None]
    labels = dict(zip(paths, tails(list(map(_without_model, paths))), strict=True))
    return ["memory" if value is None else labels[str(value)] for value in values]


def _without_model(path: str) -> str:
    parts = PurePath(path)
    return str(parts.parent) if parts.name == _MODEL and len(parts.parts) > 1 else path


def _cut(word: str) -> str:
    return word if len(word) <= _SHORT else f"{word[: _SHORT - 2]}.."


def _word(value: Any, shared: set[str]) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):
        only_here = [word for word in map(str, value) if word not in shared]
        return ", ".join(only_here) or "no more"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _free_name(name: str, axes: Mapping[str, str]) -> str:
    return f"{name} (setting)" if name in axes else name
