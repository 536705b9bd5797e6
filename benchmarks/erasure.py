"""Speed of removal along a ranking, as a ratio within one run against the same done step by step.

Step by step is a loop over documents and prefixes that zeroes the weights of one attention vector, renormalizes,
multiplies and takes the argmax until the decision changes ("to the first flip"), or for all prefixes. That the two give
the same numbers is checked before. Beside it stands the time of the exact smallest flip set.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attn_faithful.functional.erasure import first_flip, prefix_logits, removal_order
from attn_faithful.functional.flip_set import smallest_flip_set

DOCUMENTS, ITEMS, CLASSES = 64, 400, 5


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The fastest of a few runs after a first one: other work on the machine only ever adds."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def problem(spread: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, items, token logits and bias of documents of half to all of the items."""
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    lengths = torch.randint(ITEMS // 2, ITEMS + 1, (DOCUMENTS,), generator=generator)
    lengths[0] = ITEMS
    items = torch.arange(ITEMS) < lengths[:, None]
    scores = spread * draw(DOCUMENTS, ITEMS)
    topic = torch.nn.functional.one_hot(torch.arange(DOCUMENTS) % CLASSES, CLASSES)
    return scores, items, draw(DOCUMENTS, ITEMS, CLASSES) + topic[:, None], 0.5 * draw(DOCUMENTS, CLASSES)


def step_by_step(
    attention: Tensor, order: Tensor, lengths: list[int], token_logits: Tensor, bias: Tensor, stop: bool
) -> Tensor:
    """First flips (B,); with ``stop`` no further than to them."""
    sizes = torch.full((len(attention),), torch.nan, dtype=torch.float64)
    for i, n in enumerate(lengths):
        weights, z, b = attention[i].clone(), token_logits[i], bias[i]
        decision = (weights @ z + b).argmax()
        for k in range(1, n + 1):
            weights[order[i, k - 1]] = 0
            logits = weights / weights.sum() @ z + b if k < n else b
            if logits.argmax() != decision and sizes[i].isnan():
                sizes[i] = k
                if stop:
                    break
    return sizes


def compare(spread: float) -> dict[str, float]:
    scores, items, z, b = problem(spread)
    attention = torch.where(items, scores, -torch.inf).softmax(-1)
    lengths = items.sum(1).tolist()

    def ours() -> Tensor:
        after = prefix_logits(scores, removal_order(scores, items), items, z, b)
        return first_flip(after, after[:, 0].argmax(-1))

    def plain(stop: bool) -> Tensor:
        return step_by_step(attention, removal_order(scores, items), lengths, z, b, stop)

    sizes = ours()
    # where weights span more than float64, what is left of them is nothing in the plain one
    if spread < 10 and not (torch.equal(sizes.nan_to_num(), plain(True).nan_to_num())):
        raise SystemExit("the two differ")
    smallest = smallest_flip_set(scores, items, z, b).size
    if bool((smallest > sizes).any()):
        raise SystemExit("a ranking is faster than the smallest set")
    own, whole, to_flip = seconds(ours, 10), seconds(lambda: plain(False), 3), seconds(lambda: plain(True), 3)
    return {
        "our seconds": own,
        "plain seconds, all prefixes": whole,
        "plain seconds, to the first flip": to_flip,
        "times faster, all prefixes": whole / own,
        "times faster, to the first flip": to_flip / own,
        "mean size of the ranking": float(sizes.nanmean()),
        "mean smallest size": float(smallest.nanmean()),
        "smallest set, ms a document": 1e3 * seconds(lambda: smallest_flip_set(scores, items, z, b), 5) / DOCUMENTS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=None, help="a JSON file")
    given = parser.parse_args()
    results: dict[str, Any] = {}
    for name, spread in (("scores of a model", 2.0), ("scores that span 1800", 300.0)):
        results[name] = found = compare(spread)
        print(f"{name}: {', '.join(f'{key} {value:.4g}' for key, value in found.items())}", flush=True)
    results["machine"] = {
        "threads": torch.get_num_threads(), "torch": torch.__version__, "machine": platform.machine()
    }  # fmt: skip
    if given.output is not None:
        given.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
