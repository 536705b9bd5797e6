"""Importance that was computed elsewhere, joined to our examples by id and token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
    return importance_of(read_file(Path(path)), path, examples, tokens, column)


def importance_of(
    rows: Any,
    path: str | Path,
    examples: Sequence[str],
    tokens: Sequence[Sequence[str]],
    column: str | None = None,
) -> tuple[list[list[float]], int]:
    """The same of the rows of a file, see :func:`read_importance`.

    Args:
        rows: a datasets.Dataset.
        path: of the file, for messages.
        examples, tokens, column: as there.
    """
    column = score_column(path, rows.column_names, column)
    if "example" not in rows.column_names:
        listed = ", ".join(rows.column_names)
        raise InputError(f"Expected a column 'example' in {path}, but its columns are {listed}.")
    table = rows.with_format(None)[:]
    file = _ImportanceFile(
        path=path,
        ids=list(map(str, table["example"])),
        values=table[column],
        column=column,
        tokens=dict(zip(examples, tokens, strict=True)),
    )
    file.check_ids()
    if any(isinstance(value, list | tuple) for value in file.values):
        scores = file.by_example(table.get("tokens"))
    elif "token" in table:
        scores = file.by_token(table["token"])
    else:
        raise InputError(f"Expected a column 'token' (its place, from 0) or lists of scores in {path}.")
    unknown = [example for example in examples if example not in scores]
    for example in unknown:
        scores[example] = [math.nan] * len(file.tokens[example])
    return [scores[example] for example in examples], len(unknown)


def score_column(path: str | Path, names: Sequence[str], column: str | None = None) -> str:
    """The column of the scores: the one that is asked for, or the one with a usual name.

    Args:
        path: of the file, for messages.
        names: of its columns.
        column: that is asked for.
    """
    listed = ", ".join(names)
    if column is not None:
        return check_choice(f"column of {path}", column, names)
    usual = [name for name in SCORES if name in names]
    if len(usual) != 1:
        raise InputError(f"Expected one column of scores in {path}, but its columns are {listed}.")
    return usual[0]


@dataclass(frozen=True)
class _ImportanceFile:
    """The rows of a file.

    Attributes:
        path: for messages.
        ids: the example of each row.
        values: the score of each row, or its list of scores.
        column: their name.
        tokens: our example -> its content tokens.
    """

    path: str | Path
    ids: list[str]
    values: list[Any]
    column: str
    tokens: dict[str, Sequence[str]]

    def check_ids(self) -> None:
        """Raise for an example that the data set lacks."""
        unknown = set(self.ids) - self.tokens.keys()
        if unknown:
            raise InputError(
                f"{self.path} holds the example {min(unknown)!r}, which the data set lacks; join them by our ids."
            )

    def by_example(self, file_tokens: list[Any] | None) -> dict[str, list[float]]:
        """Scores of a file with a row an example.

        Args:
            file_tokens: the tokens of each row, where the file has them.
        """
        scores: dict[str, list[float]] = {}
        for row, example in enumerate(self.ids):
            row_values = self._list(example, self.values[row])
            values = [self._number(example, value) for value in row_values]
            if example in scores:
                raise InputError(f"{self.path} holds the example {example!r} twice.")
            check_same_length(("tokens of the data set", self.column), (self.tokens[example], values), example)
            if file_tokens is not None and file_tokens[row] is not None:
                self._check_tokens(example, self._list(example, file_tokens[row]))
            scores[example] = values
        return scores

    def _check_tokens(self, example: str, file_tokens: list[Any]) -> None:
        tokens = self.tokens[example]
        check_same_length(("tokens of the data set", "tokens"), (tokens, file_tokens), example)
        for place, (theirs, ours) in enumerate(zip(file_tokens, tokens, strict=True)):
            if theirs != ours:
                raise InputError(
                    f"Token {place} of the example {example!r} is {theirs!r} in {self.path} and {ours!r} in the "
                    "data set; the scores must be of the same tokens in order."
                )

    def by_token(self, places: list[Any]) -> dict[str, list[float]]:
        """Scores of a file with a row a token.

        Args:
            places: of each row's token among the content tokens of its example.
        """
        scores: dict[str, list[float]] = {}
        known: set[tuple[str, int]] = set()
        for example, place, value in zip(self.ids, places, self.values, strict=True):
            length = len(self.tokens[example])
            if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < length:
                raise InputError(
                    f"Expected `token` to be a place from 0 to {length - 1} in the example {example!r} of "
                    f"{self.path}, but got {place!r}."
                )
            if (example, place) in known:
                raise InputError(f"{self.path} holds token {place} of the example {example!r} twice.")
            known.add((example, place))
            scores.setdefault(example, [math.nan] * length)[place] = self._number(example, value)
        return scores

    def _list(self, example: str, values: Any) -> list[Any]:
        if values is not None and not isinstance(values, list | tuple):
            raise InputError(f"Expected a list in the example {example!r} of {self.path}, but got {repr(values)[:60]}.")
        return list(values or ())

    def _number(self, example: str, value: Any) -> float:
        if value is not None and not isinstance(value, int | float):
            raise InputError(
                f"Expected numbers as scores, but the example {example!r} of {self.path} has {repr(value)[:60]}."
            )
        return math.nan if value is None else float(value)
