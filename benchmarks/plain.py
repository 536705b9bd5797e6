"""The tests of Jain and Wallace (2019) as their algorithms read: the baseline that the benchmarks divide by.

Nothing is shared between alternatives: every left-out text runs whole, every attention is decoded through the hidden
states, recurrent texts are packed. Batches hold 32 rows a forward.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

ROWS = 32


class PlainModel(nn.Module):
    """The same classifier with the same weights as ours, in the usual modules: MLP or packed bidirectional LSTM."""

    def __init__(self, ours: nn.Module) -> None:
        super().__init__()
        config = ours.config
        self.embedding = nn.Embedding.from_pretrained(ours.embedding.weight.detach().clone(), freeze=False)
        self.recurrent = config.encoder == "lstm"
        if self.recurrent:
            self.encoder = nn.LSTM(config.embedding_size, config.hidden_size, batch_first=True, bidirectional=True)
            for ending, part in (("", ours.encoder.ahead[0]), ("_reverse", ours.encoder.back[0])):
                for name, weight in part.named_parameters():
                    getattr(self.encoder, name + ending).data.copy_(weight.detach())
        else:
            self.encoder = nn.Linear(config.embedding_size, config.hidden_size)
            self.encoder.load_state_dict(ours.encoder.projection.state_dict())
        self.token, self.score = ours.attention.scorer.token, ours.attention.scorer.score
        self.readout = ours.readout
        self.eval()

    def states(self, embedded: Tensor, mask: Tensor) -> Tensor:
        if not self.recurrent:
            return self.encoder(embedded).tanh()
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.encoder(packed)[0], batch_first=True, total_length=mask.shape[1])[0]

    def attend(self, states: Tensor, mask: Tensor) -> Tensor:
        scores = self.score(self.token(states).tanh()).squeeze(-1)
        return scores.masked_fill(~mask, float("-inf")).softmax(-1)

    def decode(self, states: Tensor, attention: Tensor) -> Tensor:
        """Probability of the positive class for attention (..., T)."""
        context = (attention[..., None] * states).sum(-2)
        return self.readout(context).squeeze(-1).sigmoid()

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.states(self.embedding(ids), mask)
        return self.decode(states, self.attend(states, mask))


def gradients(model: PlainModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Algorithm 1: |gradient of the output with respect to each token's one-hot|, attention held fixed."""
    found = []
    for rows, read in zip(ids.split(ROWS), mask.split(ROWS), strict=True):
        embedded = model.embedding(rows).detach().requires_grad_()
        states = model.states(embedded, read)
        output = model.decode(states, model.attend(states, read).detach())
        (gradient,) = torch.autograd.grad(output.sum(), embedded)
        found.append((gradient * embedded).sum(-1).abs().detach())
    return torch.cat(found)


@torch.no_grad()
def leave_one_out(model: PlainModel, ids: Tensor, mask: Tensor) -> Tensor:
    """Algorithm 1: |change of the output| for each token left out; each shortened text runs whole."""
    changes = torch.zeros(ids.shape)
    for i, (row, read) in enumerate(zip(ids, mask, strict=True)):
        row = row[read]
        before = model(row[None], torch.ones(1, len(row), dtype=torch.bool))
        left = torch.stack([torch.cat([row[:t], row[t + 1 :]]) for t in range(len(row))])
        after = torch.cat([model(part, torch.ones_like(part, dtype=torch.bool)) for part in left.split(ROWS)])
        changes[i, : len(row)] = (after - before).abs()
    return changes


@torch.no_grad()
def encoded(model: PlainModel, ids: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Hidden states and attention of each batch: what algorithm 2 begins with."""
    found = []
    for rows, read in zip(ids.split(ROWS), mask.split(ROWS), strict=True):
        states = model.states(model.embedding(rows), read)
        found.append((states, model.attend(states, read)))
    return found


@torch.no_grad()
def permutations(model: PlainModel, batches: list[tuple[Tensor, Tensor]], index: Tensor) -> Tensor:
    """Algorithm 2: outputs under 100 permutations, index (B, 100, T), each decoded through the hidden states."""
    found = []
    for (states, attention), order in zip(batches, index.split(ROWS), strict=True):
        found.append(torch.stack([model.decode(states, attention.gather(1, order[:, k])) for k in range(100)], 1))
    return torch.cat(found)


def adversary(model: PlainModel, ids: Tensor, mask: Tensor, noise: Tensor, steps: int = 500) -> Tensor:
    """Algorithm 3: 5 alternatives by 500 steps of Adam, decoded through the hidden states; noise (B, 5, T)."""
    found = []
    for rows, read, start in zip(ids.split(ROWS), mask.split(ROWS), noise.split(ROWS), strict=True):
        with torch.no_grad():
            states = model.states(model.embedding(rows), read)
            attention = model.attend(states, read)
            before = model.decode(states, attention)[:, None]
        scores = (3 * start).clone().requires_grad_()
        optimizer = torch.optim.Adam([scores], lr=0.01, amsgrad=True)
        for _ in range(steps):
            other = scores.masked_fill(~read[:, None], float("-inf")).softmax(-1)
            change = (model.decode(states[:, None], other) - before).abs()
            apart = _jsd(other[:, :, None], other[:, None]).sum((1, 2)) / 25
            loss = (500 * (change - 0.01).relu() - _jsd(other, attention[:, None])).sum() - apart.sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append(scores.detach().masked_fill(~read[:, None], float("-inf")).softmax(-1))
    return torch.cat(found)


def _jsd(p: Tensor, q: Tensor) -> Tensor:
    middle = (p + q) / 2

    def kl(a: Tensor) -> Tensor:
        return (a * ((a + 1e-10).log() - (middle + 1e-10).log())).sum(-1)

    return (kl(p) + kl(q)) / 2
