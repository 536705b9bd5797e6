"""Makes the run folders of `cells` and what their report says: ``python -m tests.reports.golden.make``.

Two models of the planted-token set, ten test texts, every test, and a twin each, as `attn-faithful run` leaves them
but for the weights. Run it where a table's columns or words change on purpose, and read what changed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CELLS, EXPECTED = HERE / "cells", HERE / "expected"
KEPT = ("predictions.parquet", "tokens.parquet", "scores.parquet", "variants.parquet", "history.parquet")
COMPARED = (
    "report.md",
    "tables/data.md",
    "tables/attefa.md",
    "tables/attefa.tex",
    "tables/beside_the_paper.md",
    "tables/attention_correlation.md",
    "tables/attention_correlation.tex",
    "tables/attention_correlation.csv",
    "tables/attention_correlation-paired.md",
    "tables/attention_correlation-paired.csv",
    "tables/tests/Mock-1-lstm/permutation.md",
    "tables/tests/Mock-1-lstm/flip_fractions.tex",
)
RECIPE = {
    "name": "golden",
    "claim": "a paper, table 1",
    "data": {
        "source": "mock-1",
        "name": "Mock-1",
        "mock": {"n_train": 800, "n_test": 10, "min_length": 4, "max_length": 9, "max_words": 40},
    },
    "model": {"embedding_size": 16, "hidden_size": 16},
    "train": {"epochs": 10, "learning_rate": 0.01},
    "twin": {"epochs": 10, "learning_rate": 0.01},
    "evaluation": {"tests": ["correlation", "permutation", "adversarial", "flips"], "controls": ["random"]},
    "seeds": [1],
    "grid": {"model.encoder": ["mlp", "lstm"]},
    "expected": {
        "key": ["data", "encoder"],
        "metrics": ["base_f1", "attefa"],
        "band": {"base_f1": 0.05, "attefa": 0.1},
        "rows": {"Mock-1 lstm": [0.9, 0.03], "Mock-1 mlp": [0.9, 0.8]},
    },
}


def make_runs() -> None:
    """Train, test, and keep what a report reads."""
    from attn_faithful import run_recipe
    from attn_faithful.reports.paper_numbers import write_recipe

    with tempfile.TemporaryDirectory() as held:
        run_recipe(RECIPE, held)
        shutil.rmtree(CELLS, ignore_errors=True)
        for meta in sorted(Path(held).rglob("meta.json")):
            target = CELLS / meta.parent.name.rsplit("-", 1)[0]  # without the hash, which changes with any setting
            target.mkdir(parents=True)
            for name in KEPT:
                shutil.copy(meta.parent / name, target / name)
            for name in ("summary.json", "meta.json"):
                text = json.dumps(json.loads((meta.parent / name).read_text()), ensure_ascii=False)
                (target / name).write_text(text + "\n")
            write_recipe(target, RECIPE)


def make_expected() -> None:
    """Keep what the report says of them."""
    from attn_faithful.reports.report import report

    with tempfile.TemporaryDirectory() as held:
        made = report([CELLS], Path(held) / "report", pages=False)
        shutil.rmtree(EXPECTED, ignore_errors=True)
        for name in COMPARED:
            (EXPECTED / name).parent.mkdir(parents=True, exist_ok=True)
            text = (made.path / name).read_text(encoding="utf-8").replace(str(CELLS), "CELLS")
            (EXPECTED / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_runs()
    make_expected()
