"""The command ``bench``: AttentionBench is made or read, and tests and explanations are measured on it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.cli.looking import complain, say, show
from attn_faithful.cli.stopping import BENCHING

FOLDER = "bench"  # below --output
_ROWS = 12  # of a table, unless --full asks for all


def bench(given: argparse.Namespace) -> None:
    from attn_faithful.bench.submitting import Bench
    from attn_faithful.experiments.launcher import process_group
    from attn_faithful.experiments.quiet import quiet

    output = Path(given.output) / FOLDER
    with process_group(given.processes, "cells") as processes, quiet():
        frozen = _set(given, output, processes)
        if given.make_only:
            if processes.main:
                say(f"Set: {frozen.folder}, {len(frozen.manifest.models)} models, sha256 {frozen.sha256}")
            return
        place = output / frozen.sha256[:8]
        _run(given, Bench(frozen, place), processes)


def _set(given: argparse.Namespace, output: Path, processes: Any) -> Any:
    """The set that is named, or the one below --output, which is made where it is not there."""
    from attn_faithful.bench.frozen_set import SMALL, WHOLE, make_set, read_set
    from attn_faithful.bench_files import MANIFEST
    from attn_faithful.hub.bench_download import download_set
    from attn_faithful.loading import check_there

    if given.set is not None:
        check_there(given.set)
        if Path(given.set).exists():
            return read_set(given.set)
        return read_set(download_set(given.set))
    folder = output / ("set-small" if given.smoke else "set")
    if (folder / MANIFEST).is_file():
        return read_set(folder)
    plan = SMALL if given.smoke else WHOLE
    with _counter("Models of the set", processes) as counter:
        return make_set(folder, plan, counter.update, processes)


def _counter(title: str, processes: Any) -> Any:
    from attn_faithful.reports.progress.progress import Counter

    return Counter(title, processes.rank, processes.world, unit="model", kept=BENCHING)


def _run(given: argparse.Namespace, measuring: Any, processes: Any) -> None:
    """Measure what is entered, or the tests of the package; the main process shows it."""
    if given.source_file is not None:
        if processes.main:
            name = given.name or Path(given.source_file).stem
            _show(given, measuring, [measuring.of_file(given.source_file, name)])
        return
    if given.metric is not None:
        if processes.main:
            name = given.name or given.metric.rpartition(":")[2]
            with _counter(name, processes) as counter:
                result = measuring.of_function(given.metric, name, counter.update)
            _show(given, measuring, [result])
        return
    if given.name is not None:
        raise InputError("--name is of what is entered with --source-file or --metric; give one of them.")
    start = time.monotonic()
    with _counter("Tests", processes) as counter:
        models = measuring.run_tests(counter.update, given.device, processes)
    twins = []
    if not given.no_twins:
        with _counter("Twins", processes) as counter:
            twins = measuring.train_twins(counter.update, processes)
    if processes.main:
        results = measuring.ours(models, twins, time.monotonic() - start)
        _show(given, measuring, _defined(results))


def _defined(results: Sequence[Any]) -> list[Any]:
    """The results in which something is defined; the others are named, as the verdict on a set of few texts."""
    from attn_faithful.bench_results import is_defined

    left_out = [result.name for result in results if not is_defined(result)]
    if left_out:
        complain(f"left out, since nothing of it is defined on this set: {', '.join(left_out)}.")
    return [result for result in results if is_defined(result)]


def _show(given: argparse.Namespace, measuring: Any, results: Sequence[Any]) -> None:
    from attn_faithful.reports.tables.bench import tables_of_bench

    page = measuring.write(results)
    show(tables_of_bench(results, None if given.full else _ROWS))
    say(f"Results: {measuring.results}", f"All tables: {measuring.tables}", f"Leaderboard: {page}")
