"""The baselines that the benchmarks divide by: each stage as its definition reads, on torch's usual modules.

Nothing is shared between alternatives: every shortened text runs whole, every attention is decoded through the hidden
states, recurrent texts are packed, a hierarchical document is read by itself. Batches hold 32 rows a forward.
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
        """Probability of the second class for attention (..., items)."""
        return self.readout((attention[..., None] * states).sum(-2)).squeeze(-1).sigmoid()

    def forward(self, batch: Batch, embedded: Tensor | None = None) -> Tensor:
        return self.attended(batch, embedded)[0]

    def fixed(self, batch: Batch, embedded: Tensor) -> Tensor:
        """The same with no gradient through the attention to the items."""
        states, mask = self.read(batch, embedded)
        return self.decode(states, self.pool(states, mask).detach())

    def attended(self, batch: Batch, embedded: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Probability of the second class, (B,), and attention (B, items)."""
        states, mask = self.read(batch, embedded)
        attention = self.pool(states, mask)
        return self.decode(states, attention), attention


class PlainStock(nn.Module):
    """One of transformers' classifiers as it comes."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.embedding = model.get_input_embeddings()

    def forward(self, batch: Batch, embedded: Tensor | None = None) -> Tensor:
        inputs = {"attention_mask": batch["attention_mask"]}
        inputs |= {"input_ids": batch["input_ids"]} if embedded is None else {"inputs_embeds": embedded}
        return self.model(**inputs).logits.softmax(-1)[:, 1]

    def fixed(self, batch: Batch, embedded: Tensor) -> Tensor:
        """The same: what the heads do moves with the text."""
        return self(batch, embedded)


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
def outputs_of(model: Any, batch: Batch, rows: Sequence[int]) -> dict[int, Tensor]:
    """The output of some texts as they are: each runs once, 32 a forward."""
    is_token = batch["attention_mask"].bool()
    outputs = {}
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        texts = [shortened(batch, row, is_token[row]) for row in some]
        outputs |= dict(zip(some, model(joined(texts)), strict=True))
    return outputs


@torch.no_grad()
def leave_one_out(model: Any, batch: Batch, members: Tensor, places: list[tuple[int, int]]) -> Tensor:
    """Algorithm 1: |change of the output| without an item; each shortened text runs whole.

    Args:
        members: (B, T), the item of each token.
        places: (text, item) of those to leave out.
    """
    is_token = batch["attention_mask"].bool()
    before = outputs_of(model, batch, sorted({row for row, _ in places}))
    changes = []
    for start in range(0, len(places), ROWS):
        some = places[start : start + ROWS]
        texts = [shortened(batch, row, is_token[row] & (members[row] != item)) for row, item in some]
        for (row, _), after in zip(some, model(joined(texts)), strict=True):
            changes.append((after - before[row]).abs())
    return torch.stack(changes)


@torch.no_grad()
def permutations(model: PlainModel, batch: Batch, count: int) -> Tensor:
    """Algorithm 2: the median change of the output under so many permutations of a text's weights."""
    medians = []
    for part in parts(batch):
        states, mask = model.read(part)
        attention = model.pool(states, mask)
        before = model.decode(states, attention)
        after = [model.decode(states, _permuted(attention, mask)) for _ in range(count)]
        medians.append((torch.stack(after, 1) - before[:, None]).abs().median(1).values)
    return torch.cat(medians)


def _permuted(attention: Tensor, mask: Tensor) -> Tensor:
    """The weights of each text in another order."""
    permuted = attention.clone()
    for row, n in enumerate(mask.sum(1).tolist()):
        permuted[row, :n] = attention[row, torch.randperm(n)]
    return permuted


def adversary(model: PlainModel, batch: Batch, steps: int, k: int = 5) -> Tensor:
    """Algorithm 3: k alternatives by steps of Adam, decoded through the hidden states."""
    alternatives = []
    for part in parts(batch):
        with torch.no_grad():
            states, mask = model.read(part)
            attention = model.pool(states, mask)
            before = model.decode(states, attention)[:, None]
        padding = ~mask[:, None]
        scores = (3 * torch.randn(len(mask), k, mask.shape[1])).requires_grad_()
        optimizer = torch.optim.Adam([scores], lr=0.01, amsgrad=True)
        for _ in range(steps):
            other = scores.masked_fill(padding, float("-inf")).softmax(-1)
            change = (model.decode(states[:, None], other) - before).abs()
            apart = jsd(other[:, :, None], other[:, None]).sum((1, 2)) / k**2
            loss = (500 * (change - 0.01).relu() - jsd(other, attention[:, None])).sum() - apart.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        alternatives.append(scores.detach().masked_fill(padding, float("-inf")).softmax(-1))
    return torch.cat(alternatives)


@torch.no_grad()
def flips(model: PlainModel, batch: Batch, rows: range) -> list[int]:
    """Items removed, the most attended first and what remains divided by its sum, until the decision changes."""
    return [_removed(model, batch, row) for row in rows]


def _removed(model: PlainModel, batch: Batch, row: int) -> int:
    """All items of a text whose decision never changes."""
    states, mask = model.read(shortened(batch, row, batch["attention_mask"][row].bool()))
    weights = model.pool(states, mask)[0]
    decision = bool(model.decode(states[0], weights) > 0.5)
    order = weights.argsort(descending=True).tolist()
    for size, place in enumerate(order, 1):
        weights[place] = 0
        total = weights.sum()
        remaining = weights / total if total > 0 else weights
        if bool(model.decode(states[0], remaining) > 0.5) != decision:
            return size
    return len(order)


@torch.no_grad()
def erasure(model: Any, batch: Batch, members: Tensor, attention: Tensor, shares: list[float], rows: range) -> Tensor:
    """Comprehensiveness and sufficiency of attention: a text without its top items, and of these alone, a share."""
    texts: list[Batch] = []
    rows_of_texts: list[int] = []  # the text that each was made of
    for row in rows:
        is_token, items = batch["attention_mask"][row].bool(), members[row].unique()
        items = items[items >= 0]
        no_item = members[row] < 0  # special tokens and padding
        order = items[attention[row, items].argsort(descending=True)]
        for share in shares:
            top = torch.isin(members[row], order[: math.ceil(share * len(order))])
            texts.append(shortened(batch, row, is_token & ~top))
            texts.append(shortened(batch, row, is_token & (top | no_item)))
            rows_of_texts += [row, row]
    before = outputs_of(model, batch, list(rows))
    after = torch.cat([model(joined(texts[start : start + ROWS])) for start in range(0, len(texts), ROWS)])
    return torch.stack([before[row] for row in rows_of_texts]) - after


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
