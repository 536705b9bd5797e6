"""An evaluation that was stopped goes on at the block it was in and ends with the tables of an undisturbed one."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

import attn_faithful as af
from attn_faithful._checks import InputError
from attn_faithful.cli import main
from attn_faithful.data.settings import DataSettings
from attn_faithful.experiments import results as writing
from attn_faithful.experiments import run_block as testing
from attn_faithful.experiments import run_evaluation as evaluate
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.evaluation_task import make_task
from attn_faithful.experiments.inputs import DataInput, ModelInput
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.scoring import StoredScores
from attn_faithful.models import blocks
from attn_faithful.store import RunFolder, find_runs
from tests.experiments.tiny import cells, run

TABLES = ("predictions", "tokens", "scores", "variants")
TEXTS = ["something" + " united shame" * (i % 5) + " played" * (i // 5) * 9 for i in range(18)]  # no two of one length
ROWS = 3  # texts of a block


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "cell"
    return run(cells(model={"encoder": "mlp", "embedding_size": 6, "hidden_size": 6}, twin=None)[0], folder) / "model"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", ROWS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "texts.csv"
    rows = [f"t{i},{text},{('negative', 'positive')[i % 2]}" for i, text in enumerate(TEXTS)]
    path.write_text("\n".join(["id,text,label", *rows]))
    return path


def command(model, data, output):
    return ["evaluate", str(model), "--data", str(data), "--tests", "correlation,flips", "--output", str(output)]


@pytest.fixture(scope="module")
def undisturbed(model, data, tmp_path_factory):
    output = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "ROWS", ROWS)
        assert main(command(model, data, output)) == 0
    (found,) = find_runs([output])
    return found


def rows_of(folder):
    return {name: [repr(row) for row in folder.read_table(name).to_pylist()] for name in TABLES}


def files_of(folder):
    return sorted(path.name for path in folder.path.iterdir())


def check_same(output, undisturbed):
    (found,) = find_runs([output])
    assert rows_of(found) == rows_of(undisturbed)
    assert found.read_summary() == undisturbed.read_summary()
    assert files_of(found) == files_of(undisturbed)


class Measuring:
    """Counts the blocks that are measured, and does something before one of them."""

    def __init__(self, monkeypatch, at=None, do=None):
        self.blocks, self.at, self.do = [], at, do
        measure = testing.Tester.measure

        def counted(tester, block, *rest):
            if len(self.blocks) == self.at:
                self.do()
            self.blocks.append(block.number)
            return measure(tester, block, *rest)

        monkeypatch.setattr(testing.Tester, "measure", counted)


def raising(error):
    def do():
        raise error

    return do


@pytest.mark.parametrize(
    ("do", "status"),
    [(raising(KeyboardInterrupt()), 130), (lambda: os.kill(os.getpid(), signal.SIGTERM), 143)],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_stopped_evaluation_goes_on_at_its_block(model, data, undisturbed, tmp_path, monkeypatch, capsys, do, status):
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as stopping:
        Measuring(stopping, 4, do)
        assert main(command(model, data, tmp_path / "out")) == status
    assert signal.getsignal(signal.SIGTERM) is before
    said = capsys.readouterr().err
    assert f"stopped; {4 * ROWS} of {len(TEXTS)} texts are kept in " in said
    assert "the same command goes on from there" in said
    assert "epoch" not in said
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == [4, 5]
    assert f"{4 * ROWS}/{len(TEXTS)}" in capsys.readouterr().err  # where the counter starts
    check_same(tmp_path / "out", undisturbed)


def test_a_killed_evaluation_keeps_what_was_written(model, data, undisturbed, tmp_path, monkeypatch):
    if not hasattr(os, "fork"):
        pytest.skip("there is no fork on this system")
    monkeypatch.setattr(writing, "SECONDS", 0.0)  # every block is written at once
    child = os.fork()
    if child == 0:
        Measuring(monkeypatch, 3, lambda: os._exit(9))
        main(command(model, data, tmp_path / "out"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == [3, 4, 5]
    check_same(tmp_path / "out", undisturbed)


@pytest.mark.parametrize(("files", "parts"), [(12, 2), (2, 0)], ids=["within the third part", "within the first part"])
def test_a_full_disk_keeps_what_was_written(model, data, undisturbed, tmp_path, monkeypatch, capsys, files, parts):
    monkeypatch.setattr(writing, "SECONDS", 0.0)
    place, written = RunFolder.place, []

    def full(folder, target, write):
        written.append(target.name)
        if len(written) > files:
            raise OSError(28, "No space left on device", str(target))
        place(folder, target, write)

    with monkeypatch.context() as stopping:
        stopping.setattr(RunFolder, "place", full)
        assert main(command(model, data, tmp_path / "out")) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    kept = f"{parts * ROWS} of {len(TEXTS)} texts are kept" if parts else "No text could be kept"
    assert kept in said
    assert "What was finished is kept" not in said
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == parts * len(TABLES)  # no half of a part stays
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == [*range(parts, 6)]
    check_same(tmp_path / "out", undisturbed)


def test_a_lock_that_a_killed_process_left_goes_and_one_that_is_held_stays(model, data, tmp_path, capsys):
    assert main(command(model, data, tmp_path / "out")) == 0
    (found,) = find_runs([tmp_path / "out"])
    (found / ".lock").touch()
    assert main(command(model, data, tmp_path / "out")) == 0
    assert not (found / ".lock").exists()
    with found.writing():
        assert main(command(model, data, tmp_path / "out")) == 0
        assert (found / ".lock").exists()


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("scores.0.parquet", cut),
        ("tokens.0.parquet", lambda path: path.unlink()),
        (".part.0.json", lambda path: path.write_bytes(b"")),
    ],
    ids=["half a table", "no table", "half of what is told"],
)
def test_a_part_that_is_not_whole_is_not_trusted(model, data, undisturbed, tmp_path, monkeypatch, name, harm):
    monkeypatch.setattr(writing, "SECONDS", 0.0)
    with monkeypatch.context() as stopping:
        Measuring(stopping, 2, raising(KeyboardInterrupt()))
        assert main(command(model, data, tmp_path / "out")) == 130
    (part,) = (tmp_path / "out").rglob(name)
    harm(part)
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == [0, 2, 3, 4, 5]
    check_same(tmp_path / "out", undisturbed)


def test_an_error_of_settings_or_memory_keeps_the_blocks(model, data, undisturbed, tmp_path, monkeypatch, capsys):
    for at, error in ((1, RuntimeError("DefaultCPUAllocator: can't allocate memory")), (2, InputError("so it is"))):
        with monkeypatch.context() as stopping:
            Measuring(stopping, at - (at == 2), raising(error))
            assert main(command(model, data, tmp_path / "out")) == 2
        assert f"{at * ROWS} of {len(TEXTS)} texts are kept" in capsys.readouterr().err
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == [2, 3, 4, 5]
    check_same(tmp_path / "out", undisturbed)


def test_scoring_that_fails_leaves_the_tables_and_goes_on_there(model, data, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(StoredScores, "records", lambda *given: raising(ZeroDivisionError("a mean"))())
        with pytest.raises(ZeroDivisionError) as caught:
            main(command(model, data, tmp_path / "out"))
    assert "The tables of all texts are kept" in " ".join(caught.value.__notes__)
    again = Measuring(monkeypatch)
    assert main(command(model, data, tmp_path / "out")) == 0
    assert again.blocks == []
    check_same(tmp_path / "out", undisturbed)


def test_another_number_of_processes_goes_on_with_what_one_of_two_left(model, data, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "SECONDS", 0.0)
    loaded, tokenizer = af.load(model)
    texts = DataInput(DataSettings(source=str(data)))
    settings = EvaluationSettings(tests=["correlation", "flips"])
    task = make_task(ModelInput(loaded, tokenizer, origin=str(model)), texts, settings)
    half = ProcessGroup(0, 2, wait=lambda name: raising(KeyboardInterrupt())() if name == "parts" else None)
    first = Measuring(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        evaluate.evaluate_task(task, tmp_path / "out", processes=half)
    assert first.blocks == [0, 2, 4]
    again = Measuring(monkeypatch)
    evaluate.evaluate_task(task, tmp_path / "out")
    assert again.blocks == [1, 3, 5]
    check_same(tmp_path / "out", undisturbed)


def test_parts_of_another_run_are_measured_again(model, data, undisturbed, tmp_path, monkeypatch):
    with monkeypatch.context() as stopping:
        Measuring(stopping, 2, raising(KeyboardInterrupt()))
        assert main(command(model, data, tmp_path / "out")) == 130
    monkeypatch.setattr(writing, "__version__", "0.0.1")
    again = Measuring(monkeypatch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert main(command(model, data, tmp_path / "out")) == 0
    assert any(f"{2 * ROWS} texts that an earlier run left" in str(warning.message) for warning in caught)
    assert again.blocks == [0, 1, 2, 3, 4, 5]
    check_same(tmp_path / "out", undisturbed)


def test_training_says_what_training_keeps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("attn_faithful.api.carry_out", lambda *given, **settings: raising(KeyboardInterrupt())())
    assert main(["train", "--data", "mock-1", "--output", str(tmp_path)]) == 130
    assert "stopped; the same command goes on from the last whole epoch." in capsys.readouterr().err
