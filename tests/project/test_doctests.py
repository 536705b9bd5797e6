"""The examples in the docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import attn_faithful.functional as functional

MODULES = [f"{functional.__name__}.{found.name}" for found in pkgutil.iter_modules(functional.__path__)]


@pytest.mark.parametrize("name", [*MODULES, "attn_faithful._registry"])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
