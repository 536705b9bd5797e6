"""One mapping of labels to indices, fixed on the training split, and stratified choices by it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._checks import InputError, did_you_mean
from .readers import Raw

_LABELS = ("label", "labels")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


class LabelMap:
    """Label names in order and the way from a source's values to their indices.

    ``encode`` gives an index (a 0/1 list where texts may have several labels), or one of the marks ``unknown`` (-1: no
    label), ``missing`` (None, only where such rows are to be dropped) and ``dropped`` (a label that is left out).
    """

    missing: Any = object()
    dropped: Any = object()

    def __init__(self, multi_label: bool, renamed: Mapping[str, str], left_out: set[str]) -> None:
        self.names: list[str] = []
        self.multi_label = multi_label
        self.renamed = renamed
        self.left_out = left_out
        self.source_names: list[str] | None = None

    @property
    def unknown(self) -> Any:
        return [-1] * len(self.names) if self.multi_label else -1

    def encode(self, values: Sequence[Any], feature: Any, split: str, drop_none: bool) -> list[Any]:
        """Indices of a column's values; raises with label, split and row where one is None or not in train."""
        index = {name: i for i, name in enumerate(self.names)}
        named = _feature_names(feature) or self.source_names
        encoded = []
        for row, value in enumerate(values):
            if value is None or value == "" or value != value:
                if not drop_none:
                    raise InputError(
                        f"Expected a label, but row {row} of split {split!r} has none (rows count from 0); fill it, "
                        f"use -1 for unlabelled texts outside train, or drop such rows (drop_none)."
                    )
                encoded.append(self.missing)
            elif self.multi_label:
                encoded.append(self._encode_several(value, named, index, split, row))
            else:
                name = self.name_of(value, named)
                if name in self.left_out:
                    encoded.append(self.dropped)
                elif name in index:
                    encoded.append(index[name])
                elif name == "-1":
                    encoded.append(-1)
                else:
                    raise self._unknown_label(name, split, row)
        return encoded

    def encode_candidates(
        self, rows: Mapping[int, Sequence[Any]], feature: Any, labels: Mapping[int, Any], split: str
    ) -> tuple[list[list[int]], int]:
        """For each row 1 at the classes that may be its answer, and how many candidates are no class.

        Args:
            rows: row -> names (or indices) of its candidates.
            feature: of the column.
            labels: row -> index of the answer; negative where unknown.
            split: for messages.

        Raises:
            InputError: an answer that is none of its candidates, or a row without any, with the row.
        """
        index = {name: i for i, name in enumerate(self.names)}
        named = _feature_names(feature) or self.source_names
        masks, strange = [], 0
        for row, values in rows.items():
            names = {self.name_of(value, named) for value in values}
            known = {index[name] for name in names if name in index}
            strange += len(names) - len(known)
            where = f"row {row} of split {split!r}"
            if not known:
                raise InputError(f"Expected candidates that are classes, but {where} has none (rows count from 0).")
            if labels[row] >= 0 and labels[row] not in known:
                listed = ", ".join(sorted(names)[:10])
                raise InputError(
                    f"Expected the answer to be one of its candidates, but {where} has the answer "
                    f"{self.names[labels[row]]!r} and the candidates {listed}; add it to them or leave the row out."
                )
            masks.append([int(i in known) for i in range(len(self.names))])
        return masks, strange

    def name_of(self, value: Any, named: Sequence[str] | None) -> str:
        """A value's label name after ``label_map``."""
        text = _text_of(value)
        if named is not None and not isinstance(value, str) and text != "-1":
            if not text.isdigit() or int(text) >= len(named):
                raise InputError(f"Expected label indices below {len(named)} ({', '.join(named)}), but got {text}.")
            text = named[int(text)]
        return self.renamed.get(text, text)

    def _encode_several(self, value: Any, named: Any, index: Mapping[str, int], split: str, row: int) -> list[int]:
        if not isinstance(value, (list, tuple)):
            raise InputError(
                f"Expected a list of labels (multi_label), but row {row} of split {split!r} has {value!r}."
            )
        if _is_indicator(value, len(index)):
            return [int(v) for v in value]
        row_labels = [0] * len(index)
        for item in value:
            name = self.name_of(item, named)
            if name not in index:
                raise self._unknown_label(name, split, row)
            row_labels[index[name]] = 1
        return row_labels

    def _unknown_label(self, name: str, split: str, row: int) -> InputError:
        return InputError(
            f"Unknown label {name!r} in row {row} of split {split!r}; the labels are those of train."
            f"{did_you_mean(name, self.names)}"
        )


def _is_indicator(value: Sequence[Any], size: int) -> bool:
    return len(value) == size and all(isinstance(v, (int, float)) and v in (0, 1) for v in value)


def _text_of(value: Any) -> str:
    """A label's text: 1.0 is "1", True is "True"."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        raise InputError(f"Expected classes as labels, but got the number {value!r}; group such values first.")
    return str(value).strip() if isinstance(value, str) else str(value)


def _feature_names(feature: Any) -> list[str] | None:
    inner = getattr(feature, "feature", feature)
    names = getattr(inner, "names", None)
    return list(names) if names else None


def fit_labels(
    raw: Raw,
    column: str | None,
    *,
    multi_label: bool,
    keep: Sequence[str] | None,
    drop: Sequence[str] | None,
    label_map: Mapping[str, str] | None,
    names: Sequence[str] | None,
    candidates: str | None = None,
) -> LabelMap:
    """Fix the mapping on the training split (or to ``names``).

    Names stated by the source keep their order; other labels are sorted, numbers by value. ``label_map`` renames, then
    ``keep`` and ``drop`` choose; what is left is indexed in order. Names in the column ``candidates`` are labels too,
    though they may be nobody's answer in train.
    """
    rows = next((raw.splits[split] for split in ("train", "all") if split in raw.splits), None)
    if rows is None:
        rows = next(iter(raw.splits.values()))
    mapping = LabelMap(multi_label, dict(label_map or {}), set())
    known: list[str] = []
    if column is not None and column in rows.column_names:
        # a folder states the names of its labels, and of no other column
        stated = raw.names if column in _LABELS or not set(_LABELS) & set(rows.column_names) else None
        mapping.source_names = stated or _names_beside(rows, column)
        known = _known_labels(rows, column, mapping, candidates)
        if names is not None and not set(known) <= set(names) and all(name.isdigit() for name in known):
            mapping.source_names = known = list(names)  # bare numbers are indices into the model's own names
    if (label_map or keep or drop) and multi_label:
        raise InputError("Expected no keep, drop or label_map where texts may have several labels (multi_label).")
    for name in label_map or {}:
        if name not in known and not (name == "-1"):
            raise InputError(f"Unknown label {name!r} in label_map.{did_you_mean(name, known)}")
    merged = list(dict.fromkeys(mapping.renamed.get(name, name) for name in known))
    if label_map and "-1" in label_map and mapping.renamed["-1"] not in merged:
        merged.insert(0, mapping.renamed["-1"])
    for option, chosen in (("keep", keep), ("drop", drop)):
        for name in chosen or ():
            if name not in merged and name != "-1":
                raise InputError(f"Unknown label {name!r} in {option}.{did_you_mean(name, merged)}")
    left = {name for name in merged if (keep and name not in keep) or (drop and name in drop)}
    if drop and "-1" in drop:
        left.add("-1")
    mapping.left_out = left
    mapping.names = list(names) if names is not None else [name for name in merged if name not in left]
    return mapping


def _known_labels(rows: Any, column: str, mapping: LabelMap, candidates: str | None) -> list[str]:
    named = _feature_names(rows.features[column]) or mapping.source_names
    if named:
        return list(named)
    values = [v for v in rows.with_format(None).select_columns([column])[:][column] if v is not None and v == v]
    if mapping.multi_label:
        lists = [v for v in values if isinstance(v, (list, tuple))]
        sizes = {len(v) for v in lists}
        if len(sizes) == 1 and all(_is_indicator(v, len(v)) for v in lists):
            return [f"label-{i}" for i in range(sizes.pop())]
        values = [item for v in lists for item in v]
    elif any(isinstance(v, (list, tuple)) for v in values):
        raise InputError(f"Expected one label a text in column {column!r}, but it holds lists; set multi_label.")
    if candidates is not None:
        values += [v for row in rows.with_format(None).select_columns([candidates])[:][candidates] for v in row or ()]
    texts = {_text_of(v) for v in values} - {"", "-1"}
    if all(_NUMBER.fullmatch(text) for text in texts):
        return sorted(texts, key=lambda text: (float(text), text))
    return sorted(texts)


def _names_beside(rows: Any, column: str) -> list[str] | None:
    """Names from a ``label_text`` column that goes with whole-number labels 0 to C - 1, one name each."""
    beside = f"{column}_text"
    if beside not in rows.column_names or _feature_names(rows.features[column]):
        return None
    columns = rows.with_format(None).select_columns([column, beside])[:]
    pairs = {(v, name) for v, name in zip(columns[column], columns[beside], strict=True) if v is not None and v != -1}
    names = dict(pairs)
    if len(names) != len(pairs) or len(set(names.values())) != len(names):
        return None
    if not all(isinstance(v, int) and isinstance(name, str) and name for v, name in pairs):
        return None
    return [names[i] for i in range(len(names))] if set(names) == set(range(len(names))) else None


def stratified(labels: Sequence[Any], n: int, seed: int, purpose: str, *, spare_single: bool = False) -> list[int]:
    """``n`` of the indices, in order, each class in proportion (largest remainders); fewer where classes run out.

    With ``spare_single`` every class keeps at least one text that is not chosen. The choice depends on the labels, the
    seed and the purpose only.

    Example:
        >>> chosen = stratified([0] * 8 + [1] * 2 + [2], 5, 0, "example", spare_single=True)
        >>> [sum(8 <= i < 10 for i in chosen), sum(i == 10 for i in chosen), len(chosen)]
        [1, 0, 5]
    """
    import numpy as np

    classes: dict[Any, list[int]] = {}
    for i, label in enumerate(labels):
        classes.setdefault(tuple(label) if isinstance(label, list) else label, []).append(i)
    order = sorted(classes, key=lambda label: (str(type(label)), label))
    room = [len(classes[label]) - spare_single for label in order]
    exact = [n * len(classes[label]) / len(labels) for label in order]
    take = [min(int(e), r) for e, r in zip(exact, room, strict=True)]
    by_remainder = sorted(range(len(order)), key=lambda c: (take[c] > 0, int(exact[c]) - exact[c]))
    while sum(take) < min(n, sum(room)):
        for c in by_remainder:
            if take[c] < room[c] and sum(take) < n:
                take[c] += 1
    digest = hashlib.sha256(f"{seed}\x1f{purpose}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    chosen: list[int] = []
    for label, count in zip(order, take, strict=True):
        members = classes[label]
        chosen.extend(members[i] for i in generator.permutation(len(members))[:count])
    return sorted(chosen)
