"""What a user would write to test a transformers classifier's attention: whole forwards, one layer's replaced.

A function registered with transformers computes the layer's attention and puts others in the place of the first token's
row; copies of a text run 32 a forward. The rows below the layer run again for every alternative, as they do by hand.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from minilm import StockSetup, Text
from peers import ROWS, by_word
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface


class Replaced:
    """A model whose first token's attention (H, T) at one layer is read and replaced."""

    def __init__(self, setup: StockSetup, layer: int) -> None:
        AttentionInterface.register("replaced", self._attention)
        self.model = copy.deepcopy(setup.model.model)
        self.model.set_attn_implementation("replaced")
        self.module = self.model.base_model.encoder.layer[layer].attention.self
        self.texts = setup.texts
        self.weights: Tensor | None = None  # (R, H, T)
        self.read: Tensor | None = None  # (R, H, T)

    def _attention(
        self, module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **further: Any
    ) -> tuple[Tensor, Tensor | None]:
        if module is not self.module:
            return scaled_dot_product_attention(query, key, value).transpose(1, 2), None
        attention = (query @ key.transpose(2, 3) * query.shape[-1] ** -0.5).softmax(-1)  # (R, H, T, T)
        self.read = attention[:, :, 0].clone()
        if self.weights is not None:
            attention[:, :, 0] = self.weights
        return (attention @ value).transpose(1, 2), attention

    @torch.inference_mode()
    def _chances(self, text: Text, weights: Tensor | None) -> Tensor:
        """Probabilities (R, C) of a text under attention (R, H, T); under its own for None."""
        self.weights = weights
        copies = 1 if weights is None else len(weights)
        return self.model(input_ids=torch.tensor([text.ids] * copies)).logits.softmax(-1)

    def _own(self, text: Text) -> tuple[Tensor, Tensor]:
        """The probabilities (C,) of a text, and the attention (H, T)."""
        chances = self._chances(text, None)[0]
        return chances, self.read[0]

    def flips(self, draws: int) -> list[list[int]]:
        """Of each text, how many words go until the decision changes: in attention's order and in random ones."""
        return [self._flips_of(text, draws) for text in self.texts]

    def _flips_of(self, text: Text, draws: int) -> list[int]:
        chances, attention = self._own(text)
        orders = [by_word(text, attention.mean(0)).argsort(descending=True)]
        orders += [torch.randperm(len(text.items)) for _ in range(draws)]
        return [self._removed(text, attention, int(chances.argmax()), order) for order in orders]

    def _removed(self, text: Text, attention: Tensor, decision: int, order: Tensor) -> int:
        """Words that go in an order until the decision changes, looked for 32 at once; all where it never does."""
        kept = torch.ones(len(order), attention.shape[1])  # (K, T)
        for size, word in enumerate(order.tolist()):
            kept[size:, text.items[word]] = 0
        for start in range(0, len(order), ROWS):
            remaining = attention * kept[start : start + ROWS, None]  # (R, H, T)
            remaining = remaining / remaining.sum(-1, keepdim=True)
            changed = (self._chances(text, remaining).argmax(-1) != decision).nonzero()
            if len(changed):
                return start + int(changed[0]) + 1
        return len(order)

    def permutations(self, count: int) -> list[float]:
        """The median change of each text's probability under so many orders of its pieces' weights."""
        medians = []
        for text in self.texts:
            chances, attention = self._own(text)
            places = torch.tensor([piece for item in text.items for piece in item])
            after = []
            for start in range(0, count, ROWS):
                rows = min(ROWS, count - start)
                order = places[torch.rand(rows, len(places)).argsort(-1)]  # (R, pieces)
                permuted = attention.expand(rows, -1, -1).clone()
                permuted[:, :, places] = attention[:, order].transpose(0, 1)
                after.append(self._chances(text, permuted)[:, 1])
            medians.append(float((torch.cat(after) - chances[1]).abs().median()))
        return medians

    def descents(self, copies: int, steps: int) -> None:
        """Some steps of Jain and Wallace's adversary: copies of each text under attention that learns."""
        for text in self.texts:
            _, attention = self._own(text)
            scores = torch.randn(copies, *attention.shape, requires_grad=True)
            optimizer = torch.optim.Adam([scores], lr=0.01, amsgrad=True)
            for _ in range(steps):
                self.weights = scores.softmax(-1)
                logits = self.model(input_ids=torch.tensor([text.ids] * copies)).logits
                optimizer.zero_grad()
                logits.softmax(-1)[:, 1].sum().backward(inputs=[scores])
                optimizer.step()
        self.weights = None
