"""Jain and Wallace's (2019) own way to leave-one-out, permutations and the adversary, as their code goes about it.

Texts are sorted by length and read 32 at a time; a batch is as wide as its longest text. Leave-one-out runs the whole
model once for every position of the batch, on all of its texts without that position; permutations are drawn text by
text and decoded one after another; the adversary takes 500 steps of Adam whatever it has found. Written from the paper
and from what its code is known to do (the semantics are those that the tests' fixtures hold), on torch's usual modules.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from plain import ROWS, Batch, PlainModel, jsd
from torch import Tensor

STEPS = 500


def sorted_parts(batch: Batch) -> Iterator[Batch]:
    """Batches of 32 texts of like length, each as wide as its longest."""
    lengths = batch["attention_mask"].sum(1)
    for rows in lengths.argsort(descending=True).split(ROWS):
        width = int(lengths[rows].max())
        yield {name: values[rows, :width] for name, values in batch.items()}


@torch.no_grad()
def leave_one_out(model: PlainModel, batch: Batch, every: int = 1) -> list[Tensor]:
    """|Change of the output| without each position, (B, positions) a batch of texts sorted by length.

    Args:
        every: this many positions are passed over for one that is run; 1 for all.
    """
    changes = []
    for part in sorted_parts(batch):
        before = model(part)
        after = []
        for place in range(0, part["input_ids"].shape[1], every):
            texts = {name: torch.cat([values[:, :place], values[:, place + 1 :]], 1) for name, values in part.items()}
            texts["attention_mask"] = _one_shorter(part["attention_mask"])
            after.append(model(texts))
        changes.append((torch.stack(after, 1) - before[:, None]).abs())
    return changes


def _one_shorter(mask: Tensor) -> Tensor:
    """Of every text one token less, whether or not the position lay in it; none is left empty."""
    lengths = (mask.sum(1) - 1).clamp(min=1)
    return (torch.arange(mask.shape[1] - 1) < lengths[:, None]).long()


@torch.no_grad()
def permutations(model: PlainModel, batch: Batch, count: int) -> Tensor:
    """The median change of the output under so many permutations of a text's weights."""
    medians = []
    for part in sorted_parts(batch):
        states, mask = model.read(part)
        attention = model.pool(states, mask)
        before = model.decode(states, attention[:, None])
        after = [model.decode(states, _permuted(attention, mask)[:, None]) for _ in range(count)]
        medians.append((torch.cat(after, 1) - before).abs().median(1).values)
    return torch.cat(medians)


def _permuted(attention: Tensor, mask: Tensor) -> Tensor:
    """The weights of each text in another order."""
    order = np.tile(np.arange(mask.shape[1]), (len(mask), 1))
    for row, n in enumerate(mask.sum(1).tolist()):
        order[row, :n] = np.random.permutation(n)
    return attention.gather(1, torch.as_tensor(order))


def adversary(model: PlainModel, batch: Batch, steps: int, k: int = 5) -> Tensor:
    """Algorithm 3: k alternatives (B, k, items) by steps of Adam, decoded through the hidden states."""
    alternatives = []
    for part in sorted_parts(batch):
        with torch.no_grad():
            states, mask = model.read(part)
            attention = model.pool(states, mask)
            before = model.decode(states, attention[:, None])
        padding = ~mask[:, None]
        scores = (3 * torch.randn(len(mask), k, mask.shape[1])).requires_grad_()
        optimizer = torch.optim.Adam([scores], lr=0.01, amsgrad=True)
        for _ in range(steps):
            other = scores.masked_fill(padding, float("-inf")).softmax(-1)
            change = (model.decode(states, other) - before).abs()
            apart = jsd(other[:, :, None], other[:, None]).sum((1, 2)) / k**2
            loss = (500 * (change - 0.01).relu() - jsd(other, attention[:, None])).sum() - apart.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        alternatives.append(scores.detach().masked_fill(padding, float("-inf")).softmax(-1))
    return torch.cat(alternatives)
