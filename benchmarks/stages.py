"""What is measured of the tests and of importance, beside the same as its definition reads (plain.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import plain
import torch
from measure import AbsentError, Case
from setups import Setup
from torch import Tensor

from attn_faithful.attributions.base import Request, attribute
from attn_faithful.attributions.hidden import hidden_gradient_importance
from attn_faithful.evaluators.adversarial_search import FAST, search
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.erasure import ErasureSettings
from attn_faithful.evaluators.flips import FlipSettings
from attn_faithful.evaluators.permutation import PermutationSettings
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.functional.erasure import SHARES

PERMUTATIONS, STEPS = 100, 500
NO_STATES = "gives no states, one a token"

Stage = Callable[[Setup], Case]
STAGES: dict[str, Stage] = {}


def stage(name: str) -> Callable[[Stage], Stage]:
    def add(function: Stage) -> Stage:
        STAGES[name] = function
        return function

    return add


def source(name: str, setup: Setup, encoded: Any) -> Tensor:
    return attribute(name, Request(setup.model, setup.batch, encoded, site=setup.site)).values


@stage("gradients")
def gradients(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()

    def same(ours: Tensor, theirs: Tensor) -> bool:
        if setup.stock or setup.name == "HAN":  # its items are sentences; both are compared in the tests
            return True
        return close(ours.nan_to_num(), theirs)

    return Case(
        len(setup),
        lambda: source("input_x_gradient", setup, encoded),
        lambda: plain.gradients(model, setup.batch),
        check=same,
    )


@stage("leave-one-out")
def leave_one_out(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()
    members = setup.members(encoded)
    some, work = _sample(encoded.content, 64 if setup.batch["input_ids"].shape[1] < 1000 else 8)

    def same(ours: Tensor, theirs: Tensor) -> bool:
        return close(torch.stack([ours[row, item] for row, item in some]), theirs)

    return Case(
        len(setup),
        lambda: source("leave_one_out", setup, encoded),
        lambda: plain.leave_one_out(model, setup.batch, members, some),
        work,
        same,
    )


def _sample(content: Tensor, most: int) -> tuple[list[tuple[int, int]], float]:
    """Some items as (text, item), spread over all, and their share of the tokens that all of them would run."""
    places = [(row, item) for row, item in content.nonzero().tolist()]
    lengths = content.sum(1).tolist()
    some = places[:: -(-len(places) // most)]
    return some, sum(lengths[row] for row, _ in some) / sum(lengths[row] for row, _ in places)


@stage("permutations")
def permutations(setup: Setup) -> Case:
    settings = PermutationSettings(PERMUTATIONS, identity=True)  # as many for every text, as the loop has
    block, model = setup.block(setup.encoded()), setup.plain()
    run = EVALUATORS["permutation"].run
    if setup.stock:
        return Case(len(setup), lambda: run(block, settings), lambda: _forwards(model, setup, 2), 2 / PERMUTATIONS)
    return Case(
        len(setup),
        lambda: run(block, settings),
        lambda: plain.permutations(model, setup.batch, PERMUTATIONS),
    )


@torch.no_grad()
def _forwards(model: Any, setup: Setup, count: int) -> None:
    """A stock model runs whole under each alternative."""
    for _ in range(count):
        model(setup.batch)


@stage("adversary")
def adversary(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()
    if setup.stock:
        block = setup.block(encoded)
        return Case(len(setup), lambda: search(block, FAST), lambda: _descents(model, setup, 5), 1 / STEPS)
    logits = encoded.affine.token_logits.double() + encoded.affine.bias.double()[:, None]
    margins, items = logits[..., 1] - logits[..., 0], encoded.content
    steps = 50 if items.shape[1] < 1000 else 5
    return Case(
        len(setup),
        lambda: exact_adversary(encoded.attention[:, 0], items, margins, 0.01),
        lambda: plain.adversary(model, setup.batch, steps),
        steps / STEPS,
    )


def _descents(model: Any, setup: Setup, k: int) -> None:
    """One step of the search: k copies of each text forward and back."""
    many = {name: value.repeat_interleave(k, 0) for name, value in setup.batch.items()}
    embedded = model.embedding(many["input_ids"]).detach().requires_grad_()
    model(many, embedded).sum().backward()
    model.zero_grad(set_to_none=True)


@stage("flips")
def flips(setup: Setup) -> Case:
    block = setup.block(setup.encoded())
    settings = FlipSettings(rankings=["attention"], single=[], random=0, greedy=False)
    run = EVALUATORS["flips"].run
    if setup.stock:
        model, most = setup.plain(), int(block.encoded.content.sum(1).max())
        return Case(len(setup), lambda: run(block, settings), lambda: _forwards(model, setup, 1), 1 / most)
    model, rows = setup.plain(), range(len(setup))

    def same(ours: Any, theirs: list[int]) -> bool:
        sizes = _flip_sizes(ours.scores)
        lengths = block.encoded.content.sum(1).tolist()
        for row, size in zip(rows, theirs, strict=True):
            # one that never flips is NaN here, and goes to the end there
            if f"t{row}" in sizes and size not in (sizes[f"t{row}"], lengths[row]):
                return False
        return True

    return Case(len(setup), lambda: run(block, settings), lambda: plain.flips(model, setup.batch, rows), check=same)


def _flip_sizes(scores: Any) -> dict[str, float]:
    """Items that attention's order removes until the decision flips, of each text."""
    columns = [scores[name] for name in ("example", "metric", "source", "value")]
    rows = zip(*columns, strict=True)
    return {example: value for example, *key, value in rows if key == ["flip_size", "attention"]}


@stage("erasure")
def erasure(setup: Setup) -> Case:
    settings, model, encoded = ErasureSettings(["attention"]), setup.plain(), setup.encoded()
    members, shares = setup.members(encoded), list(SHARES)
    rows = range(len(setup))
    return Case(
        len(setup),
        # a block anew each time: it remembers what it has asked
        lambda: EVALUATORS["erasure"].run(setup.block(encoded), settings),
        lambda: plain.erasure(model, setup.batch, members, encoded.over_items, shares, rows),
    )


@stage("hidden-state importance")
def hidden(setup: Setup) -> Case:
    if setup.stock:
        raise AbsentError(NO_STATES)
    site = setup.model.sites[0]
    with torch.no_grad():
        encoded = setup.model.encode(setup.batch, site)
    if setup.name == "HAN":
        return Case(len(setup), lambda: hidden_gradient_importance(setup.model, setup.batch, encoded))
    model = setup.plain()
    some, work = _sample(encoded.content, 16)
    return Case(
        len(setup),
        lambda: hidden_gradient_importance(setup.model, setup.batch, encoded),
        lambda: plain.hidden(model, setup.batch, some),
        work,
    )


def close(ours: Tensor, theirs: Tensor) -> bool:
    """Whether two ways to the same numbers agree but for rounding."""
    return bool((ours.double() - theirs.double()).abs().max() < 1e-4)
