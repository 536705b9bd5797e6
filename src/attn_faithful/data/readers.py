"""Readers of the sources of texts: local files and folders, saved data sets, the Hub. Nothing is cached on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .._checks import InputError, MissingSourceError
from .decoding import decoded, encoding_of
from .delimited import read_delimited
from .given_rows import as_rows
from .spill import Spill

SUFFIXES = ("parquet", "csv", "tsv", "json", "jsonl")
_TOGETHER = 10_000  # rows that are read at once
_META = "meta.json"  # beside the splits of a folder
_CELLS = 2**31  # of a parquet file: packed, billions of equal values are a few bytes
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}
TOKENIZED_IDS = {"stanfordnlp/sst2", "setfit/sst2", "setfit/sst5", "sst2", "sst5", "nyu-mll/glue:sst2"}
_TOKENIZED_NOTE = re.compile(r"\bPTB\b|Penn[ -]?Treebank|\btokens (?:split|joined|separated) by", re.IGNORECASE)


@dataclass
class Raw:
    """A source as it was read: splits (``all`` for a single file), names of the labels where it states them."""

    name: str
    splits: dict[str, Any]
    names: list[str] | None = None
    tokenized: bool = False
    notes: list[str] = field(default_factory=list)


def slug(text: str) -> str:
    """A short name for folders.

    Example:
        >>> slug("Owner/My set:a")
        'owner-my-set-a'
    """
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-.") or "data"


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
        return _read_folder(path, encoding)
    if path.is_file():
        notes: list[str] = []
        return Raw(slug(path.stem), {"all": read_file(path, encoding, notes)}, notes=notes)
    return _read_hub(source)


def check_there(source: str) -> Path:
    """The path that a source names; an error where there is nothing, and the source cannot be an id of the Hub."""
    path = user_path(source)
    if path.exists():
        return path
    suffix = path.suffix.lower().lstrip(".")
    parts = source.replace("\\", "/").split("/")
    if source.startswith((".", "/", "~")) or len(parts) > 2 or suffix in SUFFIXES or "\\" in source or not parts[-1]:
        raise MissingSourceError(f"Expected a file or folder at {source!r}, but there is none; check the path.")
    return path


def user_path(text: str | Path) -> Path:
    """The path with ``~`` as the user's folder; one that names nobody, or no path at all, is an error."""
    try:
        path = Path(text).expanduser()
        path.exists()
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Expected a path, but got {str(text)!r:.120}: {error}.") from None
    return path


def from_rows(rows: Any, name: str = "data") -> Raw:
    """As `_from_rows`; a text that cannot be written is named with its row."""
    try:
        return _from_rows(rows, name)
    except UnicodeEncodeError as error:
        raise InputError(unwritable(rows, name, 0)) from error


def _from_rows(rows: Any, name: str) -> Raw:
    """Splits out of objects: a data set or a mapping of splits, a list of texts, a list of rows as mappings.

    Data sets that are streamed are read to their end, and lie on disk from there on.

    Raises:
        InputError: something else, or nothing.
    """
    import datasets

    rows = as_rows(rows)
    if isinstance(rows, datasets.IterableDataset):
        return _from_loaded(_streamed(rows), name)
    if isinstance(rows, datasets.IterableDatasetDict):
        return _from_loaded({split: _streamed(stream) for split, stream in rows.items()}, name)
    if isinstance(rows, datasets.Dataset | datasets.DatasetDict):
        return _from_loaded(rows, name)
    if not rows:
        raise InputError("Expected texts, but the list is empty.")
    if all(isinstance(row, str) or row is None for row in rows):
        return Raw(name, {"all": datasets.Dataset.from_dict({"text": list(rows)})})
    if all(isinstance(row, dict) for row in rows):
        return Raw(name, {"all": decoded(datasets.Dataset.from_list(list(rows)), name)})
    strange = next(row for row in rows if not isinstance(row, dict))
    raise InputError(f"Expected texts or rows as mappings, but the list holds {strange!r:.60}.")


def _streamed(rows: Any) -> Any:
    """The rows of a datasets.IterableDataset as a datasets.Dataset."""
    import datasets

    spill = Spill()
    for part in rows.with_format("arrow").iter(_TOGETHER):
        spill.add(part)
    if spill.empty:
        raise InputError("Expected rows, but the data set that is streamed has none.")
    return datasets.Dataset(spill.table(), info=datasets.DatasetInfo(features=rows.features))


def _read_folder(path: Path, encoding: str | None) -> Raw:
    import datasets

    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        loaded = datasets.load_from_disk(str(path))
        return _from_loaded(loaded, slug(path.resolve().name))
    files: dict[str, Path] = {}
    others: list[str] = []
    for file in sorted(path.iterdir()):
        split = SPLIT_NAMES.get(file.stem.lower())
        readable = file.is_file() and file.suffix.lower().lstrip(".") in SUFFIXES and file.name != _META
        if readable and not split:
            others.append(file.name)
        if split and readable:
            if split in files:
                raise InputError(
                    f"Expected one file for split {split!r}, but {path} has {files[split].name}, {file.name}."
                )
            files[split] = file
    if not files:
        found = ", ".join(sorted(file.name for file in path.iterdir())[:10]) or "nothing"
        raise InputError(
            f"Expected train, validation and test as parquet, csv, tsv, json or jsonl in folder {str(path)!r}, "
            f"but found {found}."
        )
    names, tokenized = _read_meta(path / _META)
    notes = [f"Files left out: {', '.join(others)}."] if others else []
    splits = {split: read_file(file, encoding, notes) for split, file in files.items()}
    return Raw(slug(path.resolve().name), splits, names=names, tokenized=tokenized, notes=notes)


def _read_meta(path: Path) -> tuple[list[str] | None, bool]:
    """(label names, texts are tokens joined by spaces) as a folder's meta.json states them."""
    if not path.is_file():
        return None, False
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"Expected JSON in {path}, but it cannot be read: {error}.") from error
    if not isinstance(meta, dict):
        raise InputError(f"Expected a JSON object in {path}, but got {type(meta).__name__}.")
    names = meta.get("label_names")
    if names is not None and (not isinstance(names, list) or len(set(map(str, names))) != len(names)):
        raise InputError(f"Expected `label_names` in {path} to be a list of different names, but got {names!r}.")
    stated = meta.get("pre_tokenizer")
    tokenized = stated == "whitespace" if stated else bool(_TOKENIZED_NOTE.search(str(meta.get("notes", ""))))
    return [str(name) for name in names] if names is not None else None, tokenized


def read_file(path: Path, encoding: str | None = None, notes: list[str] | None = None) -> Any:
    """The rows of a parquet, csv, tsv, json or jsonl file as a datasets.Dataset; errors name the file.

    Args:
        path: of the file.
        encoding: of a file of text; None for UTF-8, or what its byte order mark says.
        notes: gets what was guessed.
    """
    import datasets
    import pyarrow as pa

    suffix = path.suffix.lower().lstrip(".")
    if suffix not in SUFFIXES:
        raise InputError(f"Expected a parquet, csv, tsv, json or jsonl file, but got {str(path)!r}.")
    told = [] if notes is None else notes
    try:
        if suffix == "parquet":
            table = _read_parquet(path)
        else:
            found = encoding_of(path, encoding)
            if encoding is None and found != "utf-8-sig":
                told.append(f"{path.name}: read as {found.upper()}, as its byte order mark says.")
            table = _read_text(path, suffix, found, told)
        if table.num_columns == 0 or table.num_rows == 0:
            raise InputError(f"Expected rows in {path}, but it has none.")
        if twice := {name for name in table.column_names if table.column_names.count(name) > 1}:
            raise InputError(f"Expected columns of different names in {path}, but {min(twice)!r} stands twice.")
        return decoded(datasets.Dataset(table), str(path))
    except InputError:
        raise
    # datasets has no error of its own for columns that it cannot hold
    except (pa.ArrowException, ValueError, TypeError, KeyError, OSError) as error:
        raise InputError(f"Expected a readable {suffix} file, but {path} is not: {error}") from error


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    declared = pq.read_metadata(path)
    if declared.num_rows * declared.num_columns > _CELLS:
        raise InputError(f"Expected at most {_CELLS} values in {path}, but it declares more; split it.")
    spill = Spill()
    with pq.ParquetFile(path) as file:
        spill.add(file.schema_arrow.empty_table())
        for batch in file.iter_batches(_TOGETHER):
            spill.add(pa.Table.from_batches([batch]))
    return spill.table()


def _read_text(path: Path, suffix: str, encoding: str, notes: list[str]) -> Any:
    if suffix not in ("csv", "tsv"):
        return _read_json(path, encoding, notes)
    spill = Spill()
    spill.add(read_delimited(path, "," if suffix == "csv" else "\t", encoding, notes))
    return spill.table()


def _read_json(path: Path, encoding: str, notes: list[str]) -> Any:
    """A JSON list, or lines of JSON, which are read some at a time where their types agree."""
    import pyarrow as pa

    with path.open(encoding=encoding, newline="\n") as lines:
        first = next((line.lstrip()[:1] for line in lines if line.strip()), "")
    if first == "[":
        try:
            rows = json.loads(path.read_text(encoding=encoding))
        except (ValueError, RecursionError) as error:
            raise InputError(f"Expected a JSON list in {path}, but it cannot be read: {error}.") from error
        return _as_table(rows, path, 0, notes)
    spill, lines_read, read = Spill(), _json_lines(path, encoding), 0
    told: list[str] = []
    try:
        while some := list(islice(lines_read, _TOGETHER)):
            spill.add(_as_table(some, path, read, told))
            read += len(some)
        table = pa.table({}) if spill.empty else spill.table()
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # a column that mixes kinds is told apart as a whole
        return _as_table(list(_json_lines(path, encoding)), path, 0, notes)
    notes.extend(dict.fromkeys(told))
    return table


def _json_lines(path: Path, encoding: str) -> Iterator[Any]:
    with path.open(encoding=encoding, newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise InputError(f"Expected a JSON object on line {number} of {path}, but: {error}.") from error


def _as_table(rows: list[Any], path: Path, first: int, notes: list[str]) -> Any:
    """Rows as columns; numbers and texts in one column are texts, which is told.

    Args:
        first: the number of the first row, for messages.
    """
    import pyarrow as pa

    for number, row in enumerate(rows, start=first):
        if not isinstance(row, dict):
            raise InputError(f"Expected a JSON object in row {number} of {path}, but got {row!r:.60}.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except UnicodeEncodeError as error:
            raise InputError(unwritable(rows, path, first)) from error
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            if any(isinstance(value, (list, dict)) for value in values):
                raise InputError(
                    f"Expected one kind of value in column {name!r} of {path}, but it mixes kinds."
                ) from None
            columns[name] = pa.array([None if value is None else str(value) for value in values])
            notes.append(f"{path.name}: the column {name!r} mixes texts and numbers; all are taken as texts.")
    return pa.table(columns)


def unwritable(rows: Iterable[Any], where: Any, first: int) -> str:
    """Which row holds a lone surrogate: half a character, which no encoding can write.

    Args:
        rows: texts, or mappings of columns.
        where: they come from.
        first: the number of the first row.
    """
    for number, row in enumerate(rows, start=first):
        for text in _strings(row):
            try:
                text.encode()
            except UnicodeEncodeError as error:
                half = ascii(text[error.start])
                return (
                    f"Expected texts in Unicode, but row {number} of {where} holds {half}, half a character; mend it."
                )
    return f"Expected Unicode, but {where} holds half a character (a lone surrogate); mend that text."


def _strings(value: Any) -> Iterator[str]:
    """Every string in a value, keys of mappings too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _strings(pair)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _from_loaded(loaded: Any, name: str) -> Raw:
    """Splits of a datasets object; splits with other names than train, validation and test are left out, and told.

    Of two that mean the same (dev and validation) the one with the exact name is taken.
    """
    if not hasattr(loaded, "items"):
        return Raw(name, {"all": decoded(loaded, name)})
    meant: dict[str, list[str]] = {}
    for split in loaded:
        usual = SPLIT_NAMES.get(str(split).lower())
        if usual:
            meant.setdefault(usual, []).append(split)
    taken: dict[str, str] = {}
    for usual, candidates in meant.items():
        if len(candidates) > 1 and usual not in candidates:
            raise InputError(
                f"Expected one split for {usual!r}, but {name} has {' and '.join(map(str, candidates))}; rename one."
            )
        taken[usual] = usual if usual in candidates else candidates[0]
    if not taken:
        if len(loaded) != 1:
            raise InputError(
                f"Expected splits train, validation and test, but {name} has {', '.join(map(str, loaded))}."
            )
        return Raw(name, {"all": decoded(next(iter(loaded.values())), name)})
    left = [str(split) for split in loaded if split not in taken.values()]
    splits = {usual: decoded(loaded[split], f"the split {split!r} of {name}") for usual, split in taken.items()}
    return Raw(name, splits, notes=[f"Splits left out: {', '.join(left)}."] if left else [])


def _read_hub(source: str) -> Raw:
    import datasets

    identifier, _, configuration = source.partition(":")
    try:
        loaded = (
            datasets.load_dataset(identifier, configuration) if configuration else datasets.load_dataset(identifier)
        )
    except Exception as error:  # whatever the Hub, the network or the reader raised, told with the source
        reason = str(error).strip().split("\n")[0]
        raise MissingSourceError(
            f"Expected {source!r} to be a file, a folder or a data set on the Hub, but there is no such path and the "
            f"Hub gave: {type(error).__name__}: {reason}"
        ) from error
    raw = _from_loaded(loaded, slug(source))
    raw.tokenized = source.lower() in TOKENIZED_IDS
    return raw
