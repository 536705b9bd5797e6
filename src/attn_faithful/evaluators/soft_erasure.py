"""Soft erasure: entries of embeddings are zeroed by chance, fewer where a ranking is larger (Zhao and Aletras 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attn_faithful.evaluators.base import Block, MetricSpec
from attn_faithful.evaluators.score_rows import ScoreRows, nan_where
from attn_faithful.functional.erasure import comprehensiveness, sufficiency
from attn_faithful.functional.reasons import (
    MULTI_LABEL,
    NAN_PROBABILITIES,
    NO_EMBEDDINGS,
    ZERO_LOSES_NOTHING,
    Reasons,
    first_reasons,
    or_else,
)
from attn_faithful.functional.soft_erasure import keep_probabilities, soft_nc, soft_ns
from attn_faithful.models.embedded import EmbeddedTexts
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import probabilities

SOFT = "soft"  # the operator
COMPREHENSIVENESS = MetricSpec(
    "soft_comprehensiveness",
    "comprehensiveness, soft",
    "what the predicted class loses where the entries of embeddings that soft sufficiency keeps are 0, mean over draws",
    low=-1.0,
    direction="higher",
    unit="probability",
)
SUFFICIENCY = MetricSpec(
    "soft_sufficiency",
    "sufficiency, soft",
    "what the predicted class loses where entries of embeddings are kept with a probability that grows with the "
    "item's importance, and the others are 0, mean over draws",
    low=-1.0,
    direction="lower",
    unit="probability",
)
RETAINED = MetricSpec(
    "soft_retained",
    "retained, soft",
    "share of the entries of embeddings that soft sufficiency kept; soft comprehensiveness kept all others",
)
NC = MetricSpec(
    "soft_nc",
    "Soft-NC",
    "soft comprehensiveness, at least 0, by what the predicted class loses where all embeddings are 0",
    high=math.inf,
    direction="higher",
    shown=False,
)
NS = MetricSpec(
    "soft_ns",
    "Soft-NS",
    "1 less soft sufficiency, at least 0, by what the predicted class loses where all embeddings are 0",
    low=-math.inf,
    direction="higher",
    shown=False,
)
METRICS = (COMPREHENSIVENESS, SUFFICIENCY, RETAINED, NC, NS)


@dataclass(frozen=True)
class _Ranking:
    """How much a ranking keeps of each token.

    Attributes:
        keep: (B, T) over the tokens, the probability that an entry is kept.
        reasons: why a text is undefined, or None.
    """

    keep: Tensor
    reasons: Reasons


@dataclass(frozen=True)
class _Drawn:
    """What one ranking's texts of all draws came to.

    Attributes:
        without, only: (B, D), the target's probability by soft comprehensiveness and by soft sufficiency.
        retained: (B, D), share of the entries that the latter kept.
    """

    without: Tensor
    only: Tensor
    retained: Tensor


def add_soft(rows: ScoreRows, block: Block, rankings: Sequence[str], share: float | None, draws: int) -> None:
    """Add the numbers of soft erasure of every ranking.

    A draw hangs on seed, text and its number alone, and is the same for all rankings. Special tokens stay.

    Args:
        rows: where the scores go.
        block: the examples.
        rankings: of its sources.
        share: that is kept of every text, see `keep_probabilities`.
        draws: of each ranking.
    """
    texts = None
    if block.rereading is not None:
        texts = EmbeddedTexts.of(block.rereading.model, block.rereading.batch)
    reason = MULTI_LABEL if block.encoded.multi_label else NO_EMBEDDINGS
    if texts is None or block.encoded.multi_label:
        nothing = torch.full((len(block),), math.nan)
        for name in rankings:
            rows.add(block, dict.fromkeys(METRICS, nothing), source=name, otherwise=reason)
        return
    content, item = _tokens(block)
    of_rankings = {}
    for name in rankings:
        importance = block.importance(name).double()
        at_tokens = importance.gather(1, item)  # (B, T)
        of_rankings[name] = _Ranking(*keep_probabilities(at_tokens, content, share))
    with torch.no_grad(), analysing(block.rereading.model):
        softened = _Softened(block, texts, content)
        full = softened.target(texts.embedded)  # (B,)
        zero = softened.target(softened.kept(torch.zeros_like(texts.embedded, dtype=torch.bool)))
        drawn = softened.draw({name: ranking.keep for name, ranking in of_rankings.items()}, draws)
    for name, ranking in of_rankings.items():
        _add(rows, block, name, ranking.reasons, drawn[name], full, zero)


def _tokens(block: Block) -> tuple[Tensor, Tensor]:
    """Which tokens are content, (B, T) bool, and the item of each token, (B, T); of others any."""
    content, members = block.encoded.content, block.encoded.members
    if members is not None:
        return members >= 0, members.clamp(min=0)
    place = torch.arange(content.shape[1], device=content.device)
    return content, place.expand_as(content)


@dataclass(frozen=True)
class _Softened:
    """The texts of a block with parts of their embeddings.

    Attributes:
        block: the examples.
        texts: their embeddings.
        content: (B, T) bool, the tokens of which entries are dropped.
    """

    block: Block
    texts: EmbeddedTexts
    content: Tensor

    def draw(self, keep: Mapping[str, Tensor], draws: int) -> dict[str, _Drawn]:
        """Every ranking's texts of every draw: what it keeps, and what it drops."""
        found: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {name: [] for name in keep}
        for number in range(draws):
            chance = self._chance(number)  # (B, T, E)
            for name, probability in keep.items():
                is_kept = chance < probability[:, :, None].to(chance.device)  # (B, T, E)
                retained = self._share(is_kept)
                found[name].append((self.target(self.kept(~is_kept)), self.target(self.kept(is_kept)), retained))
        drawn = {}
        for name, of_draws in found.items():
            without, only, retained = (torch.stack(values, dim=1) for values in zip(*of_draws, strict=True))
            drawn[name] = _Drawn(without, only, retained)
        return drawn

    def kept(self, is_kept: Tensor) -> Tensor:
        """The embeddings (B, T, E) with 0 in the place of the content's entries that are not kept."""
        stays = is_kept.to(self.texts.embedded.device) | ~self.content[:, :, None]
        return torch.where(stays, self.texts.embedded, 0)

    def target(self, embedded: Tensor) -> Tensor:
        """The probability (B,) of the class that the model predicts of the whole text."""
        if not embedded.numel():
            return torch.full((len(self.block),), math.nan, dtype=torch.float64)
        logits = self.block.rereading.answers(self.texts.logits(embedded).double())  # (B, C)
        predicted = self.block.encoded.logits.argmax(-1).to(logits.device)  # (B,)
        return probabilities(logits).gather(1, predicted[:, None])[:, 0].cpu()

    def _chance(self, number: int) -> Tensor:
        """Numbers from 0 to 1 that a draw compares probabilities with, (B, T, E), whatever the padding."""
        chance = torch.ones(self.texts.embedded.shape, dtype=torch.float64)
        for row, is_content in enumerate(self.content.cpu()):
            size = (int(is_content.sum()), chance.shape[-1])
            generator = self.block.generator(row, "soft erasure", number)
            chance[row, is_content] = torch.rand(size, generator=generator, dtype=torch.float64)
        return chance.to(self.content.device)

    def _share(self, is_kept: Tensor) -> Tensor:
        """The share (B,) of the content's entries that are kept."""
        of_tokens = is_kept.double().mean(-1) * self.content  # (B, T)
        return (of_tokens.sum(-1) / self.content.sum(-1).clamp(min=1)).cpu()


def _add(
    rows: ScoreRows,
    block: Block,
    name: str,
    reasons: Reasons,
    drawn: _Drawn,
    full: Tensor,
    zero: Tensor,
) -> None:
    """Add a ranking's numbers, from the target's probabilities."""
    has_nan = full.isnan() | drawn.without.isnan().any(1) | drawn.only.isnan().any(1)
    reasons = or_else(reasons, first_reasons({NAN_PROBABILITIES: has_nan}))
    numbers = {
        COMPREHENSIVENESS: comprehensiveness(full, drawn.without).mean(1),
        SUFFICIENCY: sufficiency(full, drawn.only).mean(1),
        RETAINED: drawn.retained.mean(1),
        NC: soft_nc(full, drawn.without, zero),
        NS: soft_ns(full, drawn.only, zero),
    }
    defined = {metric: nan_where(reasons, values) for metric, values in numbers.items()}
    rows.add(block, defined, reasons, name, ZERO_LOSES_NOTHING)
