"""What runs differ in: only those that differ in nothing but seeds are averaged; the others are told apart in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

NUMBERS, DATA = "numbers", "data"
_FREE = (
    "evaluation.settings.",
    "recipe.evaluation.settings.",
    "recipe.model.",
)  # where a missing name means the default
_NO_DIFFERENCE = ("seed", "seeds", "twin_seeds", "trackers", "name", "claim", "expected", "grid", "smoke", "data")
_FILES = ("path", "source_file")  # what is told of a file is its name: where it lies is no difference
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
_SHORT = 40  # letters of a label
_MODEL = "model"  # the folder in a run's that holds its model


def told_apart(metas: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The axes of each run, with more where others have the same: two share theirs where they differ in seeds alone.

    Data sets that differ get different labels; what else differs gets an axis of its own, such as units or split, or
    numbers where an earlier version of the package made them.

    Args:
        metas: meta.json of each run.
    """
    axes = [dict(meta["axes"]) for meta in metas]
    _name_data(axes, metas)
    together: dict[tuple[Any, ...], list[int]] = {}
    for i, own in enumerate(axes):
        together.setdefault(tuple(own.items()), []).append(i)
    found = [differences(meta) for meta in metas]
    told: dict[str, str] = {}  # column -> the setting that it tells
    for members in together.values():
        if len({_key(found[i]) for i in members}) > 1:
            columns = _columns([found[i] for i in members])
            for column, (name, labels) in columns.items():
                told.setdefault(column, name)
                for i, label in zip(members, labels, strict=True):
                    axes[i][_free_name(column, metas[i]["axes"])] = label
    for own, facts in zip(axes, found, strict=True):
        for column, name in told.items():  # of the others too, who share it with their seeds
            if column not in own and _is_setting(name) and facts.get(name) is not None:
                own[column] = _cut(_word(facts[name], set()))
    return axes


def differences(meta: Mapping[str, Any]) -> dict[str, Any]:
    """All but seeds that a run's numbers depend on, flat: dotted name -> value."""
    told = meta.get("identity") or {}
    found = {
        NUMBERS: meta.get("numbers", 1),
        DATA: _fingerprint(meta),
        "split": meta.get("split"),
        _ORIGIN: _origin(meta),
        **{name: told.get(name) for name in _INGREDIENTS},
    }
    weights = meta.get("weights")
    if found["weights"] is None and weights:  # runs of earlier versions
        found["weights"] = json.dumps(weights, sort_keys=True)
    for part in ("evaluation", "recipe", "twin"):
        if isinstance(meta.get(part), Mapping):
            found |= _flat(meta[part], f"{part}.")
    return found


def comparable(meta: Mapping[str, Any]) -> str:
    """What must agree for two models' numbers to stand beside each other: data, split, how they were tested."""
    tested = meta.get("evaluation") or (meta.get("recipe") or {}).get("evaluation") or {}
    names = ("units", "special_tokens", "target", "settings", "sources")
    facts = [meta.get("numbers", 1), _fingerprint(meta), meta.get("split") or "test"]
    return json.dumps([*facts, *(tested.get(name) for name in names)], sort_keys=True)


def _fingerprint(meta: Mapping[str, Any]) -> Any:
    return (meta.get("data") or {}).get("fingerprint")


def _origin(meta: Mapping[str, Any]) -> str | None:
    given = meta.get("model")
    return None if given is None else str(given)


def _flat(value: Mapping[str, Any], before: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inner in value.items():
        if name in _NO_DIFFERENCE:
            continue
        if isinstance(inner, Mapping):
            found |= _flat(inner, f"{before}{name}.")
        elif name in _FILES and inner is not None:
            found[before + name] = PurePath(str(inner)).name
        else:
            found[before + name] = inner
    return found


def _key(facts: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in facts.items() if value is not None}, sort_keys=True, default=str)


# data sets of one label


def _name_data(axes: list[dict[str, str]], metas: Sequence[Mapping[str, Any]]) -> None:
    """Give data sets that differ different labels."""
    held: dict[str, list[int]] = {}
    for i, own in enumerate(axes):
        if DATA in own:
            held.setdefault(own[DATA], []).append(i)
    for label, members in held.items():
        by_print: dict[Any, Mapping[str, Any]] = {}
        for i in members:
            by_print.setdefault(_fingerprint(metas[i]), metas[i])
        if len(by_print) > 1:
            names = dict(zip(by_print, _data_labels(label, list(by_print.values())), strict=True))
            for i in members:
                axes[i][DATA] = names[_fingerprint(metas[i])]


def _data_labels(label: str, metas: Sequence[Mapping[str, Any]]) -> list[str]:
    """Different words for data sets of one label: the folder, how many texts, the classes; else the fingerprint."""
    sources = [_source(meta) for meta in metas]
    ways: list[Callable[[int], str | None]] = [
        lambda i: None if sources[i] is None else tails([str(s) for s in sources])[i],
        lambda i: _texts(metas[i]),
        lambda i: "/".join(map(str, metas[i].get("label_names") or [])),
        lambda i: str(_fingerprint(metas[i]))[:8],
    ]
    for way in ways:
        found = [way(i) for i in range(len(metas))]
        if len(set(found)) == len(found) and all(found) and max(len(str(word)) for word in found) <= _SHORT:
            return [f"{label} ({word})" for word in found]
    return [f"{label} ({i})" for i in range(1, len(metas) + 1)]


def _source(meta: Mapping[str, Any]) -> str | None:
    given = (meta.get("data") or {}).get("source")
    return given or ((meta.get("recipe") or {}).get("data") or {}).get("source")


def _texts(meta: Mapping[str, Any]) -> str | None:
    facts = (meta.get("data") or {}).get(meta.get("split") or "test")
    return f"{facts['n']} texts" if isinstance(facts, Mapping) and "n" in facts else None


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
    front = next((i for i in range(least) if len({own[i] for own in parts}) > 1), least)
    back = next((i for i in range(least - front) if len({own[-1 - i] for own in parts}) > 1), least - front)
    left = ["/".join(own[front : len(own) - back]) for own in parts]
    if all(left) and len(set(left)) == len(set(parts)):
        return left
    return ["/".join(own[front:]) or own[-1] for own in parts]


# what else differs


def _columns(found: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, list[str]]]:
    """The columns that tell some runs of equal axes apart: name -> what it tells, and the label of each run."""
    names = dict.fromkeys(name for facts in found for name in facts)
    varying = [name for name in names if len({_hashable(facts.get(name)) for facts in found}) > 1]
    varying = [name for name in varying if name != DATA]  # its label tells
    shown: list[str] = []
    settings = [name for name in varying if _is_setting(name) or name == _ORIGIN]
    for name in settings:
        lacking = any(name not in facts for facts in found) and not name.startswith(_FREE)
        if not (lacking and _follows(name, shown, found)):  # a name that one version of the package does not know
            shown.append(name)
    for name in _INGREDIENTS:
        if name in varying and not _follows(name, shown, found):
            shown.append(name)
    columns: dict[str, tuple[str, list[str]]] = {}
    for name in shown:
        short = name.rpartition(".")[2]
        columns[name if short in columns else short] = name, _labels([facts.get(name) for facts in found], name)
    return columns


def _is_setting(name: str) -> bool:
    return "." in name or name in (NUMBERS, "split")


def _follows(name: str, shown: Sequence[str], found: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what is shown already says which value a fact has."""
    values: dict[tuple[Hashable, ...], set[Hashable]] = {}
    for facts in found:
        known = tuple(_hashable(facts.get(other)) for other in shown)
        values.setdefault(known, set()).add(_hashable(facts.get(name)))
    return all(len(held) == 1 for held in values.values())


def _hashable(value: Any) -> Hashable:
    return json.dumps(value, sort_keys=True, default=str)


def _labels(values: Sequence[Any], name: str) -> list[str]:
    """Values in short words."""
    if name == _ORIGIN:
        return _origins(values)
    shared: set[str] = set()
    if all(isinstance(value, list) for value in values):
        shared = set.intersection(*({str(one) for one in value} for value in values))
    words = [_word(value, shared) for value in values]
    distinct = len({_hashable(value) for value in values})
    if len(set(words)) < distinct or max(map(len, words)) > _SHORT:
        short = {key: str(i) for i, key in enumerate(dict.fromkeys(map(_hashable, values)), 1)}
        words = [f"{word[: _SHORT - 4]} #{short[_hashable(value)]}" for word, value in zip(words, values, strict=True)]
    return words


def _origins(values: Sequence[Any]) -> list[str]:
    given = [str(value) for value in dict.fromkeys(values) if value is not None]
    cut = dict(zip(given, tails([_without_model(path) for path in given]), strict=True))
    return ["memory" if value is None else cut[str(value)] for value in values]


def _without_model(path: str) -> str:
    held = PurePath(path)
    return str(held.parent) if held.name == _MODEL and len(held.parts) > 1 else path


def _cut(word: str) -> str:
    return word if len(word) <= _SHORT else f"{word[: _SHORT - 2]}.."


def _word(value: Any, shared: set[str]) -> str:
    if value is None or value in ([], {}):
        return "-"
    if isinstance(value, list):  # what only some have
        own = [str(one) for one in value if str(one) not in shared]
        return ", ".join(own) or "no more"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _free_name(name: str, axes: Mapping[str, str]) -> str:
    return f"{name} (setting)" if name in axes else name
