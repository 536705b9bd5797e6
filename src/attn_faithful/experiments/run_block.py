"""Runs sources and tests on one block of distinct texts, and gives the results to all copies of each text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice
from attn_faithful.evaluators.base import EVALUATORS, Block
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.experiments.block_rows import BlockResults, SiteResults
from attn_faithful.experiments.block_sources import (
    BlockSources,
    SiteCache,
    check_by_token,
    importance_by_place,
    importance_from_file,
)
from attn_faithful.experiments.deletions import ItemDeletions
from attn_faithful.experiments.evaluated_model import EvaluatedModel
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.gold import Gold
from attn_faithful.experiments.label_views import ask_labels, asks_labels
from attn_faithful.experiments.rounds import Round, rounds_of
from attn_faithful.models import blocks
from attn_faithful.models.inference import encode_block, output_rows
from attn_faithful.models.protocol import Batch, Encoded


@dataclass(frozen=True)
class BlockSite:
    """A block at one site.

    Attributes:
        name: of the site.
        keys: of the texts, see `models.blocks.content_keys`.
        batch: the model's inputs.
        encoded: what the model did at the site.
        deletions: deletes the site's items; None where the model cannot.
    """

    name: str
    keys: list[str]
    batch: Batch
    encoded: Encoded
    deletions: ItemDeletions | None


@dataclass(frozen=True)
class Tester:
    """Runs the tests of an evaluation on one block after another.

    Attributes:
        evaluated: the model.
        rows: encoded examples.
        settings: which tests, and how; without tests, only the model's outputs are computed.
        given: importance computed elsewhere, one list an example over its content tokens; the source "given".
    """

    evaluated: EvaluatedModel
    rows: Any
    settings: EvaluationSettings
    given: Sequence[Sequence[float]] | None = None

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
    def runs(self) -> list[tuple[str | None, str]]:
        """The tests, each under every control (None for the model's own attention) that it makes sense under."""
        runs: list[tuple[str | None, str]] = [(None, test) for test in self.settings.tests]
        for control in self.settings.controls:
            runs += [(control, test) for test in self.settings.tests if EVALUATORS[test].under_controls]
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
            for example, label in zip(self.rows["example"], labels, strict=True):
                if np.ndim(label) or label < 0:
                    raise InputError(f"target gold: the example {example!r} has no single known label.")
        elif target != "predicted":
            check_choice("target (predicted, gold or a class)", target, self.evaluated.label_names)

    def outputs(self, block: blocks.Block) -> BlockResults:
        """The model's outputs for one block, without any test."""
        _, encoded = encode_block(self.evaluated.model, self.rows, self.evaluated.collate, block, self.first)
        return BlockResults(self.first, output_rows(block.copies, encoded))

    def measure(self, block: blocks.Block, on_step: Callable[[], None] = lambda: None) -> BlockResults:
        """The results of all tests on one block.

        Args:
            block: distinct texts with their copies.
            on_step: called after the sources and after every test, at each site.
        """
        first = self.first
        batch, encoded = encode_block(self.evaluated.model, self.rows, self.evaluated.collate, block, first)
        results = BlockResults(first, output_rows(block.copies, encoded))
        rounds = rounds_of(block.copies, self._facts_of)
        caches = [SiteCache() for _ in rounds]
        deletions: list[ItemDeletions] = []
        for name in self.sites:
            at_site = encoded if name == first else _encoded(self.evaluated.model, batch, name)
            site = BlockSite(name, block.keys, batch, at_site, self._deletions(deletions, batch, at_site))
            tested = SiteResults(name, output_rows(block.copies, at_site))
            for number, (one, cache) in enumerate(zip(rounds, caches, strict=True)):
                self._test(tested, site, one, cache, on_step if number == 0 else _no_step)
            results.tested.append(tested)
        return results

    def _facts_of(self, place: int) -> str:
        """All beside the text that a source or a test reads of an example."""
        tests = [EVALUATORS[test] for test in self.settings.tests]
        facts: list[Any] = []
        if self.settings.target == "gold" or any(test.needs_labels for test in tests):
            facts += [np.asarray(label).tolist() for label in self.gold.labels([place])]
        if any(test.needs_rationale for test in tests) and self.gold.has_rationales:
            facts.append(self.gold.marks(place))
        if self.given is not None:
            facts.append(list(self.given[place]))
        return repr(facts)

    def _deletions(self, earlier: list[ItemDeletions], batch: Batch, encoded: Encoded) -> ItemDeletions | None:
        """The deletions of the site's items; those of an earlier site with the same items, with their memory."""
        if not self.evaluated.model.deletes:
            return None
        for deletions in earlier:
            if deletions.serves(encoded.members):
                return deletions
        earlier.append(ItemDeletions(self.evaluated.model, batch, encoded.members))
        return earlier[-1]

    def _test(
        self, tested: SiteResults, site: BlockSite, one: Round, cache: SiteCache, on_step: Callable[[], None]
    ) -> None:
        """Run all tests of a round at one site, and add what they find for the examples of the round."""
        cache.keep_for(site.encoded)
        examples = [self.rows["example"][place] for place in one.representatives]
        block = Block(examples, site.keys, self.settings.seed, site.name, site.encoded, without=site.deletions)
        sources = BlockSources(self.evaluated, self.settings, site.batch, block, cache)
        importance, scores = sources.compute(self._target(site.encoded, one.representatives))
        if self.given is not None:
            importance[GIVEN] = self._given_importance(self.given, site, one, examples)
        block = replace(block, sources=importance)
        on_step()
        self._run_tests(scores, block, one, sources.by_label(), on_step)
        tested.importance |= importance_by_place(one.places, importance, site.encoded.content)
        tested.scores.extend(scores.for_copies(self._copies_of(one)))

    def _run_tests(
        self,
        scores: ScoreRows,
        block: Block,
        one: Round,
        by_label: list[dict[str, Tensor]],
        on_step: Callable[[], None],
    ) -> None:
        labels = self.gold.classes(one.representatives)
        rationale = self.gold.rationale(one.representatives, block.encoded)
        under_control: dict[str | None, Block] = {None: block}
        for control, test in self.runs:
            if control not in under_control:
                under_control[control] = controlled(block, control)
            evaluator = EVALUATORS[test]
            seen = replace(
                under_control[control],
                labels=labels if evaluator.needs_labels else None,
                rationale=rationale if evaluator.needs_rationale else None,
            )
            settings = self.settings.of(test)
            if asks_labels(test, seen):
                scores.extend(ask_labels(evaluator, seen, settings, self.evaluated.label_names, by_label))
            else:
                scores.extend(evaluator.run(seen, settings))
            on_step()

    def _given_importance(
        self, given: Sequence[Sequence[float]], site: BlockSite, one: Round, examples: list[str]
    ) -> Tensor:
        """The importance of the source "given" over the tokens of the texts."""
        check_by_token(self.evaluated.model.sites, site.encoded, site.name)
        lists = [given[place] for place in one.representatives]
        return importance_from_file(lists, site.encoded.content, examples)

    def _target(self, encoded: Encoded, places: list[int]) -> Tensor | None:
        """The class of each text that importance is about, (B,); None for the predicted one."""
        target = self.settings.target
        if target == "predicted":
            return None
        device = encoded.logits.device
        if target == "gold":
            return torch.tensor([int(label) for label in self.gold.labels(places)], device=device)
        index = list(self.evaluated.label_names).index(target)
        return torch.full((len(places),), index, device=device)

    def _copies_of(self, one: Round) -> dict[str, list[str]]:
        """The example that a round's results are named by -> all examples that get them."""
        ids = self.rows["example"]
        copies = {}
        for representative, places in zip(one.representatives, one.places, strict=True):
            copies[ids[representative]] = [ids[place] for place in places]
        return copies


def _no_step() -> None:
    """Report nothing."""


def _encoded(model: Any, batch: Batch, site: str) -> Encoded:
    with torch.no_grad():
        return model.encode(batch, site)
