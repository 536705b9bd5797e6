"""Writes what an evaluation finds as it comes: each process its blocks, joined by the main one at the end.

Finished blocks are parts of the run folder that outlive the process: a run that was stopped goes on at the block it was
in, with any number of processes, and ends with the tables of an undisturbed one.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from attn_faithful import __version__
from attn_faithful._checks import InputError, add_note
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.run_block import Measured
from attn_faithful.experiments.run_tables import Items
from attn_faithful.experiments.undefined_texts import KEYS, Columns, failed_scores, unread
from attn_faithful.models.blocks import Block
from attn_faithful.schema import SCHEMA_VERSION, TABLES
from attn_faithful.store import RunFolder

NAMES = ("predictions", "tokens", "scores", "variants")
HELD = 1024  # examples whose results are held before they are written
CELLS = 2**17  # their tokens, at most: numbers of a token take some hundred bytes until then
SECONDS = 20.0  # and so long at most, but for the block that is under way
JOINED = ".joined.json"  # all tables are there, and what is left is to score them


class Writer:
    """The tables of one run, written in parts.

    Args:
        folder: where to.
        rows: the encoded examples.
        items: content items of an example at a site, by its place in the rows; see `outputs.item_finder`.
        queries: of pairs, the text that asks, by place.
        team: the processes that write.
        held: examples whose results are held before they are written.
        of: what the numbers depend on beside the texts; parts of another run are not taken.

    Attributes:
        failed: examples that could not be measured, and why; of all processes once the run is closed.
        kept: examples that an earlier run left.
        joined: whether an earlier run left all tables whole.
    """

    def __init__(
        self,
        folder: RunFolder,
        rows: Any,
        items: Items,
        queries: Sequence[str] | None,
        processes: ProcessGroup,
        chunk_size: int | None = None,
        of: object = None,
    ) -> None:
        self.folder, self.rows, self.items, self.processes = folder, rows, items, processes
        self.queries = queries
        self.chunk_size = chunk_size or HELD
        self.of = of
        self.key = ""
        self.failed: dict[str, str] = {}
        self.kept = self.measured = 0
        self.joined = False
        self.extra: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self.parts = empty()
        self.blocks: list[int] = []
        self.unwell: dict[str, str] = {}
        self.waiting = self.cells = 0
        self.since = time.monotonic()

    # what an earlier run left

    def begin(self, blocks: Sequence[Block]) -> list[Block]:
        """The blocks that are this process's to measure: its share of those that no earlier run finished."""
        plan = [[block.keys, block.copies] for block in blocks]
        facts = [SCHEMA_VERSION, __version__, list(self.rows["example"]), plan, self.of]
        self.key = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]
        done: list[int] = []
        if self.processes.main:
            self.joined = self._was_joined()
            done = [] if self.joined else self._taken(blocks)
        joined = self.processes.all_gather([self.joined])
        self.joined = joined[0]
        known = set(self.processes.all_gather(done))
        if self.joined:
            return []
        self.kept = sum(len(block.places) for block in blocks if block.number in known)
        left = [block for block in blocks if block.number not in known]
        return left[self.processes.rank :: self.processes.world]

    def _was_joined(self) -> bool:
        """Whether all tables are there; what else there is of earlier runs then goes."""
        path = self.folder / JOINED
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if told.get("key") != self.key:
            path.unlink()
            return False
        self.failed = dict(told["failed"])
        for shard in self.folder.parts():
            self.folder.drop_part(shard)
        return True

    def _taken(self, blocks: Sequence[Block]) -> list[int]:
        """The blocks that an earlier run finished; parts of another run are removed."""
        done: list[int] = []
        strange = 0
        for shard, told in self.folder.parts().items():
            if told.get("key") == self.key and not set(told["blocks"]) & set(done):
                done += told["blocks"]
                continue
            strange += told.get("examples", 0)
            self.folder.drop_part(shard)
        if strange:
            warnings.warn(
                f"{strange} texts that an earlier run left in {self.folder.path} were measured with other settings or "
                "another version; they are measured again.",
                stacklevel=2,
            )
        return done

    # what this run finds

    def shaped(self, measured: Measured) -> Columns:
        """What one block gave as rows of the tables."""
        columns = empty()
        attended: dict[tuple[int, str], dict[str, Any]] = {}
        for i, chances, weights in measured.outputs:
            label = self.rows["labels"][i] if "labels" in self.rows.column_names else -1
            asked = None if self.queries is None else self.queries[i]
            self._put(
                columns,
                "predictions",
                i,
                label=np.asarray(label).tolist(),
                probabilities=chances.tolist(),
                query=asked,
            )
            attended[i, measured.site] = self._entry(measured.site, i, weights)
        for site, outputs, importance, found in measured.tests:
            for i, _, weights in outputs:
                if (i, site) not in attended:
                    attended[i, site] = self._entry(site, i, weights)
                attended[i, site].update(importance[i])
            _extend(columns, "scores", found.scores)
            _extend(columns, "variants", found.variants)
        for (i, _), entry in attended.items():
            self._put(columns, "tokens", i, **entry)
        return columns

    def _entry(self, site: str, i: int, weights: np.ndarray) -> dict[str, Any]:
        """An example's items at a site, in which its importance is filled in."""
        words, offsets = self.items(site, i)
        planted = self.rows["informative"][i] if "informative" in self.rows.column_names else None
        if planted is not None:
            planted = np.asarray(planted).tolist() if len(planted) == len(words) else None
        return {
            "site": site,
            "slot": 0,
            "tokens": words,
            "offsets": offsets,
            "attention": weights.tolist(),
            "informative": planted,
        }

    def _put(self, columns: Columns, table: str, i: int, **values: Any) -> None:
        values["example"] = self.rows["example"][i]
        for column, chunk_size in columns[table].items():
            chunk_size.append(values.get(column))

    def take(self, block: Block, columns: Columns, failed: Mapping[str, str]) -> None:
        """Take what a whole block gave, and which of its examples could not be measured."""
        for name, values in columns.items():
            _extend(self.parts, name, values)
        self.blocks.append(block.number)
        self.unwell |= failed
        self.waiting += len(block.places)
        self.measured += len(block.places) - len(failed)
        self.cells += sum(map(len, columns["tokens"]["tokens"]))
        if self.waiting >= self.chunk_size or self.cells >= CELLS or time.monotonic() - self.since >= SECONDS:
            self.flush()

    def extend(self, scores: Mapping[str, Sequence[Any]], variants: Mapping[str, Sequence[Any]]) -> None:
        """Take further rows of the long tables; they stand before those of the blocks, and no later run takes them."""
        columns = empty()
        _extend(columns, "scores", scores)
        _extend(columns, "variants", variants)
        self._write_extra(columns)

    def _write_extra(self, columns: Columns) -> None:
        shard = f"more-{len(self.extra)}"
        for name in NAMES:
            self.folder.write_table(name, columns[name], shard=shard)
        self.extra.append(shard)

    def flush(self) -> None:
        """Write what is held as a part of its own."""
        if self.blocks:
            told = {
                "key": self.key,
                "blocks": self.blocks,
                "failed": self.unwell,
                "examples": self.waiting,
            }
            self.folder.write_part(str(min(self.blocks)), self.parts, told)
            self.failed |= self.unwell
        self._clear()

    def stopped(self, error: BaseException) -> None:
        """Keep the blocks that are complete, and leave with an error what is kept and what goes on from there."""
        try:
            self.flush()
        except OSError:  # the disk is full: what was written before stays
            self._clear()
        kept = sum(told["examples"] for told in self.folder.parts().values() if told.get("key") == self.key)
        if kept:
            of = f"{kept} of {len(self.rows)} texts are kept in {self.folder.path}"
            add_note(error, f"{of}; the same command goes on from there.")
        elif isinstance(error, OSError | KeyboardInterrupt):  # others are no fault of the moment
            add_note(error, "No text could be kept; the same command begins with the first.")

    # the end

    def close(self) -> None:
        """Write the rest; the main process joins all parts. Columns that nobody filled are left out."""
        if self.joined:
            for shard in self.extra:
                self.folder.drop_part(shard)
            return
        try:
            self.flush()
        except OSError as error:
            self.stopped(error)
            raise
        self.processes.wait("parts")
        if self.processes.main:
            self._join()
        self.processes.wait("tables")

    def _join(self) -> None:
        found = self.folder.parts()
        parts = sorted(found, key=int)
        self.failed = {example: why for part in parts for example, why in found[part]["failed"].items()}
        if self.failed:
            self._write_extra(self._of_failed(parts))
        for name in NAMES:
            self.folder.merge_shards(name, self.rows["example"], [*self.extra, *parts], remove=False)
        text = json.dumps({"key": self.key, "failed": self.failed})
        self.folder.place(self.folder / JOINED, lambda path: path.write_text(text, encoding="utf-8"))
        for shard in [*parts, *self.extra]:
            self.folder.drop_part(shard)

    def _of_failed(self, parts: Sequence[str]) -> Columns:
        """Rows of the examples that could not be measured: every number undefined, for their reason."""
        columns = empty()
        scores = [self._read("scores", part, KEYS) for part in parts]
        _extend(columns, "scores", failed_scores(scores, self.failed))
        known = {example for part in parts for example in self._read("predictions", part, ("example",))["example"]}
        place = {example: i for i, example in enumerate(self.rows["example"])}
        missing = [place[example] for example in self.failed if example not in known]
        if not missing:
            return columns
        shown = next(
            (
                (len(chances), site)
                for part in parts
                for chances in self._read("predictions", part, ("probabilities",))["probabilities"][:1]
                for site in self._read("tokens", part, ("site",))["site"][:1]
            ),
            None,
        )
        if shown is None:
            raise InputError("No text at all could be measured.")
        classes, site = shown
        for i in missing:
            chances, weights, words = unread(self.items, site, i, classes)
            label = self.rows["labels"][i] if "labels" in self.rows.column_names else -1
            asked = None if self.queries is None else self.queries[i]
            self._put(columns, "predictions", i, label=np.asarray(label).tolist(), probabilities=chances, query=asked)
            self._put(columns, "tokens", i, site=site, slot=0, tokens=words, attention=weights)
        return columns

    def _read(self, table: str, part: str, columns: Sequence[str]) -> dict[str, list[Any]]:
        path = self.folder / f"{table}.{part}.parquet"
        found: dict[str, list[Any]] = pq.read_table(path, columns=list(columns)).to_pydict()
        return found


@contextmanager
def kept_tables(folder: RunFolder) -> Iterator[None]:
    """Whatever ends the scoring of tables that are there leaves with the error that they are."""
    try:
        yield
    except BaseException as error:
        add_note(error, f"The tables of all texts are kept in {folder.path}; the same command goes on at scoring them.")
        raise


def tidy(folder: RunFolder) -> None:
    """Remove what only a run that is not done needs."""
    (folder / JOINED).unlink(missing_ok=True)
    folder.drop_lock()


def empty() -> Columns:
    """Tables without a row."""
    return {name: {column: [] for column in TABLES[name]} for name in NAMES}


def _extend(columns: Columns, table: str, rows: Mapping[str, Sequence[Any]]) -> None:
    """Add rows to a table; columns that they lack are null."""
    n = len(next(iter(rows.values()), []))
    for column, values in columns[table].items():
        values.extend(rows.get(column) or [None] * n)
