"""Different labels for data sets that runs call by one name, and what sets paths apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from attn_faithful.records.meta import RunMeta
from attn_faithful.reports.by_key import by_key

DATA = "data"  # the axis
SHORT = 40  # letters of a label


def name_data(axes: list[dict[str, str]], metas: Sequence[RunMeta]) -> None:
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
    for in_words in (_folders, _sizes, _classes, _fingerprints):
        words = in_words(metas)
        distinct = len(set(words)) == len(words)
        if distinct and all(words) and max(map(len, words)) <= SHORT:
            return [f"{label} ({word})" for word in words]
    return [f"{label} ({i})" for i in range(1, len(metas) + 1)]


def _folders(metas: Sequence[RunMeta]) -> list[str]:
    """By what differs in the paths of the sources; "" for data without a source."""
    sources = [_source(meta) for meta in metas]
    differing = tails(list(map(str, sources)))
    words = []
    for source, tail in zip(sources, differing, strict=True):
        words.append("" if source is None else tail)
    return words


def _source(meta: RunMeta) -> str | None:
    settings = (meta.recipe or {}).get("data") or {}
    return meta.data.source or settings.get("source")


def _sizes(metas: Sequence[RunMeta]) -> list[str]:
    """By the number of texts; "" where it is not known."""
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
    without_front = [path[front:] for path in parts]
    back = _shared([path[::-1][: least - front] for path in without_front])
    middles = ["/".join(path[: len(path) - back]) for path in without_front]
    if all(middles) and len(set(middles)) == len(set(parts)):
        return middles
    ends = []
    for path, end in zip(parts, without_front, strict=True):
        ends.append("/".join(end) or path[-1])
    return ends


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """How many of the first parts are the same in all paths, which have as many parts as each other."""
    for place, parts in enumerate(zip(*paths, strict=True)):
        if len(set(parts)) > 1:
            return place
    return len(paths[0])
