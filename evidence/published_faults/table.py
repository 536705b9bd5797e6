"""What the docs show of the known faults of a paper's published code, as Markdown from the file of effects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evidence.markdown import number, table
from evidence.published_faults.effects import SUMMARY, Effect, Estimate, Fault, read_effects
from evidence.published_faults.every import FAULTS

_DIGITS = {"percent": 2}


def faults_table(paper: str, path: Path = SUMMARY) -> str:
    """The faults of a paper's published code: what each does, and what it changes.

    Args:
        paper: name of its recipe, such as "serrano_smith_2019".
        path: of the file of effects.

    Returns:
        Markdown: for each fault its title in bold with what the code and the paper say, and a table, a row a number;
        a fault that was not measured says so. Empty for a paper without faults.
    """
    effects = read_effects(path)
    parts = []
    for fault in FAULTS.values():
        if fault.paper == paper:
            of_fault = [effect for effect in effects if effect.fault == fault.name]
            parts.append(_part(fault, of_fault))
    return "\n\n".join(parts)


def _part(fault: Fault, effects: Sequence[Effect]) -> str:
    """A fault with its table."""
    against = fault.against.capitalize()
    text = f"**{fault.title}** ({fault.where}). As published: {fault.published}. {against}: {fault.printed}."
    if fault.remark:
        text += f"\n{fault.remark}"
    if not effects:
        return f"{text}\n\nIts effect was not measured."
    head = ["number", "texts", "models", "n", "as published", fault.against, "difference, 95%"]
    rows = [_row(effect) for effect in effects]
    return f"{text}\n\n{table(head, rows)}\n\n{_verdict(effects)}"


def _row(effect: Effect) -> list[str]:
    found = effect.comparison
    seeds = ", ".join(map(str, effect.seeds))
    return [
        f"{effect.metric}, {effect.unit}".removesuffix(", "),
        effect.texts,
        f"{effect.data} {effect.model}, seeds {seeds}",
        str(found.difference.n),
        _shown(found.as_published, effect.unit),
        _shown(found.as_printed, effect.unit),
        _shown(found.difference, effect.unit),
    ]


def _shown(estimate: Estimate, unit: str) -> str:
    """A number with its interval."""
    digits = _DIGITS.get(unit, 4)
    value = number(estimate.value, digits)
    if estimate.n < 2:
        return f"{value} (no interval)"
    return f"{value} ({number(estimate.low, digits)} to {number(estimate.high, digits)})"


def _verdict(effects: Sequence[Effect]) -> str:
    """How many numbers differ by their intervals."""
    changed = 0
    for effect in effects:
        difference = effect.comparison.difference
        changed += difference.low > 0 or difference.high < 0
    return f"{changed} of {len(effects)} numbers differ: the interval of their difference lies on one side of zero."
