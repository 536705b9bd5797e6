"""``attn-faithful compare``: two runs, or a base and its twin, in the terminal and as a page."""

from __future__ import annotations

import pytest

from attn_faithful.cli import main
from tests.reports.altered import LSTM, MLP, copied


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_tables(capsys, wide):
    assert main(["compare", str(LSTM), str(MLP)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("A: lstm. B: mlp. 10 texts of both.\n")
    for said in ("What differs in model and settings", "JSD of attention", "p (Holm)", "attention ~ leave_one_out"):
        assert said in out
    assert "attention_gradient" not in out
    assert "the same command with --html" in out
    assert main(["compare", str(LSTM), str(MLP), "--full"]) == 0
    assert "attention_gradient" in capsys.readouterr().out


def test_page_beside_the_first_run(capsys, wide, tmp_path):
    first = copied(tmp_path / "runs" / "one")
    assert main(["compare", str(first), str(MLP), "--html", "--names", "plain, other"]) == 0
    page = tmp_path / "runs" / "one-against-mock-1-mlp-1.html"
    out = capsys.readouterr().out
    assert out.startswith("A: plain. B: other.")
    assert out.splitlines()[-1] == f"Page: {page}"
    assert "plain against other" in page.read_text(encoding="utf-8")
    assert main(["compare", str(first), "--html"]) == 0
    assert (tmp_path / "runs" / "one-against-twin-attefa-1.html").is_file()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(
        ["one", page.name, "one-against-twin-attefa-1.html"]
    )


def test_a_list_of_runs_says_how_to_compare_them(capsys, wide, tmp_path):
    assert main(["ls", str(LSTM), str(MLP)]) == 0
    assert "attn-faithful compare RUN RUN --html" in capsys.readouterr().out.splitlines()[-1]
    assert main(["ls", str(LSTM)]) == 0
    assert "side by side" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere", str(MLP)], "nowhere is not a folder"),
        ([str(LSTM.parent), str(MLP)], "Expected one run"),
        ([str(LSTM)] * 3, "Expected two runs, or one with twins, but got 3"),
        ([str(LSTM), str(MLP), "--output", "."], "--output: expected the name of a file"),
        ([str(LSTM), str(MLP), "--twin", "attefa-1"], "two runs were given"),
        ([str(LSTM), "--twin", "attefa-7"], "Unknown twin 'attefa-7'"),
        ([str(LSTM), str(MLP), "--names", "one"], "names of two models"),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, says):
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert len(printed.err.splitlines()) == 1
