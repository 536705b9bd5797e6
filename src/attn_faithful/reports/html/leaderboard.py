"""The leaderboard of AttentionBench: one HTML file that works offline, made from result files and nothing else."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.bench_results import read_results
from attn_faithful.records.bench import EVERY, EXPLANATION, MODEL, TEST, TEXT, BenchResult
from attn_faithful.reports.characters import visible
from attn_faithful.reports.figures.auc import auc_svg
from attn_faithful.reports.html.shell import look, templates, write_html
from attn_faithful.reports.leaderboard import (
    Row,
    explanation_board,
    kinds_of,
    number_rows,
    test_board,
    title_of_number,
)
from attn_faithful.reports.numbers import number


@dataclass(frozen=True)
class _Entry:
    """All of a submission.

    Attributes:
        result: the submission.
        kinds: of the columns of its numbers.
        rows: its numbers.
        passed: of the columns of its lines.
        figure: its dots, as a data URI.
    """

    result: BenchResult
    kinds: Sequence[str]
    rows: Sequence[Row]
    passed: Sequence[str]
    figure: str


def write_leaderboard(results: Sequence[str | Path], path: str | Path, truths: Mapping[str, str] | None = None) -> Path:
    """Write the leaderboard of result files as one HTML file.

    Args:
        results: files, or folders of ``*.json``, all measured on one set.
        path: of the page; its folder is made.
        truths: see `leaderboard_page`.

    Returns:
        ``path``.

    Raises:
        InputError: a file is missing, no result file, holds NaN where a number must be, or was measured on another set;
            it is named.
        OSError: the page cannot be written; nothing half-written stays behind.
    """
    return write_html(leaderboard_page(read_results(results), truths), path)


def leaderboard_page(results: Sequence[BenchResult], truths: Mapping[str, str] | None = None) -> str:
    """The leaderboard of results: a table of tests, one of explanations, and all numbers of each submission.

    Args:
        results: of one set; of files, `attn_faithful.bench_results.read_results`.
        truths: kind -> why its attention explains or does not, in a sentence.

    Returns:
        HTML, which asks for nothing from elsewhere.

    Raises:
        InputError: no results, or of more than one set.
    """
    digests = {result.set_sha256 for result in results}
    if len(digests) != 1:
        raise InputError(f"Expected results that were measured on one set, but got {len(digests)} sets.")
    tests = [result for result in results if result.entry == TEST]
    explanations = [result for result in results if result.entry == EXPLANATION]
    test_kinds, explanation_kinds = kinds_of(tests), kinds_of(explanations)
    known = {kind: visible(truth) for kind, truth in (truths or {}).items()}
    environment = templates()
    environment.filters |= {
        "visible": visible,
        "versions": _versions,
        "own_version": _own_version,
        "share": _share,
        "end": lambda value: number(value, 2),
        "sortable": _sortable,
    }
    facts = {
        "set_sha256": digests.pop(),
        "entries": [_entry(result) for result in results],
        "numbers": _Places(results),
        "tests": test_board(tests, test_kinds),
        "test_kinds": test_kinds,
        "explanations": explanation_board(explanations, explanation_kinds),
        "explanation_kinds": explanation_kinds,
        "levels": _present(tests, "level", (MODEL, TEXT)),
        "lengths": _lengths(results),
        "truths": known,
        "glossary": [(kind, known[kind]) for kind in kinds_of(results) if kind in known],
        "nan": math.nan,
        "title_of_number": title_of_number,
        **look(environment, styles=["page.css.j2", "leaderboard.css.j2"], scripts=["leaderboard.js"]),
    }
    html: str = environment.get_template("leaderboard.html.j2").render(facts)
    return html


class _Places:
    """The place of each submission on the page, by which its rows lead to it."""

    def __init__(self, results: Sequence[BenchResult]) -> None:
        self._places = {id(result): place for place, result in enumerate(results)}

    def __getitem__(self, result: BenchResult) -> int:
        return self._places[id(result)]


def _entry(result: BenchResult) -> _Entry:
    kinds = kinds_of([result])
    passed: dict[str, None] = {}
    for line in result.lines:
        passed |= dict.fromkeys(line.passed)
    figure = base64.b64encode(auc_svg(result)).decode()
    return _Entry(result, kinds, number_rows(result, kinds), list(passed), f"data:image/svg+xml;base64,{figure}")


def _present(results: Sequence[BenchResult], name: str, values: Sequence[str]) -> list[str]:
    """Those of the values that a field of some score has."""
    found = set()
    for result in results:
        found |= {getattr(score, name) for score in result.scores}
    return [value for value in values if value in found]


def _lengths(results: Sequence[BenchResult]) -> list[str]:
    """The lengths of the scores: all of them first, the others from short to long."""
    found = set()
    for result in results:
        found |= {score.length for score in result.scores}
    return sorted(found, key=lambda length: (length != EVERY, not length.isdigit(), len(length), length))


def _versions(versions: Mapping[str, Any]) -> str:
    """Packages with their versions, in words."""
    return ", ".join(f"{visible(name)} {visible(version)}" for name, version in versions.items())


def _own_version(versions: Mapping[str, Any]) -> str:
    """The version of this package, or the first of those that there are."""
    named = [name for name in versions if name == "attn_faithful"] or list(versions)[:1]
    return _versions({name: versions[name] for name in named})


def _share(value: float) -> str:
    """Two digits, and neither 0 nor 1 for what is between them.

    Example:
        >>> _share(0.999), _share(0.004), _share(1.0), _share(0.0), _share(0.504), _share(float("nan"))
        ('>0.99', '<0.01', '1.00', '0.00', '0.50', '-')
    """
    text = number(value, 2)
    if text == "1.00" and value < 1:
        return ">0.99"
    if text == "0.00" and value > 0:
        return "<0.01"
    return text


def _sortable(value: float) -> str:
    """What a table sorts by; "" where it is undefined."""
    return "" if math.isnan(value) else repr(float(value))
