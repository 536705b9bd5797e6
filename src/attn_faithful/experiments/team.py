"""The processes that work on one cell: what each does, and how their parts come together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attn_faithful.data.rows import Rows
from attn_faithful.models.inference import Collate, Outputs, run_over


@dataclass(frozen=True)
class Team:
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

    def mine(self, n: int) -> list[int]:
        """The rows, out of n, that this process takes."""
        return list(range(self.rank, n, self.world))

    def run_over(self, model: Any, rows: Rows, collate: Collate) -> Outputs:
        """As `models.inference.run_over`, each process a share of the examples; all get the whole."""
        if self.gather is None:
            return run_over(model, rows, collate)
        parts = self.gather(run_over(model, rows.take(self.mine(len(rows))), collate))
        order = [(rank, place) for rank in range(self.world) for place in range(len(parts[rank]))]
        order.sort(key=lambda at: at[0] + at[1] * self.world)  # back to the rows' order
        return Outputs.of([(parts[rank].probabilities[at], parts[rank].attention[at]) for rank, at in order])


SOLO = Team()
