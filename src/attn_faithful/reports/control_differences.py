"""Whether the controls of Wiegreffe and Pinter predict worse than another model: differences of F1 with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.reports.f1 import f1_of
from attn_faithful.reports.run import Run

BASE = "(base)"
IMPOSED = "imposed"  # what the other MLPs are compared with
_OF_BASE = ("uniform", IMPOSED)  # controls that are compared with the base
_RESAMPLES = 1000
_TAILS = (0.025, 0.975)
_CHUNK = 2_000_000  # counts that are drawn at a time


@dataclass(frozen=True)
class F1Difference:
    """F1 of a kind of control less that of another kind of model, means over the models of each.

    Attributes:
        reference: the other kind: the base, or the control "imposed".
        value: -1 to 1; negative where the control predicts worse.
        low, high: 95% bootstrap interval over texts, which are drawn once for all models of all seeds.
        n: texts with a label that every model could read.
    """

    reference: str
    value: float
    low: float
    high: float
    n: int


def f1_differences(runs: Sequence[Run]) -> dict[str, F1Difference]:
    """The difference of each kind of control whose predictions are kept.

    "uniform" and "imposed" are compared with the base, the other MLPs with "imposed" where it was trained.

    Args:
        runs: of one model, which differ in their seed.

    Raises:
        InputError: the runs hold different texts.
    """
    kinds = {}
    if any(run.summary.controls for run in runs):
        kinds = _probabilities(runs)
    if len(kinds) < 2:
        return {}
    classes, multi_label = len(runs[0].label_names), runs[0].multi_label
    models = np.stack([chances for of_kind in kinds.values() for chances in of_kind])  # (M, B, C)
    gold = _one_hot(runs[0].labels, classes, multi_label)  # (B, C)
    known = (gold >= 0).all(1) & ~np.isnan(models).any((0, 2))  # (B,)
    if not known.any():
        return {}
    outcomes = _outcomes(gold[known] == 1, models[:, known], multi_label)  # (B, M, 3, C)
    f1 = f1_of(classes, multi_label)
    on_all = _by_kind(f1(outcomes.mean(0))[None], kinds)
    resampled = _by_kind(f1(_resampled(outcomes)), kinds)
    differences = {}
    for kind in kinds:
        reference = _reference(kind, kinds)
        if reference is None:
            continue
        value = on_all[kind] - on_all[reference]  # (1,)
        low, high = np.quantile(resampled[kind] - resampled[reference], _TAILS)
        differences[kind] = F1Difference(reference, float(value[0]), float(low), float(high), int(known.sum()))
    return differences


def _reference(kind: str, kinds: Mapping[str, object]) -> str | None:
    """The kind of model that a kind is compared with; None of the base."""
    if kind == BASE:
        return None
    if kind in _OF_BASE or IMPOSED not in kinds:
        return BASE
    return IMPOSED


def _probabilities(runs: Sequence[Run]) -> dict[str, list[np.ndarray]]:
    """Kind of model, the base first -> the probabilities (B, C) of each model of the kind."""
    kinds: dict[str, list[np.ndarray]] = {BASE: [run.probabilities for run in runs]}
    for run in runs:
        if run.ids != runs[0].ids:
            raise InputError("Two runs of one data set hold different examples; remove the older run folder.")
        if not run.has("controls"):
            continue
        table = run.read("controls", ["control", "probabilities"])
        names = np.asarray(table.column("control").to_pylist())
        chances = np.asarray(table.column("probabilities").to_pylist(), dtype=float)  # (rows, C)
        for name, control in run.summary.controls.items():
            rows = chances[names == name]  # (B, C), in the order of the texts
            if len(rows):
                kinds.setdefault(control.kind, []).append(rows)
    return kinds


def _one_hot(labels: Sequence[object], classes: int, multi_label: bool) -> np.ndarray:
    """1 for the classes of each text, else 0 (B, C); -1 where unknown."""
    gold = np.asarray(labels, dtype=int)
    if multi_label:
        return gold
    known = gold[:, None] >= 0
    return np.where(known, gold[:, None] == np.arange(classes), -1)


def _outcomes(gold: np.ndarray, models: np.ndarray, multi_label: bool) -> np.ndarray:
    """Whether each model found, wrongly said and missed each class of each text (B, M, 3, C).

    Args:
        gold: whether a text is of a class (B, C).
        models: probabilities (M, B, C).
        multi_label: whether a text may have several classes.
    """
    said = models > 0.5  # (M, B, C)
    if not multi_label:
        said = models.argmax(2)[..., None] == np.arange(models.shape[2])
    by_model = np.stack([said & gold, said & ~gold, ~said & gold], axis=2)  # (M, B, 3, C)
    return by_model.swapaxes(0, 1)


def _resampled(outcomes: np.ndarray) -> np.ndarray:
    """How often each outcome occurs in each resample of the texts (R, M, 3, C).

    To draw texts is to draw how often each distinct row of outcomes occurs.
    """
    n, *shape = outcomes.shape
    patterns, counts = np.unique(outcomes.reshape(n, -1), axis=0, return_counts=True)  # (P, M 3 C), (P,)
    generator = np.random.default_rng(0)
    step = max(1, _CHUNK // len(counts))
    parts = []
    for start in range(0, _RESAMPLES, step):
        drawn = generator.multinomial(n, counts / n, size=min(step, _RESAMPLES - start))  # (R, P)
        parts.append(drawn @ patterns.astype(float))
    return np.concatenate(parts).reshape(-1, *shape)


def _by_kind(f1: np.ndarray, kinds: Mapping[str, Sequence[object]]) -> dict[str, np.ndarray]:
    """The mean F1 of the models of each kind (R,), from that of every model (R, M)."""
    means = {}
    first = 0
    for kind, models in kinds.items():
        means[kind] = f1[:, first : first + len(models)].mean(1)
        first += len(models)
    return means
