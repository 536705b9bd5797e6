"""Speed of the counterfactual tests, as ratios within one run against the papers' algorithms as they read (plain.py).

Each ratio is the plain one's time over ours on the same texts and weights; that the two give the same numbers is
checked before. The forward pass is included on both sides, but for "permutations": its encoder runs once for all the
tests, and what is compared are the 100 decodes ("with the forward pass" has both). ``make bench`` prints them.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plain
import torch
from torch import Tensor

from attn_faithful.attributions.base import Request, attribute
from attn_faithful.functional.adversary import exact_adversary
from attn_faithful.functional.divergences import tvd
from attn_faithful.functional.permutations import permuted_indices
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.modeling import AttentionClassifier

EMBEDDING, HIDDEN, VOCABULARY = 300, 128, 5000
# mean length -> texts for the gradients, permutations and adversaries, and for leave-one-out (which the plain one takes
# minutes for)
TEXTS = {19: (96, 96), 180: (32, 3)}


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The fastest of a few runs after a first one: other work on the machine only ever adds."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def texts(n: int, mean: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids and mask of n texts of half to one and a half times the mean length, sorted by it."""
    lengths = torch.randint(mean // 2, mean + mean // 2 + 1, (n,), generator=generator).sort(descending=True).values
    mask = torch.arange(int(lengths[0])) < lengths[:, None]
    ids = torch.randint(2, VOCABULARY, mask.shape, generator=generator) * mask
    return ids, mask


class Ours:
    """Our answers on the same texts, in blocks of the papers' size."""

    def __init__(self, model: AttentionClassifier, ids: Tensor, mask: Tensor) -> None:
        self.model = model
        self.batches = [
            {"input_ids": i, "attention_mask": m.long()}
            for i, m in zip(ids.split(plain.ROWS), mask.split(plain.ROWS), strict=True)
        ]

    def source(self, name: str) -> Tensor:
        found = []
        for batch in self.batches:
            with torch.no_grad():
                encoded = self.model.encode(batch)
            target = torch.ones(len(encoded.logits), dtype=torch.long)
            found.append(attribute(name, Request(self.model, batch, encoded, target=target)).values)
        return torch.cat(found)

    @torch.no_grad()
    def encoded(self) -> list[Any]:
        return [self.model.encode(batch) for batch in self.batches]

    @torch.no_grad()
    def permutations(self, batches: list[Any], index: Tensor) -> Tensor:
        found = []
        for encoded, order in zip(batches, index.split(plain.ROWS), strict=True):
            permuted = encoded.attention.expand(-1, order.shape[1], -1).gather(2, order)
            found.append(encoded.decode(permuted[:, :, None]).softmax(-1)[..., 1])
        return torch.cat(found)

    @torch.no_grad()
    def adversary(self) -> tuple[Tensor, Tensor]:
        attention, jsd = [], []
        for batch in self.batches:
            encoded = self.model.encode(batch)
            logits = encoded.affine.token_logits + encoded.affine.bias[:, None]
            margins = logits[..., 1] - logits[..., 0]
            best = exact_adversary(encoded.attention[:, 0], encoded.content, margins, 0.01)
            attention.append(best.attention[:, 0])
            jsd.append(best.jsd[:, 0])
        return torch.cat(attention), torch.cat(jsd)


def compare(encoder: str, mean: int) -> dict[str, dict[str, float]]:
    """Ratios of one model at one length."""
    generator = torch.Generator().manual_seed(mean)
    torch.manual_seed(0)
    config = AttentionClassifierConfig(
        vocab_size=VOCABULARY, embedding_size=EMBEDDING, encoder=encoder, hidden_size=HIDDEN
    )
    model = AttentionClassifier(config).eval()
    theirs = plain.PlainModel(model)
    many, few = TEXTS[mean]
    ids, mask = texts(many, mean, generator)
    ours, short = Ours(model, ids, mask), Ours(model, ids[:few], mask[:few])
    noise = torch.randn(many, 5, mask.shape[1], generator=generator)
    index = torch.arange(mask.shape[1]).expand(many, 100, -1).clone()
    for row, n in enumerate(mask.sum(1).tolist()):
        index[row, :, :n] = permuted_indices(n, 100, generator)
    before, own_before = plain.encoded(theirs, ids, mask), ours.encoded()
    work = {
        "gradients": (
            lambda: plain.gradients(theirs, ids, mask), lambda: ours.source("input_x_gradient"), 3
        ),
        "leave-one-out": (
            lambda: plain.leave_one_out(theirs, ids[:few], mask[:few]), lambda: short.source("leave_one_out"), 1
        ),
        "permutations": (
            lambda: plain.permutations(theirs, before, index), lambda: ours.permutations(own_before, index), 3
        ),
        "permutations with the forward pass": (
            lambda: plain.permutations(theirs, plain.encoded(theirs, ids, mask), index),
            lambda: ours.permutations(ours.encoded(), index), 3,
        ),
        "exact adversary": (lambda: plain.adversary(theirs, ids, mask, noise), ours.adversary, 1),
    }  # fmt: skip
    results = {}
    for name, (plainly, own, repeats) in work.items():
        check(name, plainly(), own(), theirs, ids, mask)
        slow, fast = seconds(plainly, repeats) if repeats > 1 else once(plainly), seconds(own, 5)
        results[name] = {"plain seconds": slow, "our seconds": fast, "times faster": slow / fast}
    return results


def once(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def check(name: str, theirs: Any, ours: Any, model: plain.PlainModel, ids: Tensor, mask: Tensor) -> None:
    """The two give the same numbers, and the exact adversary is nowhere nearer than the search."""
    if name == "exact adversary":
        attention, jsd = ours
        with torch.no_grad():
            states = model.states(model.embedding(ids), mask)
            before = model.decode(states, model.attend(states, mask))
            after = model.decode(states, attention.float())
            kept = (model.decode(states[:, None], theirs) - before[:, None]).abs() <= 0.01
            searched = torch.where(kept, plain._jsd(theirs, model.attend(states, mask)[:, None]), 0.0).amax(1)
        pair = torch.stack([1 - before, before], -1), torch.stack([1 - after, after], -1)
        if float(tvd(*pair).max()) > 0.01 + 1e-5 or not bool((jsd >= searched - 1e-4).all()):
            raise SystemExit("the exact adversary is not feasible, or not the best")
        return
    if name in ("gradients", "leave-one-out"):
        ours = torch.where(ours.isnan(), 0.0, ours).to(theirs.dtype)
    worst = float((ours - theirs).abs().max())
    if worst > 1e-4:
        raise SystemExit(f"{name}: the two differ by {worst:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a JSON file")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for encoder in ("mlp", "lstm"):
        for mean in TEXTS:
            results[f"{encoder}, {mean} tokens"] = found = compare(encoder, mean)
            shown = ", ".join(f"{name} {entry['times faster']:.1f}" for name, entry in found.items())
            print(f"{encoder}, {mean} tokens, times faster: {shown}", flush=True)
    results["machine"] = {
        "threads": torch.get_num_threads(), "torch": torch.__version__, "machine": platform.machine()
    }  # fmt: skip
    if given.output is not None:
        given.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
