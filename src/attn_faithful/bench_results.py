"""Result files of AttentionBench: found, read, and refused by name where they cannot stand beside one another."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.records.bench import (
    EVERY,
    EXPLANATION,
    MODEL,
    TEST,
    TEXT,
    TOKEN,
    BenchLine,
    BenchResult,
    BenchScore,
)

LEVELS: dict[str, Collection[str]] = {TEST: (MODEL, TEXT), EXPLANATION: (TOKEN,)}  # of each kind of entry

_WORDS = ("metric", "source", "kind", "level", "length")
_COUNTS = ("n_explains", "n_other", "n_undefined")
_SHARES = ("auc", "low", "high")
_SHARES_OF_LINES = ("balanced_accuracy", "low", "high", "missed")
_ROUNDING = 1e-9  # by which a mean of shares may leave 0 to 1
_DIGEST = re.compile("[0-9a-f]{64}")


def result_files(paths: Sequence[str | Path]) -> list[Path]:
    """The result files among paths, each once: files as they are given, of a folder its ``*.json`` by name.

    Raises:
        InputError: a path does not exist, or a folder holds none.
    """
    found: dict[Path, Path] = {}  # the same file by several paths counts once
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(file for file in path.glob("*.json") if not file.name.startswith("."))
        else:
            files = [path]
        if not files:
            raise InputError(f"{path} holds no result file (*.json); attn-faithful bench writes them.")
        for file in files:
            if not file.is_file():
                raise InputError(f"There is no result file {file}; attn-faithful bench writes them.")
            found.setdefault(file.resolve(), file)
    if not found:
        raise InputError("Expected result files, or a folder of them, but got none; attn-faithful bench writes them.")
    return list(found.values())


def read_results(paths: Sequence[str | Path]) -> list[BenchResult]:
    """The results in files that were all measured on one set.

    Args:
        paths: files, or folders of ``*.json``.

    Returns:
        the results, in the order of `result_files`.

    Raises:
        InputError: a file is missing, no result file, or was measured on another set than the first; it is named.
    """
    files = result_files(paths)
    results = [read_result(file) for file in files]
    first = results[0]
    for file, result in zip(files, results, strict=True):
        if result.set_sha256 != first.set_sha256:
            raise InputError(
                f"{file} was measured on the set {result.set_sha256[:12]}, but {files[0]} on the set "
                f"{first.set_sha256[:12]}; numbers of two sets are not comparable: put each set's files into a folder "
                "of its own, and make a page of each."
            )
    return results


def read_result(path: str | Path) -> BenchResult:
    """The result in a file.

    Raises:
        InputError: no result file, or a number that is undefined without a reason, or outside its range.
    """
    try:
        result = BenchResult.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        faults = _faults(result)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is no result file ({why}); attn-faithful bench writes them.") from error
    if faults:
        more = f", and {len(faults) - 1} more such" if len(faults) > 1 else ""
        raise InputError(f"{path}: {faults[0]}{more}; measure it again with attn-faithful bench.")
    return result


def _faults(result: BenchResult) -> list[str]:
    """What is wrong with a result, in words."""
    faults = _faults_of_facts(result)
    if faults:
        return faults
    places = set()
    for score in result.scores:
        fault = _fault_of_score(score, LEVELS[result.entry])
        place = tuple(getattr(score, name) for name in _WORDS)
        if fault:
            faults.append(f"{_described(score)}: {fault}")
        elif place in places:
            faults.append(f"{_described(score)} stands there twice")
        places.add(place)
    for line in result.lines:
        fault = _fault_of_line(line)
        if fault:
            faults.append(f"the line on {line.metric} ({line.source}): {fault}")
    if not faults and not is_defined(result):
        faults.append("no AUC over all kinds and lengths is defined")
    return faults


def is_defined(result: BenchResult) -> bool:
    """Whether an AUC over all kinds and lengths is defined, without which a result is not taken."""
    headlines = [score for score in result.scores if score.kind == EVERY and score.length == EVERY]
    return any(not math.isnan(score.auc) for score in headlines)


def _faults_of_facts(result: BenchResult) -> list[str]:
    """What is wrong beside scores and lines."""
    faults = []
    for name in ("name", "origin", "date"):
        if not isinstance(getattr(result, name), str):
            faults.append(f"{name} is no text")
    if not faults and not result.name.strip():
        faults.append("name is empty")
    if result.entry not in LEVELS:
        faults.append(f"entry is {result.entry!r}, not {TEST!r} or {EXPLANATION!r}")
    if not _is_digest(result.set_sha256):
        faults.append("set_sha256 is no sha256")
    if result.file_sha256 is not None and not _is_digest(result.file_sha256):
        faults.append("file_sha256 is no sha256")
    if not isinstance(result.versions, Mapping):
        faults.append("versions is no mapping")
    if not result.scores:
        faults.append("scores is empty")
    return faults


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _fault_of_score(score: BenchScore, levels: Collection[str]) -> str:
    """What is wrong with a score; "" where nothing is."""
    for name in _WORDS:
        if not isinstance(getattr(score, name), str):
            return f"{name} is no text"
    for name in _COUNTS:
        count = getattr(score, name)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            return f"{name} is no count"
    if score.level not in levels:
        return f"level is {score.level!r}, not {' or '.join(map(repr, levels))}"
    fault = _fault_of_shares(score, _SHARES)
    if fault:
        return fault
    if math.isnan(score.auc) and score.n_explains and score.n_other:
        return f"auc is NaN where a number must be, with numbers on either side ({score.n_explains}, {score.n_other})"
    return ""


def _fault_of_line(line: BenchLine) -> str:
    """What is wrong with a line; "" where nothing is."""
    if line.faithful not in ("above", "below"):
        return f"faithful is {line.faithful!r}, not 'above' or 'below'"
    if not isinstance(line.passed, Mapping):
        return "passed is no mapping"
    if not _is_number(line.line) or not math.isfinite(line.line):
        return "line is NaN where a number must be"
    return _fault_of_shares(line, _SHARES_OF_LINES)


def _fault_of_shares(record: BenchScore | BenchLine, names: Sequence[str]) -> str:
    """A share that is no number, or outside 0 to 1; "" where there is none."""
    for name in names:
        share = getattr(record, name)
        if not _is_number(share):
            return f"{name} is no number"
        if not math.isnan(share) and not -_ROUNDING <= share <= 1 + _ROUNDING:
            return f"{name} is {share}, outside 0 to 1"
    if record.low > record.high:
        return f"the interval {record.low} to {record.high} ends before it begins"
    return ""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _described(score: BenchScore) -> str:
    return f"{score.metric} ({score.source}) against {score.kind}, level {score.level}, length {score.length}"
