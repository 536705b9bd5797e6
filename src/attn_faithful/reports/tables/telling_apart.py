"""Which numbers tell models that were trained with a regularizer from those that were trained without: an audit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attn_faithful.records.scores import MetricFacts
from attn_faithful.reports.by_key import by_key
from attn_faithful.reports.groups import Group, all_metrics
from attn_faithful.reports.numbers import number
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.sources import shown, shown_means
from attn_faithful.reports.tables.table import Table

FEW = 3  # pairs of models, below which an AUC says nothing
Name = tuple[str, str]  # metric, source


@dataclass(frozen=True)
class Contrast:
    """Runs of one model, data and tests, trained with a regularizer and without.

    Attributes:
        without: runs with no regularizer at all.
        with_it: runs with this one alone, at the largest weight.
    """

    without: Sequence[Run]
    with_it: Sequence[Run]


@dataclass(frozen=True)
class Telling:
    """How well one number tells the models apart.

    Attributes:
        metric, source: of the number.
        mean_without, mean_with: over the models.
        within: over pairs of models of one contrast, the share in which the number of the model with the regularizer is
            the higher one, ties counted half: 0.5 tells nothing, 0 and 1 tell all.
        across: the same over all pairs, whatever data and encoder they have: one line has to serve all of them.
        n_without, n_with: models with a value.
    """

    metric: str
    source: str
    mean_without: float
    mean_with: float
    within: float
    across: float
    n_without: int
    n_with: int


def contrasts(groups: Sequence[Group]) -> dict[str, list[Contrast]]:
    """Regularizer -> what was trained with and without it, on the same data by the same model."""
    runs = []
    for group in groups:
        runs += [run for run in group.runs if run.recipe]
    found: dict[str, list[Contrast]] = {}
    for alike in by_key(runs, _model_and_data).values():
        without = [run for run in alike if not _regularizers(run)]
        by_name: dict[str, list[Run]] = {}
        for run in alike:
            weights = _regularizers(run)
            if len(weights) == 1:
                (name,) = weights
                by_name.setdefault(name, []).append(run)
        for name, runs_with in by_name.items():
            largest = max(_regularizers(run)[name] for run in runs_with)
            with_it = [run for run in runs_with if _regularizers(run)[name] == largest]
            if without:
                found.setdefault(name, []).append(Contrast(without, with_it))
    return found


def telling(contrasts_of_one: Sequence[Contrast]) -> list[Telling]:
    """Every number of the tests, the one that tells most within a contrast first."""
    numbers: dict[int, dict[Name, float]] = {}
    for contrast in contrasts_of_one:
        for run in (*contrast.without, *contrast.with_it):
            numbers[id(run)] = shown_means(run.records, run.metrics)
    names: dict[Name, None] = {}
    for of_run in numbers.values():
        names |= dict.fromkeys(of_run)
    found = []
    for name in names:
        pairs = []
        for contrast in contrasts_of_one:
            without = _defined(numbers, contrast.without, name)
            with_it = _defined(numbers, contrast.with_it, name)
            pairs.append((without, with_it))
        found.append(_telling(name, pairs))
    enough = [row for row in found if not math.isnan(row.within)]
    return sorted(enough, key=lambda row: -abs(row.within - 0.5))


def telling_tables(groups: Sequence[Group]) -> list[Table]:
    """One table a regularizer."""
    metrics = all_metrics(groups)
    tables = []
    for name, found in contrasts(groups).items():
        rows = telling(found)
        if rows:
            tables.append(_table(name, rows, metrics))
    return tables


def _model_and_data(run: Run) -> str:
    """The recipe without seed and training, as text: a regularizer may need more epochs."""
    recipe = {key: value for key, value in run.recipe.items() if key not in ("seed", "seeds", "train")}
    return json.dumps(recipe, sort_keys=True)


def _regularizers(run: Run) -> Mapping[str, float]:
    weights: Mapping[str, float] = (run.recipe.get("train") or {}).get("regularizers") or {}
    return weights


def _defined(numbers: Mapping[int, Mapping[Name, float]], runs: Sequence[Run], name: Name) -> list[float]:
    values = [numbers[id(run)].get(name, math.nan) for run in runs]
    return [value for value in values if math.isfinite(value)]


def _telling(name: Name, pairs: Sequence[tuple[list[float], list[float]]]) -> Telling:
    wins = n_pairs = 0.0
    all_without: list[float] = []
    all_with: list[float] = []
    for without, with_it in pairs:
        wins += _wins(without, with_it)
        n_pairs += len(without) * len(with_it)
        all_without += without
        all_with += with_it
    within = across = math.nan
    if n_pairs >= FEW:
        within = wins / n_pairs
        across = _wins(all_without, all_with) / (len(all_without) * len(all_with))
    metric, source = name
    return Telling(
        metric=metric,
        source=source,
        mean_without=_mean(all_without),
        mean_with=_mean(all_with),
        within=within,
        across=across,
        n_without=len(all_without),
        n_with=len(all_with),
    )


def _wins(without: Sequence[float], with_it: Sequence[float]) -> float:
    """In how many pairs the value with the regularizer is the higher one: the statistic of Mann and Whitney."""
    from scipy.stats import mannwhitneyu

    if not without or not with_it:
        return 0.0
    return float(mannwhitneyu(with_it, without, method="asymptotic").statistic)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _table(regularizer: str, rows: Sequence[Telling], metrics: Mapping[str, MetricFacts]) -> Table:
    cells = []
    for row in rows:
        title = metrics[row.metric].title
        numbers = map(number, (row.mean_without, row.mean_with, row.within, row.across))
        cells.append([title, shown(row.source), *numbers, f"{row.n_without}/{row.n_with}"])
    head = ["metric", "source", "without", "with", "AUC, same data and model", "AUC, one line for all", "n"]
    note = (
        "AUC: share of the pairs of models in which the one with the regularizer has the higher number, ties counted "
        "half; 0.5 tells nothing, 0 and 1 tell all. n: models without and with it. Of three models against "
        "three, one number in ten is 0 or 1 by chance."
    )
    title = f"What tells models trained with {regularizer!r} from those without"
    return Table(title, head, cells, [note], f"telling_apart_{regularizer}", named=2)
