"""A finished run folder as everything that shows it reads it: tables read once, and only where they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.records.learned_heads import LearnedHeads
from attn_faithful.records.meta import RunMeta
from attn_faithful.records.roar import ROAR_FILES, RoarPoint
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.records.summary import RunSummary
from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.score_columns import COLUMNS, ScoreColumns
from attn_faithful.schema import SCHEMA_VERSION
from attn_faithful.store import RunFolder

ATTENTION = "attention"


class Run:
    """The one view of a finished run folder; tables, figures, pages and cards read it through this.

    Args:
        path: of the folder.

    Attributes:
        folder: the run folder itself.
        meta: meta.json as it is on disk.
        info: meta.json as a record: how the numbers came about.
        summary: summary.json as a record: every number over the whole split.
        axes: what tells this run from others beside its seed: data, encoder or model, ... -> label. Among others with
            the same labels that `run_search.find` found, further ones too; see `run_differences.told_apart`.

    Raises:
        InputError: no finished run, a damaged file, or a folder of another version; the text says what to do.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder(path)
        self.meta: dict[str, Any] = self.folder.read_meta()
        _check_version(self.path, self.meta)
        self.info = RunMeta.from_json(self.meta)
        self.summary = RunSummary.from_json(self.folder.read_summary())
        self.axes: dict[str, str] = dict(self.info.axes)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    # what the run is

    @property
    def source_seconds(self) -> dict[str, float]:
        """Seconds a text of each source that was timed, beside the forward that predicts, which gives attention."""
        seconds = self.info.source_seconds
        return {ATTENTION: 0.0, **seconds} if seconds else {}

    @property
    def path(self) -> Path:
        """Of the folder."""
        return self.folder.path

    @property
    def name(self) -> str:
        """The folder's name: one a run below a common folder."""
        return self.path.resolve().name

    @property
    def seed(self) -> int:
        return int(self.info.seed)

    @property
    def title(self) -> str:
        """The labels of the axes in a row, as tables and figures call the run."""
        return " ".join(self.axes.values())

    @property
    def label_names(self) -> list[str]:
        return self.info.label_names

    @property
    def split(self) -> str:
        """The split that was tested."""
        return self.info.split or "test"

    @property
    def recipe(self) -> Mapping[str, Any]:
        """The recipe that the run is a cell of; empty for runs of no recipe."""
        return self.info.recipe or {}

    @property
    def evaluation(self) -> Mapping[str, Any]:
        """How the model was tested; empty where it was not."""
        return self.info.evaluation or self.recipe.get("evaluation") or {}

    @cached_property
    def learned_heads(self) -> LearnedHeads | None:
        """The weights of heads that the run fitted; None where it fitted none."""
        stored = self.folder.read_learned_heads()
        return None if stored is None else LearnedHeads.from_json(stored)

    @cached_property
    def roar(self) -> dict[str, list[RoarPoint]]:
        """The models of ROAR that are trained: name of a grid of shares -> its points; empty without any.

        A source that stands for files of different content has the names of their folders.
        """
        grids: dict[str, list[RoarPoint]] = {}
        folders: dict[tuple[str, str], set[str]] = {}  # grid, source -> the folders of its points
        for name in self.folder.files(ROAR_FILES):
            _, grid, folder, _ = name.split("/")
            point = RoarPoint.from_json({**self.folder.read_json(name), "folder": folder})
            grids.setdefault(grid, []).append(point)
            folders.setdefault((grid, point.source), set()).add(folder)
        for grid, points in grids.items():
            for place, point in enumerate(points):
                if len(folders[grid, point.source]) > 1:
                    points[place] = replace(point, source=point.folder)
        return grids

    @property
    def multi_label(self) -> bool:
        """Whether a text has several labels, by the recipe; False in runs of no recipe."""
        return bool(self.recipe.get("data", {}).get("multi_label", False))

    # records over the whole split

    @property
    def records(self) -> Sequence[ScoreRecord]:
        """One a number of a test and group of texts."""
        return self.summary.tests

    @property
    def metrics(self) -> Mapping[str, MetricFacts]:
        """What the metrics of the records are."""
        return self.summary.metrics

    @property
    def twins(self) -> Mapping[str, TwinRecord]:
        """The twins that have an AtteFa, by variant and seed."""
        return {name: twin for name, twin in self.summary.twins.items() if "attefa" in twin.numbers}

    # sites: where in the model attention was tested

    @property
    def sites(self) -> list[str]:
        """The sites that were tested, in the order of the records."""
        return list(dict.fromkeys(record.site for record in self.records))

    @property
    def shown_sites(self) -> list[str | None]:
        """The sites that were tested, nearest to the output last; without tests those that were stored; else [None].

        Where nothing but twins of a stock model was tested, the last is the one that AtteFa is of: all layers at once.
        """
        sites: list[str | None] = list(self.sites)
        if sites and self.info.twin is not None:
            sites.sort(key=lambda site: bool(self.sources("tvd", site)))
        if not sites and self.has("tokens"):
            stored = self.read("tokens", ["site"]).column("site").to_pylist()
            sites = list(map(str, dict.fromkeys(stored)))
        return sites or [None]

    @property
    def main_site(self) -> str | None:
        """The site nearest to the output that was tested; None where nothing was."""
        return self.shown_sites[-1]

    def noun(self, site: str | None) -> str:
        """What an item of a site is: "word", "token" or "sentence"."""
        if site == "sentence":
            return "sentence"
        if self.evaluation.get("units") == "token":
            return "token"
        return "word"

    def first_source(self, site: str | None) -> str | None:
        """The importance that attention is compared with first at a site, a gradient where there is one."""
        compared = []
        for pair in self.sources("attention_correlation", site):
            names = pair.split("~")
            if names[0] == ATTENTION:
                compared.append(names[1])
        gradients = [name for name in compared if "gradient" in name or "saliency" in name]
        return next(iter(gradients or compared), None)

    # tables

    def has(self, name: str) -> bool:
        """Whether the run has this table."""
        return self.folder.has_table(name)

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """A table as pyarrow's; those of ``columns`` that it lacks are left out.

        Raises:
            InputError: the table is missing or damaged.
        """
        if columns is not None and self.has(name):
            stored = self.folder.columns_of(name)
            columns = [column for column in columns if column in stored]
        return self.folder.read_table(name, columns)

    # texts

    @cached_property
    def ids(self) -> list[str]:
        """Of the texts, in the order of the data."""
        return [str(example) for example in self._predictions.column("example").to_pylist()]

    @cached_property
    def probabilities(self) -> np.ndarray:
        """(B, C)."""
        rows = self._predictions.column("probabilities").to_pylist()
        if not rows:
            return np.zeros((0, len(self.label_names)))
        return np.asarray(rows, dtype=float)

    @cached_property
    def predicted(self) -> np.ndarray:
        """Index of each text's predicted class (B,); -1 for one that the model could not read."""
        if not len(self.probabilities):
            return np.zeros(0, dtype=int)
        unread = np.isnan(self.probabilities).any(1)
        return np.where(unread, -1, self.probabilities.argmax(1))

    @cached_property
    def labels(self) -> list[Any]:
        """Gold class of each text: an index, -1 where unknown, a list of 0 and 1 for multi-label data."""
        return list(self._predictions.column("label").to_pylist())

    @cached_property
    def _predictions(self) -> Any:
        return self.read("predictions", ["example", "label", "probabilities"])

    # scores

    def sources(self, metric: str, site: str | None = None) -> list[str]:
        """The sources that a metric was computed for, in the order of the file."""
        if not self._scores.rows:
            return []
        return self._scores.sources(metric, self._site(site))

    def scores(self, metric: str, source: str = ATTENTION, site: str | None = None) -> Any:
        """A metric of every text as a pandas Series by example, in the order of the data; slots averaged.

        Args:
            metric: name from the metric table.
            source: as in the table "scores".
            site: where in the model; None for the first that was tested.

        Returns:
            float64, NaN where undefined; all NaN where the run has no such score.
        """
        import pandas as pd

        values = self._scores.values((self._site(site), source, metric))
        return pd.Series(values, index=pd.Index(self.ids, name="example"), name=metric)

    def scores_by_label(self, metric: str, source: str = ATTENTION, site: str | None = None) -> np.ndarray | None:
        """A metric of every label and text (L, B), NaN where undefined; None where labels were not asked by
        themselves."""
        return self._scores.by_label((self._site(site), source, metric))

    def scores_by_slot(self, metric: str, source: str = ATTENTION, site: str | None = None) -> np.ndarray:
        """A metric of every text and slot (B, S), NaN where undefined; S is 1 for a metric of all slots together."""
        return self._scores.by_slot((self._site(site), source, metric))

    def reasons(self, metric: str, source: str = ATTENTION, site: str | None = None) -> list[str | None]:
        """Why the values of `scores` are undefined, an entry a text; None where defined."""
        return self._scores.reasons((self._site(site), source, metric))

    def _site(self, site: str | None) -> Any:
        if site is None:
            return self._scores.first_site
        return site

    @cached_property
    def _scores(self) -> ScoreColumns:
        table = self.read("scores", COLUMNS) if self.has("scores") else None
        return ScoreColumns(table, self.ids)


def _check_version(path: Path, meta: Mapping[str, Any]) -> None:
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
