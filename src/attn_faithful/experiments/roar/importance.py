"""Importance of every token of every split: by a model, or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.data.source_file import SourceItems, read_source_file
from attn_faithful.experiments.block_rows import RowBuilder
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.prepare import Prepared
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.roar.settings import ATTENTION
from attn_faithful.experiments.roar.texts import Array, Tokens
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import planned

Found = tuple[list[int], np.ndarray]  # the places of a text in the split, importance of its content tokens


@dataclass(frozen=True)
class ModelImportance:
    """Importance of tokens for a model's prediction.

    Attributes:
        evaluated: the model.
        settings: how importance is computed.
        seed: of random importance, beside that of the settings.
        processes: that share the texts.
    """

    evaluated: EvaluatedModel
    settings: EvaluationSettings
    seed: int
    processes: ProcessGroup

    @torch.inference_mode(False)
    def of(self, source: str, tokens: Tokens) -> Array:
        """Importance by a source of all content tokens of a split (N,), NaN where it is undefined."""
        blocks = planned(self.evaluated.model, tokens.rows)
        found = self.processes.over_blocks(blocks, partial(self._found, source, tokens))
        importance = np.full(int(tokens.bounds[-1]), np.nan)  # (N,)
        for places, values in found:
            for place in places:
                start, end = tokens.bounds[place : place + 2]
                importance[start:end] = values
        return importance

    def _found(self, source: str, tokens: Tokens, block: Block) -> list[Found]:
        """Importance in the texts of a block."""
        model = self.evaluated.model
        site = model.sites[0]  # the one that attends to tokens
        batch, encoded = self.evaluated.encode_block(tokens.rows, block, site)
        request = Request(
            model=model,
            batch=batch,
            encoded=encoded,
            settings=self.settings.sources,
            keys=block.keys,
            seed=seed_for(self.settings.seed, self.seed, "roar"),
            token_ids=self.evaluated.token_ids,
            site=site,
        )
        values = _values(source, request).cpu().double().numpy()  # (B, T)
        content = encoded.content.cpu().numpy()
        return [(places, values[row][content[row]]) for row, places in enumerate(block.copies)]


def _values(source: str, request: Request) -> Tensor:
    if source == ATTENTION:
        return request.encoded.over_items
    return attribute(source, request).values


def file_importance(path: str, data: Prepared, splits: Mapping[str, Tokens]) -> dict[str, Array]:
    """Importance from a file of all content tokens of all splits, (N,) each.

    Raises:
        InputError: ids that stand in several splits, a text without importance, or what `read_source_file` refuses.
    """
    all_items: list[SourceItems] = []
    for split, tokens in splits.items():
        items = RowBuilder.of(data.tokenizer, data.texts.splits[split], tokens.rows).items
        all_items.append(items.for_source_file(data.texts.shortened))
    joined = _joined(all_items)
    examples = joined.examples
    if len(set(examples)) < len(examples):
        twice = next(example for example in examples if examples.count(example) > 1)
        raise InputError(
            f"Expected an id of its own for each text of {', '.join(splits)}, by which {path} names it, but {twice!r} "
            "stands twice; give the data set ids that differ."
        )
    given = read_source_file(path, joined)
    if given.n_missing:
        raise InputError(
            f"Expected importance of all {len(examples)} texts of {', '.join(splits)} in {path}, but "
            f"{given.n_missing} are missing: models are trained anew on all of them."
        )
    by_example = dict(zip(examples, given.values, strict=True))
    importance = {}
    for split, tokens in splits.items():
        of_split = [np.asarray(by_example[example], dtype=np.float64) for example in tokens.rows.examples]
        importance[split] = np.concatenate([np.zeros(0), *of_split])
    return importance


def _joined(splits: Sequence[SourceItems]) -> SourceItems:
    """The items of several splits as those of one."""
    return SourceItems(
        examples=list(chain.from_iterable(split.examples for split in splits)),
        texts=list(chain.from_iterable(split.texts for split in splits)),
        tokens=list(chain.from_iterable(split.tokens for split in splits)),
        spans=list(chain.from_iterable(split.spans for split in splits)),
        shortened=any(split.shortened for split in splits),
    )
