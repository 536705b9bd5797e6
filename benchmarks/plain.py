"""The baselines that the benchmarks divide by: each stage as its definition reads, on torch's usual modules.

Nothing is shared between alternatives: every shortened text runs whole, every attention is decoded through the hidden
states, recurrent texts are packed, a hierarchical document is read by itself. Batches hold 32 rows a forward, shortened
texts sorted by length over all texts of a run. The first authors' way to some of it stands in originals.py.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attn_faithful.models.encoders import RecurrentEncoder

ROWS = 32
Batch = Mapping[str, Tensor]


class Recurrent(nn.Module):
    """A packed bidirectional network with the weights of our two one-way ones."""

    def __init__(self, ours: RecurrentEncoder) -> None:
        super().__init__()
        first = ours.ahead[0]
        self.net = type(first)(first.input_size, first.hidden_size, batch_first=True, bidirectional=True)
        for ending, part in (("", first), ("_reverse", ours.back[0])):
            for name, weight in part.named_parameters():
                getattr(self.net, name + ending).data.copy_(weight.detach())

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.net(packed)[0], batch_first=True, total_length=mask.shape[1])[0]


def encoder_of(ours: nn.Module) -> nn.Module:
    """The encoder in the usual modules; the others are made of nothing else in ours too."""
    return Recurrent(ours) if isinstance(ours, RecurrentEncoder) else copy.deepcopy(ours)


class Pool(nn.Module):
    """Additive attention with the weights of ours."""

    def __init__(self, ours: nn.Module) -> None:
        super().__init__()
        self.token, self.score = copy.deepcopy(ours.scorer.token), copy.deepcopy(ours.scorer.score)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return self.score(self.token(states).tanh()).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(-1)


class PlainModel(nn.Module):
    """The same classifier of two classes, with the same weights: its items are tokens, or a document's sentences."""

    def __init__(self, ours: nn.Module) -> None:
        super().__init__()
        self.embedding = copy.deepcopy(ours.embedding)
        self.encoder, self.pool = encoder_of(ours.encoder), Pool(ours.attention)
        self.hierarchical = hasattr(ours, "sentence_encoder")
        if self.hierarchical:
            self.words, self.word_pool = self.encoder, self.pool
            self.encoder, self.pool = encoder_of(ours.sentence_encoder), Pool(ours.sentence_attention)
        self.readout = copy.deepcopy(ours.readout)
        self.eval()

    def read(self, batch: Batch, embedded: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States (B, items, N), and which items there are."""
        embedded = self.embedding(batch["input_ids"]) if embedded is None else embedded
        mask = batch["attention_mask"].bool()
        if self.hierarchical:
            documents = []
            for tokens, is_token, sentences in zip(embedded, mask, batch["sentence_ids"], strict=True):
                documents.append(self._vectors(tokens[is_token], sentences[is_token]))
            lengths = torch.tensor([len(document) for document in documents])
            mask = torch.arange(int(lengths.max())) < lengths[:, None]
            embedded = nn.utils.rnn.pad_sequence(documents, batch_first=True)
        return self.encoder(embedded, mask), mask

    def _vectors(self, embedded: Tensor, sentences: Tensor) -> Tensor:
        """The vectors of one document's sentences."""
        _, lengths = sentences.unique_consecutive(return_counts=True)
        padded = nn.utils.rnn.pad_sequence(embedded.split(lengths.tolist()), batch_first=True)
        mask = torch.arange(padded.shape[1]) < lengths[:, None]
        states = self.words(padded, mask)
        return (self.word_pool(states, mask)[..., None] * states).sum(1)

    def decode(self, states: Tensor, attention: Tensor) -> Tensor:
        """Probability of the second class, (B, K), from states (B, items, N) under attention (B, K, items)."""
        return self.readout(attention @ states).squeeze(-1).sigmoid()

    def forward(self, batch: Batch, embedded: Tensor | None = None) -> Tensor:
        return self.attended(batch, embedded)[0]

    def fixed(self, batch: Batch, embedded: Tensor) -> Tensor:
        """The same with no gradient through the attention to the items."""
        states, mask = self.read(batch, embedded)
        return self.decode(states, self.pool(states, mask).detach()[:, None])[:, 0]

    def attended(self, batch: Batch, embedded: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Probability of the second class, (B,), and attention (B, items)."""
        states, mask = self.read(batch, embedded)
        attention = self.pool(states, mask)
        return self.decode(states, attention[:, None])[:, 0], attention


def parts(batch: Batch) -> Iterator[Batch]:
    """Batches of 32 rows."""
    for start in range(0, len(batch["input_ids"]), ROWS):
        yield {name: value[start : start + ROWS] for name, value in batch.items()}


def shortened(batch: Batch, row: int, keep: Tensor) -> Batch:
    """One text with the tokens ``keep`` (T,) alone."""
    return {name: value[row][keep][None] for name, value in batch.items()}


def joined(texts: list[Batch]) -> Batch:
    """Texts of one row each as a padded batch."""
    batch = {}
    for name in texts[0]:
        batch[name] = nn.utils.rnn.pad_sequence([text[name][0] for text in texts], batch_first=True)
    return batch


def gradients(model: Any, batch: Batch) -> Tensor:
    """Algorithm 1: |gradient of the output with respect to each token's embedding, times it|, attention held fixed."""
    importances = []
    for part in parts(batch):
        embedded = model.embedding(part["input_ids"]).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(model.fixed(part, embedded).sum(), embedded)
        importances.append((gradient * embedded).sum(-1).abs().detach())
    return torch.cat(importances)


@torch.no_grad()
def outputs(model: Any, texts: list[Batch]) -> Tensor:
    """The outputs of texts of one row each, (R,): sorted by length, 32 a forward."""
    lengths = torch.tensor([text["input_ids"].shape[1] for text in texts])
    found = torch.empty(len(texts))
    for rows in lengths.argsort(stable=True).split(ROWS):
        found[rows] = model(joined([texts[row] for row in rows.tolist()]))
    return found


def whole_texts(batch: Batch, rows: Sequence[int]) -> list[Batch]:
    """Some texts as they are, without padding."""
    is_token = batch["attention_mask"].bool()
    return [shortened(batch, row, is_token[row]) for row in rows]


def leave_one_out(model: Any, batch: Batch, members: Tensor, places: list[tuple[int, int]]) -> Tensor:
    """Algorithm 1: |change of the output| without an item; each shortened text runs whole.

    Args:
        members: (B, T), the item of each token.
        places: (text, item) of those to leave out.
    """
    is_token = batch["attention_mask"].bool()
    rows = sorted({row for row, _ in places})
    texts = whole_texts(batch, rows)
    for row, item in places:
        texts.append(shortened(batch, row, is_token[row] & (members[row] != item)))
    found = outputs(model, texts)
    before = dict(zip(rows, found[: len(rows)], strict=True))
    return (found[len(rows) :] - torch.stack([before[row] for row, _ in places])).abs()


@torch.no_grad()
def permutations(model: PlainModel, batch: Batch, count: int) -> Tensor:
    """Algorithm 2: the median change of the output under so many permutations of a text's weights, decoded together.

    A text's permutations are the orders of rows of random numbers.
    """
    medians = []
    for part in parts(batch):
        states, mask = model.read(part)
        attention = model.pool(states, mask)
        before = model.decode(states, attention[:, None])
        numbers = torch.rand(len(mask), count, mask.shape[1])  # (B, K, T)
        order = numbers.masked_fill(~mask[:, None], 2.0).argsort(-1)
        permuted = attention[:, None].expand_as(order).gather(2, order)
        medians.append((model.decode(states, permuted) - before).abs().median(1).values)
    return torch.cat(medians)


@torch.no_grad()
def flips(model: PlainModel, batch: Batch) -> list[int]:
    """Items removed, the most attended first and what remains divided by its sum, until the decision changes."""
    return [_removed(model, text) for text in whole_texts(batch, range(len(batch["input_ids"])))]


def _removed(model: PlainModel, text: Batch) -> int:
    """Of one text; all of its items where the decision never changes."""
    states, mask = model.read(text)
    weights = model.pool(states, mask)  # (1, T)
    rank = weights[0].argsort(descending=True).argsort()
    size = torch.arange(len(rank) + 1)[:, None]
    remaining = weights * (rank >= size)  # (K, T): without none, the first, the first two, ...
    remaining = remaining / remaining.sum(1, keepdim=True).clamp(min=1e-30)
    decisions = model.decode(states, remaining[None])[0] > 0.5
    changed = (decisions != decisions[0]).nonzero()
    return int(changed[0]) if len(changed) else len(rank)


def erasure(model: Any, batch: Batch, members: Tensor, attention: Tensor, shares: list[float]) -> Tensor:
    """Comprehensiveness and sufficiency of attention: texts without their top items, and of these alone, a share."""
    texts = whole_texts(batch, range(len(members)))
    rows_of_texts: list[int] = []  # the text that each was made of
    for row in range(len(members)):
        is_token, items = batch["attention_mask"][row].bool(), members[row].unique()
        items = items[items >= 0]
        no_item = members[row] < 0  # special tokens and padding
        order = items[attention[row, items].argsort(descending=True)]
        for share in shares:
            top = torch.isin(members[row], order[: math.ceil(share * len(order))])
            texts.append(shortened(batch, row, is_token & ~top))
            texts.append(shortened(batch, row, is_token & (top | no_item)))
            rows_of_texts += [row, row]
    found = outputs(model, texts)
    return found[rows_of_texts] - found[len(members) :]


def hidden(model: PlainModel, batch: Batch, states: list[tuple[int, int]]) -> Tensor:
    """|gradient of a state's length with respect to each token's embedding|, a state at a time."""
    importances = []
    for row, place in states:
        part = shortened(batch, row, batch["attention_mask"][row].bool())
        embedded = model.embedding(part["input_ids"]).detach().requires_grad_()
        length = model.read(part, embedded)[0][0, place].norm()
        (gradient,) = torch.autograd.grad(length, embedded)
        importances.append(gradient[0].norm(dim=-1))
    return torch.cat(importances)


def jsd(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence with 1e-10 inside the logarithms, as in training."""
    middle = (p + q) / 2

    def kl(a: Tensor) -> Tensor:
        return (a * ((a + 1e-10).log() - (middle + 1e-10).log())).sum(-1)

    return (kl(p) + kl(q)) / 2
