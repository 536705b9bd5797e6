"""The test `randomisation` as a user meets it: by name, with importance from a file, and never unasked."""

from __future__ import annotations

import json

import pytest

import attn_faithful as af
from tests.experiments.test_evaluation_stock import TEXTS, bert, folder, tokenizer  # noqa: F401

QUICK = {"randomisation": {"draws": 2}}
TOKENS = {"units": "token"}  # a file's importance is by token


@pytest.fixture(scope="module")
def entropy(folder, tmp_path_factory):  # noqa: F811
    """A run of another test."""
    output = tmp_path_factory.mktemp("entropy")
    return af.evaluate_attention(str(folder), TEXTS, tests=["entropy"], settings=TOKENS, output=output)


def means(result):
    """(metric, source) -> mean over all texts."""
    found = {}
    for record in result.records:
        if record.group == "all":
            found[record.metric, record.source] = record.mean
    return found


def test_sources_that_ignore_the_model_stay_at_1(folder, entropy, tmp_path):  # noqa: F811
    rows = []
    for row in entropy.tokens.to_dict("records"):
        rows.append({"example": row["example"], "scores": [float(i % 3) for i in range(len(row["tokens"]))]})
    importance = tmp_path / "importance.jsonl"
    importance.write_text("\n".join(map(json.dumps, rows)))
    result = af.evaluate_attention(
        str(folder), TEXTS, tests=QUICK, settings=TOKENS, source_file=importance, output=tmp_path / "run"
    )
    found = means(result)
    sources = {source.partition("@")[0] for _, source in found}
    assert sources == {"attention", "attention_x_gradient", "input_x_gradient", "random", "given"}
    for (_, source), mean in found.items():
        if source.startswith(("random", "given")):
            assert mean == 1.0, source
    assert found["randomisation_tau", "attention_x_gradient"] < 1
    assert found["randomisation_cascading", "attention@classifier"] == 1


def test_it_does_not_run_unasked(folder, tmp_path):  # noqa: F811
    tests = af.evaluate_attention(str(folder), TEXTS[:1], output=tmp_path).evaluation["tests"]
    assert "randomisation" not in tests
    assert "correlation" in tests
