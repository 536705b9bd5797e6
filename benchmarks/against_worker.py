"""Evaluations on request, for against.py, by either checkout: a JSON object a line in, its processor time out."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import attn_faithful as af

load = functools.cache(af.load)


def evaluated(work: dict[str, Any]) -> None:
    """One evaluation into a folder that is removed."""
    model, tokenizer = load(work["model"])
    folder = tempfile.mkdtemp()
    settings = {"sites": work["sites"]}
    af.evaluate_attention(model, tokenizer, work["texts"], work["tests"], output=folder, settings=settings)
    shutil.rmtree(folder)


def commanded(work: dict[str, Any]) -> None:
    """A command of this checkout."""
    command = [sys.executable, "-m", "attn_faithful.cli", *work["command"]]
    subprocess.run(command, check=True, env=os.environ, stdout=sys.stderr)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            work = json.loads(line)
            if "model" in work:
                load(work["model"])
            start = time.process_time()
            if "command" in work:
                commanded(work)
            else:
                evaluated(work)
            print(json.dumps({"seconds": time.process_time() - start}), file=answers, flush=True)


if __name__ == "__main__":
    main()
