"""The tables of a stock model's twins: what the model attends to, and what each twin changed, text by text."""

from __future__ import annotations

from typing import Any

import torch

from attn_faithful.experiments.block_rows import BlockResults, RowBuilder, SiteResults
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS
from attn_faithful.experiments.readable_texts import Split
from attn_faithful.experiments.results import Writer, tidy
from attn_faithful.experiments.stock_twin_scores import ComparedTwins
from attn_faithful.models.blocks import Block
from attn_faithful.models.inference import Collate, encode_block, output_rows
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from attn_faithful.store import RunFolder


def write_tables(
    folder: RunFolder, base: StockModel, tokenizer: Any, split: Split, texts: Any, compared: ComparedTwins
) -> None:
    """Write predictions, tokens, scores and variants of a run.

    The attention of a text is the model's, of all heads of the tested layers as their mean (site "joint") and of each
    layer, over the words of the text, in the rows that the model's slots are: it shows what was attended to. What the
    twins are compared by, head by head and row by row, is in the scores.

    Args:
        folder: of the run.
        base: the model, with the tested layers chosen.
        tokenizer: the model's.
        split: the test split; `texts` are its texts.
        compared: all twins, with the model's probabilities.
    """
    rows = split.rows
    builder = RowBuilder.of(tokenizer, texts, rows, joined=True)
    writer = Writer(folder, builder, SINGLE_PROCESS)
    writer.extend(compared.scores, compared.variants)
    collate = collator(rows, pad_token_id=base.pad_token_id)
    for block in writer.begin(split.blocks(base)):
        results = _results(base, rows, collate, block, compared)
        writer.add(block, builder.tables(results), split.failed)
    writer.close()
    tidy(folder)


def _results(
    base: StockModel,
    rows: Any,
    collate: Collate,
    block: Block,
    compared: ComparedTwins,
) -> BlockResults:
    """The model's attention on a block, over all layers and by layer."""
    batch, encoded = encode_block(base, rows, collate, block, JOINT)
    results = BlockResults(JOINT, [])
    for place, _, attention in output_rows(block.copies, encoded):
        results.outputs.append((place, compared.probabilities[place], attention))
    for site in base.sites:
        if site != JOINT:
            with torch.no_grad():
                encoded = base.encode(batch, site)
            results.tested.append(SiteResults(site, output_rows(block.copies, encoded)))
    return results
