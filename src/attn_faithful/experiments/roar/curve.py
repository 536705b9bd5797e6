"""One source of one cell: what its curves consist of, what they cost, and where they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attn_faithful.experiments.grid import Cell
from attn_faithful.experiments.identity import Identity, digest
from attn_faithful.experiments.roar.settings import RoarSettings
from attn_faithful.experiments.run_recipe import cost_of_epoch
from attn_faithful.records.roar import ALL, FOLDER, RANDOM
from attn_faithful.store import RunFolder

_LEAVE_ONE_OUT = 5.0  # epochs that it takes as long as, measured on sentences


@dataclass(frozen=True)
class Curve:
    """The models that are trained on texts masked along one source.

    Attributes:
        cell: whose base gives the first importance.
        settings: of all curves of the cell.
        source: of importance; `RANDOM`, or `ALL` for the one model of texts that are masked altogether.
        run: the folder of the cell.
    """

    cell: Cell
    settings: RoarSettings
    source: str
    run: RunFolder

    @property
    def title(self) -> str:
        return f"{self.cell.title}, ROAR of {self.source}"

    @property
    def shares(self) -> list[float]:
        """Of a text that are masked along the source: all but the whole."""
        return self.settings.shares[:-1]

    @property
    def is_recursive(self) -> bool:
        """Whether it also has a recursive curve: importance of a file or by chance is the same of every model."""
        of_a_model = self.source not in (RANDOM, ALL) and self.source not in self.settings.files
        return self.settings.recursive and of_a_model

    @property
    def trainings(self) -> int:
        """How many models are trained."""
        if self.source == ALL:
            return 1
        if self.is_recursive:
            return 2 * len(self.shares) - 1
        return len(self.shares)

    @property
    def epochs(self) -> float:
        """Epochs of training that would take as long, early stopping apart."""
        importance = 1.0
        if self.source == "integrated_gradients":
            importance = float(self.cell.recipe.evaluation.sources.n_steps)
        elif self.source == "leave_one_out":
            importance = _LEAVE_ONE_OUT
        asked = self.trainings - len(self.shares) + 1 if self.is_recursive else 1
        return self.trainings * self.cell.recipe.train.epochs + asked * importance

    @property
    def cost(self) -> float:
        """How long it takes, in relation to other curves."""
        return self.epochs * cost_of_epoch(self.cell)

    @cached_property
    def folder(self) -> RunFolder:
        """Where its models and points are kept; curves over other shares have others."""
        of_grid = Identity({"shares": self.settings.shares}).digest
        name = self.source
        path = self.settings.files.get(self.source)
        if path is not None:
            name = f"{name}-{digest(Path(path), named=False)[:8]}"
        return RunFolder(self.run / FOLDER / of_grid / name)


def curves_of(cell: Cell, run: RunFolder) -> list[Curve]:
    """The curves of a cell, random masks and the whole masked text first; none where the recipe asks for none.

    Args:
        cell: of a recipe.
        run: its folder.
    """
    settings = cell.recipe.roar
    if settings is None:
        return []
    return [Curve(cell, settings, source, run) for source in (ALL, RANDOM, *settings.sources, *settings.files)]
