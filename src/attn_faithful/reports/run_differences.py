"""What runs differ in: only those that differ in nothing but seeds are averaged; the others are told apart in words."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from attn_faithful.records.meta import RunMeta

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
    same_axes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for i, labels in enumerate(axes):
        same_axes[tuple(labels.items())].append(i)
    settings: dict[str, str] = {}  # column -> the setting that it tells
    for members in same_axes.values():
        if len({_key(facts[i]) for i in members}) == 1:
            continue
        for column, (name, labels) in _columns([facts[i] for i in members]).items():
            settings.setdefault(column, name)
            for i, label in zip(members, labels, strict=True):
                axes[i][_free_name(column, metas[i].axes)] = label
    _fill_columns(axes, facts, settings)
    return axes


def _fill_columns(axes: Sequence[dict[str, str]], facts: Sequence[Facts], settings: Mapping[str, str]) -> None:
    """Give the columns that tell some runs apart to the others too, who share them with their seeds."""
    for labels, values in zip(axes, facts, strict=True):
        for column, name in settings.items():
            if column not in labels and _is_setting(name) and values.get(name) is not None:
                labels[column] = _cut(_word(values[name], set()))


def differences(meta: RunMeta) -> dict[str, Any]:
    """All but seeds that a run's numbers depend on, flat: dotted name -> value."""
    identity = meta.identity or {}
    facts = {
        NUMBERS: _numbers(meta),
        DATA: meta.data.fingerprint,
        "split": meta.split,
        _ORIGIN: None if meta.model is None else str(meta.model),
    }
    for name in _INGREDIENTS:
        facts[name] = identity.get(name)
    if facts["weights"] is None and meta.weights:  # runs of earlier versions
        facts["weights"] = json.dumps(meta.weights, sort_keys=True)
    for part, settings in (("evaluation", meta.evaluation), ("recipe", meta.recipe), ("twin", meta.twin)):
        if isinstance(settings, Mapping):
            facts |= _flat(settings, f"{part}.")
    return facts


def comparable(meta: RunMeta) -> str:
    """What must agree for two models' numbers to stand beside each other: data, split, how they were tested."""
    evaluation = meta.evaluation or (meta.recipe or {}).get("evaluation") or {}
    facts = [_numbers(meta), meta.data.fingerprint, meta.split or "test"]
    return json.dumps([*facts, *(evaluation.get(name) for name in _COMPARED)], sort_keys=True)


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


def _key(facts: Facts) -> str:
    known = {name: value for name, value in facts.items() if value is not None}
    return json.dumps(known, sort_keys=True, default=str)


# data sets of one label


def _name_data(axes: list[dict[str, str]], metas: Sequence[RunMeta]) -> None:
    """Give data sets that differ different labels."""
    by_label: dict[str, list[int]] = defaultdict(list)
    for i, labels in enumerate(axes):
        if DATA in labels:
            by_label[labels[DATA]].append(i)
    for label, members in by_label.items():
        by_fingerprint: dict[str | None, RunMeta] = {}
        for i in members:
            by_fingerprint.setdefault(metas[i].data.fingerprint, metas[i])
        if len(by_fingerprint) == 1:
            continue
        names = dict(zip(by_fingerprint, _data_labels(label, list(by_fingerprint.values())), strict=True))
        for i in members:
            axes[i][DATA] = names[metas[i].data.fingerprint]


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
    differing = tails([str(source) for source in sources])
    return ["" if source is None else tail for source, tail in zip(sources, differing, strict=True)]


def _source(meta: RunMeta) -> str | None:
    return meta.data.source or ((meta.recipe or {}).get("data") or {}).get("source")


def _sizes(metas: Sequence[RunMeta]) -> list[str]:
    words = []
    for meta in metas:
        split = meta.data.splits.get(meta.split or "test")
        words.append("" if split is None else f"{split['n']} texts")
    return words


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


def _columns(facts: Sequence[Facts]) -> dict[str, tuple[str, list[str]]]:
    """The columns that tell some runs of equal axes apart: name -> what it tells, and the label of each run."""
    names = dict.fromkeys(name for each in facts for name in each)
    varying = [name for name in names if name != DATA and _varies(name, facts)]  # the label of the data tells
    shown: list[str] = []
    for name in varying:
        if not _is_setting(name) and name != _ORIGIN:
            continue
        unknown_to_some = any(name not in each for each in facts) and not name.startswith(_FREE)
        if not (unknown_to_some and _follows(name, shown, facts)):  # one version of the package does not know it
            shown.append(name)
    for name in _INGREDIENTS:
        if name in varying and not _follows(name, shown, facts):
            shown.append(name)
    columns: dict[str, tuple[str, list[str]]] = {}
    for name in shown:
        short = name.rpartition(".")[2]
        column = name if short in columns else short
        columns[column] = name, _labels([each.get(name) for each in facts], name)
    return columns


def _varies(name: str, facts: Sequence[Facts]) -> bool:
    return len({_hashable(each.get(name)) for each in facts}) > 1


def _is_setting(name: str) -> bool:
    return "." in name or name in (NUMBERS, "split")


def _follows(name: str, shown: Sequence[str], facts: Sequence[Facts]) -> bool:
    """Whether what is shown already says which value a fact has."""
    values: dict[tuple[Hashable, ...], set[Hashable]] = defaultdict(set)
    for each in facts:
        known = tuple(_hashable(each.get(other)) for other in shown)
        values[known].add(_hashable(each.get(name)))
    return all(len(alternatives) == 1 for alternatives in values.values())


def _hashable(value: Any) -> Hashable:
    return json.dumps(value, sort_keys=True, default=str)


def _labels(values: Sequence[Any], name: str) -> list[str]:
    """Values in short words, different ones where the values are."""
    if name == _ORIGIN:
        return _origins(values)
    shared: set[str] = set()
    if all(isinstance(value, list) for value in values):
        shared = set.intersection(*({str(entry) for entry in value} for value in values))
    words = [_word(value, shared) for value in values]
    keys = [_hashable(value) for value in values]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys), 1)}
    if len(set(words)) < len(numbers) or max(map(len, words)) > _SHORT:
        return [f"{word[: _SHORT - 4]} #{numbers[key]}" for word, key in zip(words, keys, strict=True)]
    return words


def _origins(values: Sequence[Any]) -> list[str]:
    """Where models came from, by what differs in their paths."""
    paths = [str(value) for value in dict.fromkeys(values) if value is not None]
    labels = dict(zip(paths, tails([_without_model(path) for path in paths]), strict=True))
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
        only_here = [str(entry) for entry in value if str(entry) not in shared]
        return ", ".join(only_here) or "no more"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _free_name(name: str, axes: Mapping[str, str]) -> str:
    return f"{name} (setting)" if name in axes else name
