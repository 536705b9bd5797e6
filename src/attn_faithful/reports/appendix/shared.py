"""What several runs have in common is said once, and what differs by run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attn_faithful.reports.run import Run


def title_of_run(run: Run) -> str:
    """How a run is called beside others."""
    return f"{run.title}, seed {run.seed}"


def by_value(runs: Sequence[Run], read: Callable[[Run], str]) -> list[tuple[str, str]]:
    """A fact of each run as (fact, whose it is); whose is "" where all runs have the same.

    Args:
        runs: one or more.
        read: the fact as text, "" for none.
    """
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(read(run), []).append(title_of_run(run))
    if len(names) == 1:
        return [(value, "") for value in names if value]
    return [(value, "; ".join(whose)) for value, whose in names.items() if value]


def flat(settings: Any, prefix: str = "") -> dict[str, str]:
    """Settings as dotted keys and text, in their order; what is None or empty is left out.

    Example:
        >>> flat({"epochs": 8, "amsgrad": False, "search": {"k": 3}, "tests": ["flips", "erasure"], "path": None})
        {'epochs': '8', 'amsgrad': 'false', 'search.k': '3', 'tests': 'flips, erasure'}
    """
    values: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            values.update(flat(value, f"{prefix}{key}."))
        elif value is None or value in ([], ()):
            continue
        else:
            values[f"{prefix}{key}"] = as_text(value)
    return values


def as_text(value: Any) -> str:
    """A setting as it is written in a recipe."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(as_text, value))
    return str(value)


def listed(settings: dict[str, str]) -> str:
    """Settings in a row."""
    return "; ".join(f"{key} = {value}" for key, value in settings.items())
