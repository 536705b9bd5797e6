"""What erases items of a block at a site: deletion and masks, each with the memory of all sites with these items."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.evaluators.in_distribution import InDistribution
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.item_p_values import ItemPValues
from attn_faithful.experiments.masks import ItemMasks
from attn_faithful.models.protocol import Batch


@dataclass(frozen=True)
class BlockErasures:
    """What erases the items of a block's texts.

    Attributes:
        members: which item each token belongs to, see `Encoded.members`.
        delete: None where the model cannot.
        mask: None where there is no mask token, or the model reads no ids.
        in_distribution: how unusual erased texts are; None where nobody asks.
    """

    members: Tensor | None
    delete: ItemDeletions | None
    mask: ItemMasks | None
    in_distribution: InDistribution | None = None

    @classmethod
    def of(cls, evaluated: EvaluatedModel, batch: Batch, members: Tensor | None) -> BlockErasures:
        """Those that a model allows."""
        model = evaluated.model
        delete = ItemDeletions(model, batch, members) if model.deletes else None
        mask = None
        if ItemMasks.possible(batch, evaluated.token_ids):
            mask = ItemMasks(model, batch, members, evaluated.token_ids["mask"])
        reference = evaluated.reference
        if reference is None:
            return cls(members, delete, mask)
        p_values = {}
        for name, erasures in (("delete", delete), ("mask", mask)):
            if erasures is not None and reference.masf is not None:
                p_values[name] = ItemPValues(erasures, model, reference.masf)
        return cls(members, delete, mask, InDistribution(p_values, reference.reason))

    def serves(self, members: Tensor | None) -> bool:
        """Whether items of another site are those of this one."""
        if members is None or self.members is None:
            return members is self.members
        return torch.equal(members, self.members)
