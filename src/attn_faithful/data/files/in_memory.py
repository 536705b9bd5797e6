"""Data as notebooks hold it (data frames, series, arrays, columns, generators) brought to what the readers take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.data.files.raw import SPLIT_NAMES

TAKEN = (
    "a data set of datasets, a DataFrame, a mapping of columns, a list of texts, or a list of rows as mappings; a text "
    "by itself goes into a list, [text]"
)


def as_rows(data: Any) -> Any:
    """Data that can be read more than once: a data set or a mapping of splits of datasets, or a list.

    Args:
        data: of datasets, pandas, numpy or pyarrow; a mapping of columns or of splits; a list, tuple or generator of
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
    if isinstance(data, kinds):
        return data
    if isinstance(data, pa.Table):
        return datasets.Dataset(data)
    if isinstance(data, str):
        raise InputError(f"Expected {TAKEN}, but got one text ({data[:40]!r}).")
    if isinstance(data, bytes | type) or data is None:
        raise InputError(f"Expected {TAKEN}, but got {_kind(data)}.")
    if isinstance(data, Mapping):
        return _of_mapping(data)
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        return _of_frame(data)
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(data, set | frozenset):
        raise InputError(f"Expected {TAKEN}, but got a set, whose order changes from run to run; sort it first.")
    if not isinstance(data, Iterable):
        raise InputError(f"Expected {TAKEN}, but got {_kind(data)}.")
    return list(map(_plain, data))


def _kind(data: Any) -> str:
    if isinstance(data, type):
        return f"the class {data.__name__}"
    return type(data).__name__


def _of_mapping(data: Mapping[Any, Any]) -> Any:
    """Columns as a data set, splits as a mapping of data sets."""
    import datasets

    if not data:
        raise InputError(f"Expected {TAKEN}, but the mapping is empty.")
    for name, values in data.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise InputError(
                f"Expected a list of values in each column of a mapping, but {name!r} is {values!r:.40}; put a "
                "row by itself into a list, [row]."
            )
    if all(str(name).lower() in SPLIT_NAMES for name in data):
        splits = {str(name): _as_dataset(as_rows(part)) for name, part in data.items()}
        return datasets.DatasetDict(splits)
    columns = {str(name): list(map(_plain, values)) for name, values in data.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in lengths.items())
        raise InputError(f"Expected columns of equal length, but {listed}.")
    return _dataset(columns)


def _of_frame(frame: Any) -> Any:
    """A data frame of pandas or polars; its index is no column."""
    names = list(map(str, frame.columns))
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"Expected columns of different names, but {name!r} stands twice.")
    columns = {str(name): list(map(_plain, frame[name])) for name in frame.columns}
    if not names or not len(frame):
        raise InputError("Expected rows, but the data frame has none.")
    return _dataset(columns)


def _of_array(array: np.ndarray) -> Sequence[Any]:
    if array.ndim != 1:
        raise InputError(f"Expected an array of texts with one axis, but got the shape {array.shape}.")
    return list(map(_plain, array))


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A data set of rows as mappings, with every column that any of them has; None where a row lacks it.

    Raises:
        InputError: values of different kinds in a column.
        UnicodeEncodeError: half a character.

    Example:
        >>> of_rows([{"text": "a"}, {"text": "b", "label": "good"}])["label"][:]
        [None, 'good']
    """
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        columns[name] = [row.get(name) for row in rows]
    return _dataset(columns)


def are_texts(rows: Iterable[Any]) -> bool:
    """Whether rows are bare texts, some of which may be missing."""
    return all(isinstance(row, str) or row is None for row in rows)


def _as_dataset(rows: Any) -> Any:
    if not isinstance(rows, list):
        return rows
    if are_texts(rows):
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
        _check_kinds(columns)
        reason = " ".join(str(error).split())
        raise InputError(f"Expected one kind of value in each column, but they cannot be read: {reason}") from None


def _check_kinds(columns: Mapping[str, Sequence[Any]]) -> None:
    """Raise where a column holds texts beside other values, with the rows and what to do."""
    for name, values in columns.items():
        first_of_kind: dict[type, tuple[int, Any]] = {}
        for row, value in enumerate(values):
            if value is not None:
                first_of_kind.setdefault(type(value), (row, value))
        if str not in first_of_kind or len(first_of_kind) == 1:
            continue
        (first_row, first), (row, value), *_ = first_of_kind.values()
        raise InputError(
            f"Expected one kind of value in column {name!r}, but row {first_row} has {first!r:.40} and row {row} has "
            f"{value!r:.40} (rows count from 0); write all of them as text."
        ) from None


def _plain(value: Any) -> Any:
    """A value as Python has it; what pandas and numpy call missing is None."""
    if isinstance(value, np.ndarray):
        return list(map(_plain, value))
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value != value:  # NaN
        return None
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    return value
