"""Stratified choices of texts by their labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from attn_faithful._seeds import generator_for


def stratified(labels: Sequence[Any], n: int, seed: int, purpose: str, *, spare_single: bool = False) -> list[int]:
    """``n`` of the indices, in order, each class in proportion (largest remainders); fewer where classes run out.

    With ``spare_single`` every class keeps at least one text that is not chosen. The choice depends on the labels, the
    seed and the purpose only.

    Example:
        >>> chosen = stratified([0] * 8 + [1] * 2 + [2], 5, 0, "example", spare_single=True)
        >>> [sum(8 <= i < 10 for i in chosen), sum(i == 10 for i in chosen), len(chosen)]
        [1, 0, 5]
    """
    classes = _classes(labels)
    exact, most = [], []
    for members in classes:
        exact.append(n * len(members) / len(labels))
        most.append(len(members) - spare_single)
    counts = _rounded(exact, most, n)
    generator = generator_for(seed, purpose)
    chosen: list[int] = []
    for members, count in zip(classes, counts, strict=True):
        order = generator.permutation(len(members))
        chosen.extend(members[i] for i in order[:count])
    return sorted(chosen)


def _classes(labels: Sequence[Any]) -> list[list[int]]:
    """The indices of each label, labels in order."""
    indices: dict[Any, list[int]] = {}
    for i, label in enumerate(labels):
        if isinstance(label, list):
            label = tuple(label)
        indices.setdefault(label, []).append(i)
    order = sorted(indices, key=lambda label: (str(type(label)), label))
    return [indices[label] for label in order]


def _rounded(exact: Sequence[float], most: Sequence[int], total: int) -> list[int]:
    """Shares as whole numbers that add up to ``total``, or to the sum of ``most``: largest remainders first."""
    counts = [min(int(share), limit) for share, limit in zip(exact, most, strict=True)]
    # classes without a text first, then by what rounding took from them
    order = sorted(range(len(counts)), key=lambda c: (counts[c] > 0, int(exact[c]) - exact[c]))
    missing = min(total, sum(most)) - sum(counts)
    for c in cycle(order):
        if missing <= 0:
            break
        if counts[c] < most[c]:
            counts[c] += 1
            missing -= 1
    return counts
