"""Data as notebooks hold it (data frames, series, arrays, columns, generators) brought to what the readers take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError

TAKEN = (
    "a data set of datasets, a DataFrame, a mapping of columns, a list of texts, or a list of rows as mappings; a text "
    "by itself goes into a list, [text]"
)
SPLITS = ("train", "training", "validation", "valid", "val", "dev", "test")


def as_rows(given: Any) -> Any:
    """Data that can be read more than once: a data set or a mapping of splits of datasets, or a list.

    Args:
        given: of datasets, pandas, numpy or pyarrow; a mapping of columns or of splits; a list, tuple or generator of
            texts or of rows; a column of a data set or of a data frame.

    Raises:
        InputError: something else, or columns that cannot be read together.

    Example:
        >>> as_rows({"text": ["a", "b"], "label": [0, 1]}).column_names
        ['text', 'label']
        >>> as_rows(text for text in ("a", "b"))
        ['a', 'b']
    """
    import datasets
    import pyarrow as pa

    kinds = (datasets.Dataset, datasets.DatasetDict, datasets.IterableDataset, datasets.IterableDatasetDict)
    if isinstance(given, kinds):
        return given
    if isinstance(given, pa.Table):
        return datasets.Dataset(given)
    if isinstance(given, str | bytes | type) or given is None:
        shown = f"one text ({given[:40]!r})" if isinstance(given, str) else _kind(given)
        raise InputError(f"Expected {TAKEN}, but got {shown}.")
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return _of_frame(given)
    if isinstance(given, np.ndarray):
        return _of_array(given)
    if isinstance(given, set | frozenset):
        raise InputError(f"Expected {TAKEN}, but got a set, whose order changes from run to run; sort it first.")
    if not isinstance(given, Iterable):
        raise InputError(f"Expected {TAKEN}, but got {_kind(given)}.")
    return [_plain(value) for value in given]


def _kind(given: Any) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def _of_mapping(given: Mapping[Any, Any]) -> Any:
    """Columns as a data set, splits as a mapping of data sets."""
    import datasets

    if not given:
        raise InputError(f"Expected {TAKEN}, but the mapping is empty.")
    lone = [name for name, value in given.items() if isinstance(value, str | bytes) or not isinstance(value, Iterable)]
    if lone:
        raise InputError(
            f"Expected a list of values in each column of a mapping, but {lone[0]!r} is {given[lone[0]]!r:.40}; put a "
            "row by itself into a list, [row]."
        )
    splits = all(str(name).lower() in SPLITS for name in given)
    if splits:
        return datasets.DatasetDict({str(name): _as_dataset(as_rows(part)) for name, part in given.items()})
    columns = {str(name): [_plain(value) for value in values] for name, values in given.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise InputError(f"Expected columns of equal length, but {shown}.")
    return _dataset(columns)


def _of_frame(frame: Any) -> Any:
    """A data frame of pandas or polars; its index is no column."""
    names = [str(name) for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"Expected columns of different names, but {twice!r} stands twice.")
    columns = {str(name): [_plain(value) for value in frame[name]] for name in frame.columns}
    if not names or not len(frame):
        raise InputError("Expected rows, but the data frame has none.")
    return _dataset(columns)


def _of_array(array: np.ndarray) -> Sequence[Any]:
    if array.ndim != 1:
        raise InputError(f"Expected an array of texts with one axis, but got the shape {array.shape}.")
    return [_plain(value) for value in array]


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A data set of rows as mappings, with every column that any of them has; None where a row lacks it.

    Raises:
        InputError: values of different kinds in a column.
        UnicodeEncodeError: half a character.

    Example:
        >>> of_rows([{"text": "a"}, {"text": "b", "label": "good"}])["label"][:]
        [None, 'good']
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return _dataset({name: [row.get(name) for row in rows] for name in names})


def _as_dataset(rows: Any) -> Any:
    if not isinstance(rows, list):
        return rows
    if all(isinstance(row, str) or row is None for row in rows):
        return _dataset({"text": rows})
    return of_rows(rows)


def _dataset(columns: Mapping[str, Sequence[Any]]) -> Any:
    import datasets
    import pyarrow as pa

    try:
        return datasets.Dataset.from_dict(dict(columns))
    except UnicodeEncodeError:  # half a character: readers.from_rows names its row
        raise
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        told = f"Expected one kind of value in each column, but they cannot be read: {reason}"
        raise InputError(_mixed(columns) or told) from None


def _mixed(columns: Mapping[str, Sequence[Any]]) -> str | None:
    """Which column holds values of different kinds, from which row on, and what to do."""
    for name, values in columns.items():
        there = [(row, value) for row, value in enumerate(values) if value is not None]
        kinds = {type(value) for _, value in there}
        if str not in kinds or len(kinds) == 1:
            continue
        first, own = there[0]
        row, value = next((row, value) for row, value in there if type(value) is not type(own))
        return (
            f"Expected one kind of value in column {name!r}, but row {first} has {own!r:.40} and row {row} has "
            f"{value!r:.40} (rows count from 0); write all of them as text."
        )
    return None


def _plain(value: Any) -> Any:
    """A value as Python has it; what pandas and numpy call missing is None."""
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:
        return None
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    return value
