"""The runner of the schedule: order, failures, and what is not asked again."""

from evidence.run import Runner
from evidence.schedule import Entry, Task

ENTRY = Entry("p", {"data": "SST"}, [1, 2], 1.0)
TASKS = [Task(ENTRY, {"data": "SST"}, seed) for seed in (1, 2)]


class Recorded(Runner):
    """Writes down the seeds of its commands; those of `failing` fail."""

    def __init__(self, output, failing=()):
        super().__init__("DIR", "vectors.txt", output)
        self.failing = failing
        self.seeds = []

    def carry_out(self, command, log):
        seed = int(command[command.index("--seeds") + 1])
        self.seeds.append(seed)
        log.write("said\n")
        return int(seed in self.failing)


def test_a_cell_that_fails_does_not_stop_the_others_and_is_asked_again(tmp_path, capsys):
    runner = Recorded(tmp_path, failing=[1])
    assert runner.run_all(TASKS, jobs=1) == [TASKS[0]]
    assert runner.seeds == [1, 2]
    assert "p SST, seed 1: failed, see" in capsys.readouterr().out
    again = Recorded(tmp_path)
    assert again.run_all(TASKS, jobs=1) == []
    assert again.seeds == [1]
    assert (tmp_path / "logs" / "p-sst-seed-1.log").read_text() == "said\nsaid\n"


def test_another_command_is_asked_though_its_cell_is_marked(tmp_path):
    Recorded(tmp_path).run_all(TASKS, jobs=1)
    other = Task(Entry("p", {"data": "SST"}, [1], 1.0, limit={"test": 5}), {"data": "SST"}, 1)
    runner = Recorded(tmp_path)
    runner.run_all([other], jobs=1)
    assert runner.seeds == [1]


def test_once_stopped_nothing_more_begins(tmp_path):
    runner = Recorded(tmp_path)
    runner.stopped.set()
    assert runner.run_all(TASKS, jobs=2) == TASKS
    assert runner.seeds == []
