"""Measurements on models of the set that nobody trained, with invented numbers."""

import numpy as np

from attn_faithful.bench.measured import Measured, TextValues
from attn_faithful.records.bench import BenchModel

KINDS = {"faithful": True, "pinned": True, "free": False, "uniform": False}
LENGTHS = np.array([8, 16, 32] * 8)
EXAMPLES = [f"t{i}" for i in range(len(LENGTHS))]


def model(name, kind, unproven=()):
    return BenchModel(name, kind, KINDS[kind], "lstm", "single", 0, "By construction.", unproven=unproven)


def column(values, reason=None):
    """Values of all texts; `reason` of those that are NaN."""
    values = np.broadcast_to(np.asarray(values, dtype=float), LENGTHS.shape)
    return TextValues(values, [None if np.isfinite(value) else reason for value in values])


def models(number, n_of_a_kind=5, unproven=(), kinds=tuple(KINDS)):
    """Measurements whose numbers are what ``number(model, rng)`` gives: metric and source -> values of the texts."""
    measured = []
    for kind in kinds:
        for i in range(n_of_a_kind):
            made = model(f"{kind}-{i}", kind, unproven)
            rng = np.random.default_rng([len(measured), 7])
            columns = {name: column(values, "one item") for name, values in number(made, rng).items()}
            measured.append(Measured(made, EXAMPLES, LENGTHS, columns))
    return measured
