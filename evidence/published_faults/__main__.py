"""Measures known faults of published code on trained models, and keeps what each changes.

    python -m evidence.published_faults --fault tolerance --data-dir DIR --model runs/train/sst2-lstm-2-.../model ...

Models of one kind that differ in their seed are averaged; one that was measured before is measured again and written
over. The numbers go to summaries/published_faults.json, which the pages of the docs are made from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attn_faithful._checks import InputError
from attn_faithful.experiments.run_facts import versions
from evidence.published_faults.effects import SUMMARY, Effect, write_effects
from evidence.published_faults.every import FAULTS, MEASURES
from evidence.published_faults.trained import Trained


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.published_faults", description=__doc__.split("\n")[0])
    parser.add_argument("--fault", choices=list(FAULTS), action="append", required=True, help="may stand several times")
    parser.add_argument("--data-dir", type=Path, required=True, help="where the folders of data lie")
    parser.add_argument("--model", type=Path, nargs="+", required=True, help="RUN/model of models of one kind")
    parser.add_argument("--limit", type=int, help="at most this many test texts")
    parser.add_argument("--output", type=Path, default=SUMMARY, help="the file of effects")
    chosen = parser.parse_args(arguments)
    try:
        models = _of_one_kind([Trained(path, chosen.data_dir, chosen.limit) for path in chosen.model])
        for fault in chosen.fault:
            effects = measured(fault, models)
            write_effects(effects, FAULTS, chosen.output)
            for effect in effects:
                print(f"{fault}: {effect.metric}, {effect.texts}: {effect.comparison.difference}")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def measured(fault: str, models: Sequence[Trained]) -> list[Effect]:
    """The effects of a fault on models of one kind."""
    effects = []
    for (metric, unit, texts), comparison in MEASURES[fault](models).items():
        effect = Effect(
            fault=fault,
            metric=metric,
            unit=unit,
            texts=texts,
            data=models[0].data,
            model=models[0].name,
            seeds=[model.seed for model in models],
            comparison=comparison,
            command=_command(fault, models),
            versions=versions(),
        )
        effects.append(effect)
    return effects


def _of_one_kind(models: Sequence[Trained]) -> Sequence[Trained]:
    """The models; raises where they differ in more than the seed."""
    kinds = {(model.data, model.name) for model in models}
    if len(kinds) > 1:
        raise InputError(f"Expected models that differ in the seed alone, but got {sorted(kinds)}; call once a kind.")
    return models


def _command(fault: str, models: Sequence[Trained]) -> str:
    """What measures this again."""
    limit = "" if models[0].limit is None else f" --limit {models[0].limit}"
    paths = " ".join(model.short_path for model in models)
    return f"python -m evidence.published_faults --fault {fault} --data-dir DIR{limit} --model {paths}"


if __name__ == "__main__":
    sys.exit(main())
