"""Which columns of a source hold the text, the second text of a pair, the label and the candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful._checks import Faults, InputError, check_choice
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.settings import DataSettings

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


def find_columns(raw: Raw, settings: DataSettings, faults: Faults | None = None) -> Columns:
    """The columns by the names in the settings or else by their usual names.

    A pair is found by the names of its two columns (premise and hypothesis, passage and question). Where only the text
    is named, the texts are single whatever else is there. A column whose name differs in capitals counts where it is
    the only one.

    Args:
        raw: the source; what was guessed is noted.
        settings: name the source and perhaps its columns.
        faults: where faults of the label column go; those of the text are raised, as nothing can be read without it.

    Raises:
        InputError: a column that is not there, holds no text, is named twice, or is one of several that it could be.
    """
    finder = _ColumnFinder.of(raw, settings, faults or Faults())
    text, query = settings.text_column, settings.query_column
    label = finder.named_label(raw, settings.label_column)
    finder.check_named("text", text)
    finder.check_named("query", query)
    if text is None:
        text, query = finder.pair(query, label)
    label_failed = False
    if settings.label_column is None:
        label, label_failed = finder.usual_label(text, query)
    if text is None:
        text = finder.single_text(query, label)
    columns = Columns(text, label, query, finder.candidates() if query is not None else None)
    finder.check_different(columns)
    finder.check_texts(columns)
    raw.notes.extend(_guesses(columns, settings, finder.features))
    searched = settings.label_column is None and not label_failed
    if label is None and searched and ("train" in raw.splits or set(finder.features) - {text, query}):
        raw.notes.append(f"No label column found; label_column names one (columns: {finder.listed}).")
    if query is not None:
        raw.notes.append(f"Pairs: attention goes over {text!r}, asked by {query!r}.")
    return columns


@dataclass(frozen=True)
class _ColumnFinder:
    """Finds columns among the features of the training split, or of the first one.

    Attributes:
        features: of the columns, by name.
        source: for messages.
        faults: where faults of the label column go.
    """

    features: Mapping[str, Any]
    source: str
    faults: Faults

    @classmethod
    def of(cls, raw: Raw, settings: DataSettings, faults: Faults) -> _ColumnFinder:
        first = raw.splits.get("train") or next(iter(raw.splits.values()))
        return cls(first.features, settings.source, faults)

    @property
    def listed(self) -> str:
        return ", ".join(self.features)

    # columns that the settings name

    def check_named(self, kind: str, name: str | None) -> None:
        """Raise unless the column is there."""
        if name is not None:
            check_choice(f"{kind} column of {self.source!r} (columns: {self.listed})", name, self.features)

    def named_label(self, raw: Raw, name: str | None) -> str | None:
        """The label column, or a fault unless a split has it."""
        if name is None or any(name in rows.column_names for rows in raw.splits.values()):
            return name
        try:
            self.check_named("label", name)
        except InputError as error:
            self.faults.add(error)
            return None
        return name

    # columns of usual names

    def pair(self, query: str | None, label: str | None) -> tuple[str | None, str | None]:
        """(text, query) of the one pair that goes by its names; (None, query) where there is none."""
        names = [name for name in self.features if name != label]
        if query is None and _called("text", names):
            return None, None
        pairs = [pair for pair in _usual_pairs(names) if query in (None, pair[1])]
        if len(pairs) > 1:
            listed = " or ".join(f"{text} with {asking}" for text, asking in pairs)
            raise InputError(
                f"Expected one pair of texts in {self.source!r}, but {listed} could be it; name them with text_column "
                f"and query_column (columns: {self.listed})."
            )
        if not pairs:
            return None, query
        return pairs[0]

    def usual_label(self, text: str | None, query: str | None) -> tuple[str | None, bool]:
        """The label column, and whether a fault kept it from being found."""
        taken = (text, query)
        usual = LABEL_COLUMNS if query is None else (*LABEL_COLUMNS, *ANSWER_COLUMNS)
        try:
            label = self._by_name("label", usual, taken)
            if label is None:  # one text of a pair
                label = self._by_name("label", ANSWER_COLUMNS, taken)
        except InputError as error:
            self.faults.add(error)
            return None, True
        return label, False

    def single_text(self, query: str | None, label: str | None) -> str:
        """The column of a usual name, or else the only one that holds texts."""
        text = self._by_name("text", TEXT_COLUMNS, (label, query))
        if text is not None:
            return text
        strings = []
        for name, feature in self.features.items():
            if name not in (label, query) and _holds_text(feature):
                strings.append(name)
        if len(strings) != 1:
            raise InputError(
                f"Expected a text column in {self.source!r}, but its columns are {self.listed}; name one with "
                f"text_column (and the second text of a pair with query_column)."
            )
        return strings[0]

    def candidates(self) -> str | None:
        """The list column of candidates."""
        return CANDIDATES if CANDIDATES in list_columns(self.features) else None

    def _by_name(self, kind: str, usual: Sequence[str], taken: Sequence[str | None]) -> str | None:
        """A column called like its kind, or the only one with a usual name; None where there is none."""
        names = [name for name in self.features if name not in taken]
        columns = _called(kind, names)
        if not columns:
            for name in usual:
                columns += _called(name, names)
        if len(columns) > 1:
            raise InputError(
                f"Expected one {kind} column in {self.source!r}, but {', '.join(columns)} could be it; "
                f"name one with {kind}_column (columns: {self.listed})."
            )
        return columns[0] if columns else None

    # checks

    def check_different(self, columns: Columns) -> None:
        """Raise where one column is named for two purposes."""
        counts = Counter((columns.text, columns.query, columns.label))
        twice = [name for name, count in counts.items() if name is not None and count > 1]
        if twice:
            raise InputError(
                f"Expected different columns of {self.source!r} for text, query and label, but got {twice[0]!r} twice."
            )

    def check_texts(self, columns: Columns) -> None:
        """Raise where the text or the query holds something else than texts."""
        for kind, name in (("text", columns.text), ("query", columns.query)):
            if name is None:
                continue
            dtype = getattr(self.features[name], "dtype", "list")
            if "string" not in dtype and dtype != "null":
                raise InputError(
                    f"Expected texts in column {name!r} of {self.source!r}, but it holds {dtype}; columns: "
                    f"{self.listed}; name another with {kind}_column."
                )


def _usual_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """All (text, query) among the names that usually go together."""
    pairs: list[tuple[str, str]] = []
    for asking, texts in PAIRS.items():
        for query in _called(asking, names):
            for text in texts:
                pairs.extend((name, query) for name in _called(text, names))
    return pairs


def _called(wanted: str, names: Sequence[str]) -> list[str]:
    """The column of exactly that name, or else all whose names differ from it in capitals only."""
    if wanted in names:
        return [wanted]
    return [name for name in names if name.lower() == wanted]


def _holds_text(feature: Any) -> bool:
    import datasets

    return isinstance(feature, datasets.Value) and "string" in feature.dtype


def features_of(splits: Mapping[str, Any]) -> dict[str, Any]:
    """Every column that any of some data sets has -> its type."""
    features: dict[str, Any] = {}
    for rows in splits.values():
        features |= rows.features
    return features


def list_columns(features: Mapping[str, Any]) -> list[str]:
    """The columns that hold a list in each row, in order."""
    import datasets

    return [name for name, feature in features.items() if isinstance(feature, datasets.List | datasets.LargeList)]


def _guesses(columns: Columns, settings: DataSettings, features: Iterable[str]) -> list[str]:
    """Which columns were taken for the text and the label without being named."""
    notes = []
    features = list(features)
    if settings.text_column is None and columns.query is None:
        notes += _guess("text", columns.text, TEXT_COLUMNS, columns, features)
    if settings.label_column is None and columns.label is not None:
        notes += _guess("label", columns.label, (*LABEL_COLUMNS, *ANSWER_COLUMNS), columns, features)
    if settings.text_column is None and any(map(_is_number, features)):
        notes.append(f"The first line is taken for the names of the columns: {', '.join(features)}.")
    return notes


def _guess(kind: str, name: str, usual: Sequence[str], columns: Columns, features: Sequence[str]) -> list[str]:
    """A note where the column has no name that says it, or others could be meant."""
    taken = (columns.text, columns.query, columns.label)
    alike = [other for other in features if other not in taken and other.lower() in (kind, *usual)]
    if name == kind and not alike:
        return []
    beside = f", and not {', '.join(alike)}" if alike else ""
    return [f"The column {name!r} is taken for the {kind}{beside}; {kind}_column names another."]


def _is_number(name: str) -> bool:
    return name.replace(".", "", 1).lstrip("-").isdecimal()
