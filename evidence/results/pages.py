"""The pages of docs/results, and those of docs that have some of their tables."""

from __future__ import annotations

from collections.abc import Callable

from evidence.results import (
    bench,
    deception,
    diversity,
    leverage,
    minilm,
    objectives,
    randomisation,
    shown_sst,
    trained,
    transcribed,
)

# page below docs -> name of a table -> its Markdown
RESULTS: dict[str, dict[str, Callable[[], str]]] = {
    "results/shown_sst.md": shown_sst.TABLES,
    "results/minilm.md": minilm.TABLES,
    "results/minilm_heads.md": minilm.HEADS_TABLES,
    "results/randomisation.md": randomisation.TABLES,
    "results/diversity.md": diversity.TABLES,
    "results/deception.md": deception.TABLES,
    "results/objectives.md": objectives.TABLES,
    "results/leverage.md": leverage.TABLES,
    "results/stability.md": trained.STABILITY_TABLES,
    "results/lin_tasc.md": trained.SCALE_TABLES,
    "results/masking.md": transcribed.MASKING_TABLES,
    "results/erased_texts.md": transcribed.ERASED_TABLES,
    "results/roar.md": transcribed.ROAR_TABLES,
    "results/plausibility.md": transcribed.PLAUSIBILITY_TABLES,
    "results/planted.md": transcribed.PLANTED_TABLES,
    "results/one_seed.md": transcribed.ONE_SEED_TABLES,
    "bench.md": bench.TABLES,
    "results.md": {},
    "guides/compare.md": trained.PROJECTION_TABLES,
    "guides/training.md": {},
    "tests/roar.md": {},
}
