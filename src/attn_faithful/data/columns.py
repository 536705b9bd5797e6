"""Which columns of a source hold the text, the second text of a pair, the label and the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._checks import InputError, check_choice
from .readers import Raw

TEXT_COLUMNS = ("sentence", "review", "body", "content", "document", "comment", "tweet", "review_body", "utterance")
LABEL_COLUMNS = ("labels", "stars", "rating", "sentiment", "class", "category", "target", "polarity", "score")
ANSWER_COLUMNS = ("answer", "gold_label")
PAIRS = {  # the query -> the text that it is asked of, over which attention goes
    "hypothesis": ("premise",),
    "question": ("passage", "context", "story", "document", "article", "sentence"),
    "query": ("passage", "context", "document"),
    "sentence2": ("sentence1",),
}
CANDIDATES = "candidates"


@dataclass(frozen=True)
class Columns:
    """Names of the columns.

    Attributes:
        text: the text that is attended to.
        label: None where no split has one.
        query: the second text, that asks the attention; None for single texts.
        candidates: lists of the labels that may be the answer; None without.
    """

    text: str
    label: str | None = None
    query: str | None = None
    candidates: str | None = None


def find_columns(raw: Raw, source: str, text: str | None, query: str | None, label: str | None) -> Columns:
    """The columns by the names that were given or else by their usual names.

    A pair is found by the names of its two columns (premise and hypothesis, passage and question). Where only the text
    is named, the texts are single whatever else is there.

    Raises:
        InputError: a column that is not there, holds no text, is named twice, or is one of several that it could be.
    """
    import datasets

    first = raw.splits.get("train") or next(iter(raw.splits.values()))
    features = first.features
    listed = ", ".join(features)
    if label is not None and not any(label in rows.column_names for rows in raw.splits.values()):
        check_choice(f"label column of {source!r} (columns: {listed})", label, features)
    for kind, name in (("text", text), ("query", query)):
        if name is not None:
            check_choice(f"{kind} column of {source!r} (columns: {listed})", name, features)
    if text is None:
        text, query = _pair(features, source, query, label)
    label_given = label is not None
    if label is None:
        taken = (text, query)
        usual = LABEL_COLUMNS if query is None else (*LABEL_COLUMNS, *ANSWER_COLUMNS)
        label = _by_name("label", features, usual, source, taken)
        label = label or _by_name("label", features, ANSWER_COLUMNS, source, taken)  # one text of a pair
    if text is None:
        text = _by_name("text", features, TEXT_COLUMNS, source, (label, query))
    if text is None:
        strings = [name for name in features if name not in (label, query) and _holds_text(features[name])]
        if len(strings) != 1:
            raise InputError(
                f"Expected a text column in {source!r}, but its columns are {listed}; name one with text_column "
                f"(and the second text of a pair with query_column)."
            )
        text = strings[0]
    named = [name for name in (text, query, label) if name is not None]
    if twice := {name for name in named if named.count(name) > 1}:
        raise InputError(
            f"Expected different columns of {source!r} for text, query and label, but got {min(twice)!r} twice."
        )
    for name in (text, query):
        dtype = None if name is None else getattr(features[name], "dtype", "list")
        if dtype is not None and "string" not in dtype and dtype != "null":
            raise InputError(
                f"Expected texts in column {name!r} of {source!r}, but it holds {dtype}; columns: {listed}; "
                f"name another with {'query' if name == query else 'text'}_column."
            )
    if label is None and "train" in raw.splits and not label_given:
        raw.notes.append("No label column found.")
    if query is not None:
        raw.notes.append(f"Pairs: attention goes over {text!r}, asked by {query!r}.")
    several = isinstance(features.get(CANDIDATES), (datasets.List, datasets.LargeList))
    return Columns(text, label, query, CANDIDATES if query is not None and several else None)


def _pair(
    features: Mapping[str, Any], source: str, query: str | None, label: str | None
) -> tuple[str | None, str | None]:
    """(text, query) of the one pair that goes by its names; (None, query) where there is none."""
    by_lower = {name.lower(): name for name in features if name != label}
    if query is None and "text" in by_lower:
        return None, None
    found = [
        (by_lower[text], by_lower[asks])
        for asks, texts in PAIRS.items()
        for text in texts
        if asks in by_lower and text in by_lower and query in (None, by_lower[asks])
    ]
    if len(found) > 1:
        listed = " or ".join(f"{text} with {asks}" for text, asks in found)
        raise InputError(
            f"Expected one pair of texts in {source!r}, but {listed} could be it; name them with text_column and "
            f"query_column (columns: {', '.join(features)})."
        )
    return found[0] if found else (None, query)


def _by_name(
    kind: str, features: Mapping[str, Any], others: Sequence[str], source: str, taken: Sequence[str | None]
) -> str | None:
    """A column called like its kind, or the only one with a usual name; None where there is none."""
    by_lower = {name.lower(): name for name in features if name not in taken}
    if kind in by_lower:
        return by_lower[kind]
    found = [by_lower[name] for name in others if name in by_lower]
    if len(found) > 1:
        raise InputError(
            f"Expected one {kind} column in {source!r}, but {', '.join(found)} could be it; "
            f"name one with {kind}_column (columns: {', '.join(features)})."
        )
    return found[0] if found else None


def _holds_text(feature: Any) -> bool:
    import datasets

    return isinstance(feature, datasets.Value) and "string" in feature.dtype
