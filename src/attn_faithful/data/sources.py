"""Texts with labels out of planted-token sets, local files and folders, and the Hub, brought to one form."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attn_faithful._checks import Faults, InputError, check_choice
from attn_faithful.data.columns import Columns, find_columns
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.files.readers import from_rows, read_source
from attn_faithful.data.labels import LabelMap, fit_labels, label_notes, stratified
from attn_faithful.data.planted import LABEL_NAMES, make_mock, mock_spec
from attn_faithful.data.rationales import RATIONALE, SplitTexts, check_rationale, says, word_rationales
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.splits import check_train, make_splits, take
from attn_faithful.data.text_column import Texts, values_at
from attn_faithful.data.training_texts import SEEN, TrainingTexts, without_seen

if TYPE_CHECKING:
    import datasets

SPLITS = ("train", "validation", "test")
_ALONE = 4  # texts; a few that are empty may be what is asked about
_ROW = "\x1frow"  # of a table: the place of each text in its split of the source


@dataclass
class TextData:
    """Texts and labels in one form.

    Attributes:
        name: a short slug for folders and tables.
        splits: data sets with ``example`` (an id that is unique over all splits: split and row of the source),
            ``text``, ``label`` (index into ``label_names``, -1 where unknown; a list of 0 and 1 where a text may have
            several) and the list columns of the source, such as ``informative``. Pairs have ``query``, the text that
            asks (a question, a hypothesis), and, where the source names them, ``candidates``: 1 for each class that
            may be the answer. Where a rationale is asked for, ``rationale`` has one 0 or 1 a white-space word of the
            text, and only the splits that say so have it.
        label_names: the classes in the order of their indices.
        pre_tokenizer: ``whitespace`` where the texts are tokens joined by spaces, else ``words``.
        notes: what a reader of the results should know: rows dropped, splits made, texts in both train and test.
        fingerprint: sha256 over label names, texts, queries, candidates, labels and rationales, the same in every
            process.
        rows: split -> the place of each of its texts in the source.
        single: the source was one table.
    """

    name: str
    splits: dict[str, datasets.Dataset]
    label_names: list[str]
    pre_tokenizer: str
    notes: list[str] = field(default_factory=list)
    fingerprint: str = ""
    rows: dict[str, list[int]] = field(default_factory=dict)
    single: bool = False

    def class_counts(self, split: str) -> dict[str, int]:
        """Texts of each class in a split, every class named; texts without a label are not counted.

        Raises:
            InputError: for a split that is not there.
        """
        labels = self.splits[check_choice("split", split, self.splits)]["label"][:]
        if labels and isinstance(labels[0], list):
            return {name: sum(row[i] for row in labels) for i, name in enumerate(self.label_names)}
        counts = Counter(labels)
        return {name: counts[i] for i, name in enumerate(self.label_names)}


def load_texts(
    settings: DataSettings,
    *,
    rows: Any = None,
    purpose: str = "train",
    label_names: Sequence[str] | None = None,
    training_texts: TrainingTexts | None = None,
    faults: Faults | None = None,
) -> TextData:
    """Load texts and labels from a name, a path or a Hub id, with one mapping of labels fixed on the training split.

    Args:
        settings: the source and how it is read.
        rows: the data itself in place of a source: a data set, streamed or not, a mapping of splits, texts,
            or rows as mappings.
        purpose: ``train``, or ``evaluate``: no split is made (a single file is ``test``) and labels may be missing.
        label_names: the classes of a trained model in their order; the mapping is then fixed to them.
        training_texts: what a model was trained on, to be found among the texts.
        faults: collects all that is wrong with the rows, to be raised together; None raises the first.

    Raises:
        InputError: for a source that is not there, a column that is missing or ambiguous, a missing text or label
            (with its row), a label that train does not have, an answer that is none of its candidates (with its row),
            a rationale that does not fit its text, an unlabelled text in train, or one class only.

    Example:
        >>> data = load_texts(DataSettings("mock-1", mock={"n_train": 40, "n_test": 10}))
        >>> {split: len(rows) for split, rows in data.splits.items()}, data.label_names, data.pre_tokenizer
        ({'train': 36, 'validation': 4, 'test': 10}, ['negative', 'positive'], 'whitespace')
        >>> data.class_counts("validation")
        {'negative': 2, 'positive': 2}
    """
    check_choice("purpose", purpose, ("train", "evaluate"))
    if settings.seen is not None:
        check_choice("way with texts that a model was trained on (data.seen)", settings.seen, ("leave_out", "keep"))
    if not 0 < settings.validation_share < 1:
        raise InputError(f"Expected validation_share between 0 and 1, but got {settings.validation_share}.")
    if settings.limit is not None and settings.limit < 2:
        raise InputError(f"Expected a limit of at least 2 texts, but got {settings.limit}.")
    name = settings.source
    if rows is not None:
        raw = from_rows(rows, name)
    elif re.fullmatch(r"mock-\w+", name.lower()) and not Path(name).exists():
        raw = _mock_raw(name, {"seed": settings.seed, **(settings.mock or {})})
    elif settings.mock:
        raise InputError(f"Expected `mock` settings with a planted-token set such as 'mock-1' only, but got {name!r}.")
    else:
        raw = read_source(name, settings.encoding)
    faults = faults or Faults()
    if purpose == "train" and "train" not in raw.splits and "all" not in raw.splits:
        raise InputError(f"Expected a split 'train' in {name!r}, but found {', '.join(raw.splits)}; rename one.")
    single = "all" in raw.splits
    if purpose == "evaluate" and single:
        raw.splits = {"test": raw.splits["all"]}
    columns = find_columns(raw, name, settings.text_column, settings.query_column, settings.label_column, faults)
    if columns.candidates and settings.multi_label:
        faults.add(InputError(f"Expected one answer a text in {name!r}, as it has candidates; leave multi_label out."))
    mapping = fit_labels(
        raw,
        columns.label,
        multi_label=settings.multi_label,
        keep=settings.keep,
        drop=settings.drop,
        label_map=settings.label_map,
        names=label_names,
        candidates=columns.candidates,
        faults=faults,
    )
    if settings.rationale is not None:
        check_rationale(settings.rationale, raw.splits, name)
    tables = {}
    for split, part in raw.splits.items():
        tables[split] = _table(
            raw, split, part, columns, mapping, settings.drop_none, settings.rationale, purpose, faults
        )
    _name_apart(tables)
    if training_texts is not None:  # before splits are cut: copies of a text are told apart by their order
        for table in tables.values():
            table[SEEN] = training_texts.used(table["text"], table.get("query")).tolist()
    if purpose == "train":
        if len(mapping.names) < 2 and columns.label is not None and not faults.messages():
            found = ", ".join(map(repr, mapping.names)) or "none"
            unlabelled = any(mapping.unknown in table["label"] for table in tables.values())
            hint = "; -1 is read as no label, and --map=-1=NAME (label_map) makes it a class" if unlabelled else ""
            faults.add(InputError(f"Expected at least two classes in train of {name!r}, but got {found}{hint}."))
        faults.raise_all()
        check_train(tables["train" if "train" in tables else "all"], mapping, name)
        tables = make_splits(tables, settings.validation_share, settings.seed, raw.notes)
    faults.raise_all()
    tables = {split: tables[split] for split in SPLITS if split in tables}
    if training_texts is not None:
        chosen = settings.seen or ("leave_out" if purpose == "evaluate" and single and rows is None else "keep")
        tested = tables if purpose == "evaluate" else ["test"]
        tables = without_seen(tables, list(tested), chosen == "leave_out", raw.notes)
    if settings.limit is not None:
        for split, table in tables.items():
            if len(table["text"]) > settings.limit:
                taken = f"{settings.limit} of {len(table['text'])} texts taken"
                raw.notes.append(f"{split}: {taken}, stratified by seed {settings.seed}.")
                tables[split] = take(table, stratified(table["label"], settings.limit, settings.seed, f"limit {split}"))
    if "train" in tables and "test" in tables:
        seen = set(map(hash, _said(tables["train"])))
        double = sum(hash(said) in seen for said in _said(tables["test"]))
        if double:
            raw.notes.append(f"{double} of {len(tables['test']['text'])} test texts stand in train too.")
    places = {split: list(table.pop(_ROW)) for split, table in tables.items()}
    splits = {
        split: _dataset(table, settings.multi_label, settings.rationale is not None) for split, table in tables.items()
    }
    pre_tokenizer = "whitespace" if raw.tokenized else "words"
    fingerprint = _fingerprint(mapping.names, tables)
    names = list(mapping.names)
    return TextData(raw.name, splits, names, pre_tokenizer, raw.notes, fingerprint, places, single)


def _mock_raw(name: str, settings: dict[str, Any]) -> Raw:
    import datasets

    spec = mock_spec(name, **settings)
    splits = {split: datasets.Dataset.from_dict(columns) for split, columns in make_mock(spec).items()}
    return Raw(name.lower(), splits, names=list(LABEL_NAMES), tokenized=True)


def _column(rows: Any, name: str) -> list[Any]:
    return rows.with_format(None).select_columns([name])[:][name]


def _texts(rows: Any, name: str) -> Sequence[Any]:
    """A column of texts as it lies in arrow's memory; one that holds nothing but nulls as a list."""
    import pyarrow as pa

    texts = Texts.of(rows, name)
    kind = texts.column.type
    return texts if pa.types.is_string(kind) or pa.types.is_large_string(kind) else _column(rows, name)


def _table(
    raw: Raw,
    split: str,
    rows: Any,
    columns: Columns,
    mapping: LabelMap,
    drop_none: bool,
    rationale: str | None,
    purpose: str,
    faults: Faults,
) -> dict[str, Sequence[Any]]:
    """Columns of one split with labels as indices; rows that keep and drop leave out are gone."""
    import datasets

    given = {"text": columns.text, "query": columns.query, "candidates": columns.candidates}
    given = {name: column for name, column in given.items() if column is not None}
    for column in given.values():
        if column not in rows.column_names:
            listed = ", ".join(rows.column_names)
            raise InputError(f"Expected column {column!r} in every split, but split {split!r} has {listed}.")
    read = {name: (_column if name == "candidates" else _texts)(rows, column) for name, column in given.items()}
    texts = read["text"]
    lacking = {row: given[name] for name in reversed(given) for row in _missing(read[name])}
    if columns.label is not None and columns.label in rows.column_names:
        values = _column(rows, columns.label)
        labels = mapping.encode(values, rows.features[columns.label], split, drop_none, faults)
        raw.notes.extend(label_notes(values, labels, split))
    elif split in ("train", "all") and purpose == "train":
        error = InputError(
            f"Expected a label column in split {split!r} of {raw.name!r}, but its columns are "
            f"{', '.join(rows.column_names)}; name one with label_column."
        )
        faults.add(error, "no label column")
        labels = [mapping.unknown] * len(texts)
    else:
        if columns.label is not None:
            raw.notes.append(f"{split}: there is no column {columns.label!r}, so no text of it has a label.")
        labels = [mapping.unknown] * len(texts)
    kept, missing = [], 0
    for row, label in enumerate(labels):
        if row in lacking and not drop_none:
            error = InputError(
                f"Expected a value in column {lacking[row]!r}, but row {row} of split {split!r} has none (rows count "
                f"from 0); fill it or drop such rows (drop_none)."
            )
            faults.add(error, f"no text {split}")
        if row in lacking or label is mapping.missing:
            missing += 1
        elif label is not mapping.dropped:
            kept.append(row)
    left_out = len(texts) - missing - len(kept)
    if faults.messages():  # the notes would count faults
        missing, left_out = 0, 0
    if missing:
        raw.notes.append(f"{split}: {missing} rows without text or label dropped.")
    if left_out:
        raw.notes.append(f"{split}: {left_out} rows of other labels left out.")
    _tell_empty(texts, f"{columns.text!r} of split {split!r} of {raw.name!r}", raw.notes, faults)
    table = {
        "example": _ids(rows, split, kept, raw.notes),
        "text": values_at(texts, kept),
        "label": [labels[row] for row in kept],
        _ROW: kept,
    }
    if columns.query is not None:
        table["query"] = values_at(read["query"], kept)
    if columns.candidates is not None:
        chosen = {row: read["candidates"][row] for row in kept}
        feature = rows.features[columns.candidates]
        masks, strange = mapping.encode_candidates(chosen, feature, dict(enumerate(labels)), split)
        table["candidates"] = masks
        if strange:
            raw.notes.append(f"{split}: {strange} candidates left out that are no class.")
    if rationale is not None and says(rows, rationale):
        known = {row: label for row, label in enumerate(labels) if isinstance(label, int) and label >= 0}
        said = SplitTexts(
            read=lambda name: _column(rows, name),
            texts=texts,
            examples=dict(zip(kept, table["example"], strict=True)),
            labels={row: mapping.names[known[row]] if row in known else None for row in kept},
        )
        table[RATIONALE] = word_rationales(rationale, said)
        bare = sum(not any(marks) for marks in table[RATIONALE])
        if bare:
            raw.notes.append(f"{split}: {bare} of {len(kept)} texts have no word in the rationale {rationale!r}.")
    elif rationale is not None:
        raw.notes.append(f"{split}: nothing says what the rationale {rationale!r} is.")
    for name, feature in rows.features.items():
        own = name in (*table, "query", "candidates", columns.label)
        if isinstance(feature, (datasets.List, datasets.LargeList)) and not own:
            values = _column(rows, name)
            table[name] = [values[row] for row in kept]
    return table


def _tell_empty(texts: Sequence[Any], where: str, notes: list[str], faults: Faults) -> None:
    """Tell how many texts have nothing in them but blanks; a column of several such texts is a fault."""
    empty = sum(isinstance(text, str) and not text.strip() for text in texts)
    if empty and empty == len(texts) > _ALONE:
        faults.add(InputError(f"Expected texts in column {where}, but all {empty} are empty; name another column."))
    elif empty:
        notes.append(f"{empty} of {len(texts)} texts in column {where} are empty.")


def _said(table: Mapping[str, Sequence[Any]]) -> Iterable[Any]:
    """What each example says: its text, or its text and query."""
    return zip(table["text"], table["query"], strict=True) if "query" in table else table["text"]


def _ids(rows: Any, split: str, kept: Sequence[int], notes: list[str]) -> list[str]:
    """The source's own ids where it has a column ``example`` or ``id`` of different ones, else split and row."""
    for name in ("example", "id"):
        if name in rows.column_names:
            values = _column(rows, name)
            if all(isinstance(values[row], str | int) for row in kept):
                own = [str(values[row]) for row in kept]
                if len(set(own)) == len(own):
                    return own
            notes.append(f"{split}: the column {name!r} does not tell the texts apart, so they are named by their row.")
    return [f"{split}-{row}" for row in kept]


def _name_apart(tables: Mapping[str, dict[str, Sequence[Any]]]) -> None:
    """Put the split before each id where two splits share one."""
    ids = [example for table in tables.values() for example in table["example"]]
    if len(set(ids)) < len(ids):
        for split, table in tables.items():
            table["example"] = [f"{split}-{example}" for example in table["example"]]


def _missing(values: Sequence[Any]) -> list[int]:
    """The rows of a column that hold nothing."""
    if isinstance(values, Texts):
        return np.flatnonzero(values.column.is_null().to_numpy()).tolist() if values.column.null_count else []
    return [row for row, value in enumerate(values) if value is None]


def _dataset(table: dict[str, Sequence[Any]], multi_label: bool, marked: bool) -> datasets.Dataset:
    import datasets
    import pyarrow as pa

    types = {"example": pa.string(), "text": pa.large_string()}
    types |= {"query": pa.large_string(), "candidates": pa.list_(pa.int8())}
    types["label"] = pa.list_(pa.int64()) if multi_label else pa.int64()
    types |= {RATIONALE: pa.list_(pa.int8())} if marked else {}
    arrays = {
        name: values.column.cast(types[name]) if isinstance(values, Texts) else pa.array(values, type=types.get(name))
        for name, values in table.items()
    }
    return datasets.Dataset(pa.table(arrays))


def _fingerprint(names: Sequence[str], tables: Mapping[str, dict[str, Sequence[Any]]]) -> str:
    digest = hashlib.sha256(json.dumps(list(names)).encode())
    for split, table in tables.items():
        columns = [table[name] for name in ("text", "label", "query", "candidates", RATIONALE) if name in table]
        for values in zip(*columns, strict=True):
            digest.update(json.dumps([split, *values]).encode())
    return digest.hexdigest()
