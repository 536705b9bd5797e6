"""Blocks whose texts can be read again, of any model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.experiments.block_reading import BlockReader
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings


def rereadable(
    model: Any, batch: dict[str, Tensor], names: Sequence[str], site: str | None = None, given: Tensor | None = None
) -> Block:
    """A block with sources by name, at a site (the last one of its own where none is named).

    Args:
        given: importance computed elsewhere (B, T), if "given" is among the names.
    """
    site = site or [each for each in model.sites if each != "joint"][-1]
    evaluated = EvaluatedModel(model, None, [str(c) for c in range(model.config.num_labels)], {})
    encoded = evaluated.encode(batch, site)
    examples = [f"e{i}" for i in range(len(encoded.logits))]
    keys = [
        str(row[mask.bool()].tolist()) for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    block = Block(examples, keys, 0, site, encoded)
    reader = BlockReader(evaluated, EvaluationSettings(), block, None, given)
    rereading = reader.rereading(batch)
    sources = dict(rereading.again(list(names)).sources)
    assert given is None or GIVEN in names
    return replace(block, sources=sources, rereading=rereading)


def some(batch: dict[str, Tensor], rows: Sequence[int], size: int | None = None) -> dict[str, Tensor]:
    """Some texts of a batch, cut behind their longest or padded to a size."""
    chosen = {name: values[list(rows)] for name, values in batch.items()}
    longest = int(chosen["attention_mask"].sum(1).max())
    wanted = size or longest
    return {name: torch.nn.functional.pad(values, (0, wanted - values.shape[1])) for name, values in chosen.items()}
