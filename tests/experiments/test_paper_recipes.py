"""The papers' recipes read the data sets that lie in ../shared as they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attn_faithful.data.sources import load_texts
from attn_faithful.experiments.grid import expand
from attn_faithful.experiments.recipe import load_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes" / "papers").glob("*.yaml"))
SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_local_data_set_can_be_read(recipe):
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is missing")
    seen = {}
    for cell in expand(load_recipe(recipe), SHARED):
        data = cell.recipe.data
        if Path(data.source).is_dir():
            seen[cell.axes["data"]] = data
    assert seen
    for name, data in seen.items():
        texts = load_texts(replace(data, limit=200))
        assert len(texts.splits["train"]) > 0, name
        assert len(texts.label_names) > 1, name
        counts = texts.class_counts("train")
        assert sum(counts.values()) == len(texts.splits["train"]), name
