"""From a set and what is entered to result files and the leaderboard."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attn_faithful._atomic import write_bytes, write_text
from attn_faithful._checks import InputError
from attn_faithful._digests import digest_of_file
from attn_faithful.bench.entries import explained_by_file, function_of, measured_by_function
from attn_faithful.bench.explained import Explained, scores_of_explanations
from attn_faithful.bench.frozen_set import PACKAGES, FrozenSet
from attn_faithful.bench.kinds import TRUTHS
from attn_faithful.bench.measured import Measured
from attn_faithful.bench.measuring import lines_of_tests, scores_of_tests
from attn_faithful.bench.running import OnProgress, TestedModel, by_test, explained_by_sources, measured, run_all_tests
from attn_faithful.bench.twins import ComparedTwin, compare_twins, with_twins
from attn_faithful.bench.verdicts import VERDICT, said_of, verdict_numbers, verdicts
from attn_faithful.bench_results import is_defined, read_result, read_results
from attn_faithful.experiments.processes import SINGLE_PROCESS, ProcessGroup
from attn_faithful.records.bench import EXPLANATION, TEST, BenchResult
from attn_faithful.reports.figures.auc import auc_svg
from attn_faithful.reports.html.leaderboard import write_leaderboard
from attn_faithful.reports.tables.bench import tables_of_bench
from attn_faithful.store import strict

OURS = "attn_faithful"
RESULTS, LEADERBOARD, TABLES, FIGURES = "results", "leaderboard.html", "tables.md", "figures"


@dataclass(frozen=True)
class Bench:
    """A set and the folder of what is measured on it.

    Attributes:
        frozen: the set.
        output: folder with the folders ``tests``, ``twins``, ``metrics``, ``results`` and ``figures``, the tables and
            the leaderboard.
    """

    frozen: FrozenSet
    output: Path

    @property
    def results(self) -> Path:
        """The folder of the result files."""
        return self.output / RESULTS

    @property
    def tables(self) -> Path:
        """The file of the tables."""
        return self.output / TABLES

    def run_tests(
        self,
        on_progress: OnProgress = lambda done, n: None,
        device: str = "auto",
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> list[TestedModel]:
        """Run all tests of the package on all models; several processes share them, and the main one returns all."""
        run = partial(run_all_tests, self.frozen, self.output / "tests", device=device)
        return _shared(processes, "tested", run, on_progress)

    def train_twins(
        self, on_progress: OnProgress = lambda done, n: None, processes: ProcessGroup = SINGLE_PROCESS
    ) -> list[ComparedTwin]:
        """Train the twins that AtteFa compares with the models; processes share them as they do the tests."""
        compare = partial(compare_twins, self.frozen, self.output / "twins")
        return _shared(processes, "twins", compare, on_progress)

    def ours(
        self, models: Sequence[TestedModel], twins: Sequence[ComparedTwin] = (), seconds: float = math.nan
    ) -> list[BenchResult]:
        """A result of each test of the package and of the verdict, and of each source of importance that they needed.

        Args:
            models: of `run_tests`.
            twins: of `train_twins`; none for results without AtteFa.
            seconds: that both took.
        """
        numbers = measured(self.frozen, models)
        if twins:
            numbers = with_twins(numbers, twins)
        results = [self._of_tests(test, OURS, of_test, seconds) for test, of_test in by_test(numbers).items()]
        said = said_of(models)
        of_verdict = self._of_tests(VERDICT, OURS, verdict_numbers(numbers, said), seconds)
        results.append(replace(of_verdict, verdicts=verdicts(said)))
        for source, explanations in explained_by_sources(self.frozen, models).items():
            results.append(self._of_explanations(source, OURS, explanations, None, seconds))
        return results

    def of_file(self, path: str | Path, name: str) -> BenchResult:
        """Measure an explanation that was computed elsewhere, see `entries.explained_by_file`."""
        start = time.monotonic()
        explanations = explained_by_file(self.frozen, path)
        seconds = time.monotonic() - start
        return self._of_explanations(name, Path(path).name, explanations, digest_of_file(path), seconds)

    def of_function(self, address: str, name: str, on_progress: OnProgress = lambda done, n: None) -> BenchResult:
        """Measure a test of somebody else's, "module:function", see `entries.measured_by_function`."""
        start = time.monotonic()
        test = function_of(address)
        numbers = measured_by_function(self.frozen, test, name, self.output / "metrics" / name, on_progress)
        return self._of_tests(name, address, numbers, time.monotonic() - start)

    def write(self, results: Sequence[BenchResult]) -> Path:
        """Write result files and, with those that are there of the same set, the report, see `write_report`.

        Raises:
            InputError: a result of that name is there, from elsewhere, or one in which nothing is defined; nothing is
                written.
        """
        for result in results:
            if not is_defined(result):
                raise InputError(f"{result.name} has no number that is defined{_why(result)}; nothing was written.")
        files = {self.results / f"{result.name}.json": result for result in results}
        for file, result in files.items():
            _check_free(file, result)
        for file, result in files.items():
            text = json.dumps(strict(result.as_json()), indent=1, ensure_ascii=False, allow_nan=False)
            write_text(file, text + "\n")
        return self.write_report()

    def write_report(self) -> Path:
        """Write tables, a figure of each test and the leaderboard of all results that are there; the page's path."""
        results = read_results([self.results])
        pages = [table.markdown() for table in tables_of_bench(results)]
        write_text(self.tables, "\n".join(pages))
        for result in results:
            if result.entry == TEST:
                write_bytes(self.output / FIGURES / f"{result.name}.svg", auc_svg(result))
        return write_leaderboard([self.results], self.output / LEADERBOARD, TRUTHS)

    def _of_tests(self, name: str, origin: str, numbers: Sequence[Measured], seconds: float) -> BenchResult:
        return BenchResult(
            name=name,
            entry=TEST,
            origin=origin,
            set_sha256=self.frozen.sha256,
            scores=scores_of_tests(numbers),
            lines=lines_of_tests(numbers),
            **_circumstances(seconds),
        )

    def _of_explanations(
        self, name: str, origin: str, explanations: Sequence[Explained], file_sha256: str | None, seconds: float
    ) -> BenchResult:
        return BenchResult(
            name=name,
            entry=EXPLANATION,
            origin=origin,
            set_sha256=self.frozen.sha256,
            scores=scores_of_explanations(explanations, name),
            file_sha256=file_sha256,
            **_circumstances(seconds),
        )


def _shared(processes: ProcessGroup, name: str, work: Callable[..., list[Any]], on_progress: OnProgress) -> list[Any]:
    """What is found for all models in the main process, and for its share in every other.

    Args:
        processes: that share the models, and wait for one another.
        name: of the work.
        work: ``work(on_progress=..., share=...)``; what is finished is only read.
        on_progress: ``on_progress(done, n)`` in models of this process.
    """
    found = work(on_progress=on_progress, share=slice(processes.rank, None, processes.world))
    processes.wait(name)
    if processes.main and processes.world > 1:
        return work()  # those of the others are finished
    return found


def _circumstances(seconds: float) -> dict[str, Any]:
    return {
        "versions": {package: version(package) for package in PACKAGES},
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(seconds, 1),
    }


def _why(result: BenchResult) -> str:
    """Why most is undefined, in brackets."""
    reasons: Counter[str] = Counter()
    for score in result.scores:
        reasons.update(score.reasons)
    if not reasons:
        return ""
    return f" ({reasons.most_common(1)[0][0]})"


def _check_free(file: Path, result: BenchResult) -> None:
    """Raise where a file holds the result of something else."""
    if not file.is_file():
        return
    there = read_result(file)
    if (there.origin, there.entry) != (result.origin, result.entry):
        raise InputError(
            f"{file} holds a result of {there.origin}, and this one is of {result.origin}; choose another --name."
        )
