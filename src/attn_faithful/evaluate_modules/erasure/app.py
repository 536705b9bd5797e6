"""A page that computes erasure from two pasted tables; ``python app.py`` starts it."""

import csv
import math
from pathlib import Path

import evaluate
import gradio

FIRST = "predictions,sufficient\n0.9 0.8 0.6 0.5 0.2,0.3 0.5 0.8 0.9 0.95\n0.7 0.7 0.7 0.4 0.5,0.6 0.6 0.6 0.6 0.7"
SECOND = "references\n0.9\n0.7"
ABOUT = "Probabilities without the top tokens and with only them, a number a share; of the whole text."

metric = evaluate.load(str(Path(__file__).with_name("erasure.py")), keep_in_memory=True)


def read(cell, feature):
    if not hasattr(feature, "feature"):
        return (int if feature.dtype.startswith("int") else float)(cell)
    parts = cell.split(";") if hasattr(feature.feature, "feature") else cell.split()
    return [read(part, feature.feature) for part in parts if part.strip()]


def compute(first, second):
    try:
        rows = [list(csv.DictReader(table.strip().splitlines())) for table in (first, second)]
        columns = {n: [read(row[n], metric.features[n]) for row in table] for table in rows for n in (table or [{}])[0]}
        if missing := sorted(metric.features.keys() - columns.keys()):
            raise ValueError(f"Expected rows with the columns {', '.join(missing)}")
        found = metric.compute(**columns)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise gradio.Error(f"{type(error).__name__}: {error}") from error
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in found.items()}


boxes = [gradio.Textbox(table, label="CSV: spaces part numbers, semicolons rows", lines=4) for table in (FIRST, SECOND)]
page = gradio.Interface(compute, boxes, "json", title="erasure", description=ABOUT, flagging_mode="never")

if __name__ == "__main__":
    page.launch()
