"""Progress: what is done and how long the rest will take, in a log, a terminal and a notebook."""

import doctest
import io
import math
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from attn_faithful.reports.progress import bars, progress, remaining
from attn_faithful.reports.progress.progress import EPOCH_SHARE, Counter, Progress
from attn_faithful.reports.progress.remaining import Stopwatch, duration


def cell(encoder, epochs=2, twins=2):
    stages = {"base": epochs}
    if twins:
        stages["twin 10"] = twins
    return SimpleNamespace(title=f"Mock-1 {encoder} seed 2", stages=stages)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when they are told to."""
    now = SimpleNamespace(time=1000.0)
    for module in (remaining.time, bars.time):
        monkeypatch.setattr(module, "monotonic", lambda: now.time)
    return now


def carry_out(progress, cells, clock, seconds, tests=0.0):
    """A run whose epochs take so many seconds each, by cell, and whose tests of ten texts take `tests`."""
    for one, taken in zip(cells, seconds, strict=True):
        for stage, epochs in (("base", one.stages["base"]), ("twin 10", 2)):
            progress.update(one, stage, 0, epochs, {})
            for epoch in range(1, epochs + 1):
                clock.time += taken
                progress.update(one, stage, epoch, epochs, {"eval_f1": 0.5})
        if tests:
            for done in range(11):
                progress.update(one, "tests", done, 10, {})
                clock.time += tests / 10 if done < 10 else 0
        progress.finish(one)


def test_duration_and_its_examples():
    assert doctest.testmod(remaining).failed == 0
    assert [duration(s) for s in (0, 59.4, 59.6, 119, 3599, 3600, 86_399)] == [
        "1 s",
        "59 s",
        "1 min",
        "2 min",
        "1 h",
        "1 h",
        "1 d",
    ]


def test_the_rest_takes_as_long_as_its_share(clock):
    watch = Stopwatch()
    assert watch.left(0.0) is None
    clock.time += 0.5
    assert watch.left(0.5) is None, "too short to say"
    clock.time += 9.5
    assert watch.left(0.25) == pytest.approx(30)
    assert watch.left(1.0) == 0
    watch.begin(0.25)  # what was done before says nothing of the pace
    clock.time += 10
    assert watch.left(0.5) == pytest.approx(20)


# --- how long, how to stop, how to go on

KEPT = "the same command goes on from the last whole epoch."


def test_long_work_says_once_how_to_stop_it_and_go_on(capsys, clock):
    cells = [cell("lstm"), cell("mlp")]
    with Progress(cells, kept=KEPT) as shown:
        carry_out(shown, cells, clock, [20.0, 20.0])
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == f"About 3 min in all. Ctrl-C stops it; {KEPT}"
    assert lines[2].endswith("about 2 min left"), "the advice comes with the first estimate"
    assert sum("Ctrl-C" in line for line in lines) == 1


def test_texts_that_take_long_say_it_too(capsys, clock):
    with Counter("mlp on reviews", kept=KEPT) as counter:
        for done in range(4):
            counter.update(done, 40)
            clock.time += 2
    assert capsys.readouterr().err.splitlines() == [
        "mlp on reviews: text 0/40",
        "mlp on reviews: text 1/40  about 1 min left",
        f"About 1 min in all. Ctrl-C stops it; {KEPT}",  # once there is more to go by
    ]


@pytest.mark.parametrize(("seconds", "kept", "rank"), [(2.0, KEPT, 0), (20.0, None, 0), (20.0, KEPT, 1)])
def test_short_work_calls_from_python_and_other_processes_say_no_such_thing(capsys, clock, seconds, kept, rank):
    cells = [cell("lstm"), cell("mlp")]
    with Progress(cells, rank=rank, world=2, kept=kept) as shown:
        carry_out(shown, cells, clock, [seconds, seconds])
    assert "Ctrl-C" not in capsys.readouterr().err


# --- a log


def test_a_log_has_a_line_at_first_and_then_one_in_ten_seconds(capsys, clock):
    cells = [cell("lstm"), cell("mlp")]
    with Progress(cells) as shown:
        carry_out(shown, cells, clock, [0.4, 0.4])
    assert capsys.readouterr().err.splitlines() == ["0/2 Mock-1 lstm seed 2: base epoch 0/2"]
    with Progress(cells) as shown:
        carry_out(shown, cells, clock, [6.0, 6.0])
    assert capsys.readouterr().err.splitlines() == [
        "0/2 Mock-1 lstm seed 2: base epoch 0/2",
        "0/2 Mock-1 lstm seed 2: base epoch 1/2  F1 0.500  about 42 s left",  # as soon as it is foreseen
        "0/2 Mock-1 lstm seed 2: twin 10 epoch 1/2  F1 0.500  about 30 s left",
        "1/2 Mock-1 mlp seed 2: base epoch 1/2  F1 0.500  about 18 s left",
        "1/2 Mock-1 mlp seed 2: twin 10 epoch 1/2  F1 0.500  about 6 s left",
        "2/2 done in 48 s.",
    ]


def test_several_processes_say_who_speaks(capsys):
    cells = [cell("mlp")]
    with Progress(cells, rank=1, world=2) as shown:
        shown.update(cells[0], "base", 1, 1, {"eval_f1": math.nan, "eval_tvd": 0.12345, "eval_loss": 9.0})
    assert capsys.readouterr().err == "[1] Mock-1 mlp seed 2: base epoch 1/1  F1 -  TVD 0.123\n"


def left_of(capsys):
    return [re.search("about (.*) left", line)[1] for line in capsys.readouterr().err.splitlines() if "left" in line]


def test_costs_of_cells_and_epochs_under_way(capsys, clock):
    cells = [cell("lstm", twins=0), cell("mlp", twins=0)]
    with Progress(cells, cost=lambda one: 9 if "lstm" in one.title else 1) as shown:
        shown.update(cells[0], "base", 0, 2, {})
        clock.time += 20
        shown.update(cells[0], "base", 0, 2, {EPOCH_SHARE: 0.5})  # a quarter of nine tenths
        clock.time += 60
        shown.update(cells[0], "base", 2, 2, {})
    assert left_of(capsys) == ["1 min", "9 s"]


def test_cells_that_were_done_before_say_nothing_of_the_pace(capsys, clock):
    cells = [cell("lstm", twins=0), cell("gru", twins=0), cell("mlp", twins=0)]
    with Progress(cells) as shown:
        shown.finish(cells[0])
        shown.update(cells[1], "base", 0, 2, {})
        clock.time += 20
        shown.update(cells[1], "base", 1, 2, {})
    printed = capsys.readouterr().err
    assert "1/3 Mock-1 gru" in printed
    assert "about 1 min left" in printed


def test_tests_have_a_pace_of_their_own(capsys, clock):
    cells = [cell("lstm")]
    with Progress(cells) as shown:
        carry_out(shown, cells, clock, [1.0], tests=100.0)
    assert left_of(capsys)[-1] == "10 s"
    cells = [cell("lstm"), cell("mlp")]
    with Progress(cells) as shown:
        carry_out(shown, cells, clock, [1.0, 1.0], tests=100.0)
    assert "2 min" in left_of(capsys)[-12], "the second cell is foreseen to take as long as the first, tests included"


def test_counters_begin_at_nothing_and_count_what_is_done(capsys, clock):
    cells = [cell(name) for name in ("lstm", "gru", "mlp", "cnn")]
    with Progress(cells) as shown:
        carry_out(shown, cells[::-1], clock, [10.0] * 4)
    counts = [line.split("/")[0] for line in capsys.readouterr().err.splitlines()]
    assert counts[0] == "0"
    assert counts == sorted(counts)
    assert counts[-1] == "4"


def test_what_was_lost_is_told(capsys):
    cells = [cell("lstm"), cell("mlp")]
    for visible, quiet in ((True, 0.0), (True, 3.0), (False, 0.0)):
        with Progress(cells, shown=visible, quiet=quiet) as shown:
            shown.skip(cells[0], "gone")
            shown.skip(cells[1], "gone")
        assert capsys.readouterr().err.splitlines() == ["Left out: Mock-1 lstm seed 2, Mock-1 mlp seed 2: gone"]


def test_texts_are_counted(capsys, clock):
    with Counter("mlp on reviews") as counter:
        for done in range(0, 101, 10):
            counter.update(done, 100)
            clock.time += 4
    assert capsys.readouterr().err.splitlines() == [
        "mlp on reviews: text 0/100",
        "mlp on reviews: text 10/100  about 36 s left",
        "mlp on reviews: text 40/100  about 24 s left",
        "mlp on reviews: text 70/100  about 12 s left",
        "mlp on reviews: text 100/100",
    ]
    with Counter("x", rank=1, world=2) as counter:
        counter.update(0, 1)
    assert capsys.readouterr().err == ""


def test_a_call_from_python_is_silent_while_it_is_short(capsys, clock):
    for quiet, shown, printed in ((3.0, True, False), (3.0, False, False), (0.0, False, False)):
        with Counter("mlp on reviews", quiet=quiet, shown=shown) as counter:
            for done in range(3):
                counter.update(done, 2)
                clock.time += 1
        assert bool(capsys.readouterr().err) == printed
    with Counter("mlp on reviews", quiet=3.0) as counter:
        for done in range(5):
            counter.update(done, 40)
            clock.time += 1
    assert capsys.readouterr().err.splitlines() == ["mlp on reviews: text 3/40  about 37 s left"]


# --- a terminal and a notebook


@pytest.mark.parametrize("width", [60, 80, 120])
def test_bars_cut_no_name_and_no_number(monkeypatch, clock, width):
    title = "A data set with a long name bert-base-uncased layer.11 seed 257"
    cells = [cell("lstm"), cell("mlp")]
    for one in cells:
        one.title = title
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **given: console)
    monkeypatch.setattr(progress, "display_here", lambda prefix="": bars.Bars())
    with Progress(cells) as shown:
        carry_out(shown, cells, clock, [30.0, 30.0])
        shown.display.bars.refresh()
        frame = console.render_lines(shown.display.bars.get_renderable(), console.options)
    lines = ["".join(segment.text for segment in line) for line in frame]
    assert all(len(line) <= width for line in lines)
    joined = "".join("".join(lines).split())
    assert "…" not in joined
    for part in ("2/2", "epoch 2/2", "F1 0.500"):
        assert part.replace(" ", "") in joined
    words = {word for line in lines for word in line.split()}
    assert all(word in words for word in f"{title}:".split())


def test_a_notebook_has_a_bar(monkeypatch, capsys, clock):
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(config={"IPKernelApp": {}}))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setattr("tqdm.auto.tqdm", __import__("tqdm").tqdm)
    assert bars.in_notebook()
    with Counter("mlp on reviews", quiet=3.0) as counter:
        for done in range(5):
            counter.update(done, 40)
            clock.time += 2
    printed = capsys.readouterr().err
    assert "mlp on reviews" in printed
    assert "4/40" in printed
    assert "about" in printed


def test_elsewhere_there_is_no_notebook(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not bars.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not bars.in_notebook()
