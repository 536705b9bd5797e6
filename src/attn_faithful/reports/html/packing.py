"""The examples of a page as one block of JSON: a byte a weight, and only as many texts as fit."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.reports.examples import Examples, Kind
from attn_faithful.reports.html.columns import ColumnCells, columns
from attn_faithful.reports.numbers import counted

TOP = 254  # the byte of a line's largest magnitude; 255 is undefined
ZERO = 127  # the byte of 0 in lines with a sign
UNDEFINED = 255
BLANK, NO_BLANK = "\n", "\t"  # before an item that stands apart from the one before, and one that does not

# signs that could end a <script>, and the line separators, which end a line of script in old browsers
_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


@dataclass(frozen=True)
class Packed:
    """The data of a page, and the note on texts that were left out; None where all fit."""

    data: dict[str, Any]
    sample: str | None


def pack(sites: Sequence[Examples], budget: int, seed: int) -> Packed:
    """The texts of a run, of all its sites.

    Args:
        sites: one a site; the last is shown first.
        budget: bytes.
        seed: of the sample, where not all texts fit.
    """
    run = sites[0].run
    packed_sites = [_Site(examples) for examples in sites]
    heads = [site.head for site in packed_sites]
    data: dict[str, Any] = {"labels": run.label_names, "sites": heads, "examples": []}
    remaining = budget - len(embedded(data).encode())
    entries: dict[int, list[Any]] = {}
    for i in _order(sites[-1], seed):
        entry = _example(packed_sites, i)
        remaining -= len(embedded(entry).encode()) + 1
        if remaining < 0:
            break
        entries[i] = entry
    data["examples"] = [entries[i] for i in sorted(entries)]
    n_packed, n = len(entries), len(run.ids)
    if n_packed == n:
        return Packed(data, None)
    rest = " and the columns of all sites." if len(sites) > 1 else "."
    sample = (
        f"{counted(n_packed, 'text')} of {n:,} stand here, chosen by a hash of their content (seed {seed}): the "
        f"others would take this file past its limit. Numbers above are over all {n:,}{rest}"
    )
    return Packed(data, sample)


def embedded(value: Any) -> str:
    """Strict JSON that may stand inside a ``<script>``: nothing in it can end the element.

    Example:
        >>> embedded(["</script><!--", "a & b"])
        '["\\\\u003c/script\\\\u003e\\\\u003c!--","a \\\\u0026 b"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates are no UTF-8


class _Site:
    """The texts of one site, packed."""

    def __init__(self, examples: Examples) -> None:
        self.examples = examples
        self.columns = columns(examples)
        self.cells = [ColumnCells(examples, column) for column in self.columns]
        self.lines = [_Lines(examples, kind) for kind in examples.kinds]

    @property
    def head(self) -> dict[str, Any]:
        """The facts that hold for all texts."""
        return {
            "name": self.examples.site,
            "noun": self.examples.noun,
            "columns": [column.head for column in self.columns],
            "kinds": [_kind_head(kind) for kind in self.examples.kinds],
        }


def _kind_head(kind: Kind) -> dict[str, Any]:
    return {
        "title": kind.title,
        "hue": kind.hue,
        "outlined": kind.outlined,
        "shown": kind.shown,
        "signed": kind.signed,
    }


def _order(examples: Examples, seed: int) -> list[int]:
    """All texts in the order in which they are taken: that of a hash of seed and content."""
    hashes = []
    for i, name in enumerate(examples.run.ids):
        content = f"{seed} {name} {examples.text(i)}"
        hashes.append(hashlib.sha256(content.encode("utf-8", "replace")).digest())
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def _example(sites: Sequence[_Site], i: int) -> list[Any]:
    """[place, id, query, gold, predicted, probability of that, [[text, cells, lines, on its heads] a site]]."""
    examples = sites[0].examples
    gold, predicted, probability = _prediction(examples, i)
    rounded = round(probability, 4) if math.isfinite(probability) else None
    by_site = list(_by_site(sites, i))
    return [i, examples.run.ids[i], examples.query(i), gold, predicted, rounded, by_site]


def _prediction(examples: Examples, i: int) -> tuple[Any, Any, float]:
    """Gold and predicted class, or classes of multi-label data, and the probability of what is predicted."""
    run = examples.run
    probabilities, label = run.probabilities[i], run.labels[i]  # (C,)
    if isinstance(label, list):
        return _multi_label_prediction(probabilities, label)
    gold = -1 if label is None else int(label)
    return gold, int(run.predicted[i]), float(probabilities.max(initial=-math.inf))


def _multi_label_prediction(probabilities: np.ndarray, label: Sequence[int]) -> tuple[Any, list[int], float]:
    """Gold and predicted classes, and the probability of the least certain of all decisions."""
    is_known = min(label, default=-1) >= 0
    gold = np.flatnonzero(label).tolist() if is_known else -1
    chosen = probabilities >= 0.5  # (C,)
    certainty = np.where(chosen, probabilities, 1 - probabilities)
    return gold, np.flatnonzero(chosen).tolist(), float(certainty.min(initial=math.inf))


def _by_site(sites: Sequence[_Site], i: int) -> Iterator[list[Any]]:
    """[text, cells, lines, what is known of its heads] of each site; 0 for a text that is that of the first site."""
    first: str | None = None
    for site in sites:
        text = _text(site.examples, i)
        cells = [column[i] for column in site.cells]
        lines = [kind[i] for kind in site.lines]
        yield [0 if text == first else text, cells, lines, site.examples.about_heads(i)]
        if first is None:
            first = text


def _text(examples: Examples, i: int) -> str:
    """All items in one string, each with what stands before it."""
    pieces = []
    for word, joined in zip(examples.words(i), examples.joined(i), strict=True):
        pieces.append(NO_BLANK if joined else BLANK)
        pieces.append(word.replace(BLANK, " ").replace(NO_BLANK, " "))
    return "".join(pieces)


class _Lines:
    """The lines of one kind: [bytes, largest magnitude, note], [places, note], or 0 where a text has none."""

    def __init__(self, examples: Examples, kind: Kind) -> None:
        self.examples, self.kind = examples, kind
        self.lists, self.rows = examples.stored(kind)
        if not kind.outlined:
            self.bytes, self.largest = quantized(self.lists.flat, self.lists.starts, kind.signed)

    def __getitem__(self, i: int) -> list[Any] | int:
        row = self.rows.get(self.examples.run.ids[i])
        if row is None:
            return 0
        start = self.lists.starts[row]
        end = self.lists.starts[row + 1]
        is_one_an_item = end - start == len(self.examples.words(i))
        if self.kind.outlined or not is_one_an_item:
            return self._single(i)
        if not self.lists.there[row] or math.isnan(self.largest[row]):
            return 0
        return self._entry(self.bytes[start:end], self.largest[row], self.examples.note(self.kind, i))

    def _single(self, i: int) -> list[Any] | int:
        """The entry of a line that names items, or whose stored list is not one number an item."""
        line = self.examples.line(self.kind, i)
        if line is None:
            return 0
        if line.values is None:
            return [line.places, line.note]
        starts = np.array([0, len(line.values)])
        packed, largest = quantized(line.values, starts, self.kind.signed)
        return self._entry(packed, largest[0], line.note)

    @staticmethod
    def _entry(packed: np.ndarray, largest: float, note: str) -> list[Any]:
        weights = base64.b64encode(packed.tobytes()).decode()
        return [weights, float(f"{largest:.4g}"), note]


def quantized(flat: np.ndarray, starts: np.ndarray, signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """A byte a weight: shares of the largest magnitude of its list, and these magnitudes, NaN where all are undefined.

    Args:
        flat: the numbers of all lists.
        starts: where each begins, and the end.
        signed: 0 is the middle byte, and not the lowest.

    Example:
        >>> packed, largest = quantized(np.array([0.0, 0.2, 0.4, np.nan, 7.0]), np.array([0, 4, 5]), False)
        >>> packed.tolist(), largest.tolist()
        ([0, 127, 254, 255, 254], [0.4, 7.0])
        >>> quantized(np.array([-1.0, 0.0, 1.0]), np.array([0, 3]), True)[0].tolist()
        [0, 127, 254]
    """
    sizes = np.diff(starts)  # (lists,)
    largest = np.full(len(sizes), math.nan)
    filled = sizes > 0
    if filled.any():
        largest[filled] = np.fmax.reduceat(np.abs(flat), starts[:-1][filled])
    largest_of_item = np.repeat(largest, sizes)  # (items,)
    shares = np.divide(flat, largest_of_item, out=np.zeros(len(flat)), where=largest_of_item > 0)
    scaled = ZERO + ZERO * shares if signed else TOP * shares
    codes = np.where(np.isfinite(flat), np.rint(scaled), UNDEFINED)
    return codes.clip(0, UNDEFINED).astype(np.uint8), largest
