"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import attn_faithful.functional as functional

KERNELS = [f"{functional.__name__}.{module.name}" for module in pkgutil.iter_modules(functional.__path__)]
LIGHT = ["_checks", "_digests", "_registry", "_seeds", "records.bench", "schema", "store"]
EXPLANATIONS = ["alignment", "base", "captum", "ferret", "inseq", "lime", "readings", "shap", "targets"]
OTHERS = [*LIGHT, "api", "data.span_scores", "hub", "hub.upload", "loading"]
OTHERS += [f"explanations.{name}" for name in EXPLANATIONS]


@pytest.mark.parametrize("name", [*KERNELS, *(f"attn_faithful.{name}" for name in OTHERS)])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
