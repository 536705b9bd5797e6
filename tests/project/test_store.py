"""The run folder: whole files or none, strict JSON, shards, and errors that name the file."""

import doctest
import errno
import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import attn_faithful.store as store
from attn_faithful import schema
from attn_faithful._checks import InputError
from attn_faithful.store import RunFolder, find_runs, strict

PREDICTIONS = {"example": ["a", "b"], "label": [0, 1], "probabilities": [[0.25, 0.75], [0.5, 0.5]]}
OTHER = {"example": ["c"], "label": [1], "probabilities": [[0.1, 0.9]]}


@pytest.fixture
def run(tmp_path):
    return RunFolder(tmp_path / "cell")


def files(folder):
    return sorted(path.name for path in folder.path.iterdir())


def full(*args, **kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "disk")


def test_examples_in_docstrings():
    assert doctest.testmod(store).failed == 0
    assert doctest.testmod(schema).failed == 0


# --- tables


def test_a_table_comes_back(run):
    run.write_table("predictions", PREDICTIONS)
    assert run.read_table("predictions").to_pydict() == PREDICTIONS
    assert run.read_table("predictions", ["label"]).column_names == ["label"]
    assert run.has_table("predictions")
    assert not run.has_table("tokens")
    assert files(run) == ["predictions.parquet"]
    assert not run.done


def test_nan_and_empty_lists_come_back(run):
    table = {"example": ["a", "b"], "value": [float("nan"), 0.5], "reason": ["no content token", None]}
    run.write_table("scores", table)
    read = run.read_table("scores").to_pydict()
    assert np.isnan(read["value"][0])
    assert read["reason"] == ["no content token", None]
    run.write_table("tokens", {"example": ["a", "b"], "attention": [[], [1.0]]})
    assert run.read_table("tokens").column("attention").to_pylist() == [[], [1.0]]


@pytest.mark.parametrize(
    ("name", "table", "message"),
    [
        ("prediction", PREDICTIONS, r"Unknown table 'prediction'\. Did you mean 'predictions'"),
        (
            "predictions",
            {"exmple": ["a"]},
            r"Unknown column 'exmple' of the table 'predictions'\. Did you mean 'example'",
        ),
        ("predictions", {"example": ["a", "b"], "label": [1]}, "The table 'predictions' cannot be written"),
    ],
)
def test_wrong_tables(run, name, table, message):
    with pytest.raises(InputError, match=message):
        run.write_table(name, table)
    assert not run.path.exists()


def test_a_missing_table(run):
    with pytest.raises(InputError, match=r"holds no predictions\.parquet; the run did not get that far"):
        run.read_table("predictions")


@pytest.mark.parametrize("damage", [b"", b"PAR1 and no more", None])
def test_a_damaged_table_is_named(run, damage):
    run.write_table("predictions", PREDICTIONS)
    path = run / "predictions.parquet"
    path.write_bytes(path.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(InputError, match=r"predictions\.parquet is damaged.*remove it and run again"):
        run.read_table("predictions")


# --- shards


def test_shards_are_joined_in_the_order_of_the_data(run):
    run.write_table("predictions", {"example": ["c", "a"], "label": [3, 1]}, shard=0)
    run.write_table("predictions", {"example": ["d", "b"], "label": [4, 2]}, shard=1)
    assert not run.has_table("predictions")
    run.merge_shards("predictions", ["a", "b", "c", "d"], range(2))
    assert run.read_table("predictions").to_pydict() == {"example": ["a", "b", "c", "d"], "label": [1, 2, 3, 4]}
    assert files(run) == ["predictions.parquet"]


def test_several_rows_an_example_keep_their_order(run):
    run.write_table("variants", {"example": ["b", "b"], "variant": ["x", "y"]}, shard=0)
    run.write_table("variants", {"example": ["a", "a"], "variant": ["x", "y"]}, shard=1)
    run.merge_shards("variants", ["a", "b"], range(2))
    merged = run.read_table("variants").to_pydict()
    assert merged == {"example": ["a", "a", "b", "b"], "variant": ["x", "y", "x", "y"]}


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        ((["a", "b"], ["b", "c"]), "The example 'b' stands in two shards of 'predictions'"),
        ((["a"], ["c"]), "1 examples are in no shard of 'predictions', first 'b'"),
        ((["a", "b"], ["c", "z"]), "The example 'z' of a shard of 'predictions' is not in the data set"),
    ],
)
def test_inconsistent_shards(run, shards, message):
    for i, examples in enumerate(shards):
        run.write_table("predictions", {"example": examples}, shard=i)
    with pytest.raises(InputError, match=message):
        run.merge_shards("predictions", ["a", "b", "c"], range(2))
    assert files(run) == ["predictions.0.parquet", "predictions.1.parquet"]


def test_an_example_in_two_shards_of_a_long_table(run):
    for shard in ("tests", "twins"):
        run.write_table("variants", {"example": ["a", "a"], "variant": ["x", shard]}, shard=shard)
        run.write_table("tokens", {"example": ["a", "a"], "slot": [0, 1]}, shard=shard)
    run.merge_shards("variants", ["a", "b"], ["tests", "twins"])  # b has no variant
    assert run.read_table("variants").to_pydict()["variant"] == ["x", "tests", "x", "twins"]
    with pytest.raises(InputError, match="The example 'a' stands in two shards of 'tokens'"):
        run.merge_shards("tokens", ["a"], ["tests", "twins"])


def test_shards_whose_columns_hold_nothing_take_the_type_of_the_others(run):
    run.write_table("variants", {"example": ["a"], "exact": [None], "attention": [None]}, shard=0)
    run.write_table("variants", {"example": ["b"], "exact": [True], "attention": [[0.5, 0.5]]}, shard=1)
    run.merge_shards("variants", ["a", "b"], range(2))
    assert run.read_table("variants").to_pydict()["exact"] == [None, True]


def test_a_shard_that_is_missing(run):
    run.write_table("predictions", PREDICTIONS, shard=0)
    with pytest.raises(InputError, match=r"predictions\.1\.parquet"):
        run.merge_shards("predictions", ["a", "b"], range(2))


# --- json


def test_json_is_strict():  # C33
    value = {
        "tau": float("nan"),
        "top": np.float32("inf"),
        "n": np.int64(3),
        "share": np.float32(0.5),
        "row": np.array([1.0, np.nan]),
        "path": Path("a/b"),
        "seeds": (1, 2),
        5: None,
        "deep": [{"x": -float("inf")}],
        "yes": np.bool_(True),
    }
    got = strict(value)
    assert json.loads(json.dumps(got, allow_nan=False)) == {
        "tau": None,
        "top": None,
        "n": 3,
        "share": 0.5,
        "row": [1.0, None],
        "path": "a/b",
        "seeds": [1, 2],
        "5": None,
        "deep": [{"x": None}],
        "yes": True,
    }
    assert type(got["n"]) is int


def test_summary_and_meta_come_back(run):
    summary = {"tau": {"value": float("nan"), "reason": "n < 2"}, "n": 12, "name": "Grün"}
    run.write_summary(summary)
    assert not run.done
    run.write_meta({"seed": 3})
    assert run.done
    assert run.read_summary() == {"tau": {"value": None, "reason": "n < 2"}, "n": 12, "name": "Grün"}
    assert run.read_meta() == {"schema": schema.SCHEMA_VERSION, "seed": 3}
    assert "NaN" not in (run / "summary.json").read_text(encoding="utf-8")


def test_json_that_is_missing_or_damaged(run):
    with pytest.raises(InputError, match=r"holds no meta\.json; it is not a finished run"):
        run.read_meta()
    run.path.mkdir()
    (run / "meta.json").write_text('{"seed": 3')
    with pytest.raises(InputError, match=r"meta\.json is damaged.*remove it"):
        run.read_meta()


# --- whole or not at all


WRITES = {
    "table": lambda run: run.write_table("predictions", OTHER),
    "shard": lambda run: run.write_table("predictions", OTHER, shard=0),
    "summary": lambda run: run.write_summary({"n": 2}),
    "meta": lambda run: run.write_meta({"n": 2}),
    "folder": lambda run: run.place_folder("model", lambda path: (path / "weights").write_text("new")),
}


def write_old(run):
    run.write_table("predictions", PREDICTIONS)
    run.write_table("predictions", PREDICTIONS, shard=0)
    run.write_summary({"n": 1})
    run.write_meta({"n": 1})
    run.place_folder("model", lambda path: (path / "weights").write_text("old"))


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("old", [False, True], ids=["new", "over an old one"])
@pytest.mark.parametrize("where", ["os.replace", "os.fsync"])
@pytest.mark.parametrize("kind", WRITES)
def test_a_full_disk_leaves_nothing_half_written(run, monkeypatch, kind, where, old):
    if old:
        write_old(run)
    before = contents(run.path)
    with monkeypatch.context() as patch:
        patch.setattr(where, full)
        with pytest.raises(OSError, match="No space left") as error:
            WRITES[kind](run)
    assert error.value.errno == errno.ENOSPC
    assert contents(run.path) == before
    assert not list(run.path.glob(".*"))
    WRITES[kind](run)
    assert contents(run.path) != before


def test_a_full_disk_in_the_middle_of_a_table(run, monkeypatch):
    def half(table, path):
        Path(path).write_bytes(b"PAR1 half")
        full()

    run.write_summary({"n": 1})
    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(OSError, match="No space left"):
        run.write_table("predictions", PREDICTIONS)
    assert files(run) == ["summary.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_stop_in_the_middle_of_a_folder(run, error):
    def half(path):
        (path / "weights").write_text("half")
        raise error

    with pytest.raises(error):
        run.place_folder("model", half)
    assert files(run) == []
    run.place_folder("model", lambda path: (path / "weights").write_text("whole"))
    assert contents(run.path) == {"model/weights": b"whole"}


def test_an_old_folder_outlives_a_failed_move(run, monkeypatch):
    """The old folder goes only when the new one stands ready to take its place."""
    run.place_folder("model", lambda path: (path / "weights").write_text("old"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            run.place_folder("model", lambda path: (path / "weights").write_text("new"))
    assert contents(run.path) == {"model/weights": b"old"}


def test_files_have_the_usual_permissions(run):
    """Colleagues may read a run: the mode is that of any new file and folder, not of a temporary one."""
    run.write_summary({"n": 1})
    run.place_folder("model", lambda path: (path / "weights").write_text("x"))
    plain = run / "plain"
    plain.touch()
    folder = run / "folder"
    folder.mkdir()
    assert (run / "summary.json").stat().st_mode == plain.stat().st_mode
    assert (run / "model").stat().st_mode == folder.stat().st_mode


@contextmanager
def disk(place, kilobytes):
    """A disk of its own at ``place``; the test is skipped where it may not mount one."""
    place.mkdir()
    if not shutil.which("mount"):
        pytest.skip("there is no mount command")
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount a small tmpfs: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with disk(tmp_path / "disk", 64) as place:
        yield place


def test_a_small_disk(small_disk):
    run = RunFolder(small_disk / "cell")
    run.write_summary({"n": 1})
    n, noise = 20_000, np.random.default_rng(0)
    with pytest.raises(OSError, match="No space left"):
        run.write_table(
            "predictions", {"example": [str(i) for i in range(n)], "probabilities": noise.random((n, 2)).tolist()}
        )
    with pytest.raises(OSError, match="No space left"):
        run.place_folder("model", lambda path: (path / "weights").write_bytes(noise.bytes(200_000)))
    assert files(run) == ["summary.json"]
    run.write_table("predictions", PREDICTIONS)
    assert run.read_table("predictions").num_rows == 2


def test_a_read_only_disk(small_disk):
    run = RunFolder(small_disk / "cell")
    run.write_summary({"n": 1})
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for write in WRITES.values():
        with pytest.raises(OSError, match="Read-only"):
            write(run)
    assert run.read_summary() == {"n": 1}
    assert files(run) == ["summary.json"]


# --- finding runs


def test_find_runs(tmp_path):
    for name in ("b", "a", "deep/c"):
        RunFolder(tmp_path / "runs" / name).write_meta({})
    RunFolder(tmp_path / "runs" / "unfinished").write_summary({})
    found = find_runs([tmp_path / "runs", tmp_path / "runs" / "a"])
    assert [str(run.path.relative_to(tmp_path / "runs")) for run in found] == ["a", "b", "deep/c"]
    with pytest.raises(InputError, match="No finished run lies below"):
        find_runs([tmp_path / "runs" / "unfinished"])
    with pytest.raises(InputError, match="nowhere is not a folder"):
        find_runs([tmp_path / "nowhere"])
