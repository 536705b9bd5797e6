"""How far bases of different seeds lie apart: the yardstick of Wiegreffe and Pinter (2019), section 3.3."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attn_faithful.reports.aggregate import aggregate
from attn_faithful.reports.run import Run
from evidence.cells import SUMMARIES

FILE = SUMMARIES / "base_pairs.json"


@dataclass(frozen=True)
class PairsOfBases:
    """The pairs of the bases of cells that differ in nothing but their seed.

    Attributes:
        paper: name of the recipe.
        axes: axis -> label.
        seeds: of the bases.
        tvd: mean over texts of the distance of the predictions, both classes, of each pair.
        jsd: mean over texts of the divergence of the attention, in nats, of each pair.
    """

    paper: str
    axes: Mapping[str, str]
    seeds: Sequence[int]
    tvd: Sequence[float]
    jsd: Sequence[float]


def pairs_of(folders: Sequence[Path]) -> Iterator[PairsOfBases]:
    """The pairs of all run folders of recipes; nothing of cells with one seed."""
    by_cell: dict[tuple[str, ...], list[Run]] = {}
    for folder in folders:
        run = Run(folder)
        limit = str(run.recipe["data"]["limit"])
        by_cell.setdefault((run.recipe["name"], limit, *run.info.axes.values()), []).append(run)
    for (paper, *_), runs in by_cell.items():
        for group in aggregate(runs):
            if group.base_pairs is None or not group.base_pairs.pairs:
                continue
            tvd = [round(tvd, 6) for tvd, _ in group.base_pairs.pairs]
            jsd = [round(jsd, 6) for _, jsd in group.base_pairs.pairs]
            yield PairsOfBases(paper, runs[0].info.axes, sorted(run.seed for run in runs), tvd, jsd)


def write_pairs(found: Sequence[PairsOfBases], path: Path = FILE) -> None:
    """Write pairs; those of other cells that the file holds stay."""
    by_place = {_place(pairs): pairs for pairs in [*read_pairs(path), *found]}
    entries = [asdict(by_place[place]) for place in sorted(by_place)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_pairs(path: Path = FILE) -> list[PairsOfBases]:
    """All pairs that were collected."""
    if not path.exists():
        return []
    return [PairsOfBases(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _place(pairs: PairsOfBases) -> tuple[str, ...]:
    return (pairs.paper, *pairs.axes.values())
