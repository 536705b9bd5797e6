"""Runs sources and tests on one round of a block at one site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from attn_faithful.evaluators.base import EVALUATORS, Block
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.block_erasures import BlockErasures
from attn_faithful.experiments.block_reading import BlockReader
from attn_faithful.experiments.block_rows import Importance
from attn_faithful.experiments.block_sources import (
    BlockSources,
    SiteCache,
    check_by_token,
    importance_by_place,
    importance_from_file,
)
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.gold import Gold
from attn_faithful.experiments.label_views import ask_labels, asks_labels
from attn_faithful.experiments.rounds import Round
from attn_faithful.experiments.source_times import SourceTimes
from attn_faithful.models.protocol import Batch, Encoded

ControlledTest = tuple[str | None, str]  # a control, or None for the model's own attention; and a test
FileImportance = Sequence[Sequence[float]]  # importance computed elsewhere, a list an example


@dataclass(frozen=True)
class BlockSite:
    """A block at one site.

    Attributes:
        name: of the site.
        keys: of the texts, see `models.blocks.content_keys`.
        batch: the model's inputs.
        encoded: what the model did at the site.
        erasures: what erases the site's items.
    """

    name: str
    keys: list[str]
    batch: Batch
    encoded: Encoded
    erasures: BlockErasures


@dataclass(frozen=True)
class RoundTests:
    """The tests of a round at one site.

    Attributes:
        evaluated: the model.
        settings: which sources and tests, and how.
        gold: labels and marks of the data.
        site: the block there.
        one: the round.
        cache: importance that the sites before leave.
        times: takes how long the sources take.
    """

    evaluated: EvaluatedModel
    settings: EvaluationSettings
    gold: Gold
    site: BlockSite
    one: Round
    cache: SiteCache
    times: SourceTimes

    def run(
        self,
        runs: Sequence[ControlledTest],
        file_importance: FileImportance | None,
        on_step: Callable[[], None],
    ) -> tuple[Importance, ScoreRows]:
        """Importance and scores of all examples of the round.

        Args:
            runs: the tests.
            file_importance: importance computed elsewhere, by place in the data.
            on_step: called after the sources and after every test.
        """
        encoded = self.site.encoded
        self.cache.keep_for(encoded)
        block = self._block()
        sources = BlockSources(self.evaluated, self.settings, self.site.batch, block, self.cache, self.times)
        target = self._target()
        importance, scores = sources.compute(target)
        if file_importance is not None:
            importance[GIVEN] = self._file_importance(file_importance)
        reader = BlockReader(self.evaluated, self.settings, block, target, importance.get(GIVEN))
        block = replace(block, sources=importance, rereading=reader.rereading(self.site.batch))
        on_step()
        by_label = sources.by_label()
        under_control: dict[str | None, Block] = {None: block}
        for control, test in runs:
            if control not in under_control:
                under_control[control] = controlled(block, control)
            scores.extend(self._scores(test, under_control[control], by_label))
            on_step()
        of_places = importance_by_place(self.one.places, importance, encoded.content)
        return of_places, scores.for_copies(self._copies())

    @property
    def _examples(self) -> list[str]:
        ids = self.gold.rows.examples
        return [ids[place] for place in self.one.representatives]

    def _block(self) -> Block:
        """The texts as tests see them, without sources."""
        return Block(
            example=self._examples,
            keys=self.site.keys,
            seed=self.settings.seed,
            site=self.site.name,
            encoded=self.site.encoded,
            without=self.site.erasures.delete,
            masked=self.site.erasures.mask,
            masking=self.evaluated.masking,
            in_distribution=self.site.erasures.in_distribution,
            reads_alone=self.evaluated.model.reads_alone,
        )

    def _scores(
        self,
        test: str,
        block: Block,
        by_label: Sequence[dict[str, Tensor]],
    ) -> ScoreRows:
        """The scores of one test."""
        evaluator = EVALUATORS[test]
        if evaluator.needs_labels:
            block = replace(block, labels=self._labels)
        if evaluator.needs_marks is not None:
            block = replace(block, marked=self._marked(evaluator.needs_marks))
        settings = self.settings.of(test)
        if asks_labels(test, block):
            return ask_labels(evaluator, block, settings, self.evaluated.label_names, by_label)
        return evaluator.run(block, settings)

    @cached_property
    def _labels(self) -> list[int] | None:
        return self.gold.classes(self.one.representatives)

    def _marked(self, kind: str) -> Tensor | None:
        return self.gold.marked(kind, self.one.representatives, self.site.encoded)

    def _target(self) -> Tensor | None:
        """The class of each text that importance is about, (B,); None for the predicted one."""
        target = self.settings.target
        if target == "predicted":
            return None
        places = self.one.representatives
        device = self.site.encoded.logits.device
        if target == "gold":
            labels = list(map(int, self.gold.labels(places)))
            return torch.tensor(labels, device=device)
        index = list(self.evaluated.label_names).index(target)
        return torch.full((len(places),), index, device=device)

    def _file_importance(self, file_importance: FileImportance) -> Tensor:
        """The importance of the source "given" over the tokens of the texts, (B, T)."""
        encoded = self.site.encoded
        check_by_token(self.evaluated.model.sites, encoded, self.site.name)
        lists = [file_importance[place] for place in self.one.representatives]
        return importance_from_file(lists, encoded.content, self._examples)

    def _copies(self) -> dict[str, list[str]]:
        """The example that the results are named by -> all examples that get them."""
        ids = self.gold.rows.examples
        copies = {}
        for example, places in zip(self._examples, self.one.places, strict=True):
            copies[example] = [ids[place] for place in places]
        return copies
