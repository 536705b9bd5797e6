"""Time and peak memory of one piece of work, each in a process of its own, and the table of many.

Times are processor time of the process, the least of a few runs: other work on the machine only ever adds. Memory is
the most that was resident, less what was there after the imports and a first run on a few tokens.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("attn_faithful", "torch", "numpy", "scipy", "transformers", "datasets", "pyarrow", "captum")
TOO_LONG = 10.0  # seconds of one run of ours
PLAIN_LIMIT = 10.0  # seconds of one run of the baseline's part
COUNTED = 0.02  # seconds: the least that is timed
HELD = 6 * 2**30  # bytes that a child may hold: more of them would push out others

Record = dict[str, Any]


class TooLongError(Exception):
    """The work took more processor time than it was given."""


class AbsentError(Exception):
    """There is no such work for this model; the words say why."""


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        examples: that one run of ours does.
        ours: the work.
        plain: the baseline's, or a part of it; None for none.
        share: of the baseline's whole work that ``plain`` does; its time is divided by it.
        check: ``check(what ours gave, what plain gave)`` says whether they agree; None where a test says so.
    """

    examples: int
    ours: Callable[[], Any]
    plain: Callable[[], Any] | None = None
    share: float = 1.0
    check: Callable[[Any, Any], bool] | None = None


@contextmanager
def limited(seconds: float) -> Any:
    """TooLongError after so many seconds of processor time."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time a run, and what the first run gave.

    Some systems count processor time in hundredths of a second: what is shorter is run until the clock has moved.
    """
    start, runs = time.process_time(), 1
    result = work()
    while time.process_time() - start < COUNTED:
        work()
        runs += 1
    return (time.process_time() - start) / runs, result


def best(work: Callable[[], Any], repeats: int) -> float:
    """The least seconds of a few runs after a first one."""
    work()
    return min(spent(work)[0] for _ in range(repeats))


def alternating(
    works: Sequence[Callable[[], Any]], enough: float, most: int = 20, first: Sequence[float] | None = None
) -> list[float]:
    """The least seconds of each, run in turns until each has had ``enough`` seconds or ``most`` runs.

    Args:
        first: seconds of a run that each has had; None for none.
    """
    if first is None:
        first = [spent(work)[0] for work in works]
    times = [[seconds] for seconds in first]
    for _ in range(most - 1):
        unfinished = [i for i, seconds in enumerate(times) if sum(seconds) < enough]
        if not unfinished:
            break
        for i in unfinished:
            times[i].append(spent(works[i])[0])
    return [min(seconds) for seconds in times]


def resident() -> int:
    """Bytes in memory now."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes in memory since `forget_peak`, or since the process began."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Give freed memory back, and count the peak from here."""
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not say {name}; memory is measured on Linux")


def measured(
    make: Callable[[bool], Case], record: Record, *, enough: float, limit: float = TOO_LONG, plainly: bool = True
) -> None:
    """Fill in seconds an example of ours and of the baseline, their ratio and the peak memory.

    Args:
        make: ``make(small)`` sets the work up; small is for the first run, after which memory is counted.
        record: of this work; what cannot be measured gets words under "skipped".
        enough: seconds of repeats.
        limit: seconds that one run of ours may take.
        plainly: whether the baseline is run at all.
    """
    try:
        make(True).ours()
        forget_peak()
        before = resident()
        case = make(False)
        record["examples"] = case.examples
        try:
            with limited(limit):
                seconds, result = spent(case.ours)
        except TooLongError:
            record["skipped"] = f"> {limit:.0f} s"  # a run of ours
            return
        finally:
            record["bytes"] = max(0, peak() - before)
        record["seconds"] = seconds / case.examples
        if case.plain is None or not plainly:
            (least,) = alternating([case.ours], enough, first=[seconds])
            record["seconds"] = least / case.examples
        else:
            _measure_beside(case, seconds, result, record, enough)
    except AbsentError as reason:
        record["skipped"] = str(reason)


def _measure_beside(case: Case, seconds: float, result: Any, record: Record, enough: float) -> None:
    """Fill in the times of ours and of the baseline, run in turns, after a first run of ours."""
    try:
        with limited(PLAIN_LIMIT):
            plain_seconds, plain_result = spent(case.plain)
        if case.check is not None and not case.check(result, plain_result):
            record["skipped"] = "the two do not give the same"
            return
        ours, plain = alternating([case.ours, case.plain], enough, first=[seconds, plain_seconds])
    except TooLongError:
        record["plain at least"] = True
        (ours,), plain = alternating([case.ours], enough, first=[seconds]), PLAIN_LIMIT
    record["plain share"] = case.share
    record["seconds"] = ours / case.examples
    record["plain seconds"] = plain / case.share / case.examples
    record["ratio"] = record["plain seconds"] / record["seconds"]


def in_child(work: Callable[[Record], None], record: Record, wall: float = 240.0) -> Record:
    """Let a fork of this process do the work and fill in the record; a child that dies leaves words in it."""
    come, go = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.close(come)
            resource.setrlimit(resource.RLIMIT_DATA, (HELD, HELD))
            work(record)
            with os.fdopen(go, "w") as told:
                json.dump(record, told)
            status = 0
        except BaseException as error:
            os.write(go, json.dumps({**record, "skipped": f"{type(error).__name__}: {error}"[:300]}).encode())
        finally:
            os._exit(status)
    os.close(go)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, wall)
    try:
        with os.fdopen(come) as told:
            text = told.read()
        os.waitpid(pid, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return json.loads(text) if text else {**record, "skipped": f"stopped after {wall:.0f} s"}


def machine() -> dict[str, Any]:
    """What the numbers were measured on: no names and no paths."""
    import torch

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }


def seconds_text(value: float | None) -> str:
    """A time in the unit that suits it.

    Example:
        >>> seconds_text(0.00123), seconds_text(0.5), seconds_text(12.0)
        ('1.23 ms', '500 ms', '12 s')
    """
    if value is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size or unit == "us":
            return f"{value / size:.3g} {unit}"
    return "-"


def cell_text(record: Mapping[str, Any]) -> str:
    """A record in a cell of the table: "1.2 ms, 3 x, 40 MB", or why it has no time."""
    memory = megabytes(record["bytes"]) if record.get("bytes") else ""
    if "seconds" not in record:
        return f"{record['skipped']} ({memory} by then)" if memory else record["skipped"]
    parts = [seconds_text(record["seconds"])]
    if record.get("ratio") is not None:
        parts.append(_ratio_text(record["ratio"], "plain at least" in record))
    parts.append(memory)
    if "skipped" in record:
        parts.append(record["skipped"])
    return ", ".join(parts)


def _ratio_text(ratio: float, at_least: bool) -> str:
    times = f"{ratio:.2g}" if ratio < 10 else f"{ratio:,.0f}"
    return f"> {times} x" if at_least else f"{times} x"


def megabytes(size: float) -> str:
    """Bytes as text.

    Example:
        >>> megabytes(3 * 2**20)
        '3 MB'
    """
    return f"{size / 2**20:.0f} MB"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns as wide as they have to be."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = []
    for row in (head, ["-" * width for width in widths], *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
