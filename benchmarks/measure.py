"""Time and peak memory of one piece of work beside its peers, each piece in a process of its own.

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
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

PACKAGES = ("attn_faithful", "torch", "numpy", "scipy", "transformers", "datasets", "pyarrow", "captum", "interpreto")
TOO_LONG = 10.0  # seconds of one run, of ours or of a peer's part
COUNTED = 0.02  # seconds: the least that is timed
HELD = 6 * 2**30  # bytes that a child may hold: more of them would push out others

Record = dict[str, Any]


class TooLongError(Exception):
    """The work took more processor time than it was given."""


class AbsentError(Exception):
    """There is no such work for this model; the words say why."""


@dataclass(frozen=True)
class Peer:
    """Another way to the same.

    Attributes:
        name: in the table.
        work: all of it or a part.
        share: of the whole work that ``work`` does; its time is divided by it.
        check: ``check(what ours gave, what the peer gave)`` says whether they agree; None where a test says so.
    """

    name: str
    work: Callable[[], Any]
    share: float = 1.0
    check: Callable[[Any, Any], bool] | None = None


@dataclass(frozen=True)
class Case:
    """What is measured.

    Attributes:
        examples: that one run of ours does.
        ours: the work.
        peers: that it is compared with.
        floor: the least seconds that ours could take, see floor.py; None where none is known.
    """

    examples: int
    ours: Callable[[], Any]
    peers: Sequence[Peer] = ()
    floor: Callable[[], float] | None = None


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
    make: Callable[[bool], Case], record: Record, *, enough: float, limit: float = TOO_LONG, beside: bool = True
) -> None:
    """Fill in seconds an example of ours and of its peers, their ratios, the floor and the peak memory.

    Args:
        make: ``make(small)`` sets the work up; small is for the first run, after which memory is counted.
        record: of this work; what cannot be measured gets words under "skipped".
        enough: seconds of repeats.
        limit: seconds that one run may take.
        beside: whether the peers are run at all.
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
        if not beside:
            case = replace(case, peers=())
        _measure_beside(case, seconds, result, record, (enough, limit))
        if case.floor is not None:
            record["floor seconds"] = case.floor() / case.examples
    except AbsentError as reason:
        record["skipped"] = str(reason)


def _measure_beside(case: Case, seconds: float, result: Any, record: Record, extent: tuple[float, float]) -> None:
    """Fill in the times of ours and of its peers, run in turns, after a first run of ours.

    Args:
        seconds, result: of that first run.
        extent: seconds of repeats, and seconds that one run of a peer may take.
    """
    enough, limit = extent
    in_time, first = [], []
    for peer in case.peers:
        try:
            with limited(limit):
                peer_seconds, peer_result = spent(peer.work)
        except TooLongError:
            record.setdefault("stopped", {})[peer.name] = limit / peer.share / case.examples
            continue
        if peer.check is not None and not peer.check(result, peer_result):
            record["skipped"] = f"not the same as {peer.name}"
            return
        in_time.append(peer)
        first.append(peer_seconds)
    works = [case.ours, *(peer.work for peer in in_time)]
    ours, *others = alternating(works, enough, first=[seconds, *first])
    record["seconds"] = ours / case.examples
    record["peers"] = {}
    for peer, least in zip(in_time, others, strict=True):
        record["peers"][peer.name] = {"seconds": least / peer.share / case.examples, "share": peer.share}


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
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }
