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
from attn_faithful.data.text_column import values_at
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
        if not self.failed:
            return self.rows
        return self.rows.take(self.places)

    def blocks(self, model: StockModel) -> list[Block]:
        """Blocks of these texts, by their places among all."""
        blocks = []
        for block in distinct_blocks(self.readable, model.cost):
            copies = [values_at(self.places, among_readable) for among_readable in block.copies]
            blocks.append(Block(block.number, copies, block.keys))
        return blocks

    def note(self, name: str) -> list[str]:
        """A note on the texts that training did without; none where it read them all."""
        if not self.failed:
            return []
        first, reason = next(iter(self.failed.items()))
        return [
            f"{len(self.failed)} of {len(self.rows)} texts of {name} were left out of training, since the model cannot "
            f"read them; the first is {first!r}: {reason.removeprefix('not measured: ')}"
        ]


def read_split(model: StockModel, name: str, rows: Rows, collate: Collate) -> Split:
    """Find out which texts of a split a model can read.

    Args:
        model: which reads them all once.
        name: of the split.
        rows: its texts, encoded.
        collate: makes batches.

    Raises:
        Exception: an error of the run, see `undefined_texts.is_of_the_run`.
        InputError: the model can read none of them.
    """
    reasons: dict[int, str] = {}
    tried = read = 0
    for block in distinct_blocks(rows, model.cost):
        for copies, reason in zip(block.copies, _reasons(model, rows, collate, block), strict=True):
            if reason is None:
                read += 1
            else:
                reasons |= dict.fromkeys(copies, reason)
        tried += len(block.copies)
        if not read and (tried >= PATIENCE or len(reasons) == len(rows)):
            first = next(iter(reasons.values()))
            raise InputError(f"The model can read no text of {name} ({first}); is the tokenizer the model's?")
    readable = [place for place in range(len(rows)) if place not in reasons]
    failed = {rows.examples[place]: reasons[place] for place in sorted(reasons)}
    return Split(rows, readable, failed)


def _reasons(model: StockModel, rows: Rows, collate: Collate, block: Block) -> list[str | None]:
    """Why the model cannot read each text of a block; None where it can."""
    try:
        return _beside_another(model, collate([rows[place] for place in block.first]))
    except Exception as error:
        if is_of_the_run(error):
            raise
    reasons: list[str | None] = []
    for place in block.first:
        try:
            reasons += _beside_another(model, collate([rows[place]]))
        except Exception as error:
            if is_of_the_run(error):
                raise
            reasons.append(reason_of(error))
    return reasons


@torch.no_grad()
def _beside_another(model: StockModel, texts: Batch) -> list[str | None]:
    """Why the logits of each text are no numbers, beside a short text that the model can read; None if they are."""
    short = model.probe.texts
    ids, short_ids = texts["input_ids"], short["input_ids"]  # (B, T), (1, T')
    b, t = ids.shape
    short_length = short_ids.shape[1]
    length = max(t, short_length)
    both: dict[str, Tensor] = {}
    for name, fill in (("input_ids", model.pad_token_id), ("attention_mask", 0), ("token_type_ids", 0)):
        if name not in texts:
            continue
        padded = short_ids.new_full((b + 1, length), fill)  # (B + 1, T)
        padded[:b, :t] = texts[name]
        if name in short:
            padded[b, :short_length] = short[name][0]
        both[name] = padded
    logits = model.seen(both, set()).logits[:b]  # (B, C)
    finite = logits.isfinite().all(1)  # (B,)
    return [None if is_finite else NOT_FINITE for is_finite in finite.tolist()]
