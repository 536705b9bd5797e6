"""Importance of the items of a block by every source that its tests need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.attributions.base import AT_A_SITE, Attribution, Request, attribute
from attn_faithful.evaluators.base import Block
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows
from attn_faithful.experiments.block_rows import Importance
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.label_views import LabelSources, sources_by_label
from attn_faithful.experiments.source_times import SourceTimes
from attn_faithful.functional.reasons import NO_TOKEN
from attn_faithful.models.protocol import Batch, Encoded


@dataclass
class SiteCache:
    """Importance that one site of a block leaves for another: that of sources which do not depend on the site.

    Attributes:
        content, members: the items that it is of, see `Encoded`.
        sources: by name.
        labels: of multi-label models, for each label.
    """

    content: Tensor | None = None
    members: Tensor | None = None
    sources: dict[str, Attribution] = field(default_factory=dict)
    labels: LabelSources = field(default_factory=LabelSources)

    def keep_for(self, encoded: Encoded) -> None:
        """Forget everything if the items of this site are not those of the one before."""
        if not (_same(self.content, encoded.content) and _same(self.members, encoded.members)):
            self.sources = {}
            self.labels = LabelSources()
        self.content = encoded.content
        self.members = encoded.members


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


@dataclass(frozen=True)
class BlockSources:
    """Computes the sources of a block's tests at one site.

    Attributes:
        evaluated: the model.
        settings: which sources, and how.
        batch: the model's inputs.
        block: without sources.
        cache: of the sites of this block.
        times: takes how long the sources take.
    """

    evaluated: EvaluatedModel
    settings: EvaluationSettings
    batch: Batch
    block: Block
    cache: SiteCache
    times: SourceTimes

    def compute(self, target: Tensor | None) -> tuple[dict[str, Tensor], ScoreRows]:
        """Importance by source, and numbers of the sources themselves (the convergence error of integrated gradients).

        Args:
            target: (B,) classes that importance is about; None for the predicted ones.
        """
        importance: dict[str, Tensor] = {}
        scores = ScoreRows()
        for name, attribution in self._attributions(self.settings.needed, target):
            importance[name] = attribution.values
            self._add_scores(scores, name, attribution)
        return importance, scores

    def importance(self, names: Sequence[str], target: Tensor | None) -> dict[str, Tensor]:
        """Importance by some sources, (B, T) each; by "attention" its weight over all slots.

        Args:
            names: of the sources.
            target: (B,) classes that importance is about; None for the predicted ones.
        """
        computed_names = [name for name in names if name != "attention"]
        attributions = dict(self._attributions(computed_names, target))
        importance = {}
        for name in names:
            values = self.block.importance(name) if name == "attention" else attributions[name].values
            importance[name] = values.cpu().double()
        return importance

    def _attributions(self, names: Sequence[str], target: Tensor | None) -> Iterator[tuple[str, Attribution]]:
        """Each source with what it gives; of a source that does not depend on the site it is kept for other sites."""
        request = self._request(target)
        for name in names:
            attribution = self.cache.sources.get(name) or self._timed(name, request)
            if name not in AT_A_SITE:
                self.cache.sources[name] = attribution
            yield name, attribution

    def _timed(self, name: str, request: Request) -> Attribution:
        with self.times.measured(name, len(self.block)):
            return attribute(name, request)

    def _add_scores(
        self,
        scores: ScoreRows,
        name: str,
        attribution: Attribution,
    ) -> None:
        for metric, column in attribution.extra.items():
            scores.add_columns(self.block, [ScoreColumn(metric, column, otherwise=NO_TOKEN, source=name)])
        if attribution.reasons:
            reliable = torch.tensor([reason is None for reason in attribution.reasons])
            scores.add_columns(self.block, [ScoreColumn("reliable", reliable, source=name)])

    def by_label(self) -> list[dict[str, Tensor]]:
        """Importance for each label of a multi-label model, for the tests that ask each by itself."""
        names = sources_by_label(self.settings, self.settings.tests)
        labels = range(len(self.evaluated.label_names))
        if not self.block.encoded.multi_label or not names:
            return [{} for _ in labels]
        request = self._request(None)
        return [self.cache.labels.of(label, names, request, AT_A_SITE) for label in labels]

    def _request(self, target: Tensor | None) -> Request:
        return Request(
            model=self.evaluated.model,
            batch=self.batch,
            encoded=self.block.encoded,
            target=target,
            settings=self.settings.sources,
            keys=self.block.keys,
            seed=self.settings.seed,
            token_ids=self.evaluated.token_ids,
            site=self.block.site,
            deletions=self.block.without if self.evaluated.model.layered else None,
            head_weights=self.evaluated.head_weights,
        )


def check_by_token(model_sites: Sequence[str], encoded: Encoded, site: str) -> None:
    """Raise where importance from a file, which is by token, does not fit a site."""
    if encoded.items == "sentence":
        raise InputError(
            f"Importance from a file is by token, but the site {site!r} attends to sentences; "
            f"set sites to {model_sites[0]}."
        )


def importance_from_file(
    lists: Sequence[Sequence[float]],
    content: Tensor,
    examples: Sequence[str],
) -> Tensor:
    """Lists over content tokens as (B, T), NaN elsewhere."""
    importance = torch.full(content.shape, float("nan"), dtype=torch.float64)  # (B, T)
    for row, values in enumerate(lists):
        is_content = content[row].cpu()
        check_same_length(("content tokens", GIVEN), (is_content.nonzero(), values), examples[row])
        importance[row, is_content] = torch.tensor(list(values), dtype=torch.float64)
    return importance.to(content.device)


def importance_by_place(
    places: list[list[int]],
    sources: Mapping[str, Tensor],
    content: Tensor,
) -> Importance:
    """Importance of the content tokens, for every place where a text is; the weights of attention are left out."""
    is_content = content.cpu().numpy()
    importance: Importance = {}
    for name, values in sources.items():
        if name == "attention":
            continue
        array = values.cpu().numpy()  # (B, T)
        for row, copies in enumerate(places):
            if copies:
                of_text = array[row][is_content[row]].tolist()
                for place in copies:
                    importance.setdefault(place, {})[name] = of_text
    return importance
