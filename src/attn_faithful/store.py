"""A run folder: the only writer and reader of results.

Every file is written beside its place and moved there whole, so a name that exists is complete; ``meta.json`` comes
last and means "done".
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from attn_faithful._checks import InputError, did_you_mean
from attn_faithful._shards import join_shards
from attn_faithful.schema import SCHEMA_VERSION, TABLES

Shard = int | str

META = "meta.json"
SUMMARY = "summary.json"
LOCK = ".lock"

# what a killed process leaves: files under passing names, and shards; those that `.part.SHARD.json` tells of are whole
_LEFT = re.compile(r"\..+\.[0-9a-f]{12}|\.joining\..+")
_SHARD = re.compile(rf"({'|'.join(TABLES)})\.([a-z]*-?\d+(-\d+)?)\.parquet")
_PART = re.compile(r"\.part\.(.+)\.json")


def strict(value: Any) -> Any:
    """``value`` with NaN and infinities as None and numpy scalars as Python's, ready for strict JSON.

    Example:
        >>> strict({"tau": float("nan"), "n": 3})
        {'tau': None, 'n': 3}
    """
    if isinstance(value, Mapping):
        return {str(k): strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [strict(v) for v in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return strict(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value


def weights(model: Path) -> dict[str, str]:
    """The sha256 of each file of a model's weights, by name."""
    found = {}
    for path in sorted(model.glob("*.safetensors")):
        seen = hashlib.sha256()
        with path.open("rb") as file:
            while part := file.read(2**20):
                seen.update(part)
        found[path.name] = seen.hexdigest()
    return found


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

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def done(self) -> bool:
        """Whether the run was finished: its meta.json is there."""
        return (self.path / META).is_file()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the only process that writes here; what a killed one left half-written is cleared away, and no whole part.

        The lock belongs to the process and goes with it, however it ends.

        Raises:
            InputError: another process is writing here.
            OSError: the folder cannot be written.
        """
        fresh = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"Another process is writing {self.path}; wait until it is finished, or choose another output folder."
            ) from None
        try:
            self._clear()
            yield
        finally:
            (self.path / LOCK).unlink(missing_ok=True)  # while it is held: nobody else may have taken it
            lock.release()
            for path in fresh:  # of a run that was refused nothing stays
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

    def _clear(self) -> None:
        """Remove what is half-written, and parts of which anything is missing."""
        whole = self.parts()
        for path in list(self.path.iterdir()):
            part = _SHARD.fullmatch(path.name)
            told = _PART.fullmatch(path.name)
            shard = part[2] if part else told[1] if told else None
            if _LEFT.fullmatch(path.name) or (shard is not None and shard not in whole):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    # parts: shards of all tables that were written whole, and what is told of them

    def write_part(
        self, shard: str, tables: Mapping[str, Mapping[str, Sequence[Any]]], told: Mapping[str, Any]
    ) -> None:
        """Write a shard of some tables; it counts once all of them are there, and then outlives the process."""
        rows = {name: len(next(iter(table.values()), [])) for name, table in tables.items()}
        try:
            for name, table in tables.items():
                self.write_table(name, table, shard=shard)
            self._write_json(f".part.{shard}.json", {"rows": rows, **told})
        except BaseException:  # half a part counts for nothing and takes room on a disk that may be full
            self.drop_part(shard)
            raise

    def parts(self) -> dict[str, dict[str, Any]]:
        """What is told of each part that is whole, by shard."""
        if not self.path.is_dir():
            return {}
        found = {}
        for path in sorted(self.path.iterdir()):
            named = _PART.fullmatch(path.name)
            if named is None:
                continue
            told = self._part(named[1])
            if told is not None:
                found[named[1]] = told
        return found

    def _part(self, shard: str) -> dict[str, Any] | None:
        """What is told of a part; None where a table of it is missing, damaged or of another length."""
        try:
            told: dict[str, Any] = json.loads((self.path / f".part.{shard}.json").read_text(encoding="utf-8"))
            for name, rows in told["rows"].items():
                if pq.read_metadata(self._table(name, shard)).num_rows != rows:
                    return None
        except (OSError, ValueError, KeyError, AttributeError, pa.ArrowException):
            return None
        return told

    def drop_part(self, shard: str) -> None:
        """Remove a part; what is told of it goes first, so that no half of it counts."""
        (self.path / f".part.{shard}.json").unlink(missing_ok=True)
        for name in TABLES:
            self._table(name, shard).unlink(missing_ok=True)

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
        if not path.is_file():
            raise InputError(f"{self.path} holds no {path.name}; the run did not get that far.")
        return _read_parquet(path, columns)

    def has_table(self, name: str) -> bool:
        return self._table(name, None).is_file()

    def columns_of(self, name: str) -> list[str]:
        """The names of a table's columns.

        Raises:
            InputError: the file is missing or damaged; it is named.
        """
        path = self._table(name, None)
        try:
            return list(pq.read_schema(path).names)
        except FileNotFoundError:
            raise InputError(f"{self.path} holds no {path.name}; the run did not get that far.") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error

    def merge_shards(self, name: str, examples: Sequence[str], shards: Sequence[Shard], remove: bool = True) -> None:
        """Join the shards of all processes in the order of ``examples`` and remove them, unless they are to stay.

        Rows of one example stay in the order of the shards. "predictions" and "tokens" hold every example, in one
        shard alone; of the other tables an example may have rows in several, or none. Columns without any value are
        left out, but for "reason", and so is a table without any row.

        Raises:
            InputError: an example is missing, unknown or stands in two shards; a shard is missing or damaged.
        """
        found = (_read_parquet(self._table(name, shard)) for shard in shards)
        target, passing = self._table(name, None), _passing(self._table(name, None))
        try:
            if join_shards(found, passing, examples, name, whole=name in ("predictions", "tokens")):
                _sync(passing)
                os.replace(passing, target)
        finally:
            passing.unlink(missing_ok=True)
        for shard in shards if remove else ():
            self._table(name, shard).unlink()

    def table_parts(self, name: str, columns: Sequence[str], rows: int = 65536) -> Iterator[pa.RecordBatch]:
        """Columns of a table, some rows at a time.

        Raises:
            InputError: the file is missing or damaged; it is named.
        """
        path = self._table(name, None)
        try:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(rows, columns=list(columns))
        except FileNotFoundError:
            raise InputError(f"{self.path} holds no {path.name}; the run did not get that far.") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise _damaged(path, error) from error

    def _table(self, name: str, shard: Shard | None) -> Path:
        return self.path / (f"{name}.parquet" if shard is None else f"{name}.{shard}.parquet")

    # json

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self._write_json(SUMMARY, summary)

    def read_summary(self) -> dict[str, Any]:
        return self._read_json(SUMMARY)

    def write_meta(self, meta: Mapping[str, Any]) -> None:
        """Write meta.json: from now on the run counts as done."""
        self._write_json(META, {"schema": SCHEMA_VERSION, **meta})

    def read_meta(self) -> dict[str, Any]:
        return self._read_json(META)

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        text = json.dumps(strict(value), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        self.place(self.path / name, lambda path: _write_text(path, text))

    def _read_json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{self.path} holds no {name}; it is not a finished run.") from None
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}); remove it and run again to make it anew.") from error
        return read

    # files and folders

    def place(self, target: Path, write: Callable[[Path], object]) -> None:
        """Let ``write`` make a file under a passing name, then move it to ``target`` in one step."""
        target.parent.mkdir(parents=True, exist_ok=True)
        passing = _passing(target)
        try:
            write(passing)
            _sync(passing)
            os.replace(passing, target)
        finally:
            passing.unlink(missing_ok=True)

    def place_folder(self, name: str, write: Callable[[Path], object]) -> Path:
        """Let ``write`` fill a passing folder, then move it to ``name`` in one step; returns its path."""
        target = self.path / name
        passing, old = _passing(target), _passing(target)
        passing.mkdir(parents=True)
        try:
            write(passing)
            for path in passing.rglob("*"):
                if path.is_file():
                    _sync(path)
            if target.exists():
                os.replace(target, old)
            os.replace(passing, target)
        finally:
            if old.exists() and not target.exists():
                os.rename(old, target)
            shutil.rmtree(passing, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
        return target


def find_runs(paths: Iterable[str | Path]) -> list[RunFolder]:
    """All finished runs at or below ``paths``, sorted by path.

    Raises:
        InputError: a path does not exist, or no finished run lies below any of them.
    """
    found: set[Path] = set()
    for given in map(Path, paths):
        if not given.is_dir():
            raise InputError(f"Expected a run folder or a folder of runs, but {given} is not a folder.")
        found |= {path.parent for path in given.rglob(META)}
    if not found:
        raise InputError(
            f"No finished run lies below {', '.join(map(str, paths))}; a run is finished once it has {META}."
        )
    return [RunFolder(path) for path in sorted(found)]


def _check_columns(name: str, table: Mapping[str, Sequence[Any]]) -> None:
    if name not in TABLES:
        raise InputError(f"Unknown table {name!r}.{did_you_mean(name, TABLES)}")
    for column in table:
        if column not in TABLES[name]:
            raise InputError(f"Unknown column {column!r} of the table {name!r}.{did_you_mean(column, TABLES[name])}")


def _read_parquet(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    try:
        return pq.read_table(path, columns=None if columns is None else list(columns))
    except FileNotFoundError:
        raise InputError(f"There is no {path}; run again to make it anew.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is damaged ({error}); remove it and run again to make it anew.")


def _passing(target: Path) -> Path:
    """A hidden name beside ``target`` that no other writer takes."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
