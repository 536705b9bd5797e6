"""What some attention of a head, and of all heads together, changes where the model itself has to be asked.

So it is where no tail is known: at layers below the last one, at all layers together, in models of which nothing is
known but `decode`. Nothing is proved there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful.evaluators.base import Block
from attn_faithful.functional.asked_attack import heads_by_asking, joint_by_asking, radius_by_asking
from attn_faithful.functional.search_space import Space, WeightMoves
from attn_faithful.functional.simplices import Deal
from attn_faithful.models.protocol import Encoded
from attn_faithful.models.row_decoding import decode_rows

Answers = TypeVar("Answers")

_CELLS = 2**24  # numbers of the shares of all points in memory at once: 128 MB
_POINTS = 48  # of a text, about


@dataclass(frozen=True)
class Attacked:
    """What attacks found, of B texts.

    Attributes:
        flipped: of which slots an attention was found that changes the decision, (B, S) bool.
        joint: whether attention of all slots together was found that does, (B,) bool.
        radius: (B,), the smallest radius at which a mixture was found to change it; 1 where none was.
        one_changed: attention (B, S, T) of which the first flipped slot's is the one found; the model's own where none
            is.
        all_changed: attention (B, S, T) of all slots together that was found; the model's own where none was.
    """

    flipped: Tensor
    joint: Tensor
    radius: Tensor
    one_changed: Tensor
    all_changed: Tensor


@dataclass(frozen=True)
class DecodedReadout:
    """The logits that a model gives some texts of a block under other attention, which is their vectors.

    Attributes:
        encoded: what the model did.
        texts: which texts, (R,).
    """

    encoded: Encoded
    texts: Tensor

    is_affine = False
    width = 1

    @torch.no_grad()
    def logits(self, vectors: Tensor, together: int) -> Tensor:
        return self.traced(vectors)

    def traced(self, vectors: Tensor) -> Tensor:
        shape = self.encoded.attention.shape
        attention = vectors.flatten(0, 1).unflatten(1, shape[1:])  # (R * K, S, T)
        text = self.texts.repeat_interleave(vectors.shape[1])
        logits = decode_rows(self.encoded.decode, attention, text, shape[0])
        return logits.view(*vectors.shape[:2], -1)

    def rows(self, texts: Tensor | slice) -> DecodedReadout:
        return DecodedReadout(self.encoded, self.texts[texts])


def attacked(block: Block) -> Attacked:
    """What attacks of a block's texts find, some texts at a time; on the CPU."""
    cells_of_text = _POINTS * max(1, block.items[0].numel())
    texts = torch.arange(len(block), device=block.items.device)
    return joined([_of_texts(block, part) for part in texts.split(max(1, _CELLS // cells_of_text))])


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers for some texts, then those for others; on the CPU.

    Args:
        parts: dataclasses of tensors (R, ...), of one kind.
    """
    kind: Any = type(parts[0])
    columns = {}
    for field in fields(kind):
        columns[field.name] = torch.cat([getattr(part, field.name) for part in parts]).cpu()
    answers: Answers = kind(**columns)
    return answers


def _of_texts(block: Block, texts: Tensor) -> Attacked:
    """What attacks of some texts (R,) find."""
    space = space_of(block.encoded, block.items, texts)
    heads = heads_by_asking(space)
    joint = joint_by_asking(space, heads)
    first = heads.flips.int().argmax(1, keepdim=True)  # (R, 1), the lowest slot that flips
    is_changed = F.one_hot(first, heads.flips.shape[1]).bool() & heads.flips[:, None]  # (R, 1, S)
    on_item = space.shares_of(heads.item[:, None])  # (R, 1, S, T)
    one_changed = torch.where(is_changed[..., None], on_item, space.own[:, None])
    changed = torch.cat([one_changed, joint.shares[:, None]], dim=1)  # (R, 2, S, T)
    attention = space.vectors(changed).unflatten(2, block.items.shape[1:])
    exists = torch.stack([heads.flips.any(1), joint.flips], dim=1)[..., None, None]  # (R, 2, 1, 1)
    attention = torch.where(exists, attention, block.encoded.attention[texts, None])
    return Attacked(
        flipped=heads.flips,
        joint=joint.flips,
        radius=radius_by_asking(space, joint).radius.nan_to_num(nan=1.0),
        one_changed=attention[:, 0],
        all_changed=attention[:, 1],
    )


def space_of(encoded: Encoded, items: Tensor, texts: Tensor) -> Space:
    """All attention of some texts (R,) whose items (B, S, T) share what they have together; the rest stays.

    The decision is that of decode under the model's own attention: the forward's may differ in the last bits.
    """
    attention = encoded.attention.detach()[texts]  # (R, S, T)
    readout = DecodedReadout(encoded, texts)
    own_logits = readout.logits(attention[:, None].flatten(2), 1)  # (R, 1, C)
    deal = Deal.of(attention, items[texts])
    return Space(
        readout=readout,
        decision=own_logits[:, 0].argmax(-1),
        origin=deal.kept.flatten(1).to(attention),
        moves=WeightMoves(deal.mass.to(attention), attention.shape[2]),
        items=items[texts],
        own=deal.shares,
    )
