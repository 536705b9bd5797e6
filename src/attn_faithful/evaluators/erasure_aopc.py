"""AOPC of rankings by erasure from the text, between the best and the worst order of erasures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attn_faithful.evaluators.aopc_scores import AopcScores
from attn_faithful.evaluators.asked_sets import AskedSets
from attn_faithful.evaluators.attention_removal import Removal
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.erasure_operators import DELETE, Erase, Operator
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.aopc_beam import searched_aopc
from attn_faithful.functional.aopc_limits import aopc_limits
from attn_faithful.functional.attention_removal import removal_order
from attn_faithful.functional.naopc import order_aopc
from attn_faithful.functional.reasons import NAN_SCORES, Reasons, first_reasons


def add_aopc(
    rows: ScoreRows,
    block: Block,
    operator: Operator,
    erase: Erase,
    rankings: Sequence[str],
    beam: int,
    budget: int,
) -> None:
    """Add AOPC of every ranking, and where it lies between its limits.

    The limits are exact where deletion is removal from the attention (a model that reads each token alone, under a
    softmax) and the read-out is affine, of two classes; else a beam search finds them.

    Args:
        rows: where the scores go.
        block: the examples.
        operator: the way to erase items.
        erase: erases items from their texts, see `Block`.
        rankings: of its sources.
        beam: most sets of each size that are kept; 0 where limits that must be searched are left out.
        budget: most shortened texts that the model is asked for, of a text.
    """
    content = block.encoded.content  # (B, T)
    importance = {name: block.importance(name).double() for name in rankings}
    orders = [removal_order(values, content) for values in importance.values()]
    removal = _same_as_deletion(block) if operator is DELETE else None
    decision = block.encoded.logits.argmax(-1)  # (B,)
    if removal is not None:
        aopc = [order_aopc(removal.path(order), content, decision) for order in orders]
        limits = aopc_limits(removal.log_weights, content, *removal.readout, decision)
        scores = AopcScores.of_orders(rankings, torch.stack(aopc), limits)
    elif beam:
        after = AskedSets(_of_rows(erase, len(block)), len(block))
        found = searched_aopc(after, torch.stack(orders), content, decision, beam, budget)
        scores = AopcScores.of_orders(rankings, found.aopc, found.limits, after.count.to(content.device))
    else:
        return
    reasons_of = {name: _no_ranking(values, content) for name, values in importance.items()}
    scores.add(rows, block, operator.aopc, [None] * len(block), reasons_of)


def _same_as_deletion(block: Block) -> Removal | None:
    """Removal from the attention where that is deletion from the text, and its limits are known; else None."""
    if not block.reads_alone or block.encoded.log_weights is None:
        return None
    removal = Removal(block, "renormalize")
    two_classes = removal.exact and removal.readout[1].shape[1] == 2
    same_items = bool((removal.items == block.encoded.content).all())
    return removal if two_classes and same_items else None


def _no_ranking(importance: Tensor, content: Tensor) -> Reasons:
    """Why importance (B, T) does not rank the items of a text."""
    with_nan = (importance.isnan() & content).any(1)
    return first_reasons({NAN_SCORES: with_nan})


def _of_rows(erase: Erase, texts: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Erasure of rows (R, T) of texts (R,), by one that takes as many alternatives of every text."""

    def ask(keep: Tensor, text: Tensor) -> Tensor:
        counts = torch.bincount(text, minlength=texts)  # (B,)
        first = counts.cumsum(0) - counts
        number = torch.arange(len(text), device=text.device) - first[text]  # (R,), of each row within its text
        # the whole text stands in the places that are left, which is known
        alternatives = keep.new_ones(texts, int(counts.max()), keep.shape[1])  # (B, K, T)
        alternatives[text, number] = keep
        return erase(alternatives)[text, number]

    return ask
