"""Readers of the sources of texts: local files and folders, saved data sets, the Hub. Nothing is cached on disk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, MissingSourceError
from attn_faithful.data.files.decoding import decoded, encoding_of
from attn_faithful.data.files.delimited import check_names, read_delimited
from attn_faithful.data.files.foreign import check_holds, what_instead
from attn_faithful.data.files.in_memory import as_rows, of_rows
from attn_faithful.data.files.json_rows import TOGETHER, read_json, unwritable
from attn_faithful.data.mapped_tables import Spill

SUFFIXES = ("parquet", "csv", "tsv", "json", "jsonl")
_ALIKE = 0.8  # of difflib's ratio: a name that is meant
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
        raise MissingSourceError(
            f"Expected a file or folder at {source!r}, but there is none; check the path.{_near(path)}"
        )
    if (suffix or len(parts) > 1) and (near := _near(path)):
        raise MissingSourceError(f"There is no file or folder {source!r}.{near}")
    return path


def _near(path: Path) -> str:
    """A question after a path of nearly the same name; nothing where there is none."""
    try:
        beside = [held.name for held in path.parent.iterdir() if not held.name.startswith(".")]
    except OSError:
        return ""
    near = get_close_matches(path.name, beside, n=1, cutoff=_ALIKE)
    return f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""


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
        return Raw(name, {"all": decoded(of_rows(list(rows)), name)})
    strange = next(row for row in rows if not isinstance(row, dict))
    raise InputError(f"Expected texts or rows as mappings, but the list holds {strange!r:.60}.")


def _streamed(rows: Any) -> Any:
    """The rows of a datasets.IterableDataset as a datasets.Dataset."""
    import datasets

    spill = Spill()
    for part in rows.with_format("arrow").iter(TOGETHER):
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
    for file in sorted(file for file in path.iterdir() if not file.name.startswith(".")):
        split = SPLIT_NAMES.get(file.stem.lower())
        readable = file.is_file() and file.suffix.lower().lstrip(".") in SUFFIXES and file.name != _META
        like_split = re.split(r"[^a-z]", file.name.lower())[0] in SPLIT_NAMES  # train.csv.gz, a folder train
        unread = like_split if not readable else split is None
        if unread:
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
        raise InputError(
            f"Expected a parquet, csv, tsv, json or jsonl file, but got {str(path)!r}{what_instead(suffix)}."
        )
    told = [] if notes is None else notes
    try:
        check_holds(path, suffix)
        if suffix == "parquet":
            table = _read_parquet(path)
        else:
            found = encoding_of(path, encoding)
            if encoding is None and found != "utf-8-sig":
                told.append(f"{path.name}: read as {found.upper()}, as its byte order mark says.")
            table = _read_text(path, suffix, found, told)
        if table.num_columns == 0 or table.num_rows == 0:
            raise InputError(f"Expected rows in {path}, but it has none.")
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
    check_names(declared.schema.to_arrow_schema().names, path)
    if declared.num_rows * declared.num_columns > _CELLS:
        raise InputError(f"Expected at most {_CELLS} values in {path}, but it declares more; split it.")
    spill = Spill()
    with pq.ParquetFile(path) as file:
        spill.add(file.schema_arrow.empty_table())
        for batch in file.iter_batches(TOGETHER):
            spill.add(pa.Table.from_batches([batch]))
    return spill.table()


def _read_text(path: Path, suffix: str, encoding: str, notes: list[str]) -> Any:
    if suffix not in ("csv", "tsv"):
        return read_json(path, encoding, notes)
    spill = Spill()
    spill.add(read_delimited(path, "," if suffix == "csv" else "\t", encoding, notes))
    return spill.table()


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
