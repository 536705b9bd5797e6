"""Runs tests on a model and a data set, block by block, and writes what each block gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from attn_faithful.data.rows import Rows
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.reference_texts import fit_reference
from attn_faithful.experiments.results import Writer
from attn_faithful.experiments.run_block import Tester
from attn_faithful.experiments.undefined_texts import BlockGuard
from attn_faithful.models.inference import planned

ExampleProgress = Callable[[int, int], None]  # examples that are done, all examples


@torch.inference_mode(False)  # tests and sources take gradients, whatever mode the caller is in
def evaluate_rows(
    evaluated: EvaluatedModel,
    rows: Rows,
    settings: EvaluationSettings,
    writer: Writer,
    file_importance: Sequence[Sequence[float]] | None = None,
    on_progress: ExampleProgress = lambda done, n: None,
) -> None:
    """Run the tests over a data set; without tests, only the model's outputs are written.

    Blocks that an earlier run finished are not run again. A text that raises anything but an `InputError` is undefined,
    with what it raised as the reason, and the others go on.

    Args:
        evaluated: the model.
        rows: encoded examples.
        settings: which tests, and how.
        writer: takes what each block gives; its processes share the blocks.
        file_importance: importance computed elsewhere, one list an example over its content tokens; the source "given".
        on_progress: ``on_progress(done, n)`` after every test of a block, in examples of this process.

    Raises:
        InputError: what is wrong with the settings; finished blocks are kept, as they are whatever ends the run.
    """
    processes, builder = writer.processes, writer.builder
    if settings.asks_distribution:
        evaluated = replace(evaluated, reference=fit_reference(evaluated, rows, settings.seed, processes))
    tester = Tester(evaluated, rows, settings, file_importance)
    tester.check()
    blocks = writer.begin(planned(evaluated.model, rows))
    resumed = writer.resumed // processes.world
    remaining = sum(len(block.places) for block in blocks)
    report = on_progress if tester.sites else _silent
    progress = BlockProgress(report, n=resumed + remaining, steps=tester.steps, done=resumed)
    guard = BlockGuard(
        measure=lambda block: builder.tables(tester.measure(block, progress.step)),
        outputs=lambda block: builder.tables(tester.outputs(block)),
        examples=rows.examples,
        measured=writer.resumed,
    )
    try:
        for block in blocks:
            progress.begin(len(block.places))
            tables, failed = guard(block)
            writer.add(block, tables, failed)
            progress.end()
        writer.source_seconds = tester.times.gathered(processes).a_text()
        measured = sum(processes.all_gather([guard.measured]))
        if not measured and guard.errors:
            raise guard.errors[0]
    except BaseException as error:
        writer.stopped(error)
        raise


def _silent(done: int, n: int) -> None:
    """Report nothing."""


@dataclass
class BlockProgress:
    """Reports how many examples are done: those of a block count in proportion to its steps.

    Attributes:
        on_progress: ``on_progress(done, n)``.
        n: examples in all.
        steps: of a block: at each site its sources, and every test.
        done: examples of the blocks that are complete.
        in_block: examples of the block under way.
        step_number: steps of that block that are done.
    """

    on_progress: ExampleProgress
    n: int
    steps: int
    done: int = 0
    in_block: int = 0
    step_number: int = 0

    def begin(self, examples: int) -> None:
        """A block of so many examples begins."""
        self.in_block = examples
        self.step_number = 0
        self._report(self.done)

    def step(self) -> None:
        """A step of the block is done; the last one is reported with the block."""
        self.step_number += 1
        if self.step_number < self.steps:
            self._report(self.done + self.in_block * self.step_number // self.steps)

    def end(self) -> None:
        """The block is complete."""
        self.done += self.in_block
        self._report(self.done)

    def _report(self, done: int) -> None:
        self.on_progress(min(done, self.n), self.n)
