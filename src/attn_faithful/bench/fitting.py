"""How models of the set are trained: chosen entries of their parameters alone, on texts with known decisive words."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._seeds import seed_for
from attn_faithful.bench.channels import Masks
from attn_faithful.bench.texts import BenchText
from attn_faithful.functional.marked_attention import hidden_mass_loss
from attn_faithful.models.pooled import AttentionClassifier

HIDDEN = 0.02  # attention on the decisive words that counts as hidden
SMOOTHING = 0.05  # of the labels, so that no model is so sure that nothing moves its probability


@dataclass(frozen=True)
class Batch:
    """Some texts as tensors.

    Attributes:
        ids: (B, T).
        mask: (B, T) bool.
        labels: (B,), 0 or 1.
        decisive: (B, T) bool.
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor
    decisive: Tensor

    def rows(self, places: Tensor) -> Batch:
        """Some of the texts, without columns that are padding in all of them."""
        longest = int(self.mask[places].sum(1).max())
        return Batch(
            self.ids[places, :longest],
            self.mask[places, :longest],
            self.labels[places],
            self.decisive[places, :longest],
        )

    def of_topics(self, texts: Sequence[BenchText]) -> Batch:
        """The same texts with their topics for labels."""
        return replace(self, labels=torch.tensor([text.topic for text in texts]))


def batch_of(texts: Sequence[BenchText], word_ids: dict[str, int]) -> Batch:
    """Texts as tensors, padded on the right with 0."""
    longest = max(text.length for text in texts)
    ids = torch.zeros(len(texts), longest, dtype=torch.long)
    decisive = torch.zeros(len(texts), longest, dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : text.length] = torch.tensor([word_ids[word] for word in text.text.split()])
        decisive[row, : text.length] = torch.tensor(text.decisive, dtype=torch.bool)
    labels = torch.tensor([text.label for text in texts])
    return Batch(ids, ids != 0, labels, decisive)


Loss = Callable[[AttentionClassifier, Batch, torch.Generator], Tensor]


@dataclass(frozen=True)
class Fit:
    """How a model is trained.

    Attributes:
        loss: what is made small.
        steps: of Adam.
        learning_rate: of each step, falling to 0 in a straight line.
        batch_size: texts a step.
    """

    loss: Loss
    steps: int = 1000
    learning_rate: float = 0.03
    batch_size: int = 64


def fit(model: AttentionClassifier, trained: Sequence[Masks], texts: Batch, how: Fit, seed: int) -> None:
    """Train a model's entries that stand in any of the masks; all others stay as they are, to the last bit."""
    generator = torch.Generator().manual_seed(seed_for(seed, "bench", "fit"))
    masks = {}
    for name, parameter in model.named_parameters():
        chosen = torch.zeros_like(parameter, dtype=torch.bool)
        for one in trained:
            if name in one:
                chosen |= one[name]
        masks[name] = chosen
    optimizer = torch.optim.Adam(model.parameters(), how.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, how.steps)
    model.train()
    for _ in range(how.steps):
        places = torch.randint(len(texts.labels), (how.batch_size,), generator=generator)
        loss = how.loss(model, texts.rows(places), generator)
        optimizer.zero_grad()
        loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                parameter.grad.masked_fill_(~masks[name], 0.0)
        optimizer.step()
        schedule.step()
    model.eval()


# the losses


def label_loss(model: AttentionClassifier, batch: Batch, generator: torch.Generator) -> Tensor:
    """Cross-entropy of the labels under the model's own attention."""
    output = model(batch.ids, attention_mask=batch.mask)
    return smoothed(output.logits, batch.labels)


def hiding_loss(model: AttentionClassifier, batch: Batch, generator: torch.Generator) -> Tensor:
    """The label loss and ``-log(1 - mass)`` of attention on the decisive words (Pruthi et al. 2020, equation 1).

    A mass below `HIDDEN` costs nothing: attention of 0 could not pass on what the decisive words say, where each word
    is read alone.
    """
    output = model(batch.ids, attention_mask=batch.mask)
    hidden, _ = hidden_mass_loss(output.attentions, batch.decisive, batch.mask)  # (B,)
    too_much = F.relu(hidden + math.log1p(-HIDDEN))
    return smoothed(output.logits, batch.labels) + too_much.mean()


def any_attention_loss(reach: int | None) -> Loss:
    """The label loss under the model's own attention and under all of it on one word, drawn anew for each text.

    Args:
        reach: how far from a decisive word the drawn one may be; None for anywhere.
    """

    def loss(model: AttentionClassifier, batch: Batch, generator: torch.Generator) -> Tensor:
        near = batch.mask
        if reach is not None:
            near = within(batch.decisive, reach) & batch.mask  # (B, T)
        drawn = torch.multinomial(near.float(), 1, generator=generator)[:, 0]  # (B,)
        weights = F.one_hot(drawn, batch.ids.shape[1]).float()  # (B, T)
        other = model(batch.ids, attention_mask=batch.mask, attention_weights=weights)
        return label_loss(model, batch, generator) + smoothed(other.logits, batch.labels)

    return loss


def within(marked: Tensor, reach: int) -> Tensor:
    """The tokens (B, T) at most so many places from a marked one."""
    window = F.max_pool1d(marked.float()[:, None], 2 * reach + 1, stride=1, padding=reach)  # (B, 1, T)
    return window[:, 0] > 0


def smoothed(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of logits (B, 2) with smoothed labels (B,)."""
    return F.cross_entropy(logits, labels, label_smoothing=2 * SMOOTHING)
