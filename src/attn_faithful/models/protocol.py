"""The protocol that every model speaks and every test listens to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Batch = Mapping[str, Tensor]

JOINT = "joint"  # the site of all layers of a stock model at once
QUERIES = ("auto", "token", "mean", "all")  # whose rows of a stock model's attention are its slots


@dataclass(frozen=True)
class Affine:
    """A read-out that is affine in its attention: ``logits = attention @ token_logits + bias``, exactly.

    Attributes:
        token_logits: what each token alone would say, without the bias, (B, T, C).
        bias: (B, C).
    """

    token_logits: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Encoded:
    """What a model did at one attention site, and how its logits follow from any other attention there.

    Attributes:
        attention: the weights that the model used, (B, S, T); a slot sums to 1 over `allowed`, 0 where nothing is.
        allowed: positions that attention may reach, bool (B, S, T).
        content: positions that a test may move, rank and report, bool (B, T); the others keep their weight.
        items: what a position is, "token" or "sentence".
        logits: (B, C); a one-logit model is stored as (0, z).
        scores: before the projection, (B, S, T); None where unknown.
        project: ``project(scores, allowed) -> attention``; None where unknown.
        decode: ``decode(attention (B, K, S, T)) -> logits (B, K, C)``, differentiable; the model's own attention
            gives the model's own logits; a slot of zeros is legal.
        affine: only where S is 1 and the read-out is exactly affine.
        multi_label: whether the logits are one independent yes-or-no a label.
        log_weights: the logarithm of the attention up to a constant a slot, (B, S, T), -inf for a weight of 0; None for
            that of `attention` itself. Weights too small for their type keep their ratios here.
        pooled: attention over all items, (B, T), where several slots share them; None where S is 1.
        members: which item each token belongs to, (B, tokens), -1 for none; None where the items are the tokens.
    """

    attention: Tensor
    allowed: Tensor
    content: Tensor
    items: str
    logits: Tensor
    decode: Callable[[Tensor], Tensor]
    scores: Tensor | None = None
    project: Callable[[Tensor, Tensor], Tensor] | None = None
    affine: Affine | None = None
    multi_label: bool = False
    log_weights: Tensor | None = None
    pooled: Tensor | None = None
    members: Tensor | None = None

    @property
    def over_items(self) -> Tensor:
        """Attention over the items as a whole, (B, T); it sums to 1 over what is allowed, special tokens included."""
        return self.attention[:, 0] if self.pooled is None else self.pooled

    @property
    def probabilities(self) -> Tensor:
        """Class probabilities, (B, C): softmax over the classes, or a sigmoid a label."""
        return probabilities(self.logits, self.multi_label)


class AttentionModel(Protocol):
    """A classifier whose attention can be read and replaced."""

    sites: tuple[str, ...]

    def encode(self, batch: Batch, site: str) -> Encoded:
        """Run the model once and return what it did at ``site``."""

    def without(self, batch: Batch, keep: Tensor) -> Tensor:
        """Logits (B, K, C) with the tokens outside ``keep`` (B, K, T) deleted and the model run again.

        Equal shortened texts have equal logits, to the last bit: see `attn_faithful.models.distinct_deletions`.
        """


def probabilities(logits: Tensor, multi_label: bool = False) -> Tensor:
    """Probabilities of logits (..., C), in float32 at least.

    Example:
        >>> probabilities(torch.tensor([[0.0, 1.2]]))
        tensor([[0.2315, 0.7685]])
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return logits.sigmoid() if multi_label else logits.softmax(-1)


@dataclass
class _Modes:
    """The modes of a model's modules before its first user put it into eval mode, and how many use it now."""

    before: list[tuple[nn.Module, bool]]
    users: int = 0


_MODES: WeakKeyDictionary[nn.Module, _Modes] = WeakKeyDictionary()
_GUARD = threading.Lock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; every module's own mode comes back afterwards, also after an exception.

    Where threads share a model its modes come back with the last of them.
    """
    with _GUARD:
        modes = _MODES.get(model)
        if modes is None:
            modes = _MODES[model] = _Modes([(module, module.training) for module in model.modules()])
        modes.users += 1
        model.eval()
    try:
        yield
    finally:
        with _GUARD:
            modes.users -= 1
            if not modes.users:
                del _MODES[model]
                for module, training in modes.before:
                    module.training = training
