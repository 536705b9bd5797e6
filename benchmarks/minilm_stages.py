"""What is measured of a fine-tuned MiniLM: sources and tests as `evaluate` runs them, beside loop, Captum, interpreto.

Items are words. The times are those of a run's blocks with their encode; what is written is in none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from floor import floor, rate
from measure import AbsentError, Case, Peer
from minilm import StockSetup, Text, importance
from peers import SHARES, Captum, Interpreto, Loop
from replaced import Replaced
from torch import Tensor

from attn_faithful._registry import Registry
from attn_faithful.attributions.base import SourceSettings
from attn_faithful.evaluators.adversarial_heads import add_heads
from attn_faithful.evaluators.score_rows import ScoreRows
from attn_faithful.functional.tail_certificates import Effort

STEPS = 50  # of integrated gradients
PERMUTATIONS, PERMUTED = 100, 32  # in all, and what the loop runs
DRAWS = 5  # random rankings of flips
DESCENTS, ALL_DESCENTS = 5, 500
ERASED = ("attention", "input_x_gradient", "leave_one_out", "random")

Stage = Callable[[StockSetup], Case]
STAGES: Registry[Stage] = Registry("stage")
stage = STAGES.register


def source_case(
    setup: StockSetup,
    source: str,
    peers: dict[str, Callable[[], list[Tensor]]],
    floor_of: Callable[[], float] | None,
    **settings: Any,
) -> Case:
    """A source beside its peers, whose numbers must be the same; interpreto's, of its own words, are not compared."""

    def same(ours: list[Any], theirs: list[Tensor]) -> bool:
        values = importance(ours, source)
        differences = []
        for place, other in enumerate(theirs):
            differences.append((torch.tensor(values[place]) - other.double()).abs().max())
        return bool(torch.stack(differences).max() < 1e-4)

    made = []
    for name, work in peers.items():
        made.append(Peer(name, work, check=None if name == "interpreto" else same))
    return Case(len(setup), setup.ours(extra_sources=[source], sources=SourceSettings(**settings)), made, floor_of)


def with_interpreto(setup: StockSetup, method: str, *arguments: Any) -> dict[str, Callable[[], Any]]:
    """interpreto's method as a peer, where it is installed."""
    try:
        peer = Interpreto(setup)
    except AbsentError:
        return {}
    return {"interpreto": lambda: getattr(peer, method)(*arguments)}


Rows = Callable[[int, Text], Iterator[list[int]]]  # of a text and its number, rows of ids


def floor_of(setup: StockSetup, rows: Rows, times: float = 1.0) -> float:
    """The floor of the rows that each text needs beside itself."""
    config = setup.model.config
    speed = rate(config)
    needed = 0.0
    for number, text in enumerate(setup.texts):
        needed += floor(config, [text.ids, *rows(number, text)], speed, times)
    return needed


def itself(number: int, text: Text) -> Iterator[list[int]]:
    """No row beside the text."""
    return iter(())


def shortened(number: int, text: Text) -> Iterator[list[int]]:
    """Without each word."""
    for item in range(len(text.items)):
        yield text.without(item)


def altered(number: int, text: Text) -> Iterator[list[int]]:
    """With each word's pieces something else: as many pieces as before."""
    for places in text.items:
        yield [-1 if place in places else token for place, token in enumerate(text.ids)]


@stage("leave-one-out")
def leave_one_out(setup: StockSetup) -> Case:
    peers = {"loop": Loop(setup).leave_one_out}
    return source_case(setup, "leave_one_out", peers, lambda: floor_of(setup, shortened))


@stage("words replaced by the mask")
def masked(setup: StockSetup) -> Case:
    peers = {"loop": Loop(setup).masked, **with_interpreto(setup, "masked")}
    return source_case(setup, "leave_one_out", peers, lambda: floor_of(setup, altered), operator="mask")


@stage("occlusion")
def occlusion(setup: StockSetup) -> Case:
    peers = {"loop": Loop(setup).occlusion, "Captum": Captum(setup).occlusion}
    return source_case(setup, "occlusion", peers, lambda: floor_of(setup, altered))


@stage("input x gradient")
def gradients(setup: StockSetup) -> Case:
    peers = {
        "loop": Loop(setup).gradients,
        "Captum": Captum(setup).gradients,
        "Captum, batched": Captum(setup, batched=True).gradients,
        **with_interpreto(setup, "gradients"),
    }
    return source_case(setup, "input_x_gradient", peers, lambda: floor_of(setup, itself, times=2))


@stage("integrated gradients")
def integrated_gradients(setup: StockSetup) -> Case:
    peers = {
        "Captum": lambda: Captum(setup).integrated_gradients(STEPS),
        "Captum, batched": lambda: Captum(setup, batched=True).integrated_gradients(STEPS),
        **with_interpreto(setup, "integrated_gradients", STEPS),
    }

    def points() -> float:
        return STEPS * floor_of(setup, itself, times=2)

    return source_case(setup, "integrated_gradients", peers, points, n_steps=STEPS)


@stage("erasure, four rankings and leave-one-out")
def erasure(setup: StockSetup) -> Case:
    loop = Loop(setup)
    run = setup.ours(tests=["erasure"], test_settings={"erasure": {"rankings": list(ERASED)}})

    def least() -> float:
        results = run()
        rankings = [dict(enumerate(loop.attention())), *(importance(results, name) for name in ERASED[1:])]

        def rows(number: int, text: Text) -> Iterator[list[int]]:
            yield from shortened(number, text)
            for ranking in rankings:
                order = torch.as_tensor(ranking[number]).argsort(descending=True, stable=True).tolist()
                for share in SHARES:
                    size = math.ceil(share * len(order))
                    yield text.keeping(order[size:])
                    yield text.keeping(order[:size])

        return floor_of(setup, rows) + floor_of(setup, itself, times=2)  # each text's gradient, too

    return Case(len(setup), run, [Peer("loop", loop.erasure)], least)


@stage("flips, attention and five random rankings")
def flips(setup: StockSetup) -> Case:
    replaced = Replaced(setup, layer=-1)
    settings = {"rankings": ["attention"], "single": [], "random": DRAWS, "greedy": False}
    run = setup.ours(tests=["flips"], test_settings={"flips": settings})
    return Case(len(setup), run, [Peer("loop", lambda: replaced.flips(DRAWS))])


@stage("100 permutations")
def permutations(setup: StockSetup) -> Case:
    replaced = Replaced(setup, layer=-1)
    settings = {"permutations": PERMUTATIONS, "identity": True}
    run = setup.ours(tests=["permutation"], test_settings={"permutation": settings})
    loop = Peer("loop", lambda: replaced.permutations(PERMUTED), PERMUTED / PERMUTATIONS)
    return Case(len(setup), run, [loop])


@stage("heads, proved and attacked")
def heads(setup: StockSetup) -> Case:
    """What no attention of a head changes, and what some does; nobody else tells it."""
    blocks = setup.blocks()
    effort = Effort()

    def run() -> list[ScoreRows]:
        found = []
        for block in blocks:
            rows = ScoreRows()
            add_heads(rows, block, None, effort)
            found.append(rows)
        return found

    return Case(len(setup), run, [])


@stage("search for an adversary")
def adversary(setup: StockSetup) -> Case:
    replaced = Replaced(setup, layer=-1)
    authors = Peer("authors", lambda: replaced.descents(5, DESCENTS), DESCENTS / ALL_DESCENTS)
    return Case(len(setup), setup.ours(tests=["adversarial"]), [authors])
