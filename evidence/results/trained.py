"""The tables of docs/results/stability.md and lin_tasc.md and docs/guides/compare.md: LSTMs made in another way."""

from __future__ import annotations

from evidence.measured import (
    ACCURACY,
    Column,
    Rows,
    about,
    by_label,
    by_seed,
    cells_of,
    measured_table,
    turned_table,
)

STABILITY, SCALE, PROJECTION = "stability", "lin_tasc", "projections"

AUC = Column("ROC-AUC", "base_roc_auc", "", 3)
_TAU = Column("tau of attention with input x gradient", "attention_correlation", "attention~input_x_gradient", 3)
_STABLE = Column("stability of attention", "stability_tau", digits=3)
_ENTROPY = Column("entropy of attention", "importance_entropy", digits=3)
_VIOLATED = Column("polarity violated, attention", "polarity_violation", digits=3)
_BY_CHANCE = Column("polarity violated, random", "polarity_violation", "random", 3)
_OF_SCALE = (
    ACCURACY,
    AUC,
    Column("share, attention x gradient", "decision_flip", "attention_x_gradient", 3),
    Column("share, attention", "decision_flip", digits=3),
    Column("share, random", "decision_flip", "random_ranking", 3),
    Column("no set of items changes the decision", "flip_never", "smallest_set", 3),
    Column("attention-proof: no attention changes it", "attention_proof", digits=3),
    Column("flip distance, JSD in nats", "flip_distance", digits=3),
    Column("polarity violated, attention x gradient", "polarity_violation", "attention_x_gradient", 3),
    _VIOLATED,
    _BY_CHANCE,
    _TAU,
    _STABLE,
    _ENTROPY,
    Column("conicity of the states", "conicity", digits=3),
)
_OF_PROJECTION = (
    ACCURACY,
    Column("share of the words removed until the decision flips", "decision_flip"),
    Column("words without attention", "zero_attention"),
)


def _of_scale() -> Rows:
    return {
        label.replace("none", "without").replace("tasc_lin", "with the scale"): cells
        for label, cells in by_seed(SCALE, "scale", ("none", "tasc_lin")).items()
    }


def _of_stability() -> Rows:
    return by_seed(STABILITY, "weight", ("0", "0.1", "1", "1 of the JSD"))


STABILITY_TABLES = {
    "about": lambda: about(cells_of(STABILITY)),
    "weights": lambda: measured_table(
        "weight", _of_stability(), (ACCURACY, AUC, _STABLE, _ENTROPY, _TAU, _VIOLATED, _BY_CHANCE)
    ),
}
PROJECTION_TABLES = {
    "projections": lambda: measured_table(
        "projection", by_label(PROJECTION, "projection", ("softmax", "sparsemax")), _OF_PROJECTION
    ),
}
SCALE_TABLES = {
    "about": lambda: about(cells_of(SCALE)),
    "scale": lambda: turned_table("", _of_scale(), _OF_SCALE),
}
