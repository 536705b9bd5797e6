"""The table of docs/cases.md: every case is in it, every test it names is there; and cases that no other test has."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attn_faithful.functional import concentration
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.functional.flow import attention_flow
from attn_faithful.functional.projections import entmax, softmax
from attn_faithful.functional.top_k import overlap
from attn_faithful.metrics.correlation import correlation_of_lists
from attn_faithful.metrics.importance_entropy import importance_entropy_of_lists

ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "cases.md"


def tables():
    """Case -> what its last column says: users' cases, and this package's own faults."""
    text = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
    return [rows_of(part) for part in text.split("# Faults of this package")]


def rows_of(text):
    """Case -> what its last column says, of one table."""
    split = [row.strip("| ").split(" | ") for row in text.split("\n") if re.match(r"\| [A-E]\d", row)]
    for row in split:
        assert len(row) == 3, row
    found = {case: where for case, _, where in split}
    assert len(found) == len(split), "a case stands twice"
    return found


def test_every_case_is_in_the_table():
    if not CASES.is_file():
        pytest.skip("the shared folder with the cases is not here")
    cases = re.findall(r"^### (C\d+)", CASES.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(cases) >= 33
    assert sorted(tables()[0]) == sorted(cases)


def test_every_test_of_the_table_is_there():
    defined = {}
    users, own = tables()
    for case, where in [*users.items(), *own.items()]:
        named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", where)
        assert named, f"{case} names no test"
        for file, test in named:
            if file not in defined:
                tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
                defined[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert test in defined[file], f"{case}: {file} has no {test}"


# --- what a search with random inputs found (tests/properties), as plain tests


def test_no_text_has_no_entropy_c10():
    """A list of texts without tokens once had an entropy of 0, and counted in the mean."""
    alone = importance_entropy_of_lists([[]], "none")
    assert all(math.isnan(alone[name][0]) for name in ("entropy", "support_size", "gini", "importance_entropy"))
    assert importance_entropy_of_lists([[], []])["n_mass"] == 0
    assert concentration.entropy(torch.zeros(2, 0)).isnan().all()
    assert concentration.support_size(torch.zeros(2, 0)).isnan().all()
    assert concentration.distribution(torch.zeros(0, 3), torch.zeros(0, 3).bool())[1] == []


def test_extreme_scores_and_parameters():
    z, ok = torch.tensor([3e38, -3e38]), torch.ones(2, dtype=torch.bool)
    assert entmax(z, ok, 1.0).tolist() == [1.0, 0.0]  # 0 times an infinite logarithm was NaN
    assert entmax(z, ok, 1.00001).tolist() == [1.0, 0.0]
    assert softmax(torch.tensor([1.0, 0.0]), ok, 1e-50).tolist() == [1.0, 0.0]  # 0 / 0 in float32
    assert entmax(torch.zeros(0, 2), torch.ones(0, 2).bool(), torch.ones(0, 1)).shape == (0, 2)


def test_margins_that_differ_by_rounding_alone_have_an_adversary():
    """Of subnormal margins no token counted as within its own bound, and there was none, without a reason."""
    one = torch.full((1, 2), 5e-324, dtype=torch.float64)
    found = exact_adversary(torch.tensor([[0.5, 0.5]]), torch.ones(1, 2).bool(), one, 0.0)
    assert found.reason == [None]
    assert not found.jsd.isnan().any()


@pytest.mark.parametrize("k", [math.inf, math.nan, 1.5, 0])
def test_a_k_that_is_no_number_of_tokens(k):
    with pytest.raises(ValueError, match="`k` as a whole number"):
        overlap([1.0, 2.0], [2.0, 1.0], k)


def test_flows_of_numbers_that_are_none():
    layers, start = torch.eye(2)[None, None], torch.tensor([[1.0, 0.0]])
    assert attention_flow(layers * math.nan, start, torch.ones(1, 2).bool()).isnan().all()
    with pytest.raises(ValueError, match="shares, 0 to 1"):
        attention_flow(layers, 9 * start, torch.ones(1, 2).bool())


@pytest.mark.parametrize("row", [None, 0.5, "ab", [None, "x"], [[0.5]]])
def test_what_is_no_list_of_numbers_is_named(row):
    with pytest.raises(ValueError, match=r"`(predictions\[0\]|predictions)`"):
        correlation_of_lists([row], [np.ones(2)])
