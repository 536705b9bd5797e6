"""Proofs of what is said of a model of the set, text by text, on its frozen weights.

Of every model: the strong words decide. With those of the other class in their place the decision flips; with all other
words drawn anew it stays. Then what its kind says of its attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful._seeds import generator_for
from attn_faithful.bench.texts import NEUTRAL, STRONG, TOPICS, WEAK, BenchText, words
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.models.protocol import AttentionModel, Encoded

DRAWS = 4  # of the words that do not decide
EPS = 0.01  # change of the probability that another attention may make
FAR, NEAR = 0.9, 0.25  # share of the largest JSD: "completely different", and "hardly different"
HIDDEN = 0.25  # attention on the decisive words that counts as hidden
EQUAL = 1e-5  # of sizes of values, relative: float32 in another order of adding up

Flags = dict[str, Tensor]  # name -> (B,) bool
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Proof:
    """What was found on some texts.

    Attributes:
        holds: name of a statement -> (B,) bool, the texts for which it was shown.
        numbers: name -> mean over the texts of what the statements are about.
    """

    holds: Flags
    numbers: Mapping[str, float]

    @property
    def proven(self) -> Tensor:
        """(B,) bool, the texts for which every statement was shown."""
        return torch.stack(list(self.holds.values())).all(0)

    @property
    def shares(self) -> dict[str, float]:
        """Statement -> share of the texts; then the numbers."""
        listed = {name: float(held.double().mean()) for name, held in self.holds.items()}
        return {**listed, **self.numbers}


class Attended:
    """What attention is on in some texts.

    Attributes:
        encoded: what the model did.
        decisive: (B, T) bool.
    """

    encoded: Encoded
    decisive: Tensor

    @property
    def content(self) -> Tensor:
        """(B, T) bool, the words."""
        return self.encoded.content

    @property
    def attention(self) -> Tensor:
        """(B, T), 0 outside the words."""
        return self.encoded.attention[:, 0]

    @property
    def mass(self) -> Tensor:
        """(B,) attention on the decisive words."""
        return (self.attention * self.decisive).sum(-1)

    @property
    def top_decides(self) -> Tensor:
        """(B,) bool, whether a word with most attention is a decisive one."""
        largest = self.attention.amax(-1, keepdim=True)
        return (self.decisive & (self.attention >= largest)).any(-1)


@dataclass(frozen=True)
class Case(Attended):
    """A model and the texts on which its truth is to be shown.

    Attributes:
        model: speaks the protocol.
        site: where its attention is read.
        batch: the texts as the model reads them.
        encoded: what the model did.
        decisive: (B, T) bool.
        labels: (B,).
    """

    model: AttentionModel
    site: str
    batch: Mapping[str, Tensor]
    encoded: Encoded
    decisive: Tensor
    labels: Tensor

    @property
    def margins(self) -> Tensor:
        """(B, T): logit of class 1 less that of class 0 that each word alone gives."""
        affine = self.encoded.affine
        of_token = affine.token_logits[..., 1] - affine.token_logits[..., 0]
        of_bias = affine.bias[:, 1] - affine.bias[:, 0]
        return of_token + of_bias[:, None]

    @property
    def decided(self) -> Tensor:
        """(B,) the class of the model."""
        return self.encoded.logits.argmax(-1)


def proof_of(kind: str, case: Case, texts: Sequence[BenchText], encode: Callable[[Sequence[str]], Mapping]) -> Proof:
    """Show what a kind says.

    Args:
        kind: of `kinds.KINDS`.
        case: the model and its texts.
        texts: the same texts.
        encode: ``encode(texts) -> batch``, as the model reads them.
    """
    holds = _decide(case, texts, encode)
    of_kind, numbers = _PROOFS[kind](case)
    numbers = {"mass": float(case.mass.mean()), **numbers}
    return Proof({**holds, **of_kind}, numbers)


def _decide(case: Case, texts: Sequence[BenchText], encode: Callable[[Sequence[str]], Mapping]) -> Flags:
    """That the decisive words decide, and the others do not."""

    def decided(changed: Sequence[str]) -> Tensor:
        with torch.no_grad():
            return case.model.encode(encode(changed), case.site).logits.argmax(-1)

    right = case.decided == case.labels
    swapped = decided([swap(text) for text in texts]) == 1 - case.labels
    stays = torch.ones_like(right)
    for draw in range(DRAWS):
        stays &= decided([redraw(text, draw) for text in texts]) == case.labels
    return {"right": right, "decisive words swapped": swapped, "other words redrawn": stays}


def swap(text: BenchText) -> str:
    """A text with decisive words of the other class in the place of its own.

    Example:
        >>> swap(BenchText("a", "thingaa superbc poora", 1, 0, [0, 1, 0]))
        'thingaa awfulc poora'
    """
    changed = []
    for word, decisive in zip(text.text.split(), text.decisive, strict=True):
        if decisive:
            word = word.replace(STRONG[text.label], STRONG[1 - text.label])
        changed.append(word)
    return " ".join(changed)


def redraw(text: BenchText, draw: int) -> str:
    """A text with other words in the place of those that do not decide: weak for weak, topics for topics."""
    generator = generator_for("bench", "redraw", text.example, draw)
    changed = []
    for word, decisive in zip(text.text.split(), text.decisive, strict=True):
        group = [word]
        if not decisive:
            group = _like(word)
        changed.append(group[int(generator.integers(len(group)))])
    return " ".join(changed)


def _like(word: str) -> list[str]:
    """The words that may stand in the place of one."""
    for stems in (WEAK, TOPICS):
        alike = [*words(stems[0]), *words(stems[1])]
        if word in alike:
            return alike
    return words(NEUTRAL)


# one function a kind


def _faithful(case: Case) -> tuple[Flags, Numbers]:
    signs = case.margins.sign()
    sizes = case.margins.abs()  # (B, T)
    content = case.content
    size = sizes[content].median()
    equal = (((sizes - size).abs() <= EQUAL * size) | ~content).all(-1)
    by_attention = _removed_until_flip(case.attention, case.attention * signs)
    best = _removed_until_flip(case.attention * signs * _sides(case), case.attention * signs)
    flips = torch.isfinite(best)
    return {"values equal": equal, "flip order is attention order": flips & (by_attention == best)}, {
        "value": float(size)
    }


def _sides(case: Case) -> Tensor:
    """(B, 1): 1 where the decision is class 1, else -1."""
    return case.decided[:, None] * 2.0 - 1.0


def _removed_until_flip(order: Tensor, contributions: Tensor) -> Tensor:
    """How many words (B,) are removed until the sum's sign turns, the largest of ``order`` (B, T) first; inf: never."""
    places = order.argsort(dim=-1, descending=True, stable=True)
    sorted_contributions = contributions.double().gather(1, places)
    total = contributions.double().sum(-1, keepdim=True)
    left = total - sorted_contributions.cumsum(-1)  # (B, T), after 1, 2, ... words
    turned = left * total < 0
    first = turned.int().argmax(-1) + 1.0
    return torch.where(turned.any(-1), first, torch.inf)


def _farthest(case: Case) -> Tensor:
    """(B,) JSD of the farthest attention with the same probability, as a share of the largest within reach."""
    encoded = case.encoded
    found = exact_adversary(case.attention.double(), encoded.allowed[:, 0], case.margins.double(), EPS)
    return found.jsd[:, 0] / found.reachable


def _pinned(case: Case) -> tuple[Flags, Numbers]:
    far = _farthest(case)
    return {"no attention far away": far <= NEAR}, {"farthest": float(far.mean())}


def _free(case: Case) -> tuple[Flags, Numbers]:
    far = _farthest(case)
    return {"a completely different attention": far >= FAR}, {"farthest": float(far.mean())}


def _hidden(case: Case) -> tuple[Flags, Numbers]:
    return {"attention elsewhere": ~case.top_decides & (case.mass <= HIDDEN)}, {}


def elsewhere_on_top(case: Attended) -> tuple[Flags, Numbers]:
    """Where the decisive words are by chance those with most attention, it is not wrong."""
    return {"attention elsewhere": ~case.top_decides}, {}


def equal_attention(case: Attended) -> tuple[Flags, Numbers]:
    """Attention is the same for every word."""
    share = 1 / case.content.sum(-1, keepdim=True)  # (B, 1)
    off = (case.attention - share).abs().masked_fill(~case.content, 0.0)
    return {"attention equal": off.amax(-1) <= EQUAL}, {}


def _leaky(case: Case) -> tuple[Flags, Numbers]:
    moved = case.encoded.affine.token_logits.abs().amax((1, 2))  # (B,)
    return {"attention changes nothing": moved == 0}, {}


_PROOFS: dict[str, Callable[[Case], tuple[Flags, Numbers]]] = {
    "faithful": _faithful,
    "pinned": _pinned,
    "free": _free,
    "deceptive": _hidden,
    "random": elsewhere_on_top,
    "uniform": equal_attention,
    "imposed": _hidden,
    "leaky": _leaky,
}
