"""Which texts of a split a stock model can read: the others are left out of training, and undefined in an evaluation.

Training puts texts side by side, and what one raises would end it. So the model reads each text before any twin is
trained, in blocks, and where that raises one by one; always beside a short text that it is known to read, since BART
takes any one text alone, but only texts of equally many end-of-text tokens together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._checks import InputError
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.undefined_texts import PATIENCE, is_of_the_run, reason_of
from attn_faithful.models.blocks import Block, distinct_blocks
from attn_faithful.models.inference import Collate
from attn_faithful.models.protocol import Batch
from attn_faithful.models.stock.model import StockModel

NOT_FINITE = "not measured: the model gives logits that are not finite"


@dataclass(frozen=True)
class Split:
    """The encoded texts of a split, and which of them the model can read.

    Attributes:
        rows: all of them.
        places: of those that it can read, rising.
        failed: why it cannot read the others, by example.
    """

    rows: Rows
    places: list[int]
    failed: dict[str, str]

    @property
    def readable(self) -> Rows:
        """The texts that it can read."""
        return self.rows.take(self.places) if self.failed else self.rows

    def blocks(self, model: StockModel) -> list[Block]:
        """Blocks of these texts, by their places among all."""
        return [
            Block(block.number, [[self.places[i] for i in places] for places in block.copies], block.keys)
            for block in distinct_blocks(self.readable, model.cost)
        ]

    def note(self, name: str) -> list[str]:
        """What is to be said of texts that training did without."""
        if not self.failed:
            return []
        first, why = next(iter(self.failed.items()))
        return [
            f"{len(self.failed)} of {len(self.rows)} texts of {name} were left out of training, since the model cannot "
            f"read them; the first is {first!r}: {why.removeprefix('not measured: ')}"
        ]


def read_split(model: StockModel, name: str, rows: Rows, collate: Collate) -> Split:
    """Find out which texts of a split a model can read.

    Args:
        model: which reads them all once.
        name: of the split.
        rows: its texts, encoded.
        collate: makes batches.

    Raises:
        Exception: an error of the run, see `failing.is_of_the_run`.
        InputError: the model can read none of them.
    """
    reasons: dict[int, str] = {}
    tried = read = 0
    for block in distinct_blocks(rows, model.cost):
        for places, why in zip(block.copies, _reasons(model, rows, collate, block), strict=True):
            if why is None:
                read += 1
            else:
                reasons |= dict.fromkeys(places, why)
        tried += len(block.copies)
        if not read and (tried >= PATIENCE or len(reasons) == len(rows)):
            why = next(iter(reasons.values()))
            raise InputError(f"The model can read no text of {name} ({why}); is the tokenizer the model's?")
    failed = {rows["example"][place]: reasons[place] for place in sorted(reasons)}
    return Split(rows, [place for place in range(len(rows)) if place not in reasons], failed)


def _reasons(model: StockModel, rows: Rows, collate: Collate, block: Block) -> list[str | None]:
    """Why the model cannot read each text of a block; None where it can."""
    try:
        return _beside_another(model, collate([rows[place] for place in block.first]))
    except Exception as error:
        if is_of_the_run(error):
            raise
    found: list[str | None] = []
    for place in block.first:
        try:
            found += _beside_another(model, collate([rows[place]]))
        except Exception as error:
            if is_of_the_run(error):
                raise
            found.append(reason_of(error))
    return found


@torch.no_grad()
def _beside_another(model: StockModel, texts: Batch) -> list[str | None]:
    """Of each text whether its logits are no numbers, where a short text that the model can read is beside them."""
    known = model.probe.texts
    (b, t), least = texts["input_ids"].shape, known["input_ids"].shape[1]
    both: dict[str, Tensor] = {}
    for name, fill in (("input_ids", model.pad_token_id), ("attention_mask", 0), ("token_type_ids", 0)):
        if name not in texts:
            continue
        both[name] = known["input_ids"].new_full((b + 1, max(t, least)), fill)
        both[name][:b, :t] = texts[name]
        if name in known:
            both[name][b, :least] = known[name][0]
    logits = model.seen(both, set()).logits[:b]  # (B, C)
    return [None if finite else NOT_FINITE for finite in logits.isfinite().all(1).tolist()]
