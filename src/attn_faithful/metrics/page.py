"""The page of a metric's Space: two pasted tables in, the metric's numbers out.

gradio belongs to the Spaces, not to the package, and is imported when a page is made.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import evaluate

_LABEL = "CSV: spaces part numbers, semicolons rows"


class MetricPage:
    """A page for one metric.

    Args:
        script: the metric's module.
        first, second: CSV tables that the page shows, whose columns are the metric's.
        about: one line on what they hold.
    """

    def __init__(self, script: Path, first: str, second: str, about: str) -> None:
        self.metric = evaluate.load(str(script), keep_in_memory=True)
        self.tables = (first, second)
        self.about = about

    def compute(self, first: str, second: str) -> dict[str, Any]:
        """The metric of two tables; what is wrong with them is said on the page."""
        import gradio

        try:
            scores = self.metric.compute(**self._columns(first, second))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise gradio.Error(f"{type(error).__name__}: {error}") from error
        return {name: _for_json(value) for name, value in scores.items()}

    def interface(self) -> Any:
        """The gradio page."""
        import gradio

        boxes = [gradio.Textbox(table, label=_LABEL, lines=4) for table in self.tables]
        return gradio.Interface(
            self.compute,
            boxes,
            "json",
            title=self.metric.name,
            description=self.about,
            flagging_mode="never",
            api_name="compute",
        )

    def _columns(self, *tables: str) -> dict[str, list[Any]]:
        features = self.metric.features
        columns: dict[str, list[Any]] = {}
        for table in tables:
            rows = list(csv.DictReader(table.strip().splitlines()))
            if not rows:
                continue
            for name in rows[0]:
                columns[name] = [_value(row[name], features[name]) for row in rows]
        missing = sorted(features.keys() - columns.keys())
        if missing:
            raise ValueError(f"Expected rows with the columns {', '.join(missing)}")
        return columns


def _value(cell: str, feature: Any) -> Any:
    """A cell as the feature has it: a number, a list of numbers, or a list of lists."""
    if not hasattr(feature, "feature"):
        return int(cell) if feature.dtype.startswith("int") else float(cell)
    of_lists = hasattr(feature.feature, "feature")
    parts = cell.split(";") if of_lists else cell.split()
    return [_value(part, feature.feature) for part in parts if part.strip()]


def _for_json(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return value
