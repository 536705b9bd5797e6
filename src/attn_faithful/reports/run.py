"""Run folders as reports read them: found, checked, and their tables read once and only where they are needed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.reports.run_differences import told_apart
from attn_faithful.schema import SCHEMA_VERSION
from attn_faithful.store import META, SUMMARY, RunFolder

ALL = "all"  # the class of records over all examples
RECIPE = "recipe.json"  # in a run of a recipe: what the paper says
_NOT_COMPUTED = "not computed"


class Run:
    """A finished run folder.

    Attributes:
        path: of the folder.
        meta, summary: its two JSON files.

    Raises:
        InputError: no finished run, a damaged file, or another version's folder; it is said what to do.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder(path)
        self.path = self.folder.path
        self.meta: dict[str, Any] = self.folder.read_meta()
        _check_version(self.path, self.meta)
        self.summary: dict[str, Any] = self.folder.read_summary()
        self.told: dict[str, str] = dict(self.meta["axes"])

    @property
    def name(self) -> str:
        """The folder's name: one a run below a common folder."""
        return self.path.resolve().name

    @property
    def axes(self) -> dict[str, str]:
        """What tells this run from others beside its seed: data, encoder or model, ... -> label.

        Among others with the same labels that `find` found, further ones too; see `apart.told_apart`.
        """
        return dict(self.told)

    @property
    def seed(self) -> int:
        return int(self.meta["seed"])

    @property
    def title(self) -> str:
        """The axes' labels in a row, as tables and figures call the run."""
        return " ".join(self.axes.values())

    @property
    def label_names(self) -> list[str]:
        return [str(name) for name in self.meta["label_names"]]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The tests' records: test, metric, site, source, class, mean, std, low, high, n, n_undefined, reasons."""
        return list(self.summary.get("tests", []))

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """What the metrics of the records are: title, meaning, low, high, direction, unit, shown, test, paper."""
        return dict(self.summary.get("metrics", {}))

    @property
    def sites(self) -> list[str]:
        """Where in the model attention was tested, in the order of the records."""
        return list(dict.fromkeys(record["site"] for record in self.records))

    def has(self, name: str) -> bool:
        """Whether the run has this table."""
        return self.folder.has_table(name)

    def table(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """A table as pyarrow's; ``columns`` that it lacks are left out.

        Raises:
            InputError: the table is missing or damaged.
        """
        if columns is None:
            return self.folder.read_table(name)
        import pyarrow.parquet as pq

        path = self.path / f"{name}.parquet"
        if path.is_file():
            try:
                there = set(pq.read_schema(path).names)
            except (ValueError, OSError):
                there = set(columns)  # read_table says what is wrong with the file
            columns = [column for column in columns if column in there]
        return self.folder.read_table(name, columns)

    # examples

    @cached_property
    def examples(self) -> list[str]:
        """Ids in the order of the data."""
        return [str(example) for example in self._predictions.column("example").to_pylist()]

    @cached_property
    def probabilities(self) -> np.ndarray:
        """(B, C)."""
        rows = self._predictions.column("probabilities").to_pylist()
        return np.asarray(rows, dtype=float) if rows else np.zeros((0, len(self.label_names)))

    @cached_property
    def predicted(self) -> np.ndarray:
        """Index of each example's predicted class (B,); -1 for one that the model could not read."""
        chances = self.probabilities
        return np.where(np.isnan(chances).any(1), -1, chances.argmax(1)) if len(chances) else np.zeros(0, dtype=int)

    @cached_property
    def labels(self) -> list[Any]:
        """Gold class of each example: an index, -1 where unknown, a list of 0 and 1 for multi-label data."""
        return list(self._predictions.column("label").to_pylist())

    @cached_property
    def _predictions(self) -> Any:
        return self.table("predictions", ["example", "label", "probabilities"])

    # scores

    def scored(self, metric: str, site: str | None = None) -> list[str]:
        """The sources that a metric was computed for, in the order of the file."""
        at = self._site(site) if self._keys else site
        return [source for where, source, name in self._keys if name == metric and where == at]

    def scores(self, metric: str, source: str = "attention", site: str | None = None) -> Any:
        """A metric of every example as a pandas Series by example, in the order of the data; slots averaged.

        Args:
            metric: name from the metric table.
            source: as in the table "scores".
            site: where in the model; None for the first that was tested.

        Returns:
            float64, NaN where undefined; all NaN where the run has no such score.
        """
        import pandas as pd

        values, _ = self._column(metric, source, site)
        return pd.Series(values, index=pd.Index(self.examples, name="example"), name=metric)

    def reasons(self, metric: str, source: str = "attention", site: str | None = None) -> list[str | None]:
        """Why the values of `scores` are undefined, an entry an example; None where defined."""
        values, rows = self._column(metric, source, site)
        found: list[str | None] = [None if known else _NOT_COMPUTED for known in np.isfinite(values)]
        table = self._scores
        if table is not None and "reason" in table.column_names and len(rows):
            said = table.column("reason").take(rows).to_pylist()
            for place, reason in zip(self._place[rows].tolist(), said, strict=True):
                if reason is not None and place >= 0 and found[place] is not None:
                    found[place] = reason
        return found

    def _site(self, site: str | None) -> str | None:
        if site is not None:
            return site
        return next(iter(self._keys))[0] if self._keys else None

    def _column(self, metric: str, source: str, site: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Values by example, and the rows that they came from."""
        rows = self._keys.get((self._site(site), source, metric))
        if rows is None:
            return np.full(len(self.examples), np.nan), np.zeros(0, dtype=int)
        return self._by_example(rows), rows

    def _by_example(self, rows: np.ndarray) -> np.ndarray:
        """The mean of some rows of each example (B,), NaN without a defined one."""
        n = len(self.examples)
        place, values = self._place[rows], self._values[rows]
        known = np.isfinite(values) & (place >= 0)
        counts = np.bincount(place[known], minlength=n)
        sums = np.bincount(place[known], weights=values[known], minlength=n)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def scores_by_label(self, metric: str, source: str = "attention", site: str | None = None) -> np.ndarray | None:
        """A metric of every label and example (L, B), NaN where undefined; None where labels were not asked by
        themselves."""
        rows = self._keys.get((self._site(site), source, metric))
        if rows is None or "label" not in self._scores.column_names:
            return None
        _, codes = _coded(self._scores, "label")
        own = [rows[codes[rows] == label] for label in np.unique(codes[rows]) if label >= 0]
        return np.stack([self._by_example(some) for some in own]) if own else None

    @cached_property
    def _scores(self) -> Any:
        if not self.has("scores"):
            return None
        table = self.table("scores", ["example", "site", "source", "metric", "value", "reason", "label"])
        for i, name in enumerate(table.column_names):  # a few names stand in very many rows
            if name != "value":
                table = table.set_column(i, name, table.column(name).combine_chunks().dictionary_encode())
        return table

    @cached_property
    def _values(self) -> np.ndarray:
        return np.asarray(self._scores.column("value").to_numpy(), dtype=float)

    @cached_property
    def _place(self) -> np.ndarray:
        """The example of each row by its place in the data; -1 for values of the whole split."""
        ids, codes = _coded(self._scores, "example")
        rank = {example: i for i, example in enumerate(self.examples)}
        places = np.array([*(rank.get(str(name), -1) for name in ids), -1])
        return places[codes]

    @cached_property
    def _keys(self) -> dict[tuple[str | None, str, str], np.ndarray]:
        """(site, source, metric) -> its rows, in the order of the file."""
        if self._scores is None or not self._scores.num_rows:
            return {}
        names, codes = zip(*(_coded(self._scores, column) for column in ("site", "source", "metric")), strict=True)
        sizes = [len(found) + 1 for found in names]
        whole = np.ravel_multi_index([code % size for code, size in zip(codes, sizes, strict=True)], sizes)
        order = np.argsort(whole, kind="stable")
        starts = np.flatnonzero(np.diff(whole[order], prepend=-1))
        groups = np.split(order, starts[1:])
        found = {}
        for rows in sorted(groups, key=lambda rows: rows[0]):
            site, source, metric = (
                name[code[rows[0]]] if code[rows[0]] >= 0 else None for name, code in zip(names, codes, strict=True)
            )
            found[site, source, metric] = rows
        return found

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def _coded(table: Any, column: str) -> tuple[list[Any], np.ndarray]:
    """Distinct values of a column, and the place of each row's value among them; -1 for null."""
    values = table.column(column).combine_chunks()
    values = values.chunk(0) if hasattr(values, "num_chunks") else values
    codes = values.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return values.dictionary.to_pylist(), codes.astype(int)


def _check_version(path: Path, meta: dict[str, Any]) -> None:
    version = meta.get("schema", 1)
    if version == SCHEMA_VERSION:
        return
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by a newer attn-faithful (schema {version}, this one reads {SCHEMA_VERSION}); "
            "update attn-faithful."
        )
    raise InputError(
        f"{path} was written by an older attn-faithful (schema {version}, this one reads {SCHEMA_VERSION}); run the "
        "command that made it again."
    )


@dataclass
class Search:
    """What lies below some folders.

    Attributes:
        runs: the finished runs, in the order of their labels and seeds.
        left_out: path and why, of what looks like a run and cannot be reported.
    """

    runs: list[Run] = field(default_factory=list)
    left_out: list[tuple[Path, str]] = field(default_factory=list)


def find(paths: Iterable[str | Path]) -> Search:
    """The runs at or below some folders, with those that are not finished or of another version named.

    Raises:
        InputError: a path does not exist or nothing below them can be reported; it is said why and what to do.
    """
    search = Search()
    seen: set[Path] = set()
    paths = [Path(given) for given in paths]
    if not paths:
        raise InputError("Expected a run folder or a folder of runs, but none was given.")
    for given in paths:
        if not given.is_dir():
            raise InputError(f"Expected a run folder or a folder of runs, but {given} is not a folder.")
        for folder, finished in _cells(given):
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            if not finished:
                search.left_out.append((folder, "not finished: the command that started it goes on with it"))
                continue
            try:
                if "axes" not in RunFolder(folder).read_meta():  # other programs write a meta.json too
                    continue
                run = Run(folder)
            except InputError as error:
                search.left_out.append((folder, str(error)))
                continue
            if lacking := _lacking(run):
                search.left_out.append((folder, f"lacks {lacking}; remove the folder and run its command again"))
            else:
                search.runs.append(run)
    if not search.runs:
        raise InputError(_nothing(paths, search.left_out))
    search.runs.sort(key=_order)
    for run, told in zip(search.runs, told_apart([run.meta for run in search.runs]), strict=True):
        run.told = told
    return search


def _lacking(run: Run) -> str:
    """The tables that the run's summary speaks of and that are not there."""
    needed = ["predictions"]
    needed += [] if "twin" in run.meta else ["tokens"]  # twins of a stock model: earlier versions wrote none
    needed += ["scores"] if run.records else []
    needed += ["variants"] if run.summary.get("twins") else []
    return ", ".join(f"{name}.parquet" for name in needed if not run.has(name))


_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)")


def _order(run: Run) -> tuple[Any, ...]:
    """By the labels of the axes, the numbers in them as numbers, then by seed."""
    labels = (
        [(not i % 2, 0.0 if i % 2 == 0 else float(part), part) for i, part in enumerate(_NUMBER.split(label))]
        for label in run.axes.values()
    )
    return list(labels), run.seed, str(run.path)


def read_runs(paths: Iterable[str | Path]) -> list[Run]:
    """The finished runs at or below some folders; see `find`."""
    return find(paths).runs


def write_recipe(run: str | Path | RunFolder, recipe: Mapping[str, Any]) -> None:
    """Leave in a run of a recipe what is of the whole recipe: its ``claim`` and what the paper ``expected``."""
    text = json.dumps({name: recipe[name] for name in ("claim", "expected")}, indent=1, ensure_ascii=False) + "\n"
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    folder.place(folder / RECIPE, lambda path: path.write_text(text, encoding="utf-8"))


def read_recipe(run: str | Path) -> dict[str, Any] | None:
    """What `write_recipe` left there; None where it left nothing.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(run) / RECIPE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"claim": str(found["claim"]), "expected": found["expected"]}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); remove it and run the recipe again to make it anew.") from error


def _cells(top: Path) -> Iterable[tuple[Path, bool]]:
    """Folders of runs below ``top``, and whether each is finished; what lies inside one is its own."""
    for folder, names, files in os.walk(top):
        path = Path(folder)
        if META in files:
            yield path, True
            names.clear()
        elif _looks_like_a_run(names, files):
            yield path, False
            names.clear()
        names.sort()


def _looks_like_a_run(folders: Sequence[str], files: Sequence[str]) -> bool:
    begun = any(name.endswith(".parquet") for name in files) or SUMMARY in files
    return begun or any(name == "model" or name.endswith(".checkpoints") for name in folders)


def _nothing(paths: Sequence[Path], left_out: Sequence[tuple[Path, str]]) -> str:
    if left_out:
        path, why = left_out[0]
        more = f" ({len(left_out) - 1} more are like it)" if len(left_out) > 1 else ""
        return f"{why}{more}" if str(path) in why else f"{path}: {why}{more}."
    for path in paths:
        if (path.resolve().parent / META).is_file():
            return f"{path} lies inside a run; give the run folder: {path.resolve().parent}."
    return (
        f"No finished run lies below {', '.join(map(str, paths))}; a run is finished once it has {META}. "
        "attn-faithful ls DIR lists the finished ones."
    )
