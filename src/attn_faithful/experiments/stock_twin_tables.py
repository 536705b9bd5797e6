"""The tables of a stock model's twins: what the model attends to, and what each twin changed, text by text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from attn_faithful.data.text_column import Texts
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.prepare import collator
from attn_faithful.experiments.processes import SINGLE_PROCESS
from attn_faithful.experiments.readable_texts import Split
from attn_faithful.experiments.results import Writer, tidy
from attn_faithful.experiments.run_block import Importance, Measured
from attn_faithful.experiments.run_tables import item_finder, queries, token_finder
from attn_faithful.models.inference import encode_block, output_rows
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from attn_faithful.store import RunFolder

Columns = Mapping[str, Sequence[Any]]


def write_tables(
    folder: RunFolder,
    base: StockModel,
    tokenizer: Any,
    split: Split,
    texts: Any,
    chances: np.ndarray,
    scores: Columns,
    variants: Columns,
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
        chances: the model's probabilities (B, C).
        scores, variants: of all twins.
    """
    rows = split.rows
    asked = queries(texts)
    said = Texts.of(texts, "text")
    tokens = token_finder(tokenizer, said, rows, asked)
    items = item_finder(tokens, said, rows, words="word_ids" in rows.column_names)
    writer = Writer(folder, rows, items, asked, SINGLE_PROCESS)
    collate = collator(rows, pad_token_id=base.pad_token_id)
    nothing: Importance = defaultdict(dict)
    layers = [site for site in base.sites if site != JOINT]
    writer.extend(scores, variants)
    for block in writer.begin(split.blocks(base)):
        batch, encoded = encode_block(base, rows, collate, block, JOINT)
        outputs = [(i, chances[i], weights) for i, _, weights in output_rows(block.copies, encoded)]
        measured = Measured(JOINT, outputs)
        for site in layers:
            with torch.no_grad():
                there = base.encode(batch, site)
            measured.tests.append((site, output_rows(block.copies, there), nothing, ScoreRows()))
        writer.take(block, writer.shaped(measured), split.failed)
    writer.close()
    tidy(folder)
