"""Run under torchrun by test_processes: trains one model on all processes and reports from the main one."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.launcher import process_group
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.models.architectures import FLAT, HIERARCHICAL, config_class, new_model
from attn_faithful.training.base import train_base
from attn_faithful.training.settings import TrainSettings
from attn_faithful.training.task import TrainingTask
from attn_faithful.training.trainer import seeded

REGULARIZERS = {"deceive": 0.5, "diversity": 2.0, "rationale": 0.5, "stability": 1.0, "tying": 0.5}
FLAT_ALONE = {"leverage": 1.0}


def rows(n: int) -> Rows:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 9, n)
    columns = {
        "example": [f"e{i}" for i in range(n)],
        "input_ids": [generator.integers(2, 20, length) for length in lengths],
        "length": lengths.tolist(),
        "labels": generator.integers(0, 2, n).tolist(),
        "sentence_ids": [np.arange(length) // 3 for length in lengths],
    }
    for kind in ("impermissible", "rationale"):  # of each text a word, but for those of one
        columns[kind] = [np.arange(length) == generator.integers(1, 9) for length in lengths]
    return Rows(columns)


def main(folder: Path, batch_size: int, numbers: list[int]) -> None:
    with process_group(parallel="data") as processes:
        for n in numbers:
            one(processes, folder / str(n), batch_size, n, {})
        one(processes, folder / "regularized", batch_size, max(numbers), {**REGULARIZERS, **FLAT_ALONE})
        one(processes, folder / "hierarchical", batch_size, max(numbers), REGULARIZERS, HIERARCHICAL)
        one(processes, folder / "masked", batch_size, max(numbers), {"diversity": 2.0}, masking="half")


def one(
    processes: ProcessGroup,
    folder: Path,
    batch_size: int,
    n: int,
    regularizers: dict[str, float],
    architecture: str = FLAT,
    masking: str | None = None,
) -> None:
    data = rows(n)
    with seeded(0):
        size = 16 if regularizers else 8  # tying needs states as wide as the embeddings
        sizes = {"vocab_size": 20, "embedding_size": size, "hidden_size": 8}
        model = new_model(config_class(architecture)(**sizes))
    settings = TrainSettings(
        epochs=1,
        batch_size=batch_size,
        select_by="loss",
        learning_rate=1e-2,
        regularizers=regularizers,
        masking=masking,
    )
    collate = Collator()
    if architecture == HIERARCHICAL:
        collate = Collator(columns=("sentence_ids",))
    task = TrainingTask(data, data, collate, settings, 0, folder / "checkpoints", mask_token_id=1)
    history = train_base(model, task)
    outputs = processes.run_over(model, data, collate)
    report = {
        "world": dist.get_world_size() if dist.is_initialized() else 1,
        "backend": dist.get_backend() if dist.is_initialized() else "",
        "loss": history[-1]["loss"],
        "regularizers": [history[-1][f"regularizer_{name}"] for name in regularizers],
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(),
        "probabilities": outputs.probabilities.tolist(),
        "attention": [weights.tolist() for weights in outputs.attention],
    }
    if processes.main:
        (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(n) for n in sys.argv[3:]])
