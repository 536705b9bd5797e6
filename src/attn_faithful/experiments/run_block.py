"""Runs sources and tests on one block of distinct texts, and gives the results to all copies of each text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.rows import Rows
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.experiments.block_erasures import BlockErasures
from attn_faithful.experiments.block_rows import BlockResults, SiteResults
from attn_faithful.experiments.block_sources import SiteCache
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import EvaluationSettings
from attn_faithful.experiments.gold import Gold
from attn_faithful.experiments.round_tests import BlockSite, ControlledTest, FileImportance, RoundTests
from attn_faithful.experiments.rounds import rounds_of
from attn_faithful.experiments.source_times import SourceTimes
from attn_faithful.models import blocks
from attn_faithful.models.inference import output_rows
from attn_faithful.models.protocol import Batch, Encoded


@dataclass(frozen=True)
class Tester:
    """Runs the tests of an evaluation on one block after another.

    Attributes:
        evaluated: the model.
        rows: encoded examples.
        settings: which tests, and how; without tests, only the model's outputs are computed.
        file_importance: importance computed elsewhere, one list an example over its content tokens; the source "given".
        times: takes how long the sources take.
    """

    evaluated: EvaluatedModel
    rows: Rows
    settings: EvaluationSettings
    file_importance: FileImportance | None = None
    times: SourceTimes = field(default_factory=SourceTimes)

    @cached_property
    def gold(self) -> Gold:
        return Gold(self.rows)

    @property
    def sites(self) -> tuple[str, ...]:
        """Those that are tested."""
        if not self.settings.needed and not self.settings.tests:
            return ()
        return self.settings.tested(self.evaluated.model)

    @property
    def first(self) -> str:
        """The site whose attention is kept beside the predictions."""
        model = self.evaluated.model
        if model.same_items:
            return self.settings.tested(model)[0]
        return model.sites[0]

    @property
    def runs(self) -> list[ControlledTest]:
        """The tests, each under every control (None for the model's own attention) that it makes sense under."""
        runs: list[ControlledTest] = [(None, test) for test in self.settings.tests]
        controlled = [test for test in self.settings.tests if EVALUATORS[test].under_controls]
        for control in self.settings.controls:
            runs.extend((control, test) for test in controlled)
        return runs

    @property
    def steps(self) -> int:
        """How many steps :meth:`measure` reports."""
        return len(self.sites) * (1 + len(self.runs))

    def check(self) -> None:
        """What can be refused before any work.

        Raises:
            InputError: an unknown target, or an example without the gold class that importance is to be about.
        """
        target = self.settings.target
        if target == "gold":
            labels = self.gold.labels(range(len(self.rows)))
            for example, label in zip(self.rows.examples, labels, strict=True):
                if np.ndim(label) or label < 0:
                    raise InputError(f"target gold: the example {example!r} has no single known label.")
        elif target != "predicted":
            check_choice("target (predicted, gold or a class)", target, self.evaluated.label_names)

    def outputs(self, block: blocks.Block) -> BlockResults:
        """The model's outputs for one block, without any test."""
        _, encoded = self._encoded(block)
        return BlockResults(self.first, output_rows(block.copies, encoded))

    def measure(self, block: blocks.Block, on_step: Callable[[], None] = lambda: None) -> BlockResults:
        """The results of all tests on one block.

        Args:
            block: distinct texts with their copies.
            on_step: called after the sources and after every test, at each site.
        """
        first = self.first
        batch, encoded = self._encoded(block)
        results = BlockResults(first, output_rows(block.copies, encoded))
        rounds = rounds_of(block.copies, self._facts_of)
        caches = [SiteCache() for _ in rounds]
        erasures: list[BlockErasures] = []
        for name in self.sites:
            if name != first:
                encoded = self.evaluated.encode(batch, name)
            site = BlockSite(name, block.keys, batch, encoded, self._erasures(erasures, batch, encoded))
            tested = SiteResults(name, output_rows(block.copies, encoded))
            report = on_step
            for one, cache in zip(rounds, caches, strict=True):
                tests = RoundTests(self.evaluated, self.settings, self.gold, site, one, cache, self.times)
                importance, scores = tests.run(self.runs, self.file_importance, report)
                tested.importance |= importance
                tested.scores.extend(scores)
                report = _no_step  # steps are those of the first round
            results.tested.append(tested)
        return results

    def _encoded(self, block: blocks.Block) -> tuple[Batch, Encoded]:
        """The model's inputs and what it does with them at the first site."""
        return self.evaluated.encode_block(self.rows, block, self.first)

    def _facts_of(self, place: int) -> str:
        """All beside the text that a source or a test reads of an example."""
        tests = [EVALUATORS[test] for test in self.settings.tests]
        facts: list[Any] = []
        if self.settings.target == "gold" or any(test.needs_labels for test in tests):
            facts += [np.asarray(label).tolist() for label in self.gold.labels([place])]
        for kind in sorted({test.needs_marks for test in tests if test.needs_marks is not None}):
            if self.gold.has(kind):
                facts.append(self.gold.marks(kind, place))
        if self.file_importance is not None:
            facts.append(list(self.file_importance[place]))
        return repr(facts)

    def _erasures(
        self,
        earlier: list[BlockErasures],
        batch: Batch,
        encoded: Encoded,
    ) -> BlockErasures:
        """What erases the site's items; that of an earlier site with the same items, with its memory."""
        for erasures in earlier:
            if erasures.serves(encoded.members):
                return erasures
        earlier.append(BlockErasures.of(self.evaluated, batch, encoded.members))
        return earlier[-1]


def _no_step() -> None:
    """Report nothing."""
