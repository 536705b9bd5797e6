"""Which columns of a source hold the text, the second text of a pair, the label and the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful._checks import Faults, InputError, check_choice
from attn_faithful.data.files.raw import Raw

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


def find_columns(
    raw: Raw, source: str, text: str | None, query: str | None, label: str | None, faults: Faults | None = None
) -> Columns:
    """The columns by the names that were given or else by their usual names.

    A pair is found by the names of its two columns (premise and hypothesis, passage and question). Where only the text
    is named, the texts are single whatever else is there. A column whose name differs in capitals counts where it is
    the only one.

    Args:
        faults: where faults of the label column go; those of the text are raised, as nothing can be read without it.

    Raises:
        InputError: a column that is not there, holds no text, is named twice, or is one of several that it could be.
    """
    import datasets

    asked = (text, query, label)
    first = raw.splits.get("train") or next(iter(raw.splits.values()))
    features = first.features
    listed = ", ".join(features)
    faults = faults or Faults()
    label_given = label is not None
    if label is not None and not any(label in rows.column_names for rows in raw.splits.values()):
        try:
            check_choice(f"label column of {source!r} (columns: {listed})", label, features)
        except InputError as error:
            faults.add(error)
            label = None
    for kind, name in (("text", text), ("query", query)):
        if name is not None:
            check_choice(f"{kind} column of {source!r} (columns: {listed})", name, features)
    if text is None:
        text, query = _pair(features, source, query, label)
    if label is None and not label_given:
        taken = (text, query)
        usual = LABEL_COLUMNS if query is None else (*LABEL_COLUMNS, *ANSWER_COLUMNS)
        try:
            label = _by_name("label", features, usual, source, taken)
            label = label or _by_name("label", features, ANSWER_COLUMNS, source, taken)  # one text of a pair
        except InputError as error:
            faults.add(error)
            label_given = True
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
    _tell_guesses(raw, features, asked, (text, query, label))
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
    if label is None and not label_given and ("train" in raw.splits or set(features) - {text, query}):
        raw.notes.append(f"No label column found; label_column names one (columns: {listed}).")
    if query is not None:
        raw.notes.append(f"Pairs: attention goes over {text!r}, asked by {query!r}.")
    several = isinstance(features.get(CANDIDATES), (datasets.List, datasets.LargeList))
    return Columns(text, label, query, CANDIDATES if query is not None and several else None)


def _pair(
    features: Mapping[str, Any], source: str, query: str | None, label: str | None
) -> tuple[str | None, str | None]:
    """(text, query) of the one pair that goes by its names; (None, query) where there is none."""
    names = [name for name in features if name != label]
    if query is None and _called("text", names):
        return None, None
    found = [
        (own_text, own_query)
        for asks, texts in PAIRS.items()
        for own_query in _called(asks, names)
        for text in texts
        for own_text in _called(text, names)
        if query in (None, own_query)
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
    names = [name for name in features if name not in taken]
    found = _called(kind, names) or [own for name in others for own in _called(name, names)]
    if len(found) > 1:
        raise InputError(
            f"Expected one {kind} column in {source!r}, but {', '.join(found)} could be it; "
            f"name one with {kind}_column (columns: {', '.join(features)})."
        )
    return found[0] if found else None


def _called(wanted: str, names: Sequence[str]) -> list[str]:
    """The column of exactly that name, or else all whose names differ from it in capitals only."""
    return [wanted] if wanted in names else [name for name in names if name.lower() == wanted]


def _tell_guesses(
    raw: Raw, features: Mapping[str, Any], asked: Sequence[str | None], found: Sequence[str | None]
) -> None:
    """Note which columns were taken for the text and the label without being named."""
    text, query, label = found
    usual = {"text": TEXT_COLUMNS, "label": (*LABEL_COLUMNS, *ANSWER_COLUMNS)}
    for kind, named, name in (("text", asked[0], text), ("label", asked[2], label)):
        if named is not None or name is None or (kind == "text" and query is not None):
            continue
        alike = [other for other in features if other not in found and other.lower() in (kind, *usual[kind])]
        if name != kind or alike:
            beside = f", and not {', '.join(alike)}" if alike else ""
            raw.notes.append(f"The column {name!r} is taken for the {kind}{beside}; {kind}_column names another.")
    if asked[0] is None and any(_is_number(name) for name in features):
        raw.notes.append(f"The first line is taken for the names of the columns: {', '.join(features)}.")


def _is_number(name: str) -> bool:
    return name.replace(".", "", 1).lstrip("-").isdecimal()


def _holds_text(feature: Any) -> bool:
    import datasets

    return isinstance(feature, datasets.Value) and "string" in feature.dtype
