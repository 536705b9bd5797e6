"""Readers of the sources of texts: local files and folders, the Hub, objects in memory. Nothing is cached on disk."""

from __future__ import annotations

from typing import Any

from attn_faithful._checks import InputError, MissingSourceError
from attn_faithful.data.files.decoding import decoded
from attn_faithful.data.files.folders import read_folder
from attn_faithful.data.files.in_memory import are_texts, as_rows, of_rows
from attn_faithful.data.files.json_rows import BATCH_ROWS, unwritable
from attn_faithful.data.files.mapped_tables import Spill
from attn_faithful.data.files.paths import check_there
from attn_faithful.data.files.raw import Raw, from_datasets, slug
from attn_faithful.data.files.tables import read_file

TOKENIZED_IDS = {"stanfordnlp/sst2", "setfit/sst2", "setfit/sst5", "sst2", "sst5", "nyu-mll/glue:sst2"}


def read_source(source: str, encoding: str | None = None) -> Raw:
    """Read a path where there is one, else a Hub id.

    Args:
        source: the path or id.
        encoding: of csv, tsv and json files; None for UTF-8, or what their byte order mark says.

    Raises:
        InputError: for a path that is not there, a folder without splits, or a source that neither the disk nor the
            Hub has.
    """
    path = check_there(source)
    if path.is_dir():
        return read_folder(path, encoding)
    if path.is_file():
        notes: list[str] = []
        return Raw(slug(path.stem), {"all": read_file(path, encoding, notes)}, notes=notes)
    return _read_hub(source)


def _read_hub(source: str) -> Raw:
    import datasets

    identifier, _, configuration = source.partition(":")
    arguments = [identifier, configuration] if configuration else [identifier]
    try:
        loaded = datasets.load_dataset(*arguments)
    except Exception as error:  # whatever the Hub, the network or the reader raised, told with the source
        reason = str(error).strip().split("\n")[0]
        raise MissingSourceError(
            f"Expected {source!r} to be a file, a folder or a data set on the Hub, but there is no such path and the "
            f"Hub gave: {type(error).__name__}: {reason}"
        ) from error
    raw = from_datasets(loaded, slug(source))
    raw.tokenized = source.lower() in TOKENIZED_IDS
    return raw


def from_rows(rows: Any, name: str = "data") -> Raw:
    """Splits out of objects: a data set or a mapping of splits, a list of texts, a list of rows as mappings.

    Data sets that are streamed are read to their end, and are on disk from there on.

    Raises:
        InputError: something else, nothing, or a text that cannot be written, with its row.
    """
    try:
        return _from_rows(rows, name)
    except UnicodeEncodeError as error:
        raise InputError(unwritable(rows, name, 0)) from error


def _from_rows(rows: Any, name: str) -> Raw:
    import datasets

    rows = as_rows(rows)
    if isinstance(rows, datasets.IterableDataset):
        return from_datasets(_streamed(rows), name)
    if isinstance(rows, datasets.IterableDatasetDict):
        splits = {split: _streamed(stream) for split, stream in rows.items()}
        return from_datasets(splits, name)
    if isinstance(rows, datasets.Dataset | datasets.DatasetDict):
        return from_datasets(rows, name)
    if not rows:
        raise InputError("Expected texts, but the list is empty.")
    if are_texts(rows):
        return Raw(name, {"all": datasets.Dataset.from_dict({"text": list(rows)})})
    for row in rows:
        if not isinstance(row, dict):
            raise InputError(f"Expected texts or rows as mappings, but the list holds {row!r:.60}.")
    return Raw(name, {"all": decoded(of_rows(list(rows)), name)})


def _streamed(rows: Any) -> Any:
    """The rows of a datasets.IterableDataset as a datasets.Dataset."""
    import datasets

    spill = Spill()
    for batch in rows.with_format("arrow").iter(BATCH_ROWS):
        spill.add(batch)
    if spill.empty:
        raise InputError("Expected rows, but the data set that is streamed has none.")
    return datasets.Dataset(spill.table(), info=datasets.DatasetInfo(features=rows.features))
