"""A run folder: the only writer and reader of results.

Every file is written beside its place and moved there whole, so a name that exists is complete; ``meta.json`` comes
last and means "done".
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from attn_faithful._atomic import move, passing_name, write_file, write_folder
from attn_faithful._checks import InputError, did_you_mean
from attn_faithful._digests import digest_of_file
from attn_faithful._shards import join_shards
from attn_faithful.schema import SCHEMA_VERSION, TABLES

Shard = int | str

META = "meta.json"
SUMMARY = "summary.json"
LEARNED_HEADS = "learned_heads.json"
LOCK = ".lock"

# what a killed process leaves: files under passing names, and shards; those with a `.part.SHARD.json` are complete
_PASSING = re.compile(r"\..+\.[0-9a-f]{12}|\.joining\..+")
_SHARD = re.compile(rf"(?:{'|'.join(TABLES)})\.([a-z]*-?\d+(?:-\d+)?)\.parquet")
_PART = re.compile(r"\.part\.(.+)\.json")
_ONE_SHARD_AN_EXAMPLE = ("predictions", "tokens")  # tables that hold every example, in one shard alone


def strict(value: Any) -> Any:
    """``value`` with NaN and infinities as None and numpy scalars as Python's, ready for strict JSON.

    Example:
        >>> strict({"tau": float("nan"), "n": 3})
        {'tau': None, 'n': 3}
    """
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [strict(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def weights(model: Path) -> dict[str, str]:
    """The sha256 of each file of a model's weights, by name."""
    return {path.name: digest_of_file(path) for path in sorted(model.glob("*.safetensors"))}


class RunFolder:
    """The folder of one cell of an experiment.

    Args:
        path: made when something is first written.

    Example:
        >>> import tempfile
        >>> run = RunFolder(Path(tempfile.mkdtemp()) / "cell")
        >>> run.write_table("predictions", {"example": ["a"], "label": [1], "probabilities": [[0.2, 0.8]]})
        >>> run.read_table("predictions").num_rows, run.done
        (1, False)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        state = "done" if self.done else "not finished"
        return f"RunFolder({str(self.path)!r}, {state})"

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def done(self) -> bool:
        """Whether the run was finished: its meta.json is there."""
        return (self.path / META).is_file()

    # one writer at a time

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only process that writes here, and remove what a killed one left incomplete.

        The lock belongs to the process and goes with it, however it ends.

        Raises:
            InputError: another process is writing here.
            OSError: the folder cannot be written.
        """
        new_folders = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"Another process is writing {self.path}; wait until it is finished, or choose another output folder."
            ) from None
        try:
            self._remove_incomplete()
            yield
        finally:
            (self.path / LOCK).unlink(missing_ok=True)  # before its release: nobody else may have taken it
            lock.release()
            for path in new_folders:  # a refused run leaves no folders
                with suppress(OSError):
                    path.rmdir()

    def drop_lock(self) -> None:
        """Remove the file of a lock that nobody holds: a process was killed when all else was done."""
        path = self.path / LOCK
        if not path.exists():
            return
        lock = FileLock(path, timeout=0)
        with suppress(Timeout, OSError):  # somebody is at work there, or the folder may only be read
            lock.acquire()
            path.unlink(missing_ok=True)
            lock.release()

    def _remove_incomplete(self) -> None:
        """Remove files under passing names, and parts of which anything is missing."""
        complete = self.parts()
        for path in list(self.path.iterdir()):
            match = _SHARD.fullmatch(path.name) or _PART.fullmatch(path.name)
            half_a_part = match is not None and match[1] not in complete
            if not half_a_part and not _PASSING.fullmatch(path.name):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    # parts: shards of several tables that count together

    def write_part(
        self, shard: str, tables: Mapping[str, Mapping[str, Sequence[Any]]], facts: Mapping[str, Any]
    ) -> None:
        """Write a shard of some tables; it counts once all of them are there, and then outlives the process.

        Args:
            shard: its name.
            tables: name -> columns.
            facts: what `parts` gives of it.
        """
        rows = {}
        for name, table in tables.items():
            first_column = next(iter(table.values()), [])
            rows[name] = len(first_column)
        try:
            for name, table in tables.items():
                self.write_table(name, table, shard=shard)
            self.write_json(self.facts_of(shard).name, {"rows": rows, **facts})
        except BaseException:  # half a part counts for nothing and takes room on a disk that may be full
            self.drop_part(shard)
            raise

    def parts(self) -> dict[str, dict[str, Any]]:
        """The facts of each part that is complete, by shard."""
        if not self.path.is_dir():
            return {}
        parts = {}
        for path in sorted(self.path.iterdir()):
            match = _PART.fullmatch(path.name)
            if match is None:
                continue
            shard = match[1]
            facts = self._complete_part(shard)
            if facts is not None:
                parts[shard] = facts
        return parts

    def _complete_part(self, shard: str) -> dict[str, Any] | None:
        """The facts of a part; None where a table of it is missing, damaged or of another length."""
        try:
            facts: dict[str, Any] = json.loads(self.facts_of(shard).read_text(encoding="utf-8"))
            for name, rows in facts["rows"].items():
                if pq.read_metadata(self._table(name, shard)).num_rows != rows:
                    return None
        except (OSError, ValueError, KeyError, AttributeError, pa.ArrowException):
            return None
        return facts

    def drop_part(self, shard: str) -> None:
        """Remove a part; its facts go first, so that no half of it counts."""
        self.facts_of(shard).unlink(missing_ok=True)
        for name in TABLES:
            self._table(name, shard).unlink(missing_ok=True)

    def facts_of(self, shard: str) -> Path:
        """The file with the facts of a part, which is there once the part is complete."""
        return self.path / f".part.{shard}.json"

    # tables

    def write_table(self, name: str, table: Mapping[str, Sequence[Any]], *, shard: Shard | None = None) -> None:
        """Write a table, or one process's shard of it, as parquet.

        Raises:
            InputError: a column that the schema does not know, or columns of unequal length.
            OSError: the disk is full or read-only; nothing half-written stays behind.
        """
        _check_columns(name, table)
        try:
            arrow = pa.table(dict(table))
        except pa.ArrowInvalid as error:
            raise InputError(f"The table {name!r} cannot be written: {error}.") from error
        self.place(self._table(name, shard), lambda path: pq.write_table(arrow, path))

    def read_table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a whole table.

        Raises:
            InputError: the file is missing or damaged; it is named.
        """
        path = self._table(name, None)
        chosen = None if columns is None else list(columns)
        with self._reading(path):
            if not path.is_file():
                raise FileNotFoundError(path)
            return pq.read_table(path, columns=chosen)

    def has_table(self, name: str) -> bool:
        return self._table(name, None).is_file()

    def columns_of(self, name: str) -> list[str]:
        """The names of a table's columns.

        Raises:
            InputError: the file is missing or damaged; it is named.
        """
        path = self._table(name, None)
        with self._reading(path):
            return list(pq.read_schema(path).names)

    def table_parts(self, name: str, columns: Sequence[str], rows: int = 65536) -> Iterator[pa.RecordBatch]:
        """Columns of a table, some rows at a time.

        Raises:
            InputError: the file is missing or damaged; it is named.
        """
        path = self._table(name, None)
        with self._reading(path), pq.ParquetFile(path) as file:
            yield from file.iter_batches(rows, columns=list(columns))

    def merge_shards(self, name: str, examples: Sequence[str], shards: Sequence[Shard], remove: bool = True) -> None:
        """Join the shards of all processes in the order of ``examples`` and remove them, unless they are to stay.

        Rows of one example stay in the order of the shards. "predictions" and "tokens" hold every example, in one
        shard alone; of the other tables an example may have rows in several, or none. Columns without any value are
        left out, but for "reason", and so is a table without any row.

        Raises:
            InputError: an example is missing, unknown or stands in two shards; a shard is missing or damaged.
        """
        tables = (_read_shard(self._table(name, shard)) for shard in shards)
        target = self._table(name, None)
        passing = passing_name(target)
        try:
            n_rows = join_shards(tables, passing, examples, name, one_shard=name in _ONE_SHARD_AN_EXAMPLE)
            if n_rows:
                move(passing, target)
        finally:
            passing.unlink(missing_ok=True)
        if remove:
            for shard in shards:
                self._table(name, shard).unlink()

    def _table(self, name: str, shard: Shard | None) -> Path:
        file_name = f"{name}.parquet" if shard is None else f"{name}.{shard}.parquet"
        return self.path / file_name

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        """Name a file that is missing or damaged."""
        try:
            yield
        except FileNotFoundError:
            raise InputError(f"{self.path} holds no {path.name}; the run did not get that far.") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error

    # json

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self.write_json(SUMMARY, summary)

    def read_summary(self) -> dict[str, Any]:
        return self.read_json(SUMMARY)

    def write_meta(self, meta: Mapping[str, Any]) -> None:
        """Write meta.json: from now on the run counts as done."""
        self.write_json(META, {"schema": SCHEMA_VERSION, **meta})

    def read_meta(self) -> dict[str, Any]:
        return self.read_json(META)

    def write_learned_heads(self, weights: Mapping[str, Any]) -> None:
        self.write_json(LEARNED_HEADS, weights)

    def read_learned_heads(self) -> dict[str, Any] | None:
        """The weights of heads that the run fitted; None where it fitted none."""
        return self.read_json(LEARNED_HEADS) if (self.path / LEARNED_HEADS).is_file() else None

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a file of JSON, NaN as null."""
        text = json.dumps(strict(value), indent=1, allow_nan=False, ensure_ascii=False)
        self.place(self.path / name, lambda path: path.write_text(text + "\n", encoding="utf-8"))

    def read_json(self, name: str) -> dict[str, Any]:
        """A file of JSON.

        Raises:
            InputError: it is missing or damaged; it is named.
        """
        path = self.path / name
        try:
            value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{self.path} holds no {name}; it is not a finished run.") from None
        except ValueError as error:
            raise _damaged(path, error) from error
        return value

    # files and folders

    def files(self, pattern: str) -> list[str]:
        """The names of the files that match a pattern such as ``a/*/*.json``, below the folder, sorted."""
        return sorted(path.relative_to(self.path).as_posix() for path in self.path.glob(pattern))

    def place(self, target: Path, write: Callable[[Path], object]) -> None:
        """Let ``write`` make a file under a passing name, then move it to ``target`` in one step."""
        write_file(target, write)

    def place_folder(self, name: str, write: Callable[[Path], object]) -> Path:
        """Let ``write`` fill a passing folder, then move it to ``name`` in one step; returns its path."""
        target = self.path / name
        write_folder(target, write)
        return target


def find_runs(paths: Iterable[str | Path]) -> list[RunFolder]:
    """All finished runs at or below ``paths``, sorted by path.

    Raises:
        InputError: a path does not exist, or no finished run lies below any of them.
    """
    folders: set[Path] = set()
    for path in map(Path, paths):
        if not path.is_dir():
            raise InputError(f"Expected a run folder or a folder of runs, but {path} is not a folder.")
        folders |= {meta.parent for meta in path.rglob(META)}
    if not folders:
        raise InputError(
            f"No finished run lies below {', '.join(map(str, paths))}; a run is finished once it has {META}."
        )
    return [RunFolder(folder) for folder in sorted(folders)]


def _check_columns(name: str, table: Mapping[str, Sequence[Any]]) -> None:
    if name not in TABLES:
        raise InputError(f"Unknown table {name!r}.{did_you_mean(name, TABLES)}")
    for column in table:
        if column not in TABLES[name]:
            raise InputError(f"Unknown column {column!r} of the table {name!r}.{did_you_mean(column, TABLES[name])}")


def _read_shard(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except FileNotFoundError:
        raise InputError(f"There is no {path}; run again to make it anew.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged ({error}); remove it and run again to make it anew.")
