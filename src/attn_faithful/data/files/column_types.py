"""Columns of numbers and truth values in a table of strings: those where every value is written so."""

from __future__ import annotations

from typing import Any

_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]{0,14})([.][0-9]+)?([eE][+-]?[0-9]+)?$"
_TRUTH = ["true", "false", "True", "False", "TRUE", "FALSE"]
_MISSING = ["", "NA", "N/A", "#N/A", "n/a", "NaN", "-NaN", "nan", "-nan", "NULL", "null"]  # among numbers only


def with_types(table: Any) -> Any:
    """The table with numbers in the columns that hold nothing else."""
    for place, name in enumerate(table.column_names):
        table = table.set_column(place, name, _typed(table.column(place)))
    return table


def _typed(column: Any) -> Any:
    """Strings as whole numbers, numbers or truth values where every one of them is written so."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(column.type):
        return column
    values = pc.if_else(pc.is_in(column, pa.array(_MISSING)), None, column)
    present = values.drop_null()
    if not len(present):
        return column
    for pattern, kind in ((_INTEGER, pa.int64()), (_NUMBER, pa.float64())):
        if pc.all(pc.match_substring_regex(present, pattern)).as_py():
            return values.cast(kind)
    if pc.all(pc.is_in(present, pa.array(_TRUTH))).as_py():
        return values.cast(pa.bool_())
    return column
