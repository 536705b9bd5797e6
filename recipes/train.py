"""Carries out a recipe under a launcher: ``accelerate launch recipes/train.py [RECIPE] [OPTIONS]``.

Without a recipe it takes quickstart.yaml; ``attn-faithful run`` is the same without a launcher.
"""

import sys
from pathlib import Path

from attn_faithful.cli import main

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        arguments = [str(Path(__file__).with_name("quickstart.yaml")), *arguments]
    sys.exit(main(["run", *arguments]))
