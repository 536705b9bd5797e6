"""Loads what a command computes with, and says so in a terminal, since it takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module

from attn_faithful._garbage import uncollected

TOLD = "Loading torch and transformers ..."


def load(modules: Iterable[str]) -> None:
    """Import modules; where these load torch for the first time, the terminal says what it waits for."""
    shown = "torch" not in sys.modules and sys.stderr.isatty()
    if shown:
        print(TOLD, end="", file=sys.stderr, flush=True)
    try:
        with uncollected():
            for module in modules:
                import_module(module)
    finally:
        if shown:
            print("\r" + " " * len(TOLD) + "\r", end="", file=sys.stderr, flush=True)
