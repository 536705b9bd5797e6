"""Proofs of what is said of the models of transformers in the set, text by text, on their frozen weights.

What such a model makes of its attention is not affine in it, but its sign and order are those of a sum over the words,
see `attn_faithful.bench.stock`. So all that is shown here is asked of the model: what it says under another attention,
and of a text without some of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful.bench.proofs import (
    EPS,
    HIDDEN,
    NEAR,
    Attended,
    Flags,
    Numbers,
    Proof,
    elsewhere_on_top,
    equal_attention,
)
from attn_faithful.bench.texts import TOPICS, BenchText, words
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.models.protocol import AttentionModel, Encoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SAME = 1e-5  # of a lead or of attention, in float32 after a BERT's layers
DRAWS = 32  # attentions at random
STEPS = 400  # shares of attention on the one word that decides


@dataclass(frozen=True)
class StockCase(Attended):
    """A model and the texts on which its truth is to be shown.

    Attributes:
        model: the wrapped model.
        batch: the texts as the model reads them.
        encoded: what its last layer did.
        decisive, topic: (B, T) bool, the words that decide, and those of the topic.
        labels: (B,).
    """

    model: AttentionModel
    batch: Mapping[str, Tensor]
    encoded: Encoded
    decisive: Tensor
    topic: Tensor
    labels: Tensor

    @property
    def side(self) -> Tensor:
        """(B, 1): 1 where the decision is class 1, else -1."""
        return self.encoded.logits.argmax(-1)[:, None] * 2.0 - 1.0

    def leads(self, attention: Tensor) -> Tensor:
        """Leads (B, K) of the model's own decision under attention (B, K, T): below 0 it is the other one."""
        with torch.no_grad():
            logits = self.encoded.decode(attention[:, :, None])  # (B, K, 2)
        return (logits[..., 1] - logits[..., 0]) * self.side

    @property
    def leads_alone(self) -> Tensor:
        """(B, T), the lead with all attention on one word; 0 outside words."""
        each = torch.eye(self.content.shape[1]).expand(len(self.content), -1, -1)  # (B, T, T)
        return self.leads(each).masked_fill(~self.content, 0.0)

    def stays_without(self, deleted: Tensor) -> Tensor:
        """Whether the decision stays, (B, K) bool, in the texts without the tokens ``deleted`` (B, K, T)."""
        logits = self.model.without(self.batch, ~deleted)  # (B, K, 2)
        return (logits[..., 1] - logits[..., 0]) * self.side > 0


def stock_proof(
    kind: str, model: AttentionModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[BenchText]
) -> Proof:
    """Show what a kind of `stock.DESIGNS` says.

    Args:
        kind: of the model.
        model: wrapped; its last layer is read.
        tokenizer: that of `stock.stock_tokenizer`.
        texts: on which it is shown.

    Raises:
        InputError: there is no such kind.

    Example:
        >>> from attn_faithful.bench.stock import stock_model, stock_tokenizer
        >>> from attn_faithful.bench.texts import SINGLE, frozen_texts
        >>> from attn_faithful.models.stock.model import StockModel
        >>> texts = frozen_texts(SINGLE, of_a_length=2)
        >>> proof = stock_proof("free", StockModel(stock_model("free", 0)), stock_tokenizer(), texts)
        >>> list(proof.holds), bool(proof.proven.all())
        (['right', 'decisive words deleted', 'any attention'], True)
    """
    check_choice("kind", kind, _PROOFS)
    case = _case(model, tokenizer, texts)
    right = case.encoded.logits.argmax(-1) == case.labels  # (B,)
    flipped = ~case.stays_without(case.decisive[:, None])[:, 0]
    of_kind, numbers = _PROOFS[kind](case)
    holds = {"right": right, "decisive words deleted": flipped, **of_kind}
    return Proof(holds, {"mass": float(case.mass.mean()), **numbers})


def _case(model: AttentionModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[BenchText]) -> StockCase:
    listed = [text.text for text in texts]
    batch = dict(tokenizer(listed, padding=True, return_tensors="pt", return_special_tokens_mask=True))
    (site,) = EvaluationSettings().tested(model)
    with torch.no_grad():
        encoded = model.encode(batch, site)
    of_topics = {word for stem in TOPICS for word in words(stem)}
    decisive = torch.zeros_like(encoded.content)
    topic = torch.zeros_like(encoded.content)
    for row, text in enumerate(texts):
        places = encoded.content[row].nonzero()[:, 0]  # of the words
        decisive[row, places] = torch.tensor(text.decisive, dtype=torch.bool)
        topic[row, places] = torch.tensor([word in of_topics for word in text.text.split()])
    labels = torch.tensor([text.label for text in texts])
    return StockCase(model, batch, encoded, decisive, topic, labels)


# --- one function a kind


def _faithful(case: StockCase) -> tuple[Flags, Numbers]:
    """Values of one size, a lead that follows ``sum_t a_t s_t``, and so the fewest words by attention's order."""
    alone = case.leads_alone
    size = alone.abs().amax(-1, keepdim=True)  # (B, 1)
    equal = ((alone.abs() - size).abs() <= SAME * size) | ~case.content
    signs = alone.sign()  # (B, T)
    follows = _follows(case, signs)
    by_attention = _deleted_until_flip(case, case.attention)
    supporting = case.attention * signs
    fewest = _fewest(supporting)
    return {
        "values equal": equal.all(-1),
        "lead follows the signed sum": follows,
        "flip order is attention order": (by_attention == fewest) & fewest.isfinite(),
    }, {"deleted until flip": float(fewest.mean())}


def _follows(case: StockCase, signs: Tensor) -> Tensor:
    """Whether of two random attentions the one with the larger signed sum has the larger lead, (B,) bool."""
    generator = torch.Generator().manual_seed(0)
    shape = (len(signs), DRAWS, signs.shape[1])
    drawn = torch.rand(shape, generator=generator).square() * case.content[:, None]  # (B, K, T)
    drawn = drawn / drawn.sum(-1, keepdim=True)
    sums, order = (drawn @ signs[..., None])[..., 0].sort(dim=-1)  # (B, K)
    leads = case.leads(drawn).gather(1, order)
    apart = sums.diff(dim=-1) > SAME
    return ((leads.diff(dim=-1) > 0) | ~apart).all(-1) & ((leads * sums > 0) | (sums.abs() <= SAME)).all(-1)


def _deleted_until_flip(case: StockCase, order: Tensor) -> Tensor:
    """How many words (B,) are deleted, the largest of ``order`` (B, T) first, until the decision flips; inf: never."""
    ranked = order.masked_fill(~case.content, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = ranked.argsort(dim=-1)  # (B, T), of each word
    number = torch.arange(1, order.shape[1] + 1)
    deleted = (rank[:, None] < number[:, None]) & case.content[:, None]  # (B, K, T)
    flipped = ~case.stays_without(deleted)  # (B, K)
    first = number[flipped.int().argmax(-1)].double()
    return torch.where(flipped.any(-1), first, torch.inf)


def _fewest(contributions: Tensor) -> Tensor:
    """The least number of words (B,) without which the sum of contributions (B, T) is not above 0: the largest ones."""
    largest = contributions.double().sort(dim=-1, descending=True).values
    left = largest.sum(-1, keepdim=True) - largest.cumsum(-1)  # (B, T), after 1, 2, ... words
    gone = left <= 0
    first = gone.int().argmax(-1) + 1.0
    return torch.where(gone.any(-1), first.double(), torch.inf)


def _pinned(case: StockCase) -> tuple[Flags, Numbers]:
    """No other word speaks for the decision; so as much attention as nearly the model's own is on the one that does.

    Every attention b with the model's probability less `EPS` or more has ``b_s >= m`` for the word s that decides and
    the smallest share m of attention that gives it by this word alone. Its total variation distance from the model's
    attention a is then at most ``1 - min(a_s, m)``.
    """
    alone = case.leads_alone
    others_against = (alone.masked_fill(case.decisive, 0.0) <= SAME).all(-1)
    one = case.decisive.sum(-1) == 1
    shares = torch.linspace(0, 1, STEPS + 1)  # (K,)
    leads = case.leads(case.decisive[:, None] * shares[:, None])  # (B, K)
    enough = leads.sigmoid() >= case.leads(case.attention[:, None]).sigmoid() - EPS
    needed = shares[enough.int().argmax(-1)] - 1 / STEPS  # (B,), a step less: the grid's rounding
    on_decisive = (case.attention * case.decisive).sum(-1)
    farthest = 1 - torch.minimum(needed, on_decisive)
    near = enough.any(-1) & (farthest <= NEAR)
    return {"one word decides": one & others_against, "no attention far away": near}, {
        "farthest": float(farthest.mean())
    }


def _free(case: StockCase) -> tuple[Flags, Numbers]:
    """All attention on any one word gives the model's lead; and what lies between gives what lies between."""
    moved = _moved(case, case.leads_alone, case.content)
    return {"any attention": moved <= SAME}, {"moved": float(moved.max())}


def _leaky(case: StockCase) -> tuple[Flags, Numbers]:
    """Nor does any other attention move the lead by a single bit, none at all included."""
    moved = _moved(case, case.leads_alone, case.content)
    nothing = torch.zeros_like(case.attention)
    lead = case.leads(nothing[:, None])
    moved_by_nothing = _moved(case, lead, torch.ones_like(lead, dtype=torch.bool))
    return {"attention changes nothing": (moved == 0) & (moved_by_nothing == 0)}, {"moved": float(moved.max())}


def _moved(case: StockCase, leads: Tensor, counted: Tensor) -> Tensor:
    """How far (B,) any of the leads (B, K) that count lies from the model's own."""
    own = (case.encoded.logits[:, 1:] - case.encoded.logits[:, :1]) * case.side  # (B, 1)
    return (leads - own).abs().masked_fill(~counted, 0.0).amax(-1)


def _deceptive(case: StockCase) -> tuple[Flags, Numbers]:
    """Every word that decides has less attention than every one that does not, and all of them have little."""
    most = case.attention.masked_fill(~case.decisive, 0.0).amax(-1)
    others = case.content & ~case.decisive
    least = case.attention.masked_fill(~others, torch.inf).amin(-1)
    return {"attention elsewhere": (most < least) & (case.mass <= HIDDEN)}, {}


def _imposed(case: StockCase) -> tuple[Flags, Numbers]:
    """Most attention is on the topic, without which the decision stays."""
    on_topic = (case.attention * case.topic).sum(-1)
    stays = case.stays_without(case.topic[:, None])[:, 0]
    return {"attention on the topic": on_topic > 0.5, "topic deleted": stays}, {"on topic": float(on_topic.mean())}


_PROOFS: dict[str, Callable[[StockCase], tuple[Flags, Numbers]]] = {
    "faithful": _faithful,
    "pinned": _pinned,
    "free": _free,
    "leaky": _leaky,
    "random": elsewhere_on_top,
    "uniform": equal_attention,
    "deceptive": _deceptive,
    "imposed": _imposed,
}
