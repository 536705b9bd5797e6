"""Reads a block of texts again, for tests that alter the texts or the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.rereading import Reading, Rereading
from attn_faithful.experiments.block_sources import BlockSources, SiteCache
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.source_times import SourceTimes
from attn_faithful.models.protocol import Batch


@dataclass(frozen=True)
class BlockReader:
    """Reads the texts of a block at one site.

    Attributes:
        evaluated: the model.
        settings: how importance is computed.
        block: the texts as they were read first.
        target: (B,) the classes that importance is about; None for those that the block predicts.
        given: importance computed elsewhere (B, T), which no change of the model or the text changes; None for none.
    """

    evaluated: EvaluatedModel
    settings: EvaluationSettings
    block: Block
    target: Tensor | None
    given: Tensor | None = None

    def rereading(self, batch: Batch) -> Rereading:
        """The texts and the model for tests."""
        return Rereading(self.evaluated.model, batch, self.block.keys, self.read, fixed=(GIVEN,))

    def read(self, batch: Batch, keys: Sequence[str], names: Sequence[str]) -> Reading:
        """What the model does with some texts, and importance by some sources, see `Rereading`."""
        encoded = self.evaluated.encode(batch, self.block.site)
        model = self.evaluated.model
        deletions = ItemDeletions(model, batch, encoded.members) if model.deletes else None
        block = replace(self.block, keys=keys, encoded=encoded, without=deletions, masked=None, memory={})
        sources = BlockSources(self.evaluated, self.settings, batch, block, SiteCache(), SourceTimes())
        computed = [name for name in names if name != GIVEN]
        importance: dict[str, Tensor] = sources.importance(computed, self._classes())
        return Reading(encoded, self._in_order(importance, names))

    def _classes(self) -> Tensor | None:
        """The classes (B,) that importance is about, whatever the altered model predicts; None for several labels."""
        encoded = self.block.encoded
        if self.target is not None:
            return self.target
        if encoded.multi_label:
            return None
        return torch.argmax(encoded.logits, dim=-1)

    def _in_order(self, importance: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
        """Importance by all names, what was given among it."""
        given = {} if self.given is None else {GIVEN: self.given.cpu().double()}
        known = {**importance, **given}
        return {name: known[name] for name in names}
