"""Tables of data sets and base models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from attn_faithful.records.meta import DataFacts
from attn_faithful.reports.groups import Group, OverSeeds, axes_of
from attn_faithful.reports.numbers import interval, number
from attn_faithful.reports.tables.table import Table

_TRAINED = {"train": "base", "twin": "twins"}  # stage of a recipe -> what it trains


def spread(value: OverSeeds | None, digits: int = 3) -> str:
    """Mean, with the standard deviation over seeds where there are several."""
    if value is None or not value.n:
        return "-"
    text = number(value.mean, digits)
    if value.n > 1:
        text += f" ±{number(value.std, digits)}"
    return text


def select_notes(groups: Sequence[Group]) -> list[str]:
    """A note where an epoch was chosen on test data."""
    stages = set(chain.from_iterable(group.select_on for group in groups))
    if not stages:
        return []
    models = [title for stage, title in _TRAINED.items() if stage in stages]
    return [f"The epoch of the {' and the '.join(models)} was chosen on the TEST split, as in the paper."]


def data_table(data_sets: Sequence[tuple[str, DataFacts]]) -> Table:
    """Texts, classes and length of every data set and split: the paper's table 1.

    Args:
        data_sets: name and facts of each; one that was told before is left out.
    """
    rows: list[list[str]] = []
    notes: list[str] = []
    seen: set[tuple[str | None, str]] = set()
    for name, data in data_sets:
        new_rows = []
        for split, facts in data.splits.items():
            if (data.fingerprint, split) not in seen:
                seen.add((data.fingerprint, split))
                new_rows.append([name, split, *_split_cells(facts)])
        if not new_rows:
            continue
        rows += new_rows
        for note in data.notes:
            if f"{name}: {note}" not in notes:
                notes.append(f"{name}: {note}")
        notes.append(f"{name}: {_vocabulary(data)}.")
    head = ["data", "split", "Texts", "Classes", "Tokens", "SD", "Cut", "Empty"]
    return Table("Data", head, rows, notes, "data")


def _vocabulary(data: DataFacts) -> str:
    words = f"{data.vocabulary} words in the vocabulary"
    if data.vector_coverage is None:
        return words
    return f"{words}, {100 * data.vector_coverage:.0f}% of them in the word vectors"


def _split_cells(facts: Mapping[str, Any]) -> list[str]:
    classes = " / ".join(f"{label} {n}" for label, n in facts["classes"].items())
    mean, std = number(facts["tokens_mean"], 1), number(facts["tokens_std"], 1)
    return [str(facts["n"]), classes, mean, std, str(facts["truncated"]), str(facts["empty"])]


def base_table(groups: Sequence[Group]) -> Table:
    """Accuracy, F1, ROC-AUC and planted attention mass of every group."""
    axes = axes_of(groups)
    planted = any(group.informative_mass.n for group in groups)
    head = [*axes, "Accuracy", "Majority", "F1", "ROC-AUC"]
    notes = ["Majority: accuracy of always saying the test split's largest class."]
    if planted:
        head.append("Planted mass")
        notes.append("Planted mass: mean attention on the planted words.")
    rows = []
    for group in groups:
        row = [*group.labels(axes), spread(group.base.accuracy), _majority(group.data)]
        row += [spread(group.base.f1), spread(group.base.roc_auc)]
        if planted:
            row.append(spread(group.informative_mass))
        rows.append(row)
    return Table("Base models on the test split", head, rows, notes + select_notes(groups), "base_models")


def _majority(data: DataFacts) -> str:
    """The share of the largest class; a dash where texts have several labels or none."""
    facts = data.splits.get("test", {})
    counts = list((facts.get("classes") or {}).values())
    if not counts or not facts["n"] or sum(counts) != facts["n"]:
        return "-"
    return number(max(counts) / facts["n"])


def pairs_table(groups: Sequence[Group]) -> Table | None:
    """How far bases of different seeds lie apart: what chance alone does to attention and predictions."""
    axes = axes_of(groups)
    rows = []
    for group in groups:
        pairs = group.base_pairs
        if pairs.tvd.n:
            changed = [spread(pairs.tvd), interval(*pairs.tvd_interval)]
            moved = [spread(pairs.jsd), interval(*pairs.jsd_interval)]
            rows.append([*group.labels(axes), *changed, *moved, str(pairs.tvd.n), str(pairs.n_examples)])
    if not rows:
        return None
    notes = [
        "The yardstick beside the twins: two bases that differ in their seed alone.",
        "±: standard deviation over pairs. []: 95% bootstrap interval over test examples, drawn once for all pairs.",
    ]
    head = [*axes, "TVD", "TVD 95%", "JSD", "JSD 95%", "Pairs", "N"]
    return Table("Bases of different seeds", head, rows, notes, "base_pairs")
