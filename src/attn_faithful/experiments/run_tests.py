"""Runs tests on a model and a data set: encodes each block once, asks every source and test that was named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.experiments.results import Writer, empty
from attn_faithful.experiments.run_block import EvaluatedModel, Tester, token_ids
from attn_faithful.experiments.undefined_texts import Guard
from attn_faithful.models.inference import planned

__all__ = ["EvaluatedModel", "evaluate_rows", "token_ids"]


@torch.inference_mode(False)  # tests and sources take gradients, whatever mode the caller is in
def evaluate_rows(
    subject: EvaluatedModel,
    rows: Any,
    settings: EvaluationSettings,
    writer: Writer,
    given: Sequence[Sequence[float]] | None = None,
    processes: ProcessGroup = SINGLE_PROCESS,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Run the tests over a data set; without tests, only what the model does is written.

    Blocks that an earlier run finished are not run again. A text that raises anything but an `InputError` is undefined,
    with what it raised as the reason, and the others go on.

    Args:
        subject: what is tested.
        rows: encoded examples.
        settings: which tests, and how.
        writer: takes what each block gives.
        given: importance computed elsewhere, one list an example over its content tokens; the source "given".
        team: the processes that share the blocks.
        tell: ``tell(done, of)`` after every test of a block, in examples of this process.

    Raises:
        InputError: what is wrong with the settings; finished blocks are kept, as they are whatever ends the run.
    """
    tester = Tester(subject, rows, settings, given)
    tester.check()
    blocks = writer.begin(planned(subject.model, rows))
    before = writer.kept // processes.world
    pace = BlockProgress(
        on_progress if tester.sites else _silent,
        before + sum(len(block.places) for block in blocks),
        tester.steps,
        before,
    )
    guard = Guard(
        measure=lambda block: writer.shaped(tester.measure(block, pace.step)),
        outputs=lambda block: writer.shaped(tester.outputs(block)),
        empty=empty,
        names=rows["example"],
        measured=writer.kept,
    )
    try:
        for block in blocks:
            pace.begin(len(block.places))
            writer.take(block, *guard(block))
            pace.end()
        if not sum(processes.all_gather([guard.measured])) and guard.errors:
            raise guard.errors[0]
    except BaseException as error:
        writer.stopped(error)
        raise


def _silent(done: int, of: int) -> None:
    """Tell nothing."""


@dataclass
class BlockProgress:
    """Tells how far the work is, in examples: those of a block count in step with its parts.

    Attributes:
        tell: ``tell(done, of)``.
        of: examples in all.
        parts: of a block: at each site its sources, and every test.
        done: examples of the blocks that are complete.
    """

    on_progress: Callable[[int, int], None]
    of: int
    parts: int
    done: int = 0
    block: int = 0
    part: int = 0

    def begin(self, examples: int) -> None:
        """A block of so many examples begins."""
        self.block, self.part = examples, 0
        self.on_progress(min(self.done, self.of), self.of)

    def step(self) -> None:
        """A part of the block is done."""
        self.part += 1
        if self.part < self.parts:  # the last part is told with the block
            self.on_progress(min(self.done + self.block * self.part // self.parts, self.of), self.of)

    def end(self) -> None:
        """The block is complete."""
        self.done += self.block
        self.on_progress(min(self.done, self.of), self.of)
