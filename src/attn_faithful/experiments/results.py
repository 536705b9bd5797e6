"""Writes what an evaluation finds as it comes: each process its blocks, joined by the main one at the end.

Finished blocks are parts of the run folder that outlive the process: a run that was stopped resumes at the block it was
in, with any number of processes, and ends with the tables of an undisturbed one.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.parquet as pq

from attn_faithful import __version__
from attn_faithful._checks import InputError, add_note
from attn_faithful.experiments.block_rows import NAMES, RowBuilder, TableRows
from attn_faithful.experiments.processes import ProcessGroup, appears
from attn_faithful.experiments.undefined_texts import KEYS, failed_scores, warn_of
from attn_faithful.models.blocks import Block
from attn_faithful.records.json_values import known_fields
from attn_faithful.schema import SCHEMA_VERSION
from attn_faithful.store import RunFolder

CHUNK_SIZE = 1024  # examples whose results are held before they are written
CELLS = 2**17  # their tokens, at most: numbers of a token take some hundred bytes until then
SECONDS = 20.0  # and so long at most, but for the block that is under way
JOINED = ".joined.json"  # all tables are there, and what is left is to score them


@dataclass(frozen=True)
class PartFacts:
    """What is stored beside the tables of a part.

    Attributes:
        key: of the run that wrote it.
        blocks: numbers of its blocks.
        failed: examples that could not be measured -> the reason.
        examples: how many it has.
    """

    key: str = ""
    blocks: list[int] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    examples: int = 0


class _Buffer:
    """Results of blocks that are not written yet.

    Attributes:
        tables: their rows.
        blocks: their numbers.
        failed: examples that could not be measured -> the reason.
        examples: how many they are.
    """

    def __init__(self) -> None:
        self.tables = TableRows()
        self.blocks: list[int] = []
        self.failed: dict[str, str] = {}
        self.examples = 0
        self._tokens = 0
        self._since = time.monotonic()

    def add(self, block: Block, tables: TableRows, failed: Mapping[str, str]) -> None:
        self.tables.extend(tables)
        self.blocks.append(block.number)
        self.failed |= failed
        self.examples += len(block.places)
        self._tokens += sum(map(len, tables.tokens["tokens"]))

    def is_full(self, chunk_size: int) -> bool:
        waited = time.monotonic() - self._since
        return self.examples >= chunk_size or self._tokens >= CELLS or waited >= SECONDS


class Writer:
    """The tables of one run, written in parts.

    Args:
        folder: of the run.
        builder: makes the rows of examples; its examples are those of the run.
        processes: those that write.
        chunk_size: examples whose results are held before they are written; None for `CHUNK_SIZE`.
        depends_on: what the numbers depend on beside the texts; parts of another run are not taken.

    Attributes:
        failed: examples that could not be measured -> the reason; of all processes once the run is closed.
        resumed: examples that an earlier run left.
        joined: whether an earlier run left all tables whole.
        source_seconds: a text, of the sources that this run computed.
    """

    def __init__(
        self,
        folder: RunFolder,
        builder: RowBuilder,
        processes: ProcessGroup,
        chunk_size: int | None = None,
        depends_on: object = None,
    ) -> None:
        self.folder = folder
        self.builder = builder
        self.processes = processes
        self.chunk_size = chunk_size or CHUNK_SIZE
        self.depends_on = depends_on
        self.examples: Sequence[str] = builder.rows.examples
        self.key = ""
        self.failed: dict[str, str] = {}
        self.resumed = 0
        self.joined = False
        self.source_seconds: dict[str, float] = {}
        self.extra_shards: list[str] = []
        self._written: list[str] = []
        self._buffer = _Buffer()

    # what an earlier run left

    def begin(self, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that are this process's to measure: its share of those that no earlier run finished."""
        plan = [[block.keys, block.copies] for block in blocks]
        facts = [SCHEMA_VERSION, __version__, list(self.examples), plan, self.depends_on]
        self.key = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]
        finished: list[int] = []
        if self.processes.main:
            self.joined = self._was_joined()
            if not self.joined:
                finished = self._finished_blocks()
        self.joined = self.processes.of_main(self.joined)
        known = set(self.processes.all_gather(finished))
        if self.joined:
            return []
        self.resumed = sum(len(block.places) for block in blocks if block.number in known)
        remaining = [block for block in blocks if block.number not in known]
        return remaining[self.processes.rank :: self.processes.world]

    def _was_joined(self) -> bool:
        """Whether all tables are there; whatever else is there of earlier runs is then removed."""
        path = self.folder / JOINED
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if state.get("key") != self.key:
            path.unlink()
            return False
        self.failed = dict(state["failed"])
        for shard in self.folder.parts():
            self.folder.drop_part(shard)
        return True

    def _finished_blocks(self) -> list[int]:
        """The blocks that an earlier run finished; parts of another run are removed."""
        finished: list[int] = []
        others = 0
        for shard, part in self._parts().items():
            if part.key == self.key and not set(part.blocks) & set(finished):
                finished += part.blocks
                continue
            others += part.examples
            self.folder.drop_part(shard)
        if others:
            warnings.warn(
                f"{others} texts that an earlier run left in {self.folder.path} were measured with other settings or "
                "another version; they are measured again.",
                stacklevel=2,
            )
        return finished

    # what this run finds

    def add(self, block: Block, tables: TableRows, failed: Mapping[str, str]) -> None:
        """Take what a whole block gave, and which of its examples could not be measured."""
        self._buffer.add(block, tables, failed)
        if self._buffer.is_full(self.chunk_size):
            self.flush()

    def extend(self, scores: Mapping[str, Sequence[Any]], variants: Mapping[str, Sequence[Any]]) -> None:
        """Take further rows of the long tables; they come before those of the blocks, and no later run takes them."""
        tables = TableRows()
        tables.scores.extend(scores)
        tables.variants.extend(variants)
        self._write_extra(tables)

    def _write_extra(self, tables: TableRows) -> None:
        shard = f"more-{len(self.extra_shards)}"
        for name, columns in tables.by_table.items():
            self.folder.write_table(name, columns, shard=shard)
        self.extra_shards.append(shard)

    def flush(self) -> None:
        """Write what is held as a part of its own."""
        buffer = self._buffer
        if buffer.blocks:
            facts = PartFacts(self.key, buffer.blocks, buffer.failed, buffer.examples)
            shard = str(min(buffer.blocks))
            self.folder.write_part(shard, buffer.tables.by_table, asdict(facts))
            self._written.append(shard)
            self.failed |= buffer.failed
        self._buffer = _Buffer()

    def stopped(self, error: BaseException) -> None:
        """Keep the blocks that are complete, and say in a note of the error what is kept and how to resume."""
        try:
            self.flush()
        except OSError:  # the disk is full: what was written before stays
            self._buffer = _Buffer()
        kept = 0
        for part in self._parts().values():
            if part.key == self.key:
                kept += part.examples
        if kept:
            where = f"{kept} of {len(self.examples)} texts are kept in {self.folder.path}"
            add_note(error, f"{where}; the same command goes on from there.")
        elif isinstance(error, OSError | KeyboardInterrupt):  # others are no fault of the moment
            add_note(error, "No text could be kept; the same command begins with the first.")

    # the end

    def close(self) -> None:
        """Write the rest; the main process joins all parts. Columns without any value are left out."""
        if self.joined:
            for shard in self.extra_shards:
                self.folder.drop_part(shard)
            return
        try:
            self.flush()
        except OSError as error:
            self.stopped(error)
            raise
        self.processes.wait("parts")
        written = self.processes.all_gather(self._written)
        self.processes.raise_any(self._unseen(written))
        if self.processes.main:
            self._join()
        self.processes.wait("tables")

    def finish(self) -> None:
        """Once the summary and the meta are written: tidy up, and warn of texts that could not be measured."""
        tidy(self.folder)
        warn_of(self.failed, len(self.examples))

    def _unseen(self, written: Sequence[str]) -> str | None:
        """What to say where the main process does not see all parts that were written; None where it does."""
        if not self.processes.main:
            return None
        for shard in written:
            if not appears(self.folder.facts_of(shard)):
                return (
                    f"The part {shard} of another process is not in {self.folder.path.absolute()}; see that all "
                    "machines write into one shared folder, and run again, which goes on from the parts that are there."
                )
        return None

    def _join(self) -> None:
        parts = self._parts()
        shards = sorted(parts, key=int)
        self.failed = {}
        for shard in shards:
            self.failed |= parts[shard].failed
        if self.failed:
            self._write_extra(self._rows_of_failed(shards))
        for name in NAMES:
            self.folder.merge_shards(name, self.examples, [*self.extra_shards, *shards], remove=False)
        state = json.dumps({"key": self.key, "failed": self.failed})
        self.folder.place(self.folder / JOINED, lambda path: path.write_text(state, encoding="utf-8"))
        for shard in [*shards, *self.extra_shards]:
            self.folder.drop_part(shard)

    def _parts(self) -> dict[str, PartFacts]:
        """The facts of the parts in the run folder, by shard."""
        parts = {}
        for shard, facts in self.folder.parts().items():
            parts[shard] = PartFacts(**known_fields(PartFacts, facts))
        return parts

    def _rows_of_failed(self, shards: Sequence[str]) -> TableRows:
        """Rows of the examples that could not be measured: every number undefined, for their reason."""
        tables = TableRows()
        scores = [self._read("scores", shard, KEYS) for shard in shards]
        tables.scores.extend(failed_scores(scores, self.failed))
        predicted: set[str] = set()
        for shard in shards:
            predicted.update(self._column("predictions", shard, "example"))
        place_of = {example: place for place, example in enumerate(self.examples)}
        unread = [place_of[example] for example in self.failed if example not in predicted]
        if not unread:
            return tables
        classes, site = self._shape_of_outputs(shards)
        for place in unread:
            self.builder.add_unread(tables, place, site, classes)
        return tables

    def _shape_of_outputs(self, shards: Sequence[str]) -> tuple[int, str]:
        """How many classes the model has, and the site beside the predictions, from a text that it could read."""
        for shard in shards:
            probabilities = self._column("predictions", shard, "probabilities")
            sites = self._column("tokens", shard, "site")
            if probabilities and sites:
                return len(probabilities[0]), sites[0]
        raise InputError("No text at all could be measured.")

    def _column(self, table: str, shard: str, name: str) -> list[Any]:
        return self._read(table, shard, (name,))[name]

    def _read(
        self,
        table: str,
        shard: str,
        columns: Sequence[str],
    ) -> dict[str, list[Any]]:
        path = self.folder / f"{table}.{shard}.parquet"
        values: dict[str, list[Any]] = pq.read_table(path, columns=list(columns)).to_pydict()
        return values


@contextmanager
def kept_tables(folder: RunFolder) -> Iterator[None]:
    """Add a note to any error in the scoring of finished tables: the tables are kept."""
    try:
        yield
    except BaseException as error:
        add_note(error, f"The tables of all texts are kept in {folder.path}; the same command goes on at scoring them.")
        raise


def tidy(folder: RunFolder) -> None:
    """Remove what only a run that is not done needs."""
    (folder / JOINED).unlink(missing_ok=True)
    folder.drop_lock()
