"""Runs tests on a model and a data set: encodes each block once, asks every source and test that was named."""

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
from attn_faithful.evaluators.base import EVALUATORS, Block, Found
from attn_faithful.evaluators.controls import controlled
from attn_faithful.experiments.labels import LabelSources, ask_labels, asks_labels, sources_by_label
from attn_faithful.experiments.removing import Remover
from attn_faithful.experiments.settings import GIVEN, EvaluationSettings
from attn_faithful.experiments.team import SOLO, Team
from attn_faithful.experiments.writing import Writer
from attn_faithful.functional.ragged import NO_TOKEN
from attn_faithful.models.inference import Collate, encoded_blocks, output_rows
from attn_faithful.models.protocol import Batch, Encoded


@dataclass(frozen=True)
class Subject:
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


def evaluate_rows(
    subject: Subject,
    rows: Any,
    settings: EvaluationSettings,
    writer: Writer,
    given: Sequence[Sequence[float]] | None = None,
    team: Team = SOLO,
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Run the tests over a data set; without tests, only what the model does is written.

    Args:
        subject: what is tested.
        rows: encoded examples.
        settings: which tests, and how.
        writer: takes what each block gives.
        given: importance computed elsewhere, one list an example over its content tokens; the source "given".
        team: the processes that share the blocks.
        tell: ``tell(done, of)`` after every test of a block, in examples of this process.
    """
    tested = settings.tested(subject.model)
    first = tested[0] if getattr(subject.model, "same_items", False) else subject.model.sites[0]
    work = bool(settings.needed or settings.tests)
    pace = Pace(tell if work else _silent, -(-len(rows) // team.world), len(tested) * (1 + len(_runs(settings))))
    shared = encoded_blocks(subject.model, rows, subject.collate, first, team.rank, team.world)
    for index, keys, batch, encoded in shared:
        pace.begin(len(index))
        writer.add(first, output_rows(index, encoded))
        known = Known()
        for site in tested if work else ():
            there = encoded if site == first else _encoded(subject.model, batch, site)
            block = Block([rows["example"][i] for i in index], keys, settings.seed, site, there)
            found, sources = _test(subject, rows, settings, batch, block, index, given, known, pace)
            writer.add_tests(site, output_rows(index, there), _kept(index, sources, there.content), found)
        writer.written(len(index))
        pace.end()


def _runs(settings: EvaluationSettings) -> list[tuple[str | None, str]]:
    """The tests, each under every control (None for attention as it is) that says something of it."""
    return [
        (control, test)
        for control in (None, *settings.controls)
        for test in settings.tests
        if control is None or EVALUATORS[test].controlled
    ]


def _silent(done: int, of: int) -> None:
    """Tell nothing."""


@dataclass
class Pace:
    """Tells how far the work is, in examples: those of a block count in step with its parts.

    Attributes:
        tell: ``tell(done, of)``.
        of: examples in all.
        parts: of a block: at each site its sources, and every test.
        done: examples of the blocks that are complete.
    """

    tell: Callable[[int, int], None]
    of: int
    parts: int
    done: int = 0
    block: int = 0
    part: int = 0

    def begin(self, examples: int) -> None:
        """A block of so many examples begins."""
        self.block, self.part = examples, 0
        self.tell(min(self.done, self.of), self.of)

    def step(self) -> None:
        """A part of the block is done."""
        self.part += 1
        if self.part < self.parts:  # the last part is told with the block
            self.tell(min(self.done + self.block * self.part // self.parts, self.of), self.of)

    def end(self) -> None:
        """The block is complete."""
        self.done += self.block
        self.tell(min(self.done, self.of), self.of)


@dataclass
class Known:
    """What one site of a block found out that another may use: importance that does not depend on it, removals."""

    content: Tensor | None = None
    sources: dict[str, Attribution] = field(default_factory=dict)
    remover: Remover | None = None
    labels: LabelSources = field(default_factory=LabelSources)

    def at(self, encoded: Encoded) -> None:
        """Forget what another site's items do not share."""
        same = self.content is not None and torch.equal(encoded.content, self.content)
        if not same or (self.remover is not None and not self.remover.serves(encoded.members)):
            self.sources, self.remover, self.labels = {}, None, LabelSources()
        self.content = encoded.content


def _encoded(model: Any, batch: Batch, site: str) -> Encoded:
    with torch.no_grad():
        return model.encode(batch, site)


def _test(
    subject: Subject, rows: Any, settings: EvaluationSettings, batch: Batch, block: Block, index: list[int],
    given: Sequence[Sequence[float]] | None, known: Known, pace: Pace,
) -> tuple[Found, dict[str, Tensor]]:  # fmt: skip
    """What the tests find in one block at one site, and the sources that they were given."""
    encoded = block.encoded
    known.at(encoded)
    target = _targets(settings.target, encoded, rows, index, subject.label_names)
    sources, found = _sources(settings.needed, subject, settings, batch, block, target, known)
    if given is not None:
        if encoded.items == "sentence":
            raise InputError(
                f"Importance from a file is by token, but the site {block.site!r} attends to sentences; "
                f"set sites to {subject.model.sites[0]}."
            )
        sources[GIVEN] = _laid_out([given[i] for i in index], encoded.content, block.example)
    if known.remover is None and hasattr(subject.model, "without"):
        known.remover = Remover(subject.model, batch, encoded.members)
    block = replace(
        block, sources=sources, labels=_labels(rows, index), without=known.remover,
        rationale=_rationale(rows, index, encoded),
    )  # fmt: skip
    pace.step()
    shown: dict[str | None, Block] = {None: block}
    asked = _asked(subject, settings, batch, block, known)
    for control, test in _runs(settings):
        if control not in shown:
            shown[control] = controlled(block, control)
        own = shown[control]
        if asks_labels(test, own):
            found.extend(ask_labels(EVALUATORS[test], own, settings.of(test), subject.label_names, asked))
        else:
            found.extend(EVALUATORS[test].run(own, settings.of(test)))
        pace.step()
    return found, sources


def _asked(
    subject: Subject, settings: EvaluationSettings, batch: Batch, block: Block, known: Known
) -> list[dict[str, Tensor]]:
    """Importance for each label of a multi-label model, for the tests that ask each by itself."""
    names = sources_by_label(settings, settings.tests)
    if not block.encoded.multi_label or not names:
        return [{} for _ in subject.label_names]
    request = _request(subject, settings, batch, block, None)
    return [known.labels.of(label, names, request, AT_A_SITE) for label in range(len(subject.label_names))]


def _labels(rows: Any, index: list[int]) -> list[int] | None:
    """Gold classes; None for several labels a text, or no column of them."""
    if "labels" not in rows.column_names:
        return None
    found = [rows["labels"][i] for i in index]
    return None if any(np.ndim(label) for label in found) else [int(label) for label in found]


def _rationale(rows: Any, index: list[int], encoded: Encoded) -> Tensor | None:
    """What people marked, over the items; an item of several tokens is marked where one of them is."""
    if RATIONALE not in rows.column_names:
        return None
    shape = encoded.content.shape if encoded.members is None else encoded.members.shape
    marked = torch.zeros(shape, dtype=torch.bool)
    for row, i in enumerate(index):
        values = torch.from_numpy(np.asarray(rows[RATIONALE][i]) > 0)
        marked[row, : len(values)] = values
    marked = marked.to(encoded.content.device)
    if encoded.members is None:
        return marked & encoded.content
    held = torch.where(encoded.members < 0, encoded.content.shape[1], encoded.members)
    count = torch.zeros(len(index), encoded.content.shape[1] + 1, device=marked.device)
    return count.scatter_add(1, held, marked.float())[:, :-1] > 0


def _targets(asked: str, encoded: Encoded, rows: Any, index: list[int], names: Sequence[str]) -> Tensor | None:
    """The class of each example that importance is about; None is a request's word for the predicted one."""
    if asked == "predicted":
        return None
    if asked == "gold":
        labels = [rows["labels"][i] if "labels" in rows.column_names else -1 for i in index]
        for i, label in zip(index, labels, strict=True):
            if np.ndim(label) or label < 0:
                raise InputError(f"target gold: the example {rows['example'][i]!r} has no single known label.")
        return torch.tensor(labels, device=encoded.logits.device)
    chosen = list(names).index(check_choice("target (predicted, gold or a class)", asked, names))
    return torch.full((len(index),), chosen, device=encoded.logits.device)


def _sources(
    needed: Sequence[str], subject: Subject, settings: EvaluationSettings, batch: Batch, block: Block,
    target: Tensor | None, known: Known,
) -> tuple[dict[str, Tensor], Found]:  # fmt: skip
    """Importance by source, and what a source tells beside it (the convergence error of integrated gradients)."""
    request = _request(subject, settings, batch, block, target)
    values, extra = {}, Found()
    for name in needed:
        found = known.sources.get(name) or attribute(name, request)
        if name not in AT_A_SITE:
            known.sources[name] = found
        values[name] = found.values
        for metric, column in found.extra.items():
            for row, value in enumerate(column.tolist()):
                extra.score(block, row, metric, value, NO_TOKEN, source=name)
        for row, reason in enumerate(found.reasons):
            extra.score(block, row, "reliable", float(reason is None), source=name)
    return values, extra


def _request(
    subject: Subject, settings: EvaluationSettings, batch: Batch, block: Block, target: Tensor | None
) -> Request:
    return Request(
        model=subject.model, batch=batch, encoded=block.encoded, target=target, settings=settings.sources,
        keys=block.keys, seed=settings.seed, token_ids=subject.token_ids, site=block.site,
    )  # fmt: skip


def _laid_out(given: Sequence[Sequence[float]], content: Tensor, examples: Sequence[str]) -> Tensor:
    """Lists over content tokens as (B, T), NaN elsewhere."""
    laid = torch.full(content.shape, float("nan"), dtype=torch.float64)
    for row, values in enumerate(given):
        held = content[row].cpu()
        check_same_length(("content tokens", GIVEN), (held.nonzero(), values), examples[row])
        laid[row, held] = torch.tensor(list(values), dtype=torch.float64)
    return laid.to(content.device)


def _kept(index: list[int], sources: Mapping[str, Tensor], content: Tensor) -> dict[int, dict[str, list[float]]]:
    """Importance of the content tokens, by place in the data and source."""
    held = content.cpu().numpy()
    arrays = {name: values.cpu().numpy() for name, values in sources.items() if name != "attention"}
    return {i: {name: a[row][held[row]].tolist() for name, a in arrays.items()} for row, i in enumerate(index)}


def token_ids(tokenizer: Any) -> dict[str, int | None]:
    """Ids that may stand in a token's place."""
    return {name: getattr(tokenizer, f"{name}_token_id", None) for name in ("mask", "unk", "pad")}
