"""The stages of one cell: train the base, encode, train the twins, evaluate, score. Each resumes where it stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.evaluators import attefa
from attn_faithful.experiments.block_rows import RowBuilder
from attn_faithful.experiments.cell_training import CellTraining, StageProgress
from attn_faithful.experiments.data_facts import data_facts
from attn_faithful.experiments.earlier_runs import take_over
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.prepare import Prepared, collator, prepare
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.quiet import quiet
from attn_faithful.experiments.results import Writer, kept_tables, tidy
from attn_faithful.experiments.run_facts import long_history, run_meta
from attn_faithful.experiments.run_tests import evaluate_rows
from attn_faithful.experiments.scoring import StoredScores
from attn_faithful.experiments.threads import threads_for, weights_of
from attn_faithful.experiments.trained_controls import control_columns
from attn_faithful.experiments.trained_models import TrainedModel
from attn_faithful.experiments.twin_plan import TwinPlan
from attn_faithful.models.architectures import new_model
from attn_faithful.models.inference import Outputs
from attn_faithful.records.meta import CELL_KEYS, RunMeta
from attn_faithful.records.summary import RunSummary
from attn_faithful.records.twins import TwinRecord
from attn_faithful.store import RunFolder, weights
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.numeric_settings import recipe_precision


def run_cell(
    cell: Cell,
    folder: RunFolder,
    on_progress: StageProgress,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> None:
    """Carry out all stages of a cell whose folder is not done; what an earlier run finished is kept.

    Args:
        cell: base, twins and tests.
        folder: of the run.
        on_progress: ``on_progress(stage, epoch, epochs, metrics)`` after every epoch.
        processes: that share the work; the main one writes.
    """
    if processes.of_main(folder.done):
        tidy(folder)
        return
    start = time.time()
    threads = threads_for(weights_of(cell.recipe.model))
    with quiet(), recipe_precision(), threads, processes.writing(folder):
        if processes.of_main(folder.done):  # another process was faster
            return
        take_over(cell, folder)
        data = prepare(cell.recipe, saved_tokenizer(folder / "model"))
        _check_selection(cell, data)
        training = CellTraining(cell, data, folder, on_progress, processes)
        CellRun(cell, data, training, start).run()


@dataclass(frozen=True)
class CellRun:
    """The stages of a cell whose data is prepared.

    Attributes:
        cell: base, twins and tests.
        data: texts, encoded rows, tokenizer and configuration.
        training: its models.
        start: when the run began.
    """

    cell: Cell
    data: Prepared
    training: CellTraining
    start: float

    @property
    def folder(self) -> RunFolder:
        return self.training.folder

    @property
    def processes(self) -> ProcessGroup:
        return self.training.processes

    @property
    def test(self) -> Rows:
        """The encoded texts of the test split."""
        return self.data.rows["test"]

    @property
    def multi_label(self) -> bool:
        return self.data.config.multi_label

    def run(self) -> None:
        """All stages."""
        base = self.training.base()
        outputs = self.training.encode(base.model)
        on_test = outputs["test"]
        controls = self.training.controls(outputs)
        writer = self.writer()
        twins = {}
        for plan in self.cell.twins:
            twin = self.training.twin(plan, base.model, outputs)
            twins[plan.name] = self.compare(plan, twin, on_test, writer)
            controls |= self.training.controls_of(plan, twin.model)
        self.run_tests(base.model, writer)
        writer.close()
        if self.processes.main:
            summary = RunSummary(
                base=self.base_facts(base, on_test),
                informative_mass=_informative_mass(on_test, self.test),
                twins=twins,
                controls={name: control.record for name, control in controls.items()},
            )
            columns = control_columns(controls, self.test.examples)
            if columns["example"]:
                self.folder.write_table("controls", columns)
            self.finish(writer, summary, on_test)
        self.processes.wait("cell")

    def writer(self) -> Writer:
        """Writes the tables of the test split."""
        texts = self.data.texts.splits["test"]
        builder = RowBuilder.of(self.data.tokenizer, texts, self.test)
        depends_on = [weights(self.folder / "model"), self.cell.recipe.evaluation.on_disk()]
        return Writer(self.folder, builder, self.processes, depends_on=depends_on)

    def compare(
        self,
        plan: TwinPlan,
        twin: TrainedModel,
        base: Outputs,
        writer: Writer,
    ) -> TwinRecord:
        """A twin beside the base on the test split; its numbers an example go to the writer."""
        outputs = self.processes.run_over(twin.model, self.test, collator(self.test))
        columns = attefa.run(
            self.test.examples,
            (base.probabilities, base.attention),
            (outputs.probabilities, outputs.attention),
            plan.name,
            multi_label=self.multi_label,
        )
        if self.processes.main:
            writer.extend(attefa.per_example(columns), columns)
        numbers = attefa.score(
            np.asarray(columns["output_tvd"]),
            np.asarray(columns["attention_jsd"]),
            base.probabilities,
            plan.max_tvd,
            self.multi_label,
        )
        return plan.record(twin.record, self._classified(outputs), numbers)

    def run_tests(self, base: Any, writer: Writer) -> None:
        """The tests of the base on the test split."""
        data = self.data
        evaluated = EvaluatedModel.of(base, data.tokenizer, collator(self.test), data.texts.label_names)

        def on_progress(done: int, n: int) -> None:
            self.training.on_progress("tests", done, n, {})

        evaluate_rows(evaluated, self.test, self.cell.recipe.evaluation, writer, on_progress=on_progress)

    def base_facts(self, base: TrainedModel, outputs: Outputs) -> dict[str, Any]:
        """How well the base predicts, and how it was trained."""
        facts: dict[str, Any] = dict(self._classified(outputs))
        return {**facts, "epoch": base.record.epoch, "seconds": base.record.seconds}

    def _classified(self, outputs: Outputs) -> dict[str, float]:
        labels = np.asarray(self.test.labels)
        return classification_metrics(outputs.probabilities, labels, self.multi_label)

    def finish(self, writer: Writer, summary: RunSummary, base: Outputs) -> None:
        """Sum up the scores, and write history, summary.json and meta.json."""
        scores = StoredScores(
            self.folder,
            self.test.examples,
            base.probabilities,
            self.data.texts.label_names,
            self.multi_label,
        )
        with kept_tables(self.folder):
            summary = scores.added_to(summary)
        self.folder.write_table("history", long_history(self.training.histories))
        self.folder.write_summary(summary.as_json())
        self.folder.write_meta(self.meta(writer).as_json(CELL_KEYS))
        writer.finish()

    def meta(self, writer: Writer) -> RunMeta:
        """How the numbers of the cell came about."""
        data = self.data
        return run_meta(
            self.start,
            self.processes,
            torch.device("cpu"),  # where a model is that was trained and read again
            axes=self.cell.axes,
            seed=self.cell.seed,
            recipe=self.cell.recipe.on_disk(),
            label_names=data.texts.label_names,
            data=data_facts(data.texts, data.rows, data.tokenizer, vector_coverage=data.coverage),
            parameters=sum(p.numel() for p in new_model(data.config).parameters()),
            failed=writer.failed,
            source_seconds=writer.source_seconds,
            test_settings=self.cell.recipe.evaluation.in_full(),
        )


def saved_tokenizer(path: Path) -> Any:
    """The tokenizer of a model that was trained earlier; None where there is none."""
    from transformers import AutoTokenizer

    if not path.is_dir():
        return None
    return AutoTokenizer.from_pretrained(path)


def _check_selection(cell: Cell, data: Prepared) -> None:
    for part, settings in (("train", cell.recipe.train), ("twin", cell.recipe.twin)):
        if settings is not None and not len(data.rows[settings.select_on]):
            raise InputError(f"{part}.select_on: the split {settings.select_on!r} of {data.texts.name} is empty.")


def _informative_mass(outputs: Outputs, rows: Rows) -> float | None:
    """Mean attention on planted words; None where nothing is known to be planted."""
    if "informative" not in rows.column_names:
        return None
    masses = []
    for attention, informative in zip(outputs.attention, rows["informative"], strict=True):
        if len(attention) == len(informative) > 0:
            masses.append(float(attention @ np.asarray(informative, dtype=float)))
    return float(np.mean(masses)) if masses else None
