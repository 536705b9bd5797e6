"""The section of an appendix about settings: how the tests were run."""

from __future__ import annotations

from collections.abc import Sequence

from attn_faithful.reports.appendix.document import Grid, Line, Name, Paragraph, Section
from attn_faithful.reports.appendix.shared import as_text, by_value, flat, listed, title_of_run
from attn_faithful.reports.run import Run

_WORDS = {
    "sites": "sites",
    "queries": "rows of attention",
    "heads": "heads",
    "units": "items",
    "special_tokens": "special tokens",
    "controls": "null attention",
    "target": "class that importance is about",
    "also": "further sources",
    "seed": "seed of the tests",
}
_NEW_NAMES = {"of": "outcome"}  # run folders keep the name that a setting had first


def settings_used(runs: Sequence[Run]) -> Section | None:
    """A row a setting, of several runs one for each value; None where nothing was set."""
    rows: dict[str, dict[str, list[str]]] = {}  # setting -> value -> whose
    for run in runs:
        for name, value in _settings(run).items():
            rows.setdefault(name, {}).setdefault(value, []).append(title_of_run(run))
    if not rows:
        return None
    lines: list[tuple[Line, ...]] = []
    for name, values in rows.items():
        for value, whose in values.items():
            shown: Line = (Name(value),)
            if len(whose) < len(runs):
                shown = (Name(value), " (", Name("; ".join(whose)), ")")
            lines.append(((name,), shown))
    blocks: list[Paragraph | Grid] = [Grid(("Setting", "Value"), tuple(lines), (0.22, 0.74))]
    if not all(run.info.test_settings for run in runs if run.evaluation.get("tests")):
        versions = {version for version, _ in by_value(runs, _version)}
        left = f"All other settings of the tests are the defaults of attn_faithful {', '.join(sorted(versions))}."
        blocks.append(Paragraph((left,)))
    return Section("Settings", tuple(blocks))


def _version(run: Run) -> str:
    return run.info.versions.get("attn_faithful", "")


def _settings(run: Run) -> dict[str, str]:
    """Every setting of a run by its name in the table."""
    evaluation = run.evaluation
    settings: dict[str, str] = {}
    tests = list(evaluation.get("tests") or [])
    if tests:
        settings["tests"] = ", ".join(tests)
        settings["sites tested"] = ", ".join(run.sites)
        for key, name in _WORDS.items():
            value = evaluation.get(key)
            if value not in (None, [], {}):
                settings[name] = as_text(value)
        sources = {_NEW_NAMES.get(key, key): value for key, value in (evaluation.get("sources") or {}).items()}
        settings["importance"] = listed(flat(sources))
        in_full = run.info.test_settings or evaluation.get("settings") or {}
        for test, values in in_full.items():
            settings[f"test {test}"] = listed(flat(values))
    if run.info.source_file:
        settings["importance from a file"] = run.info.source_file
    if run.twins:
        settings["twins"] = listed(flat(run.info.twin or run.recipe.get("twin") or {}))
    return {name: value for name, value in settings.items() if value}
