"""What is measured of own models: tests and importance, beside the same as its definition reads and as its authors did.

The peers are plain.py and originals.py. What is measured of a fine-tuned MiniLM stands in minilm_stages.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import originals
import plain
import torch
from measure import Case, Peer
from setups import Setup
from torch import Tensor

from attn_faithful._registry import Registry
from attn_faithful.attributions.base import Request, attribute
from attn_faithful.attributions.hidden import hidden_gradient_importance
from attn_faithful.evaluators.base import EVALUATORS
from attn_faithful.evaluators.erasure import ErasureSettings
from attn_faithful.evaluators.flips import FlipSettings
from attn_faithful.evaluators.permutation import PermutationSettings
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.functional.erasure import SHARES

PERMUTATIONS = 100
LOOP, AUTHORS = "loop", "authors"

Stage = Callable[[Setup], Case]
STAGES: Registry[Stage] = Registry("stage")
stage = STAGES.register


def source(name: str, setup: Setup, encoded: Any) -> Tensor:
    return attribute(name, Request(setup.model, setup.batch, encoded, site=setup.site)).values


@stage("gradients")
def gradients(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()

    def same(ours: Tensor, theirs: Tensor) -> bool:
        return close(ours.nan_to_num(), theirs)

    plainly = Peer(
        LOOP,
        lambda: plain.gradients(model, setup.batch),
        check=None if setup.name == "HAN" else same,  # its items are sentences; both are compared in the tests
    )
    return Case(len(setup), lambda: source("input_x_gradient", setup, encoded), [plainly])


@stage("leave-one-out")
def leave_one_out(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()
    members = setup.members(encoded)
    longest = setup.batch["input_ids"].shape[1]
    some, work = _sample(encoded.content, 64 * len(setup) if longest < 1000 else 8)

    def same(ours: Tensor, theirs: Tensor) -> bool:
        return close(torch.stack([ours[row, item] for row, item in some]), theirs)

    peers = [Peer(LOOP, lambda: plain.leave_one_out(model, setup.batch, members, some), work, same)]
    if setup.name != "HAN":
        every = max(1, longest // 32)
        share = len(range(0, longest, every)) / longest
        peers.append(Peer(AUTHORS, lambda: originals.leave_one_out(model, setup.batch, every), share))
    return Case(len(setup), lambda: source("leave_one_out", setup, encoded), peers)


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
    peers = [
        Peer(LOOP, lambda: plain.permutations(model, setup.batch, PERMUTATIONS)),
        Peer(AUTHORS, lambda: originals.permutations(model, setup.batch, PERMUTATIONS)),
    ]
    return Case(len(setup), lambda: EVALUATORS["permutation"].run(block, settings), peers)


@stage("adversary")
def adversary(setup: Setup) -> Case:
    encoded, model = setup.encoded(), setup.plain()
    logits = encoded.affine.token_logits.double() + encoded.affine.bias.double()[:, None]
    margins, items = logits[..., 1] - logits[..., 0], encoded.content
    steps = 50 if items.shape[1] < 1000 else 5
    authors = Peer(AUTHORS, lambda: originals.adversary(model, setup.batch, steps), steps / originals.STEPS)
    return Case(len(setup), lambda: exact_adversary(encoded.attention[:, 0], items, margins, 0.01), [authors])


@stage("flips")
def flips(setup: Setup) -> Case:
    block, model = setup.block(setup.encoded()), setup.plain()
    settings = FlipSettings(rankings=["attention"], single=[], random=0, greedy=False)
    lengths = block.encoded.content.sum(1).tolist()

    def same(ours: Any, theirs: list[int]) -> bool:
        sizes = _flip_sizes(ours.scores)
        for row, size in enumerate(theirs):
            # one that never flips is NaN here, and goes to the end there
            if f"t{row}" in sizes and size not in (sizes[f"t{row}"], lengths[row]):
                return False
        return True

    plainly = Peer(LOOP, lambda: plain.flips(model, setup.batch), check=same)
    return Case(len(setup), lambda: EVALUATORS["flips"].run(block, settings), [plainly])


def _flip_sizes(scores: Any) -> dict[str, float]:
    """Items that attention's order removes until the decision flips, of each text."""
    columns = [scores[name] for name in ("example", "metric", "source", "value")]
    rows = zip(*columns, strict=True)
    return {example: value for example, *key, value in rows if key == ["flip_size", "attention"]}


@stage("erasure")
def erasure(setup: Setup) -> Case:
    settings, model, encoded = ErasureSettings(["attention"]), setup.plain(), setup.encoded()
    members, shares = setup.members(encoded), list(SHARES)
    plainly = Peer(LOOP, lambda: plain.erasure(model, setup.batch, members, encoded.over_items, shares))
    # a block anew each time: it remembers what it has asked
    return Case(len(setup), lambda: EVALUATORS["erasure"].run(setup.block(encoded), settings), [plainly])


@stage("hidden-state importance")
def hidden(setup: Setup) -> Case:
    site = setup.model.sites[0]
    with torch.no_grad():
        encoded = setup.model.encode(setup.batch, site)
    peers = []
    if setup.name != "HAN":
        model = setup.plain()
        some, work = _sample(encoded.content, 16)
        peers.append(Peer(LOOP, lambda: plain.hidden(model, setup.batch, some), work))
    return Case(len(setup), lambda: hidden_gradient_importance(setup.model, setup.batch, encoded), peers)


def close(ours: Tensor, theirs: Tensor) -> bool:
    """Whether two ways to the same numbers agree but for rounding."""
    return bool((ours.double() - theirs.double()).abs().max() < 1e-4)
