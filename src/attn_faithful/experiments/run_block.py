"""Runs sources and tests on one block of distinct texts, and hands what they find to all copies of each text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.attributions.base import AT_A_SITE, Attribution, Request, attribute
from attn_faithful.data.rationales import RATIONALE
from attn_faithful.evaluators.base import EVALUATORS, Block
from attn_faithful.evaluators.null_controls import controlled
from attn_faithful.evaluators.score_rows import ScoreColumn, ScoreRows
from attn_faithful.experiments.deletions import Remover
from attn_faithful.experiments.evaluation_settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.label_views import LabelSources, ask_labels, asks_labels, sources_by_label
from attn_faithful.functional.reasons import NO_TOKEN
from attn_faithful.models import blocks
from attn_faithful.models.inference import Collate, Row, encode_block, output_rows
from attn_faithful.models.protocol import Batch, Encoded

Importance = dict[int, dict[str, list[float]]]  # of the content tokens, by place in the data and source


@dataclass(frozen=True)
class EvaluatedModel:
    """A model with what is needed to evaluate it.

    Attributes:
        model: speaks the protocol.
        collate: makes a batch of rows.
        label_names: in the order of the classes.
        token_ids: "mask", "unk" and "pad" -> id, where the tokenizer has them.
    """

    model: Any
    collate: Collate
    label_names: Sequence[str]
    token_ids: Mapping[str, int | None]


@dataclass
class Measured:
    """What one block gave, by the places of its examples in the data.

    Attributes:
        site: the one whose attention is kept beside the predictions.
        outputs: predictions, and attention there.
        tests: of each site that was tested: outputs, importance, and what the tests found.
    """

    site: str
    outputs: list[Row]
    tests: list[tuple[str, list[Row], Importance, ScoreRows]] = field(default_factory=list)


@dataclass(frozen=True)
class Round:
    """Copies of the block's texts that are told the same: their labels, marks and given importance.

    Every round runs all texts of the block, so that a number which nothing of that changes is the same in each.

    Attributes:
        told: of each text the place in the data that says what it is told.
        places: of each text the places that get what this round finds; none where a text has no further copies.
    """

    told: list[int]
    places: list[list[int]]


@dataclass
class SiteCache:
    """What one site of a block found out that another may use: importance that does not depend on it."""

    content: Tensor | None = None
    members: Tensor | None = None
    sources: dict[str, Attribution] = field(default_factory=dict)
    labels: LabelSources = field(default_factory=LabelSources)

    def at(self, encoded: Encoded) -> None:
        """Forget what another site's items do not share."""
        same = _same(self.content, encoded.content) and _same(self.members, encoded.members)
        if not same:
            self.sources, self.labels = {}, LabelSources()
        self.content, self.members = encoded.content, encoded.members


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


@dataclass(frozen=True)
class Tester:
    """Runs the tests of an evaluation on one block after another.

    Attributes:
        subject: what is tested.
        rows: encoded examples.
        settings: which tests, and how; without tests, only what the model does is found.
        given: importance computed elsewhere, one list an example over its content tokens; the source "given".
    """

    subject: EvaluatedModel
    rows: Any
    settings: EvaluationSettings
    given: Sequence[Sequence[float]] | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        """Those that are tested."""
        works = bool(self.settings.needed or self.settings.tests)
        return self.settings.tested(self.subject.model) if works else ()

    @property
    def first(self) -> str:
        """The site whose attention is kept beside the predictions."""
        model = self.subject.model
        return self.settings.tested(model)[0] if model.same_items else model.sites[0]

    @property
    def runs(self) -> list[tuple[str | None, str]]:
        """The tests, each under every control (None for attention as it is) that says something of it."""
        return [
            (control, test)
            for control in (None, *self.settings.controls)
            for test in self.settings.tests
            if control is None or EVALUATORS[test].under_controls
        ]

    @property
    def steps(self) -> int:
        """How many parts :meth:`measure` tells of."""
        return len(self.sites) * (1 + len(self.runs))

    def check(self) -> None:
        """What can be refused before any work.

        Raises:
            InputError: an unknown target, or an example without the gold class that importance is to be about.
        """
        asked = self.settings.target
        if asked == "gold":
            for example, label in zip(self.rows["example"], self._labels_of(range(len(self.rows))), strict=True):
                if np.ndim(label) or label < 0:
                    raise InputError(f"target gold: the example {example!r} has no single known label.")
        elif asked != "predicted":
            check_choice("target (predicted, gold or a class)", asked, self.subject.label_names)

    def measure(self, block: blocks.Block, step: Callable[[], None] = lambda: None) -> Measured:
        """What the tests find in one block.

        Args:
            block: distinct texts with their copies.
            step: called after the sources and after every test, at each site.
        """
        model, first = self.subject.model, self.first
        batch, encoded = encode_block(model, self.rows, self.subject.collate, block, first)
        measured = Measured(first, output_rows(block.copies, encoded))
        rounds = self._rounds(block.copies)
        known = [SiteCache() for _ in rounds]
        removers: list[Remover] = []
        for site in self.sites:
            there = encoded if site == first else _encoded(model, batch, site)
            importance: Importance = {}
            found = ScoreRows()
            for one, own in zip(rounds, known, strict=True):
                on_progress = step if one is rounds[0] else _nothing
                remover = self._remover(removers, batch, there)
                tests, sources = self._test(block.keys, one, site, batch, there, own, remover, on_progress)
                importance |= _kept(one.places, sources, there.content)
                found.extend(tests.for_copies(self._handed(one)))
            measured.tests.append((site, output_rows(block.copies, there), importance, found))
        return measured

    def outputs(self, block: blocks.Block) -> Measured:
        """What the model does with one block, without any test."""
        _, encoded = encode_block(self.subject.model, self.rows, self.subject.collate, block, self.first)
        return Measured(self.first, output_rows(block.copies, encoded))

    def _rounds(self, copies: list[list[int]]) -> list[Round]:
        """The copies of each text by what they are told; in an order that is not the data's."""
        by_told: list[list[list[int]]] = []
        for places in copies:
            groups: dict[str, list[int]] = {}
            for place in places:
                groups.setdefault(self._told(place), []).append(place)
            by_told.append([groups[told] for told in sorted(groups)])
        found = []
        for number in range(max(map(len, by_told), default=0)):
            told = [groups[min(number, len(groups) - 1)][0] for groups in by_told]
            found.append(Round(told, [groups[number] if number < len(groups) else [] for groups in by_told]))
        return found

    def _told(self, place: int) -> str:
        """All beside the text that a source or a test reads of an example."""
        tests = [EVALUATORS[test] for test in self.settings.tests]
        told: list[Any] = []
        if self.settings.target == "gold" or any(test.needs_labels for test in tests):
            told += [np.asarray(label).tolist() for label in self._labels_of([place])]
        if any(test.needs_rationale for test in tests) and RATIONALE in self.rows.column_names:
            told.append(np.asarray(self.rows[RATIONALE][place]).tolist())
        if self.given is not None:
            told.append(list(self.given[place]))
        return repr(told)

    def _handed(self, one: Round) -> dict[str, list[str]]:
        """The example that a round's results are named by -> all examples that get them."""
        ids = self.rows["example"]
        return {ids[told]: [ids[i] for i in places] for told, places in zip(one.told, one.places, strict=True)}

    def _remover(self, removers: list[Remover], batch: Batch, encoded: Encoded) -> Remover | None:
        """What deletes the site's items, with all that was asked of it before."""
        if not self.subject.model.deletes:
            return None
        for remover in removers:
            if remover.serves(encoded.members):
                return remover
        removers.append(Remover(self.subject.model, batch, encoded.members))
        return removers[-1]

    def _test(
        self,
        keys: list[str],
        one: Round,
        site: str,
        batch: Batch,
        encoded: Encoded,
        known: SiteCache,
        remover: Remover | None,
        step: Callable[[], None],
    ) -> tuple[ScoreRows, dict[str, Tensor]]:
        """What the tests find in a round at one site, and the sources that they were given."""
        known.at(encoded)
        examples = [self.rows["example"][i] for i in one.told]
        block = Block(examples, keys, self.settings.seed, site, encoded, without=remover)
        sources, found = self._sources(batch, block, self._target(encoded, one.told), known)
        if self.given is not None:
            if encoded.items == "sentence":
                raise InputError(
                    f"Importance from a file is by token, but the site {site!r} attends to sentences; "
                    f"set sites to {self.subject.model.sites[0]}."
                )
            sources[GIVEN] = _laid_out([self.given[i] for i in one.told], encoded.content, examples)
        block = replace(block, sources=sources)
        step()
        shown: dict[str | None, Block] = {None: block}
        labels, marked = self._labels(one.told), self._rationale(one.told, encoded)
        by_label = self._by_label(batch, block, known)
        for control, test in self.runs:
            if control not in shown:
                shown[control] = controlled(block, control)
            evaluator = EVALUATORS[test]
            own = replace(
                shown[control],
                labels=labels if evaluator.needs_labels else None,
                rationale=marked if evaluator.needs_rationale else None,
            )
            if asks_labels(test, own):
                names = self.subject.label_names
                found.extend(ask_labels(evaluator, own, self.settings.of(test), names, by_label))
            else:
                found.extend(evaluator.run(own, self.settings.of(test)))
            step()
        return found, sources

    def _labels_of(self, places: Sequence[int]) -> list[Any]:
        if "labels" not in self.rows.column_names:
            return [-1] * len(places)
        return [self.rows["labels"][i] for i in places]

    def _labels(self, places: list[int]) -> list[int] | None:
        """Gold classes; None for several labels a text, or no column of them."""
        if "labels" not in self.rows.column_names:
            return None
        found = self._labels_of(places)
        return None if any(np.ndim(label) for label in found) else [int(label) for label in found]

    def _rationale(self, places: list[int], encoded: Encoded) -> Tensor | None:
        """What people marked, over the items; an item of several tokens is marked where one of them is."""
        if RATIONALE not in self.rows.column_names:
            return None
        shape = encoded.content.shape if encoded.members is None else encoded.members.shape
        marked = torch.zeros(shape, dtype=torch.bool)
        for row, i in enumerate(places):
            values = torch.from_numpy(np.asarray(self.rows[RATIONALE][i]) > 0)
            marked[row, : len(values)] = values
        marked = marked.to(encoded.content.device)
        if encoded.members is None:
            return marked & encoded.content
        held = torch.where(encoded.members < 0, encoded.content.shape[1], encoded.members)
        count = torch.zeros(len(places), encoded.content.shape[1] + 1, device=marked.device)
        return count.scatter_add(1, held, marked.float())[:, :-1] > 0

    def _target(self, encoded: Encoded, places: list[int]) -> Tensor | None:
        """The class of each text that importance is about; None is a request's word for the predicted one."""
        asked = self.settings.target
        if asked == "predicted":
            return None
        if asked == "gold":
            return torch.tensor([int(label) for label in self._labels_of(places)], device=encoded.logits.device)
        chosen = list(self.subject.label_names).index(asked)
        return torch.full((len(places),), chosen, device=encoded.logits.device)

    def _sources(
        self, batch: Batch, block: Block, target: Tensor | None, known: SiteCache
    ) -> tuple[dict[str, Tensor], ScoreRows]:
        """Importance by source, and what a source tells beside it (the convergence error of integrated gradients)."""
        settings = self.settings
        request = self._request(batch, block, target)
        values, extra = {}, ScoreRows()
        for name in settings.needed:
            found = known.sources.get(name) or attribute(name, request)
            if name not in AT_A_SITE:
                known.sources[name] = found
            values[name] = found.values
            for metric, column in found.extra.items():
                extra.add_columns(block, [ScoreColumn(metric, column, otherwise=NO_TOKEN, source=name)])
            if found.reasons:
                reliable = torch.tensor([reason is None for reason in found.reasons])
                extra.add_columns(block, [ScoreColumn("reliable", reliable, source=name)])
        return values, extra

    def _by_label(self, batch: Batch, block: Block, known: SiteCache) -> list[dict[str, Tensor]]:
        """Importance for each label of a multi-label model, for the tests that ask each by itself."""
        names = sources_by_label(self.settings, self.settings.tests)
        labels = range(len(self.subject.label_names))
        if not block.encoded.multi_label or not names:
            return [{} for _ in labels]
        request = self._request(batch, block, None)
        return [known.labels.of(label, names, request, AT_A_SITE) for label in labels]

    def _request(self, batch: Batch, block: Block, target: Tensor | None) -> Request:
        subject, settings = self.subject, self.settings
        return Request(
            model=subject.model,
            batch=batch,
            encoded=block.encoded,
            target=target,
            settings=settings.sources,
            keys=block.keys,
            seed=settings.seed,
            token_ids=subject.token_ids,
            site=block.site,
        )


def _nothing() -> None:
    """Tell of nothing."""


def _encoded(model: Any, batch: Batch, site: str) -> Encoded:
    with torch.no_grad():
        return model.encode(batch, site)


def _laid_out(given: Sequence[Sequence[float]], content: Tensor, examples: Sequence[str]) -> Tensor:
    """Lists over content tokens as (B, T), NaN elsewhere."""
    laid = torch.full(content.shape, float("nan"), dtype=torch.float64)
    for row, values in enumerate(given):
        held = content[row].cpu()
        check_same_length(("content tokens", GIVEN), (held.nonzero(), values), examples[row])
        laid[row, held] = torch.tensor(list(values), dtype=torch.float64)
    return laid.to(content.device)


def _kept(copies: list[list[int]], sources: Mapping[str, Tensor], content: Tensor) -> Importance:
    """Importance of the content tokens, for every place where a text stands."""
    held = content.cpu().numpy()
    arrays = {name: values.cpu().numpy() for name, values in sources.items() if name != "attention"}
    found: Importance = {}
    for row, places in enumerate(copies):
        own = {name: values[row][held[row]].tolist() for name, values in arrays.items()} if places else {}
        found |= dict.fromkeys(places, own)
    return found


def token_ids(tokenizer: Any) -> dict[str, int | None]:
    """Ids that may stand in a token's place."""
    return {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("mask", "unk", "pad")}
