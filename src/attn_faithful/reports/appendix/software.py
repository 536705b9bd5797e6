"""The section of an appendix about software, hardware and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful.reports.appendix.document import Line, Name, Paragraph, Section
from attn_faithful.reports.appendix.shared import by_value
from attn_faithful.reports.run import Run


def software_and_seeds(runs: Sequence[Run]) -> Section:
    """Versions, hardware, seeds and time of the runs."""
    blocks = []
    for title, read in (("Versions", _versions), ("Hardware", _hardware), ("Seeds", _seeds)):
        for value, whose in by_value(runs, read):
            line: Line = (f"{title}: ", Name(value), ".")
            if whose:
                line = (f"{title} (", Name(whose), "): ", Name(value), ".")
            blocks.append(Paragraph(line))
    seconds = [run.info.seconds for run in runs if run.info.seconds is not None]
    if seconds:
        blocks.append(Paragraph((f"Time: {sum(seconds):,.0f} s in all, of {len(seconds)} of {len(runs)} runs.",)))
    return Section("Software, hardware and seeds", tuple(blocks))


def _versions(run: Run) -> str:
    return _row(run.info.versions)


def _hardware(run: Run) -> str:
    hardware = dict(run.info.hardware)
    parts = [str(hardware.pop("device", "")), str(hardware.pop("machine", ""))]
    for name in ("threads", "processes"):
        if name in hardware:
            parts.append(f"{name} {hardware[name]}")
    return ", ".join(filter(None, parts))


def _seeds(run: Run) -> str:
    parts = [f"run {run.seed}"]
    data_seed = (run.recipe.get("data") or {}).get("seed")
    if data_seed is not None:
        parts.append(f"data {data_seed}")
    twins = sorted({twin.seed for twin in run.twins.values()})
    if twins:
        parts.append(f"twins {', '.join(map(str, twins))}")
    if run.evaluation.get("tests"):
        parts.append(f"random choices of the tests {run.evaluation.get('seed', run.seed)}")
    return "; ".join(parts)


def _row(versions: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
