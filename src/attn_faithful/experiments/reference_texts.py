"""What a model was trained on, as its activations on texts show it: the measure of what lies outside."""

from __future__ import annotations

import torch
from torch import Tensor

from attn_faithful._seeds import seed_for
from attn_faithful.data.rows import Rows
from attn_faithful.experiments.evaluated_model import EvaluatedModel, Reference
from attn_faithful.experiments.processes import ProcessGroup
from attn_faithful.experiments.undefined_texts import of_readable
from attn_faithful.functional.masf import LEAST, Masf
from attn_faithful.functional.reasons import CANNOT_MASK, FEW_TEXTS, NO_STATES
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import planned
from attn_faithful.training.masking import Masking

TEXTS = 1000  # at most: p-values in steps of .2%, for a forward each

Found = list[tuple[int, list[Tensor]]]  # place of a text, of each layer its largest activations (U,)


def fit_reference(evaluated: EvaluatedModel, rows: Rows, seed: int, processes: ProcessGroup) -> Reference:
    """What a model was trained on, from the texts that are tested; the same in all processes.

    Of a model that was trained with masks, half of the texts have masks as in training: any number of their tokens,
    each as likely, one draw a text. Which texts are taken, in which half each is, and its masks hang on the seed and
    on what the texts say alone. A text that makes the model raise, or has no tokens, is left out.

    Args:
        evaluated: the model.
        rows: the encoded texts.
        seed: of the draws.
        processes: that share the texts.
    """
    rows = _drawn(evaluated, rows, seed)
    if len(rows) < 2 * LEAST:
        return Reference(None, FEW_TEXTS)
    if evaluated.masking is not None:
        mask = evaluated.token_ids.get("mask")
        if mask is None:
            return Reference(None, CANNOT_MASK)
        rows = _half_masked(rows, Masking(mask, seed))

    def of_block(block: Block) -> Found:
        return of_readable(block, lambda each: _activations(evaluated, rows, each))

    found = processes.over_blocks(planned(evaluated.model, rows), of_block)
    in_order = sorted(found, key=lambda text: text[0])
    return _reference([layers for _, layers in in_order])


def _drawn(evaluated: EvaluatedModel, rows: Rows, seed: int) -> Rows:
    """At most `TEXTS` different texts, in an order that hangs on the seed and on each text alone."""
    places: dict[str, int] = {}
    for block in planned(evaluated.model, rows):
        places |= dict(zip(block.keys, block.first, strict=True))
    order = sorted(places, key=lambda key: seed_for(seed, key, "reference texts"))
    return rows.take([places[key] for key in order[:TEXTS]])


def _half_masked(rows: Rows, masking: Masking) -> Rows:
    """Rows of which two have masks, two have none, and so on: of each half of the reference as many as in training."""
    masked = masking.of_rows(rows)["input_ids"]
    ids = []
    for place, whole in enumerate(rows["input_ids"]):
        ids.append(masked[place] if place % 4 > 1 else whole)
    return rows.with_columns(input_ids=ids)


def _activations(evaluated: EvaluatedModel, rows: Rows, block: Block) -> Found:
    """What the texts of a block give; none where the model's states are not known."""
    layers = evaluated.model.largest_activations(evaluated.batch(rows, block))
    of_texts = [layer.cpu() for layer in layers]  # (B, U) each
    found: Found = []
    for row, places in enumerate(block.copies):
        of_text = [layer[row] for layer in of_texts]
        finite = all(bool(layer.isfinite().all()) for layer in of_text)
        if of_text and finite:
            found += [(place, of_text) for place in places]
    return found


def _reference(texts: list[list[Tensor]]) -> Reference:
    """Of texts in the order of their draw: every second one is in the first half."""
    if not texts:
        return Reference(None, NO_STATES)
    if len(texts) < 2 * LEAST:
        return Reference(None, FEW_TEXTS)
    layers = [torch.stack(layer) for layer in zip(*texts, strict=True)]  # (n, U) each
    first = [layer[::2] for layer in layers]
    second = [layer[1::2] for layer in layers]
    return Reference(Masf.of(first, second))
