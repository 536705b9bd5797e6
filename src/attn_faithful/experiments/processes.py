"""The processes that work on one cell: what each does, and how their parts come together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import Collate, Outputs, run_share
from attn_faithful.store import LOCK, RunFolder

Found = TypeVar("Found")

SEEN = 60.0  # seconds after which a file of another machine shows in a shared folder: those that NFS keeps a listing


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
            InputError: another process is writing there, or this group's processes do not share the folder; in every
                process of the group.
        """
        with ExitStack() as locks:
            refusal = None
            if self.main:
                try:
                    locks.enter_context(folder.writing())
                except InputError as error:
                    refusal = str(error)
            self.raise_any(refusal)
            self.raise_any(None if appears(folder / LOCK) else self._not_shared(folder))
            yield

    def raise_any(self, refusal: str | None) -> None:
        """Raise the first refusal of any process, in all of them."""
        for message in self.all_gather([refusal]):
            if message is not None:
                raise InputError(message)

    def of_main(self, value: Any) -> Any:
        """A value as the main process, which comes first, has it."""
        return self.all_gather([value])[0]

    def _not_shared(self, folder: RunFolder) -> str:
        return (
            f"The process {self.rank} of {self.world} does not see the run folder of the main process, "
            f"{folder.path.absolute()}; give all machines one --output in a folder that they share."
        )

    def all_gather(self, values: list[Any]) -> list[Any]:
        """The values of all processes, one list."""
        if self.gather is None:
            return values
        return list(chain.from_iterable(self.gather(values)))

    def over_blocks(self, blocks: Sequence[Block], found: Callable[[Block], list[Found]]) -> list[Found]:
        """What blocks give, each process a share of them; all get that of all.

        Args:
            blocks: of `models.inference.planned`.
            found: ``found(block)`` is what one gives.
        """
        own: list[Found] = []
        for block in blocks[self.rank :: self.world]:
            own += found(block)
        return self.all_gather(own)

    def run_over(self, model: Any, rows: Rows, collate: Collate) -> Outputs:
        """As `models.inference.run_over`, each process a share of the examples; all get the outputs of all."""
        outputs = self.all_gather(run_share(model, rows, collate, self.rank, self.world))
        return Outputs.of(outputs, model.config.num_labels)


def appears(path: Path) -> bool:
    """Whether a file that another process has written is there, or shows within `SEEN` seconds."""
    end = time.monotonic() + SEEN
    while not path.exists():
        if time.monotonic() >= end:
            return False
        time.sleep(0.1)
    return True


SINGLE_PROCESS = ProcessGroup()
