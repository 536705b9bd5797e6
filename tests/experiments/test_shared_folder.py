"""Machines that share a folder: one that does not is told before any work, files that show late are waited for."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from attn_faithful._checks import InputError
from attn_faithful.experiments import processes
from attn_faithful.experiments.processes import ProcessGroup, appears
from attn_faithful.experiments.results import Writer
from attn_faithful.store import RunFolder


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Nothing of a test shows later than in a second."""
    monkeypatch.setattr(processes, "SEEN", 1.0)


def group(world=2):
    """Processes that work together, of which each is a thread."""
    meeting, held = threading.Barrier(world), {}

    def member(rank):
        def gather(value):
            held[rank] = value
            meeting.wait()
            values = [held[other] for other in range(world)]
            meeting.wait()
            return values

        return ProcessGroup(rank, world, lambda name: meeting.wait(), gather)

    return [member(rank) for rank in range(world)]


def each(function, *arguments):
    """What a function gives, or raises, in threads that run at once."""
    with ThreadPoolExecutor(len(arguments[0])) as pool:
        futures = [pool.submit(function, *of_one) for of_one in zip(*arguments, strict=True)]
        return [future.exception() or future.result() for future in futures]


def entered(member, folder):
    with member.writing(folder):
        return folder.path.name


def test_machines_that_share_a_folder_enter_together(tmp_path):
    assert each(entered, group(), [RunFolder(tmp_path / "run")] * 2) == ["run", "run"]


def test_a_machine_that_does_not_see_the_folder_is_told_in_all_of_them(tmp_path):
    folders = [RunFolder(tmp_path / "one/run"), RunFolder(tmp_path / "two/run")]
    found = each(entered, group(), folders)
    assert [type(error) for error in found] == [InputError, InputError]
    assert "The process 1 of 2 does not see the run folder of the main process" in str(found[0])
    assert str(tmp_path / "two/run") in str(found[0])
    assert str(found[0]) == str(found[1])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_shows_late_is_waited_for(tmp_path):
    path = tmp_path / "late"
    threading.Timer(0.3, path.touch).start()
    assert appears(path)
    assert not appears(tmp_path / "never")


class _Builder:
    class rows:  # noqa: N801 -- stands for the attribute
        examples = ()


def test_parts_that_the_main_process_does_not_see_are_told(tmp_path):
    def closed(member, folder):
        writer = Writer(folder, _Builder, member)
        writer._written = [str(member.rank)]
        folder.facts_of(str(member.rank)).write_text(json.dumps({"rows": {}}))
        writer.close()

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    found = each(closed, group(), [RunFolder(tmp_path / "one"), RunFolder(tmp_path / "two")])
    assert ["The part 1 of another process is not in" in str(error) for error in found] == [True, True]


def test_all_go_by_what_the_main_process_sees():
    main_and_other = group()
    assert each(lambda member, done: member.of_main(done), main_and_other, [True, False]) == [True, True]
