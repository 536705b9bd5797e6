"""Progress outside a terminal: a line at the end of a stage, and now and then between."""

import math
from types import SimpleNamespace

from attn_faithful.reports.progress import Progress

CELLS = [SimpleNamespace(title="Mock-1 mlp seed 2"), SimpleNamespace(title="Mock-1 lstm seed 2")]


def test_lines(capsys):
    with Progress(CELLS) as progress:
        progress.tell(CELLS[1], "twin 10", 1, 3, {"eval_f1": math.nan, "eval_tvd": 0.12345, "eval_loss": 9.0})
        progress.tell(CELLS[1], "twin 10", 2, 3, {})
        progress.tell(CELLS[1], "twin 10", 3, 3, {"eval_jsd": -0.0})
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "2/2 Mock-1 lstm seed 2: twin 10 epoch 1/3  F1 -  TVD 0.123",
        "2/2 Mock-1 lstm seed 2: twin 10 epoch 3/3  JSD 0.000",
    ]


def test_several_processes_say_who_speaks(capsys):
    with Progress(CELLS, rank=1, world=2) as progress:
        progress.tell(CELLS[0], "base", 1, 1, {"eval_f1": 0.5})
    assert capsys.readouterr().err == "[1] 1/2 Mock-1 mlp seed 2: base epoch 1/1  F1 0.500\n"
