"""The command line."""

from attn_faithful.cli.main import main

__all__ = ["main"]
