"""Models of a run: trained once, kept in the run folder, read from there."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from attn_faithful._checks import InputError
from attn_faithful.data.sentence_tokenizer import with_sentences
from attn_faithful.data.sources import TextData
from attn_faithful.data.training_texts import TrainingTexts
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.models.architectures import load_model
from attn_faithful.store import RunFolder, strict
from attn_faithful.training.checkpoints import disk_errors


def trained(
    name: str,
    folder: RunFolder,
    tokenizer: Any,
    fit: Callable[[Path], Any],
    rank: Callable[[dict[str, Any]], float],
    processes: ProcessGroup,
    load: Callable[[Path], Any] = load_model,
    texts: TextData | None = None,
) -> tuple[Any, dict[str, Any]]:
    """A model with its record, from the folder where it was finished; before that it is trained and put there.

    Args:
        name: of its folder in the run folder.
        folder: of the run.
        tokenizer: saved with it.
        fit: ``fit(checkpoints) -> (model, history)`` trains it.
        rank: of a row of the history, what the best epoch has least of.
        team: the processes that do it together; the main one writes.
        load: reads the saved model.
        texts: that it is trained on; their fingerprints are saved with it.

    Raises:
        InputError: no epoch could be chosen, or what is in the folder is damaged.
    """
    path = folder / name
    if not path.is_dir():
        start = time.time()
        model, history = fit(folder / f".{name}.checkpoints")
        ranked = [row for row in history if not math.isnan(rank(row))]
        if not ranked:
            raise InputError(
                f"{name}: no epoch could be chosen, since what it is chosen by is undefined in all of them (a class is "
                "missing in the selection split?); set train.select_by to accuracy or loss."
            )
        record = {
            "epoch": round(min(ranked, key=rank)["epoch"]),
            "seconds": round(time.time() - start, 1),
            "history": history,
        }

        def save(target: Path) -> None:
            with disk_errors(target):
                model.save_pretrained(target)
            reader = with_sentences(tokenizer) if model.reads_sentences else tokenizer
            reader.save_pretrained(target)
            if texts is not None:
                TrainingTexts.of(texts.splits, texts.rows, texts.single).save(target)
            (target / "training.json").write_text(json.dumps(strict(record), allow_nan=False))

        if processes.main:
            folder.place_folder(name, save)
        processes.wait(name)
    try:
        record = json.loads((path / "training.json").read_text())
        return load(path), record
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{path} is damaged ({error}); remove that folder and run again.") from error
