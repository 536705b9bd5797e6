"""What ROAR masks: the part ``roar`` of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attn_faithful._checks import InputError, check_choice
from attn_faithful.attributions.base import SOURCES
from attn_faithful.experiments.recipe_file import check_folder_name
from attn_faithful.functional.roar import check_shares
from attn_faithful.records.roar import ALL, RANDOM

ATTENTION = "attention"


@dataclass(frozen=True)
class RoarSettings:
    """Which sources are judged, and at which shares of a text.

    Attributes:
        sources: of importance of each cell's base; random masks, the baseline, are always there.
        files: further sources by name: files with importance of all texts of all splits, see
            `data.importance_file.read_importance`.
        shares: of each text's tokens that are masked, each rounded up; the last one is 1.
        recursive: also take importance from the model trained at the share before; files say the same of every model,
            and have no such curve.
    """

    sources: list[str] = field(
        default_factory=lambda: [ATTENTION, "input_x_gradient", "integrated_gradients", "leave_one_out"]
    )
    files: dict[str, str] = field(default_factory=dict)
    shares: list[float] = field(default_factory=lambda: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    recursive: bool = True

    def __post_init__(self) -> None:
        for source in self.sources:
            if source != ATTENTION:
                check_choice("source", source, SOURCES)
        named = [*self.sources, *self.files]
        for name in named:
            if named.count(name) > 1:
                raise InputError(f"Expected each source once, but {name!r} stands twice; call a file something else.")
        for name in (RANDOM, ALL):
            if name in named:
                raise InputError(f"Expected sources beside {name!r}, which is always there; leave it out.")
        for name, path in self.files.items():
            check_folder_name("files", name)
            if not Path(path).is_file():
                raise InputError(f"Expected a file with importance as files: {name}, but there is no {path}.")
        check_shares(self.shares)
