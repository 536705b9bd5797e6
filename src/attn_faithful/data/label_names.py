"""Names of labels in a source: as its features, files and columns state them, and as its values are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.class_spelling import NUMBER, cleaned
from attn_faithful.data.columns import Columns
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.text_column import column_values

UNLABELLED = "-1"
_LABEL_COLUMNS = ("label", "labels")


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a split.

    Attributes:
        names: in order.
        indicators: of several labels a text: the lists are 0 and 1 for each class, and no indices.
    """

    names: list[str]
    indicators: bool = False


def text_of(value: Any) -> str:
    """A label's text: 1.0 is "1", True is "True"."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, bytes | dict):
        raise InputError(f"Expected texts or whole numbers as labels, but got {value!r:.60}; convert them first.")
    if isinstance(value, float):
        if not value.is_integer():
            raise InputError(f"Expected classes as labels, but got the number {value!r}; group such values first.")
        return str(int(value))
    return str(value)


def is_indicator(value: Sequence[Any], size: int) -> bool:
    """Whether a list is 0 or 1 for each of ``size`` classes."""
    return len(value) == size and all(isinstance(v, int | float) and v in (0, 1) for v in value)


def feature_names(feature: Any) -> list[str] | None:
    """The names that a ClassLabel states, also of lists; None for any other feature."""
    inner = getattr(feature, "feature", feature)
    return _cleaned_names(getattr(inner, "names", None))


def stated_names(raw: Raw, rows: Any, column: str) -> list[str] | None:
    """The names that a source states beside its label column; None where it states none."""
    others = set(_LABEL_COLUMNS) & set(rows.column_names) - {column}
    if raw.names and (column in _LABEL_COLUMNS or not others):
        # a folder's meta.json states the names of its label column, and of no other
        return _cleaned_names(raw.names)
    return _cleaned_names(_names_beside(rows, column))


def _cleaned_names(names: Sequence[str] | None) -> list[str] | None:
    """Names without invisible characters around them, unless that makes one of two."""
    if not names:
        return None
    clean = list(map(cleaned, names))
    if len(set(clean)) < len(clean):
        return list(names)
    return clean


def _names_beside(rows: Any, column: str) -> list[str] | None:
    """Names from a ``label_text`` column that goes with whole-number labels 0 to C - 1, one name each."""
    beside = f"{column}_text"
    if beside not in rows.column_names or feature_names(rows.features[column]):
        return None
    pairs = set()
    for label, name in zip(column_values(rows, column), column_values(rows, beside), strict=True):
        if label is not None and label != -1:
            pairs.add((label, name))
    names = dict(pairs)
    one_to_one = len(names) == len(pairs) and len(set(names.values())) == len(names)
    if not one_to_one or not all(_is_named(label, name) for label, name in pairs):
        return None
    if set(names) != set(range(len(names))):
        return None
    return [names[i] for i in range(len(names))]


def _is_named(label: Any, name: Any) -> bool:
    """Whether a label is a whole number and its name a text."""
    return isinstance(label, int) and isinstance(name, str) and name != ""


# labels that the values of a split show


def known_labels(rows: Any, columns: Columns, source_names: list[str] | None, multi_label: bool) -> KnownLabels:
    """The labels of a split in order; names in the column of candidates are labels too."""
    feature = rows.features[columns.label]
    names = feature_names(feature) or source_names
    if names and not multi_label:
        return KnownLabels(list(names))
    values, lists = [], []
    for value in column_values(rows, columns.label):
        if isinstance(value, list | tuple):
            lists.append(value)
        elif value is not None and value == value:  # not NaN
            values.append(value)
    if multi_label:
        indicators = _indicators(lists, names) and not feature_names(feature)
        if names:
            return KnownLabels(list(names), indicators)
        if indicators:
            return KnownLabels([f"label-{i}" for i in range(len(lists[0]))], indicators)
        values = list(chain.from_iterable(lists))
    elif lists:
        raise InputError(f"Expected one label a text in column {columns.label!r}, but it holds lists; set multi_label.")
    if columns.candidates is not None:
        for candidates in column_values(rows, columns.candidates):
            values += candidates or ()
    return KnownLabels(_in_order(values))


def _indicators(lists: Sequence[Sequence[Any]], names: Sequence[str] | None) -> bool:
    """Whether all lists are 0 and 1 for each class."""
    sizes = {len(labels) for labels in lists}
    if len(sizes) != 1 or (names and sizes != {len(names)}):
        return False
    return all(is_indicator(labels, len(labels)) for labels in lists)


def _in_order(values: Sequence[Any]) -> list[str]:
    """Different labels, numbers by value, others by spelling."""
    texts = set(map(text_of, values)) - {"", UNLABELLED}
    if all(map(NUMBER.fullmatch, texts)):
        return sorted(texts, key=lambda text: (float(text), text))
    return sorted(texts)
