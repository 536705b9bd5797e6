"""What the test `randomisation` found: how alike each importance stays, part by part of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attn_faithful.records.scores import ALL, ScoreRecord

TEST = "randomisation"
TAU, OF_DRAW = "randomisation_tau", "randomisation_draw"
BY_STEP = {"cascading": "randomisation_cascading", "single": "randomisation_single"}
MODES = {"cascading": "all parts from the output down", "single": "one part alone"}
IGNORES = "ignores the model"


@dataclass(frozen=True)
class Curve:
    """An importance against itself, over all texts.

    Attributes:
        source: of importance.
        by_step: the part that is drawn anew, or down to which all are -> tau; from the output down.
    """

    source: str
    by_step: Mapping[str, ScoreRecord]


def curves(records: Iterable[ScoreRecord], site: str | None, mode: str) -> list[Curve]:
    """One curve a source of a site, in the order in which the sources were named."""
    by_source: dict[str, dict[str, ScoreRecord]] = {}
    for record in _of(records, site, BY_STEP[mode]):
        source, _, step = record.source.partition("@")
        by_source.setdefault(source, {})[step] = record
    return [Curve(source, by_step) for source, by_step in by_source.items()]


def draws(records: Iterable[ScoreRecord], site: str | None) -> dict[str, list[float]]:
    """Source -> mean tau over texts of each draw of all weights."""
    means: dict[str, list[float]] = {}
    for record in _of(records, site, OF_DRAW):
        source, _, _ = record.source.partition("@")
        means.setdefault(source, []).append(record.mean)
    return means


def ignoring(records: Sequence[ScoreRecord], site: str | None) -> list[str]:
    """The sources that say nothing of the model: tau is 1 in every text, whichever weights are drawn anew."""
    steady: dict[str, bool] = {}
    for metric in (TAU, *BY_STEP.values()):
        for record in _of(records, site, metric):
            source, _, _ = record.source.partition("@")
            # no mean of taus is 1 unless all of them are
            is_steady = record.n == 0 or record.mean == 1
            steady[source] = steady.get(source, True) and is_steady
    defined = {record.source for record in _of(records, site, TAU) if record.n}
    return [source for source, is_steady in steady.items() if is_steady and source in defined]


def _of(records: Iterable[ScoreRecord], site: str | None, metric: str) -> Iterator[ScoreRecord]:
    for record in records:
        if record.metric == metric and record.site == site and record.group == ALL:
            yield record


def sites(records: Iterable[ScoreRecord]) -> list[str]:
    """Where in the model the test ran."""
    return list(dict.fromkeys(record.site for record in records if record.metric == TAU))
