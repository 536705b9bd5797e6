"""Writes what the code says of a test into its page: the numbers that it tells, its settings, its papers.

    python -m docs.making.tables

Between ``<!-- numbers -->`` and ``<!-- /numbers -->`` of docs/tests/NAME.md stands a table of the test's metrics, and
likewise ``settings`` and ``papers``; tests/site/test_tables.py compares the two.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attn_faithful.evaluators  # noqa: F401 -- registers the tests
from attn_faithful.evaluators.base import EVALUATORS, MetricSpec
from attn_faithful.experiments.roar.settings import RoarSettings
from attn_faithful.reports.appendix.bibliography import line
from attn_faithful.reports.appendix.definitions import DEFINITIONS
from attn_faithful.training.settings import TwinSettings

FOLDER = Path(__file__).parents[1] / "tests"
# tests that are commands or parts of a recipe of their own
OTHERS: dict[str, type[Any]] = {"attefa": TwinSettings, "roar": RoarSettings}
DIRECTIONS = {"higher": "higher", "lower": "lower", None: ""}

_ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {8}.*)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([\w.]+)`")


def settings_classes() -> dict[str, type[Any]]:
    """Test -> the dataclass of its settings."""
    own = {name: EVALUATORS[name].settings for name in EVALUATORS}
    return {**own, **OTHERS}


def numbers_table(metrics: tuple[MetricSpec, ...]) -> str:
    """The metrics of a test: name, meaning, range, and which direction speaks for faithful attention."""
    lines = ["| number | meaning | range | faithful |", "| --- | --- | --- | --- |"]
    for metric in metrics:
        meaning = _cell(metric.meaning)
        if metric.unit:
            meaning += f" ({metric.unit})"
        lines.append(f"| `{metric.name}` | {meaning} | {_range(metric)} | {DIRECTIONS[metric.direction]} |")
    return "\n".join(lines)


def settings_table(settings: type[Any]) -> str:
    """The fields of a dataclass: name, what its docstring says, default."""
    said = dict(_said_of(settings))
    lines = ["| setting | what it says | default |", "| --- | --- | --- |"]
    for field in dataclasses.fields(settings):
        lines.append(f"| `{field.name}` | {said[field.name]} | {_default(field)} |")
    return "\n".join(lines)


def papers_list(metrics: tuple[MetricSpec, ...]) -> str:
    """The papers that the metrics of a test are from, each once."""
    defined = [DEFINITIONS[metric.name] for metric in metrics if metric.name in DEFINITIONS]
    keys = dict.fromkeys(key for definition in defined for key in definition.works)
    return "\n".join(f"- {line(key)}" for key in keys)


def filled(page: str, name: str) -> str:
    """A page with both tables of a test as the code has them."""
    if name in EVALUATORS:
        metrics = tuple(EVALUATORS[name].metrics)
        page = _between(page, "numbers", numbers_table(metrics))
        page = _between(page, "papers", papers_list(metrics))
    return _between(page, "settings", settings_table(settings_classes()[name]))


def _between(page: str, mark: str, table: str) -> str:
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def _said_of(settings: type[Any]) -> Iterator[tuple[str, str]]:
    """Field -> what the docstring says of it; some are described together."""
    said = inspect.getdoc(settings) or ""
    _, _, attributes = said.partition("Attributes:\n")
    for names, meaning in _ATTRIBUTE.findall(attributes):
        for name in names.split(","):
            yield name.strip(), _cell(meaning)


def _cell(text: str) -> str:
    """Text of a docstring in one line of a table."""
    one_line = " ".join(text.split())
    plain = _ROLE.sub(r"`\1`", one_line).replace("``", "`")
    return plain.replace("|", "\\|")


def _range(metric: MetricSpec) -> str:
    ends = ("" if math.isinf(end) else f"{end:.3g}" for end in (metric.low, metric.high))
    low, high = ends
    if not high:
        return f"from {low}"
    if not low:
        return f"up to {high}"
    return f"{low} to {high}"


def _default(field: dataclasses.Field[Any]) -> str:
    """A default as a recipe writes it."""
    if field.default_factory is not dataclasses.MISSING:
        return _written(field.default_factory())
    return _written(field.default)


def _written(value: Any) -> str:
    if value is None:
        return "`null`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list | tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{value}`"


def main() -> None:
    """Writes the tables of every page."""
    for name in settings_classes():
        path = FOLDER / f"{name}.md"
        path.write_text(filled(path.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    main()
