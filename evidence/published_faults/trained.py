"""Trained models in their run folders, and what the package's tests say of them on the test split of their data."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.data.settings import DataSettings
from attn_faithful.evaluators.base import Block
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import Task, make_task
from attn_faithful.experiments.inputs import DataInput, ModelInput, encoded_for
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.run_evaluation import evaluate_task
from attn_faithful.experiments.strict_settings import build
from attn_faithful.loading import load
from attn_faithful.models.inference import encode_block, planned
from attn_faithful.reports.result import Result

Array = NDArray[np.float64]
TEST = "test"


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        path: its folder, in a run folder that says what it was trained on.
        data_dir: where the folders of data lie.
        limit: at most this many test texts; None for all.
    """

    path: Path
    data_dir: Path
    limit: int | None = None

    @cached_property
    def meta(self) -> Mapping[str, Any]:
        """How it was trained."""
        path = self.path.parent / "meta.json"
        if not path.is_file():
            raise InputError(f"Expected a model in a run folder, but there is no {path}; give RUN/model.")
        meta: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return meta

    @property
    def seed(self) -> int:
        return int(self.meta["seed"])

    @property
    def data(self) -> str:
        """What tables call its data."""
        return str(self.meta["axes"]["data"])

    @property
    def name(self) -> str:
        """What tables call it: the labels of its axes without the data's."""
        return " ".join(label for axis, label in self.meta["axes"].items() if axis != "data")

    @property
    def short_path(self) -> str:
        """Its folder below that of the runs."""
        return f"{self.path.parent.name}/{self.path.name}"

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return load(self.path)

    @property
    def model(self) -> Any:
        return self._loaded[0]

    @cached_property
    def data_settings(self) -> DataSettings:
        """Its data, read from below `data_dir`."""
        known = {field.name for field in fields(DataSettings)}
        trained_on = {name: value for name, value in self.meta["recipe"]["data"].items() if name in known}
        settings: DataSettings = build(DataSettings, trained_on, f"{self.path}: data")
        folder = self.data_dir / (settings.folder or Path(settings.source).name)
        if not folder.is_dir():
            raise InputError(
                f"Expected the data of {self.path} in {folder}, but there is no such folder; see --data-dir."
            )
        limit = settings.limit if self.limit is None else {TEST: self.limit}
        return replace(settings, source=str(folder), folder=None, local=None, name=self.data, limit=limit)

    def task(self, tests: Mapping[str, Mapping[str, Any]] | None = None) -> Task:
        """The evaluation of some tests with their settings on the test texts, without controls."""
        model, tokenizer = self._loaded
        chosen = dict(tests or {"permutation": {}})
        evaluation = {"tests": list(chosen), "test_settings": chosen, "controls": []}
        settings = build(EvaluationSettings, evaluation, "published faults")
        return make_task(ModelInput(model, tokenizer, self.name), DataInput(self.data_settings, split=TEST), settings)

    def scores(self, tests: Mapping[str, Mapping[str, Any]]) -> Any:
        """A data frame of what tests say of each text, indexed by text: columns "metric source" and "items"."""
        with tempfile.TemporaryDirectory() as output:
            result = Result(evaluate_task(self.task(tests), output).path)
            frame = result.examples.set_index("example")
            items = result.tokens.groupby("example")["tokens"].first().map(len)
            frame["items"] = items.reindex(frame.index)
        return frame

    def by_text(self, measure: Callable[[Block], Mapping[str, Tensor]]) -> dict[str, Array]:
        """Values (B,) that are measured block by block, as values (n,) in the order of the test texts."""
        found: dict[str, Array] = {}
        n = len(self._rows)
        for block, copies in self._blocks():
            for name, values in measure(block).items():
                column = found.setdefault(name, np.full(n, np.nan))
                for places, value in zip(copies, values.tolist(), strict=True):
                    column[places] = value
        return found

    @cached_property
    def _rows(self) -> Rows:
        task = self.task()
        return Rows.of(encoded_for(task.model, task.tokenizer, task.texts.splits[TEST]))

    def _blocks(self) -> Iterator[tuple[Block, Sequence[Sequence[int]]]]:
        """The texts at the attention nearest to the output, and of each text of a block its places in the data."""
        model, rows = self.model, self._rows
        site = model.sites[-1]
        collate = collator(rows, (), model.pad_token_id)
        for planned_block in planned(model, rows):
            _, encoded = encode_block(model, rows, collate, planned_block, site)
            yield Block(planned_block.keys, planned_block.keys, 0, site, encoded), planned_block.copies


def aligned(frames: Sequence[Any]) -> list[Any]:
    """Data frames by text, in the order of the first: the same texts in all.

    Raises:
        InputError: they are of other texts.
    """
    index = frames[0].index
    for frame in frames:
        if set(frame.index) != set(index):
            raise InputError("Expected models that were tested on the same texts; give those of one data set.")
    return [frame.reindex(index) for frame in frames]
