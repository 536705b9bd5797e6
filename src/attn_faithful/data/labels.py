"""One mapping of labels to indices, fixed on the training split, and stratified choices by it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful._checks import Faults, InputError, did_you_mean
from attn_faithful.data.class_spelling import cleaned, one_in_two_ways
from attn_faithful.data.files.raw import Raw

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
        self.numbered: dict[str, str] = {}  # a number in the data -> the name of a trained model's that it means
        self.whose = "the labels are those of train"
        self.indicators = False  # of several labels: the lists are 0 and 1 for each class, and no indices

    @property
    def unknown(self) -> Any:
        return [-1] * len(self.names) if self.multi_label else -1

    def encode(
        self, values: Sequence[Any], feature: Any, split: str, drop_none: bool, faults: Faults | None = None
    ) -> list[Any]:
        """Indices of a column's values; a fault, with label, split and row, is one that is None or not in train."""
        faults = faults or Faults()
        index = self._index()
        named = _feature_names(feature) or self.source_names
        encoded = []
        for row, value in enumerate(values):
            if value is None or value == "" or value != value:
                if not drop_none:
                    error = InputError(
                        f"Expected a label, but row {row} of split {split!r} has none (rows count from 0); fill it, "
                        f"use -1 for unlabelled texts outside train, or drop such rows (drop_none)."
                    )
                    faults.add(error, f"no label {split}")
                encoded.append(self.missing)
                continue
            try:
                encoded.append(self._encode_one(value, named, index, split, row))
            except InputError as error:
                faults.add(error, f"label {value!r:.200} {split}")
                encoded.append(self.dropped)
        return encoded

    def _index(self) -> dict[str, int]:
        """The classes by their names, and by those without what stands around them unseen."""
        places = {cleaned(name): i for i, name in reversed(list(enumerate(self.names)))}
        return places | {name: i for i, name in enumerate(self.names)}

    def _encode_one(self, value: Any, named: Any, index: Mapping[str, int], split: str, row: int) -> Any:
        if self.multi_label:
            return self._encode_several(value, named, index, split, row)
        name = self.name_of(value, named)
        if name in self.left_out:
            return self.dropped
        if name in index:
            return index[name]
        if name == "-1":
            return -1
        raise self._unknown_label(name, split, row)

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
        index = self._index()
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
        text = self.renamed.get(text, text)
        return self.numbered.get(text, text)

    def _encode_several(self, value: Any, named: Any, index: Mapping[str, int], split: str, row: int) -> list[int]:
        if not isinstance(value, (list, tuple)):
            raise InputError(
                f"Expected a list of labels (multi_label), but row {row} of split {split!r} has {value!r}."
            )
        if self.indicators:
            if not _is_indicator(value, len(index)):
                raise InputError(
                    f"Expected 0 or 1 for each of the {len(index)} classes, but row {row} of split {split!r} has "
                    f"{value!r:.60}."
                )
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
            f"Unknown label {name!r} in row {row} of split {split!r}; {self.whose}.{did_you_mean(name, self.names)} "
            f"Rename others with label_map (--map {name}=...) or drop them."
        )


def label_notes(values: Sequence[Any], labels: Sequence[Any], split: str) -> list[str]:
    """What was done to labels without being asked: what stands unseen around them cut, -1 read as no label."""
    notes = []
    written = [value for value in values if isinstance(value, str)]
    blank = sum(value != value.strip() for value in written)
    if blank:
        notes.append(f"{split}: blanks around {blank} labels were cut.")
    unseen = sum(value.strip() != cleaned(value) for value in written)
    if unseen:
        notes.append(f"{split}: {unseen} labels were rid of invisible characters, or their letters composed (NFC).")
    unlabelled = sum(isinstance(label, int) and label == -1 for label in labels)
    if unlabelled:
        notes.append(f"{split}: {unlabelled} of {len(labels)} texts have no label (-1).")
    return notes


def _is_indicator(value: Sequence[Any], size: int) -> bool:
    return len(value) == size and all(isinstance(v, (int, float)) and v in (0, 1) for v in value)


def _text_of(value: Any) -> str:
    """A label's text: 1.0 is "1", True is "True"."""
    if isinstance(value, bytes | dict):
        raise InputError(f"Expected texts or whole numbers as labels, but got {value!r:.60}; convert them first.")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float):
        raise InputError(f"Expected classes as labels, but got the number {value!r}; group such values first.")
    return cleaned(value) if isinstance(value, str) else str(value)


def _feature_names(feature: Any) -> list[str] | None:
    inner = getattr(feature, "feature", feature)
    return _cleaned_names(getattr(inner, "names", None))


def _cleaned_names(names: Sequence[str] | None) -> list[str] | None:
    """Names that a source states, without what stands around them unseen, unless that makes one of two."""
    if not names:
        return None
    clean = [cleaned(name) for name in names]
    return clean if len(set(clean)) == len(clean) else list(names)


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
    faults: Faults | None = None,
) -> LabelMap:
    """Fix the mapping on the training split (or to ``names``).

    Names stated by the source keep their order; other labels are sorted, numbers by value. ``label_map`` renames, then
    ``keep`` and ``drop`` choose; what is left is indexed in order. Names in the column ``candidates`` are labels too,
    though they may be nobody's answer in train.
    """
    rows = next((raw.splits[split] for split in ("train", "all") if split in raw.splits), None)
    if rows is None:
        rows = next(iter(raw.splits.values()))
    label_map = {cleaned(name): cleaned(new) for name, new in (label_map or {}).items()}
    keep, drop = (None if chosen is None else [cleaned(name) for name in chosen] for chosen in (keep, drop))
    mapping = LabelMap(multi_label, label_map, set())
    known: list[str] = []
    if column is not None and column in rows.column_names:
        # a folder states the names of its labels, and of no other column
        stated = raw.names if column in _LABELS or not set(_LABELS) & set(rows.column_names) else None
        mapping.source_names = _cleaned_names(stated or _names_beside(rows, column))
        known = _known_labels(rows, column, mapping, candidates)
        if names is not None:  # other splits may have classes that this one lacks
            beside = (r for r in raw.splits.values() if r is not rows and column in r.column_names)
            more = [label for other in beside for label in _known_labels(other, column, mapping, candidates)]
            known = list(dict.fromkeys([*known, *more]))
    faults = faults or Faults()
    if (label_map or keep or drop) and multi_label:
        faults.add(InputError("Expected no keep, drop or label_map where texts may have several labels (multi_label)."))
    for name in label_map:
        if name not in known and name != "-1":
            faults.add(InputError(f"Unknown label {name!r} in label_map.{did_you_mean(name, known)}"))
    merged = list(dict.fromkeys(mapping.renamed.get(name, name) for name in known))
    if names is None:
        for first, other in one_in_two_ways(merged):
            told = f"Expected one way of writing each class, but {first!r} and {other!r} are one number or truth value"
            faults.add(InputError(f"{told}; merge them with label_map (--map {other}={first}), or rename one."))
    if names is not None:
        mapping.whose = "the classes are the model's"
        named_out = set(drop or ()) | (set(merged) - set(keep) if keep and set(keep) & set(merged) else set())
        mapping.numbered, note = by_number([name for name in merged if name not in named_out], list(names))
        raw.notes.extend([note] if note else [])
        merged = [mapping.numbered.get(name, name) for name in merged]
        keep, drop = ([mapping.numbered.get(name, name) for name in chosen or ()] for chosen in (keep, drop))
    if "-1" in label_map and mapping.renamed["-1"] not in merged:
        merged.insert(0, mapping.renamed["-1"])
    for option, chosen in (("keep", keep), ("drop", drop)):
        for name in chosen or ():
            if name not in (*merged, *(names or ())) and name != "-1":
                faults.add(InputError(f"Unknown label {name!r} in {option}.{did_you_mean(name, merged)}"))
    left = {name for name in merged if (keep and name not in keep) or (drop and name in drop)}
    if drop and "-1" in drop:
        left.add("-1")
    mapping.left_out = left
    mapping.names = list(names) if names is not None else [name for name in merged if name not in left]
    return mapping


def by_number(known: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """What bare numbers in the data mean among a trained model's names, and a note that says so.

    Nothing, where the data's labels are among the names. Where each name holds a number of its own ("1 star"), the
    numbers in the data are those: 1 is "1 star". Data whose numbers are not among them are read as indices from 0 where
    they are all of 0 to C - 1. Names without numbers are counted from 0.

    Raises:
        InputError: numbers that could be counted from 0 or from 1.

    Example:
        >>> by_number(["1", "2"], ["1 star", "2 stars", "3 stars"])[0]
        {'1': '1 star', '2': '2 stars'}
    """
    if set(known) <= set(names) or not known or not all(name.isascii() and name.isdigit() for name in known):
        return {}, None
    listed, own = f"the labels {', '.join(known)}", ", ".join(names)
    indices = {str(i): name for i, name in enumerate(names)}
    held = _numbers_in(names)
    if held is not None and set(known) <= set(held):
        meant = {name: held[name] for name in known}
    elif held is not None:
        whole = set(known) == set(indices) and not any(name.isdigit() for name in names)
        meant = indices if whole else {}
    else:
        from_one = "0" not in known and str(len(names)) in known
        meant = {name: indices[name] for name in known} if set(known) <= set(indices) and not from_one else {}
    if not meant:
        raise InputError(
            f"Expected labels that are the model's classes ({own}) or indices of them from 0, but the data have "
            f"{listed}; say which is which with label_map (--map {known[0]}={names[0]},...)."
        )
    means = ", ".join(f"{number} is {meant[number]!r}" for number in known)
    return meant, f"Numbers as labels, read as the model's classes: {means}."


def _numbers_in(names: Sequence[str]) -> dict[str, str] | None:
    """Number -> name where every name holds one number, and no two the same."""
    found = {name: re.findall(r"\d+", name) for name in names}
    numbers = {str(int(held[0])): name for name, held in found.items() if len(held) == 1}
    return numbers if len(numbers) == len(names) else None


def _known_labels(rows: Any, column: str, mapping: LabelMap, candidates: str | None) -> list[str]:
    """The labels of a split in order; finds out whether lists of several labels are indicators."""
    stated = _feature_names(rows.features[column])
    named = stated or mapping.source_names
    if named and not mapping.multi_label:
        return list(named)
    values = [v for v in rows.with_format(None).select_columns([column])[:][column] if v is not None and v == v]
    if mapping.multi_label:
        lists = [v for v in values if isinstance(v, (list, tuple))]
        sizes = {len(v) for v in lists}
        same = len(sizes) == 1 and (not named or sizes == {len(named)})
        mapping.indicators = not stated and same and all(_is_indicator(v, len(v)) for v in lists)
        if named:
            return list(named)
        if mapping.indicators:
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
