"""May this model's attention be shown as an explanation of its predictions?

Attention classifiers, the faithfulness tests of four papers, and exact answers where the papers searched.
Importing this package is cheap; its names load what they need when they are first used. It also makes transformers'
Auto classes know our models.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from attn_faithful import _auto

__version__ = "0.1.0"

_PUBLIC = {
    "AttentionClassifier": "models.pooled",
    "AttentionClassifierConfig": "models.configuration",
    "AttentionModel": "models.protocol",
    "Encoded": "models.protocol",
    "InputError": "_checks",
    "Result": "reports.result",
    "RunFolder": "store",
    "compare": "reports.compare.comparison",
    "evaluate_attention": "api",
    "explain": "api",
    "install_metrics": "hub",
    "load": "loading",
    "run_recipe": "api",
    "use_projection": "models.stock.sparse",
    "wrap": "loading",
}

_PARTS = ("explanations",)  # parts of the package that are public as they are

__all__ = ["__version__", *_PUBLIC, *_PARTS]

_auto.register_when_loaded()


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"attn_faithful.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'attn_faithful' has no attribute {name!r}")
    value = getattr(import_module(f"attn_faithful.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
