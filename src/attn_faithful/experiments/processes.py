"""The processes that work on one cell: what each does, and how their parts come together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.models.inference import Collate, Outputs, run_share
from attn_faithful.store import RunFolder


@dataclass(frozen=True)
class ProcessGroup:
    """Which of how many processes this is.

    Attributes:
        rank, world: this process, and how many there are.
        wait: ``wait(name)`` returns when all processes have called it.
        gather: ``gather(value) -> one value a process``; None where the processes work apart.
    """

    rank: int = 0
    world: int = 1
    wait: Callable[[str], None] = lambda name: None
    gather: Callable[[Any], list[Any]] | None = None

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and shows."""
        return self.rank == 0

    @property
    def together(self) -> bool:
        """Whether all processes work on each cell, and not each on its own cells."""
        return self.gather is not None

    @contextmanager
    def writing(self, folder: RunFolder) -> Iterator[None]:
        """Inside, the run folder is this group's alone: the main process holds its lock.

        Raises:
            InputError: another process is writing there; in every process of the group.
        """
        with ExitStack() as locks:
            refusal = None
            if self.main:
                try:
                    locks.enter_context(folder.writing())
                except InputError as error:
                    refusal = str(error)
            for message in self.all_gather([refusal]):
                if message is not None:
                    raise InputError(message)
            yield

    def all_gather(self, values: list[Any]) -> list[Any]:
        """The values of all processes, one list."""
        if self.gather is None:
            return values
        return list(chain.from_iterable(self.gather(values)))

    def run_over(self, model: Any, rows: Rows, collate: Collate) -> Outputs:
        """As `models.inference.run_over`, each process a share of the examples; all get the outputs of all."""
        outputs = self.all_gather(run_share(model, rows, collate, self.rank, self.world))
        return Outputs.of(outputs, model.config.num_labels)


SINGLE_PROCESS = ProcessGroup()
