"""Importance that was computed elsewhere, joined to our examples by id and token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.data.files.tables import read_file

SCORES = ("scores", "score", "importance", "attribution", "attributions", "values", "value")


def read_importance(
    path: str | Path, examples: Sequence[str], tokens: Sequence[Sequence[str]], column: str | None = None
) -> tuple[list[list[float]], int]:
    """Importance of every content token, from a parquet, csv, tsv, json or jsonl file.

    Either one row an example with a list of scores (and, if it has one, a list ``tokens`` that is compared with ours),
    or one row a token with ``example``, ``token`` (its place among the content tokens, from 0) and a score.

    Args:
        path: of the file; its column ``example`` holds our ids.
        examples: ids of our examples.
        tokens: their content tokens, as they stand in the text.
        column: of the scores; found by name where not given.

    Returns:
        one list an example, NaN for an example or token that the file lacks; and how many examples it lacks.

    Raises:
        InputError: a column is missing, an id stands twice or is unknown, or tokens do not fit; the example is named.
    """
    rows = read_file(Path(path))
    names = rows.column_names
    if "example" not in names:
        raise InputError(f"Expected a column 'example' in {path}, but its columns are {', '.join(names)}.")
    if column is None:
        found = [name for name in SCORES if name in names]
        if len(found) != 1:
            raise InputError(f"Expected one column of scores in {path}, but its columns are {', '.join(names)}.")
        column = found[0]
    check_choice(f"column of {path}", column, names)
    table = rows.with_format(None)[:]
    ids = [str(example) for example in table["example"]]
    if unknown := set(ids) - set(examples):
        raise InputError(f"{path} holds the example {min(unknown)!r}, which the data set lacks; join them by our ids.")
    listed = any(isinstance(value, list | tuple) for value in table[column])
    given = _lists(path, table, ids, column, dict(zip(examples, tokens, strict=True))) if listed else None
    if given is None:
        given = _tidy(path, table, ids, column, {e: len(t) for e, t in zip(examples, tokens, strict=True)})
    missing = sum(example not in given for example in examples)
    return [given.get(e, [math.nan] * len(t)) for e, t in zip(examples, tokens, strict=True)], missing


def _lists(path: Any, table: Any, ids: list[str], column: str, tokens: dict[str, Sequence[str]]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for row, example in enumerate(ids):
        values = [_number(path, example, value) for value in _list(path, example, table[column][row])]
        if example in given:
            raise InputError(f"{path} holds the example {example!r} twice.")
        check_same_length(("tokens of the data set", column), (tokens[example], values), example)
        theirs = (table.get("tokens") or [None] * len(ids))[row]
        if theirs is None:
            given[example] = values
            continue
        theirs = _list(path, example, theirs)
        check_same_length(("tokens of the data set", "tokens"), (tokens[example], theirs), example)
        if list(theirs) != list(tokens[example]):
            at = next(i for i, pair in enumerate(zip(theirs, tokens[example], strict=True)) if pair[0] != pair[1])
            raise InputError(
                f"Token {at} of the example {example!r} is {theirs[at]!r} in {path} and {tokens[example][at]!r} in the "
                "data set; the scores must be of the same tokens in order."
            )
        given[example] = values
    return given


def _tidy(path: Any, table: Any, ids: list[str], column: str, lengths: dict[str, int]) -> dict[str, Any]:
    if "token" not in table:
        raise InputError(f"Expected a column 'token' (its place, from 0) or lists of scores in {path}.")
    given: dict[str, Any] = {}
    for example, token, value in zip(ids, table["token"], table[column], strict=True):
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < lengths[example]:
            raise InputError(
                f"Expected `token` to be a place from 0 to {lengths[example] - 1} in the example {example!r} of "
                f"{path}, but got {token!r}."
            )
        values = given.setdefault(example, [None] * lengths[example])
        if values[token] is not None:
            raise InputError(f"{path} holds token {token} of the example {example!r} twice.")
        values[token] = _number(path, example, value)
    return {example: [math.nan if v is None else v for v in values] for example, values in given.items()}


def _list(path: Any, example: str, values: Any) -> list[Any]:
    if values is not None and not isinstance(values, list | tuple):
        raise InputError(f"Expected a list in the example {example!r} of {path}, but got {repr(values)[:60]}.")
    return list(values or ())


def _number(path: Any, example: str, value: Any) -> float:
    if value is not None and not isinstance(value, int | float):
        raise InputError(f"Expected numbers as scores, but the example {example!r} of {path} has {repr(value)[:60]}.")
    return math.nan if value is None else float(value)
