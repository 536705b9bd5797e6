"""Table of the heads whose attention follows importance, by the weights that runs fitted."""

from __future__ import annotations

from collections.abc import Sequence

from attn_faithful.records.learned_heads import HeadWeight
from attn_faithful.reports.groups import SeedRuns
from attn_faithful.reports.numbers import number
from attn_faithful.reports.tables.table import Table

_HEADS = 5


def learned_heads_table(groups: Sequence[SeedRuns]) -> Table | None:
    """A row a run that fitted weights of heads; None where none did."""
    rows = []
    for group in groups:
        for run in group.runs:
            learned = run.learned_heads
            if learned is None:
                continue
            heads = ", ".join(map(_named, learned.largest(_HEADS)))
            fit = [str(learned.texts), number(learned.tau), number(learned.r_squared)]
            rows.append([group.title, str(run.seed), heads, *fit])
    if not rows:
        return None
    return Table(
        "learned heads: whose attention follows leave-one-out",
        ["model", "seed", "heads", "Texts", "tau", "R2"],
        rows,
        [
            f"The {_HEADS} heads with the largest weights of either sign, as layer.head from 0 with the weight; texts: "
            "that they were fitted on; tau and R2 (the explained share of the variation within a text): of the mix of "
            "all heads with signed leave-one-out, on texts left out of the fit."
        ],
        name="learned_heads",
        named=3,
    )


def _named(head: HeadWeight) -> str:
    """Such as "5.3 (+2.1)"."""
    return f"{head.layer}.{head.head} ({head.weight:+.2g})"
