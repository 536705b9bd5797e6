"""AtteFa: how far a twin's predictions must move where its attention is another (Amini and Kosseim, section 3.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_faithful import schema
from attn_faithful.evaluators.base import MetricSpec, PublishedTest
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional.ragged import per_example_divergences
from attn_faithful.functional.reasons import NAN_ATTENTION, NO_EXAMPLE, NO_TOKEN, or_else
from attn_faithful.functional.resampling import bootstrap_mean
from attn_faithful.records.twins import Measured

ATTEFA = MetricSpec(
    "attefa",
    "AtteFa",
    "TVD over JSD / ln 2 of twin and base, means first; 0: other attention, same predictions",
    direction="higher",
)
TVD = MetricSpec("tvd", "TVD", "how far the twin's predictions lie from the base's", unit="probability")
JSD = MetricSpec("jsd", "JSD", "how far the twin's attention lies from the base's", high=math.log(2), unit="nats")
JSD_AT_TVD = MetricSpec(
    "jsd_at_tvd",
    "JSD at TVD",
    "largest JSD found whose mean TVD keeps the limit; undefined where the twin missed it",
    high=math.log(2),
    direction="lower",
    unit="nats",
)

# it compares two models over a whole split, so it is not among the tests that run block by block
TEST = PublishedTest("attefa", "Amini and Kosseim, section 3", (ATTEFA, TVD, JSD, JSD_AT_TVD))

Outputs = tuple[np.ndarray, Sequence[np.ndarray]]  # probabilities (n, C), and the attention of each example


def run(
    example: Sequence[str],
    base: Outputs,
    twin: Outputs,
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
    probabilities, attention = twin
    tvd, jsd, _ = per_example_divergences(probabilities, base[0], attention, base[1], multi_label=multi_label)
    n = len(example)
    return {
        "example": list(example),
        "site": [site] * n,
        "slot": [0] * n,
        "test": [TEST.name] * n,
        "variant": [variant] * n,
        "attention_jsd": jsd.tolist(),
        "output_tvd": tvd.tolist(),
        "probabilities": probabilities.tolist(),
        "attention": [weights.tolist() for weights in attention],
    }


def score(
    tvd: np.ndarray,
    jsd: np.ndarray,
    base_probabilities: np.ndarray,
    max_tvd: float | None = None,
    multi_label: bool = False,
) -> dict[str, Measured]:
    """The numbers of one twin over a whole split, from stored columns.

    Args:
        tvd, jsd: an entry an example; NaN where undefined.
        base_probabilities: (n, C), for the constant twin; NaN where the base could not read an example.
        max_tvd: the limit of a constrained twin; its number "jsd_at_tvd" is NaN with a reason where it was missed.
        multi_label: as for `run`.

    Returns:
        "attefa", "tvd", "jsd", the TVD of a constant twin, whether the twin collapsed to one, and with a limit
        "jsd_at_tvd".
    """
    ratio = faithfulness.attefa(tvd, jsd)
    low, high = faithfulness.bootstrap_attefa([tvd], [jsd])
    counts = {"n": ratio.n, "n_undefined": ratio.n_undefined}
    # one set of examples for both means, as in the ratio
    both = np.isfinite(tvd) & np.isfinite(jsd)
    mean_jsd = replace(_mean(jsd[both]), **counts)
    constant_tvd = _tvd_of_constant_twin(base_probabilities, multi_label)
    collapsed = bool(faithfulness.is_collapsed(ratio.tvd, constant_tvd))
    numbers = {
        "attefa": Measured(ratio.attefa, low=low, high=high, reason=ratio.reason, **counts),
        "tvd": replace(_mean(tvd[both]), **counts),
        "jsd": mean_jsd,
        "constant_tvd": Measured(constant_tvd, has_reason=False, **counts),
        "collapsed": Measured(collapsed, has_reason=False),
    }
    if max_tvd is None:
        return numbers
    if ratio.tvd <= max_tvd:
        numbers["jsd_at_tvd"] = mean_jsd
        return numbers
    missed = ratio.reason
    if ratio.n:
        missed = f"missed: mean TVD {ratio.tvd:.4f} is above {max_tvd:g}"
    nothing = Measured(math.nan, low=math.nan, high=math.nan, reason=missed)
    numbers["jsd_at_tvd"] = replace(nothing, **counts)
    return numbers


def _tvd_of_constant_twin(base_probabilities: np.ndarray, multi_label: bool) -> float:
    """Mean TVD of a twin that predicts the same of every text that the base could read."""
    readable = ~np.isnan(base_probabilities).any(axis=1)
    constant_twin = faithfulness.multilabel_constant_twin if multi_label else faithfulness.constant_twin
    _, constant_tvd = constant_twin(base_probabilities[readable])
    return constant_tvd


def _mean(values: np.ndarray) -> Measured:
    if not len(values):
        return Measured(math.nan, std=math.nan, low=math.nan, high=math.nan, reason=NO_EXAMPLE)
    low, high = bootstrap_mean([values])
    mean = float(values.mean())
    return Measured(mean, std=float(values.std()), low=low, high=high)


def per_example(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Rows of the table "scores": TVD, JSD and AtteFa of every example of one variant."""
    tvd = np.asarray(columns["output_tvd"], dtype=float)
    jsd = np.asarray(columns["attention_jsd"], dtype=float)
    ratios, ratio_reasons = faithfulness.attefa_per_example(tvd, jsd)
    jsd_reasons = []
    for value, weights in zip(jsd, columns["attention"], strict=True):
        jsd_reasons.append(_reason_of_jsd(value, weights))
    scored: list[tuple[MetricSpec, np.ndarray, Sequence[str | None]]] = [
        (TVD, tvd, [None] * len(tvd)),
        (JSD, jsd, jsd_reasons),
        (ATTEFA, ratios, or_else(jsd_reasons, ratio_reasons)),
    ]
    rows: dict[str, list[Any]] = {name: [] for name in schema.columns("scores")}
    for metric, values, reasons in scored:
        added = {
            "example": columns["example"],
            "site": columns["site"],
            "slot": columns["slot"],
            "source": columns["variant"],
            "label": [None] * len(values),  # of all labels together
            "metric": [metric.name] * len(values),
            "value": values.tolist(),
            "reason": reasons,
        }
        for name, entries in added.items():
            rows[name].extend(entries)
    return rows


def _reason_of_jsd(jsd: float, attention: Sequence[float]) -> str | None:
    if not math.isnan(jsd):
        return None
    return NAN_ATTENTION if len(attention) else NO_TOKEN
