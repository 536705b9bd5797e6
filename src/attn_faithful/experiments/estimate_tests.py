"""How long the tests of a model will take: measured on a few of the texts, short ones and long ones."""

from __future__ import annotations

import time
from dataclasses import replace
from tempfile import TemporaryDirectory

from attn_faithful.data.text_column import Texts
from attn_faithful.experiments.evaluation_task import Task
from attn_faithful.experiments.run_evaluation import evaluate_task

_SAMPLE = 16  # texts; more would not be a quick look


def sample(lengths: list[int], size: int = _SAMPLE) -> list[int]:
    """Places whose lengths are spread like all lengths: the middle of each of `size` equal parts, by length.

    Example:
        >>> sample([5, 1, 9, 3], 2)
        [1, 0]
    """
    order = sorted(range(len(lengths)), key=lambda place: (lengths[place], place))
    size = min(size, len(order))
    middles = [int((part + 0.5) * len(order) / size - 1e-9) for part in range(size)]
    return [order[middle] for middle in middles]


def seconds_of_tests(task: Task) -> float:
    """Seconds that a task's tests will take on this machine, from the time that a few of its texts take now.

    Many texts are run together, which costs less a text: so this is at most what it will be.

    Raises:
        InputError: whatever is wrong with the task.
    """
    texts = task.texts.splits[task.split]
    chosen = sample([len(text) for text in Texts.of(texts, "text")])
    few_texts = replace(task.texts, splits={task.split: texts.select(chosen)})
    times: list[float] = []
    with TemporaryDirectory(prefix="attn-faithful-") as folder:
        few = replace(task, texts=few_texts)
        evaluate_task(few, folder, on_progress=lambda done, of: times.append(time.perf_counter()))
    if len(times) < 2:
        return 0.0
    return (times[-1] - times[0]) * len(texts) / len(chosen)
