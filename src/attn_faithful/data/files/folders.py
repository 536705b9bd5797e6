"""A folder with a file for each split, or one that `save_to_disk` made."""

from __future__ import annotations

import json
import re
from pathlib import Path

from attn_faithful._checks import InputError
from attn_faithful.data.files.paths import SUFFIXES, suffix_of
from attn_faithful.data.files.raw import SPLIT_NAMES, Raw, from_datasets, slug
from attn_faithful.data.files.tables import read_file

_META = "meta.json"  # beside the splits of a folder
_TOKENIZED_NOTE = re.compile(r"\bPTB\b|Penn[ -]?Treebank|\btokens (?:split|joined|separated) by", re.IGNORECASE)


def read_folder(path: Path, encoding: str | None) -> Raw:
    """The splits of a folder; files that look like splits and are not read are noted.

    Raises:
        InputError: no file of a split, or two of one; a file or a meta.json that cannot be read.
    """
    import datasets

    name = slug(path.resolve().name)
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        return from_datasets(datasets.load_from_disk(str(path)), name)
    files, others = _files_of_splits(path)
    if not files:
        names = sorted(file.name for file in path.iterdir())
        listed = ", ".join(names[:10]) or "nothing"
        raise InputError(
            f"Expected train, validation and test as parquet, csv, tsv, json or jsonl in folder {str(path)!r}, "
            f"but found {listed}."
        )
    label_names, tokenized = _read_meta(path / _META)
    notes = [f"Files left out: {', '.join(others)}."] if others else []
    splits = {split: read_file(file, encoding, notes) for split, file in files.items()}
    return Raw(name, splits, names=label_names, tokenized=tokenized, notes=notes)


def _files_of_splits(path: Path) -> tuple[dict[str, Path], list[str]]:
    """Split -> file, and the names of other files that may have been meant."""
    files: dict[str, Path] = {}
    others: list[str] = []
    visible = [file for file in path.iterdir() if not file.name.startswith(".")]
    for file in sorted(visible):
        split = SPLIT_NAMES.get(file.stem.lower())
        readable = file.is_file() and suffix_of(file) in SUFFIXES and file.name != _META
        if readable and split is not None:
            if split in files:
                raise InputError(
                    f"Expected one file for split {split!r}, but {path} has {files[split].name}, {file.name}."
                )
            files[split] = file
        elif readable or _looks_like_split(file.name):  # another table; or train.csv.gz, a folder train
            others.append(file.name)
    return files, others


def _looks_like_split(name: str) -> bool:
    first_word = re.split(r"[^a-z]", name.lower())[0]
    return first_word in SPLIT_NAMES


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
    if names is not None:
        if not isinstance(names, list) or len(set(map(str, names))) != len(names):
            raise InputError(f"Expected `label_names` in {path} to be a list of different names, but got {names!r}.")
        names = list(map(str, names))
    pre_tokenizer = meta.get("pre_tokenizer")
    if pre_tokenizer:
        return names, pre_tokenizer == "whitespace"
    return names, _TOKENIZED_NOTE.search(str(meta.get("notes", ""))) is not None
