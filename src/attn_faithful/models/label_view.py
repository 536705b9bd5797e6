"""One label of a multi-label model as a question of its own: the decision is on which side of one half it lies.

A label's logit z becomes the two classes (0, z), "no" and "yes", as a one-logit model is stored; a z of 0 is a no.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attn_faithful.functional.tail import Linear, Tail
from attn_faithful.models.protocol import Affine, Encoded

Decode = Callable[[Tensor], Tensor]
TailOf = Callable[[Tensor], Tail]


def no_and_yes(logits: Tensor, label: int) -> Tensor:
    """The logits (..., 2) of "no" and "yes" to one label, from those of all labels (..., C).

    Example:
        >>> no_and_yes(torch.tensor([[1.5, -2.0]]), 1)
        tensor([[ 0., -2.]])
    """
    yes = logits[..., label]
    return torch.stack([torch.zeros_like(yes), yes], dim=-1)


def label_view(encoded: Encoded, label: int, decode: Decode | None = None) -> Encoded:
    """What a multi-label model did, with the answers to one label alone.

    Args:
        encoded: of all labels.
        label: the index of the one that is asked.
        decode: in place of that of `encoded`, such as `Remembered` of it, which several labels share.
    """
    decode_all = encoded.decode if decode is None else decode
    affine = encoded.affine
    if affine is not None:
        token_logits = no_and_yes(affine.token_logits, label)  # (B, T, 2)
        affine = Affine(token_logits, no_and_yes(affine.bias, label))

    def decode_label(attention: Tensor) -> Tensor:
        return no_and_yes(decode_all(attention), label)

    tail = None
    if encoded.tail is not None:
        tail = partial(_tail_of_label, encoded.tail, encoded.logits.shape[-1], label)
    return replace(
        encoded,
        logits=no_and_yes(encoded.logits, label),
        decode=decode_label,
        affine=affine,
        multi_label=False,
        tail=tail,
    )


def _tail_of_label(tail_of_all: TailOf, labels: int, label: int, texts: Tensor) -> Tail:
    """The tail of all labels, and a step to the answers to one."""
    tail = tail_of_all(texts)
    each_label = torch.eye(labels, dtype=tail.base.dtype, device=tail.base.device)
    weight = no_and_yes(each_label, label).T  # (2, C)
    step = Linear(len(tail.steps), weight, weight.new_zeros(2))
    return replace(tail, steps=(*tail.steps, step))


class Remembered:
    """A decode that runs the model once for equal attention: a label asks what another has asked before.

    Args:
        decode: of a model's `Encoded`.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._known: dict[bytes, Tensor] = {}

    def __call__(self, attention: Tensor) -> Tensor:
        if torch.is_grad_enabled() and attention.requires_grad:
            return self._decode(attention)
        key = _digest(attention.detach().cpu().contiguous())
        if key not in self._known:
            with torch.no_grad():
                self._known[key] = self._decode(attention)
        return self._known[key]


def _digest(values: Tensor) -> bytes:
    """A digest of the shape, type and bits of a tensor."""
    kind = repr((values.shape, values.dtype))
    digest = hashlib.sha256(kind.encode())
    if values.numel():
        bits = values.view(-1).view(torch.uint8)
        digest.update(bits.numpy().tobytes())
    return digest.digest()
