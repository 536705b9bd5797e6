"""The processes that work on one cell: what each does, and how their parts come together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
        return self.rank == 0

    @contextmanager
    def writing(self, folder: RunFolder) -> Iterator[None]:
        """The run folder is this team's alone inside: the main process holds its lock.

        Raises:
            InputError: another process is writing there; in every process of the team.
        """
        with ExitStack() as held:
            refused = None
            if self.main:
                try:
                    held.enter_context(folder.writing())
                except InputError as error:
                    refused = str(error)
            for said in self.all_gather([refused]):
                if said is not None:
                    raise InputError(said)
            yield

    def all_gather(self, found: list[Any]) -> list[Any]:
        """What all processes found, one list."""
        return found if self.gather is None else [entry for part in self.gather(found) for entry in part]

    def run_over(self, model: Any, rows: Rows, collate: Collate) -> Outputs:
        """As `models.inference.run_over`, each process a share of the examples; all get the whole."""
        found = self.all_gather(run_share(model, rows, collate, self.rank, self.world))
        return Outputs.of(found, model.config.num_labels)


SINGLE_PROCESS = ProcessGroup()
