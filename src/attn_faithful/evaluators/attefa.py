"""AtteFa: how far a twin's predictions must move where its attention is another (Amini and Kosseim, section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attn_faithful import schema
from attn_faithful.evaluators.base import EVALUATORS, Evaluator, MetricSpec
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.functional.reasons import NAN_ATTENTION, NO_EXAMPLE, NO_TOKEN

ATTEFA = MetricSpec(
    "attefa",
    "AtteFa",
    "TVD over JSD / ln 2 of twin and base, means first; 0: other attention, same predictions",
    0.0,
    1.0,
    "higher",
)
TVD = MetricSpec("tvd", "TVD", "how far the twin's predictions lie from the base's", 0.0, 1.0, None, "probability")
JSD = MetricSpec("jsd", "JSD", "how far the twin's attention lies from the base's", 0.0, math.log(2), None, "nats")
JSD_AT_TVD = MetricSpec(
    "jsd_at_tvd",
    "JSD at TVD",
    "largest JSD found whose mean TVD keeps the limit; undefined where the twin missed it",
    0.0,
    math.log(2),
    "lower",
    "nats",
)


def run(
    example: Sequence[str],
    base: tuple[np.ndarray, Sequence[np.ndarray]],
    twin: tuple[np.ndarray, Sequence[np.ndarray]],
    variant: str,
    site: str = "pool",
    multi_label: bool = False,
) -> dict[str, list[Any]]:
    """Columns of the table "variants" for one twin.

    Args:
        example: ids.
        base, twin: probabilities (n, C) and attention, one array over the content tokens an example.
        variant: what to call the twin.
        site: where the attention is.
        multi_label: whether a probability a label is independent of the others.

    Returns:
        TVD and JSD (NaN where an example has no content token) with the twin's outputs, an entry an example.
    """
    tvd, jsd, _ = per_example_divergences(twin[0], base[0], twin[1], base[1], multi_label=multi_label)
    n = len(example)
    return {
        "example": list(example),
        "site": [site] * n,
        "slot": [0] * n,
        "test": ["attefa"] * n,
        "variant": [variant] * n,
        "attention_jsd": jsd.tolist(),
        "output_tvd": tvd.tolist(),
        "probabilities": twin[0].tolist(),
        "attention": [weights.tolist() for weights in twin[1]],
    }


def score(
    tvd: np.ndarray,
    jsd: np.ndarray,
    base_probabilities: np.ndarray,
    max_tvd: float | None = None,
    multi_label: bool = False,
) -> dict[str, dict[str, Any]]:
    """The records of one twin, from stored columns.

    Args:
        tvd, jsd: an entry an example; NaN where undefined.
        base_probabilities: (n, C), for the constant twin; NaN where the base could not read an example.
        max_tvd: the limit of a constrained twin; its record "jsd_at_tvd" is NaN with a reason where it was missed.
        multi_label: as for `run`.
    """
    whole = faithfulness.attefa(tvd, jsd)
    constant = faithfulness.multilabel_constant_twin if multi_label else faithfulness.constant_twin
    constant_tvd = constant(base_probabilities[~np.isnan(base_probabilities).any(axis=1)])[1]
    counts = {"n": whole.n, "n_undefined": whole.n_undefined}
    low, high = faithfulness.bootstrap_attefa([tvd], [jsd])
    # one set of examples for both means, as in the ratio
    both = np.isfinite(tvd) & np.isfinite(jsd)
    records: dict[str, dict[str, Any]] = {
        "attefa": {"value": whole.attefa, "low": low, "high": high, "reason": whole.reason, **counts},
        "tvd": {**_mean(tvd[both]), **counts},
        "jsd": {**_mean(jsd[both]), **counts},
        "constant_tvd": {"value": constant_tvd, **counts},
        "collapsed": {"value": bool(faithfulness.is_collapsed(whole.tvd, constant_tvd))},
    }
    if max_tvd is not None:
        met = whole.tvd <= max_tvd
        record = dict(records["jsd"]) if met else {"value": math.nan, "low": math.nan, "high": math.nan, **counts}
        missed = f"missed: mean TVD {whole.tvd:.4f} is above {max_tvd:g}" if whole.n else whole.reason
        record["reason"] = None if met else missed
        records["jsd_at_tvd"] = record
    return records


def _mean(values: np.ndarray) -> dict[str, Any]:
    if not len(values):
        return {"value": math.nan, "std": math.nan, "low": math.nan, "high": math.nan, "reason": NO_EXAMPLE}
    low, high = faithfulness.bootstrap_mean([values])
    return {"value": float(values.mean()), "std": float(values.std()), "low": low, "high": high, "reason": None}


def per_example(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows of the table "scores": TVD, JSD and AtteFa of every example of one variant."""
    tvd, jsd = np.asarray(columns["output_tvd"], dtype=float), np.asarray(columns["attention_jsd"], dtype=float)
    ratios, reasons = faithfulness.attefa_per_example(tvd, jsd)
    pairs = zip(jsd, columns["attention"], strict=True)
    empty = [None if not math.isnan(j) else NAN_ATTENTION if len(weights) else NO_TOKEN for j, weights in pairs]
    reasons = [why or reason for why, reason in zip(empty, reasons, strict=True)]
    rows: dict[str, list[Any]] = {name: [] for name in schema.columns("scores")}
    for metric, values, why in (("tvd", tvd, [None] * len(tvd)), ("jsd", jsd, empty), ("attefa", ratios, reasons)):
        rows["example"] += list(columns["example"])
        rows["site"] += list(columns["site"])
        rows["slot"] += list(columns["slot"])
        rows["source"] += list(columns["variant"])
        rows["label"] += [None] * len(tvd)  # of all labels together
        rows["metric"] += [metric] * len(tvd)
        rows["value"] += [float(v) for v in values]
        rows["reason"] += list(why)
    return rows


EVALUATORS.register("attefa")(
    Evaluator("attefa", "Amini and Kosseim, section 3", (ATTEFA, TVD, JSD, JSD_AT_TVD), run, twin=True)
)
