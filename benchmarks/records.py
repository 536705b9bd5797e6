"""What was measured as text: times, ratios, memory, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def seconds_text(value: float | None) -> str:
    """A time in the unit that suits it.

    Example:
        >>> seconds_text(0.00123), seconds_text(0.5), seconds_text(12.0)
        ('1.23 ms', '500 ms', '12 s')
    """
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or unit == "us":
            return f"{value / size:.3g} {unit}"
    return "-"


def ratio_text(ratio: float | None, at_least: bool = False) -> str:
    """How many times faster: two digits, from 10 on whole numbers.

    Example:
        >>> ratio_text(0.8412), ratio_text(43.2), ratio_text(2.0, at_least=True), ratio_text(None)
        ('0.84', '43', '> 2.0', '')
    """
    if ratio is None:
        return ""
    text = f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}"
    if ratio >= 10:
        text = f"{ratio:,.0f}"
    return f"> {text}" if at_least else text


def ratio_to(record: Record, peer: str) -> tuple[float | None, bool]:
    """How many times faster ours is than a peer, and whether it is at least so since the peer was stopped."""
    if "seconds" not in record:
        return None, False
    if peer in record.get("stopped", {}):
        return record["stopped"][peer] / record["seconds"], True
    if peer not in record.get("peers", {}):
        return None, False
    return record["peers"][peer]["seconds"] / record["seconds"], False


def of_floor(record: Record) -> float | None:
    """The floor's time as a share of ours, 1 at the floor."""
    if "floor seconds" not in record or "seconds" not in record:
        return None
    return record["floor seconds"] / record["seconds"]


def cell_text(record: Record) -> str:
    """A record in a cell: "1.2 ms, plain 3.0 x, 40 MB", or why it has no time."""
    memory = megabytes(record["bytes"]) if record.get("bytes") else ""
    if "seconds" not in record:
        return f"{record['skipped']} ({memory} by then)" if memory else record["skipped"]
    parts = [seconds_text(record["seconds"])]
    for name in [*record.get("peers", {}), *record.get("stopped", {})]:
        parts.append(f"{name} {ratio_text(*ratio_to(record, name))} x")
    if of_floor(record) is not None:
        parts.append(f"{of_floor(record):.2f} of the floor")
    parts.append(memory)
    if "skipped" in record:
        parts.append(record["skipped"])
    return ", ".join(part for part in parts if part)


def megabytes(size: float) -> str:
    """Bytes as text.

    Example:
        >>> megabytes(3 * 2**20)
        '3 MB'
    """
    return f"{size / 2**20:.0f} MB"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
