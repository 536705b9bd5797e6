"""The metrics of the test `randomisation`."""

from __future__ import annotations

from attn_faithful.evaluators.base import MetricSpec

CASCADING, SINGLE = "cascading", "single"
MODES = (CASCADING, SINGLE)

TAU = MetricSpec(
    "randomisation_tau",
    "tau, new weights",
    "Kendall's tau-b of an importance with itself once all weights are drawn anew, mean over draws; 1: it ignores the "
    "model",
    low=-1.0,
    direction="lower",
)
OF_DRAW = MetricSpec(
    "randomisation_draw",
    "tau of a draw",
    "the same of one draw of all weights alone, which the source names",
    low=-1.0,
    direction="lower",
    shown=False,
)
_STEP = "Kendall's tau-b of an importance with itself once the weights of the part that the source names"
BY_STEP = {
    CASCADING: MetricSpec(
        "randomisation_cascading",
        "tau, cascading",
        f"{_STEP} and of all parts above it are drawn anew, mean over draws",
        low=-1.0,
        direction="lower",
        shown=False,
    ),
    SINGLE: MetricSpec(
        "randomisation_single",
        "tau, one part",
        f"{_STEP}, and no others, are drawn anew, mean over draws",
        low=-1.0,
        direction="lower",
        shown=False,
    ),
}
METRICS = (TAU, OF_DRAW, *BY_STEP.values())
