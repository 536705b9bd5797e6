"""Texts with labels out of planted-token sets, local files and folders, and the Hub, brought to one form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import Faults, InputError, check_choice
from attn_faithful.data.columns import find_columns
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.files.readers import from_rows, read_source
from attn_faithful.data.impermissible import check_impermissible
from attn_faithful.data.label_map import LabelMap
from attn_faithful.data.labels import fit_labels
from attn_faithful.data.planted import LABEL_NAMES, make_mock, mock_spec
from attn_faithful.data.rationales import check_rationale
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.split_reader import SplitReader
from attn_faithful.data.split_table import SplitTable, name_apart
from attn_faithful.data.splits import check_train, make_splits
from attn_faithful.data.stratified import stratified
from attn_faithful.data.text_data import TextData, fingerprint
from attn_faithful.data.training_texts import TrainingTexts, without_seen

SPLITS = ("train", "validation", "test")


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
            a rationale or impermissible words that do not fit, an unlabelled text in train, or one class only.

    Example:
        >>> data = load_texts(DataSettings("mock-1", mock={"n_train": 40, "n_test": 10}))
        >>> {split: len(rows) for split, rows in data.splits.items()}, data.label_names, data.pre_tokenizer
        ({'train': 36, 'validation': 4, 'test': 10}, ['negative', 'positive'], 'whitespace')
        >>> data.class_counts("validation")
        {'negative': 2, 'positive': 2}
    """
    check_choice("purpose", purpose, ("train", "evaluate"))
    _check_settings(settings)
    faults = faults or Faults()
    raw = _read(settings, rows)
    single = "all" in raw.splits
    if purpose == "evaluate" and single:
        raw.splits = {"test": raw.splits["all"]}
    if purpose == "train" and not single and "train" not in raw.splits:
        raise InputError(
            f"Expected a split 'train' in {settings.source!r}, but found {', '.join(raw.splits)}; rename one."
        )
    tables, label_map = _read_splits(raw, settings, purpose, label_names, faults)
    if training_texts is not None:  # before splits are cut: copies of a text are told apart by their order
        for table in tables.values():
            table.seen = training_texts.used(table.texts, table.queries).tolist()
    if purpose == "train":
        faults.raise_all()
        check_train(tables["all" if single else "train"], label_map, settings.source)
        tables = make_splits(tables, settings.validation_share, settings.seed, raw.notes)
    faults.raise_all()
    tables = {split: tables[split] for split in SPLITS if split in tables}
    n_read = _n_texts(tables)
    if training_texts is not None:
        leave_out = settings.seen == "leave_out"
        if settings.seen is None:  # of a single file, and not of a named split or of given texts
            leave_out = purpose == "evaluate" and single and rows is None
        tested = list(tables) if purpose == "evaluate" else ["test"]
        tables = without_seen(tables, tested, leave_out, raw.notes)
    tables = _limited(tables, _limits(settings.limit), settings.seed, raw.notes)
    _note_shared(tables, raw.notes)
    return _text_data(raw, tables, label_map, settings, single, shortened=_n_texts(tables) < n_read)


def _n_texts(tables: Mapping[str, SplitTable]) -> int:
    return sum(map(len, tables.values()))


def _text_data(
    raw: Raw,
    tables: Mapping[str, SplitTable],
    label_map: LabelMap,
    settings: DataSettings,
    single: bool,
    shortened: bool,
) -> TextData:
    """The splits as data sets, with their fingerprint."""
    return TextData(
        name=raw.name,
        splits={split: table.dataset(settings.multi_label) for split, table in tables.items()},
        label_names=list(label_map.names),
        pre_tokenizer="whitespace" if raw.tokenized else "words",
        notes=raw.notes,
        fingerprint=fingerprint(label_map.names, tables),
        rows={split: list(table.rows) for split, table in tables.items()},
        single=single,
        shortened=shortened,
    )


def _check_settings(settings: DataSettings) -> None:
    if settings.seen is not None:
        check_choice("way with texts that a model was trained on (data.seen)", settings.seen, ("leave_out", "keep"))
    if not 0 < settings.validation_share < 1:
        raise InputError(f"Expected validation_share between 0 and 1, but got {settings.validation_share}.")
    for split, limit in _limits(settings.limit).items():
        check_choice("split (data.limit)", split, SPLITS)
        if limit < 2:
            raise InputError(f"Expected a limit of at least 2 texts, but got {limit}.")


def _limits(limit: int | Mapping[str, int] | None) -> Mapping[str, int]:
    """Split -> at most how many texts of it."""
    if limit is None:
        return {}
    if isinstance(limit, int):
        return dict.fromkeys(SPLITS, limit)
    return limit


def _read(settings: DataSettings, rows: Any) -> Raw:
    """The source, or the rows in its place, as they are."""
    name = settings.source
    if rows is not None:
        return from_rows(rows, name)
    if re.fullmatch(r"mock-\w+", name.lower()) and not Path(name).exists():
        return _planted(name, {"seed": settings.seed, **(settings.mock or {})})
    if settings.mock:
        raise InputError(f"Expected `mock` settings with a planted-token set such as 'mock-1' only, but got {name!r}.")
    return read_source(name, settings.encoding)


def _planted(name: str, settings: dict[str, Any]) -> Raw:
    import datasets

    columns_of = make_mock(mock_spec(name, **settings))
    splits = {split: datasets.Dataset.from_dict(columns) for split, columns in columns_of.items()}
    return Raw(name.lower(), splits, names=list(LABEL_NAMES), tokenized=True)


def _read_splits(
    raw: Raw, settings: DataSettings, purpose: str, label_names: Sequence[str] | None, faults: Faults
) -> tuple[dict[str, SplitTable], LabelMap]:
    """The texts of every split, with the one mapping of their labels."""
    source = settings.source
    columns = find_columns(raw, settings, faults)
    if columns.candidates and settings.multi_label:
        faults.add(
            InputError(f"Expected one answer a text in {source!r}, as it has candidates; leave multi_label out.")
        )
    label_map = fit_labels(raw, columns, settings, label_names, faults)
    if settings.rationale is not None:
        check_rationale(settings.rationale, raw.splits, source)
    if settings.impermissible is not None:
        check_impermissible(settings.impermissible, raw.splits, source)
    reader = SplitReader(raw, columns, label_map, settings, purpose, faults)
    tables = {split: reader.read(split) for split in raw.splits}
    name_apart(tables)
    if purpose == "train" and columns.label is not None and len(label_map.names) < 2 and not faults.messages():
        listed = ", ".join(map(repr, label_map.names)) or "none"
        hint = ""
        if any(label_map.unknown in table.labels for table in tables.values()):
            hint = "; -1 is read as no label, and --map=-1=NAME (label_map) makes it a class"
        faults.add(InputError(f"Expected at least two classes in train of {source!r}, but got {listed}{hint}."))
    return tables, label_map


def _limited(
    tables: Mapping[str, SplitTable], limits: Mapping[str, int], seed: int, notes: list[str]
) -> dict[str, SplitTable]:
    """At most so many texts of each split, stratified."""
    limited = {}
    for split, table in tables.items():
        limit = limits.get(split, len(table))
        if len(table) > limit:
            notes.append(f"{split}: {limit} of {len(table)} texts taken, stratified by seed {seed}.")
            table = table.take(stratified(table.labels, limit, seed, f"limit {split}"))
        limited[split] = table
    return limited


def _note_shared(tables: Mapping[str, SplitTable], notes: list[str]) -> None:
    """Note how many test texts stand in train too."""
    if "train" not in tables or "test" not in tables:
        return
    in_train = set(map(hash, tables["train"].contents))
    n_shared = sum(hash(content) in in_train for content in tables["test"].contents)
    if n_shared:
        notes.append(f"{n_shared} of {len(tables['test'])} test texts stand in train too.")
