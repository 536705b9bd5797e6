"""The examples of a page as one block of JSON: a byte a weight, and only as many texts as fit."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
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
    contents = [f"{name} {sites[-1].text(i)}" for i, name in enumerate(run.ids)]
    rest = " and the columns of all sites." if len(sites) > 1 else "."
    return fitted(data, contents, lambda i: _example(packed_sites, i), budget, seed, rest)


def fitted(
    data: dict[str, Any],
    contents: Sequence[str],
    entry: Callable[[int], list[Any]],
    budget: int,
    seed: int,
    rest: str = ".",
) -> Packed:
    """As many texts as fit, in the order of the data.

    Args:
        data: what holds for all texts; its key "examples" is filled.
        contents: of each text, by which it is chosen where not all fit.
        entry: place of a text -> what the page holds of it.
        budget: bytes.
        seed: of the sample.
        rest: how the note on the sample ends.
    """
    remaining = budget - len(embedded(data).encode())
    entries: dict[int, list[Any]] = {}
    for i in _order(contents, seed):
        packed = entry(i)
        remaining -= len(embedded(packed).encode()) + 1
        if remaining < 0:
            break
        entries[i] = packed
    data["examples"] = [entries[i] for i in sorted(entries)]
    n_packed, n = len(entries), len(contents)
    if n_packed == n:
        return Packed(data, None)
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


def _order(contents: Sequence[str], seed: int) -> list[int]:
    """All texts in the order in which they are taken: that of a hash of seed and content."""
    hashes = []
    for content in contents:
        seeded = f"{seed} {content}"
        hashes.append(hashlib.sha256(seeded.encode("utf-8", "replace")).digest())
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def _example(sites: Sequence[_Site], i: int) -> list[Any]:
    """[place, id, query, gold, predicted, probability of that, [[text, cells, lines, on its heads] a site]]."""
    examples = sites[0].examples
    run = examples.run
    gold = packed_label(run.labels[i])
    predicted, certainty = packed_prediction(run.probabilities[i], isinstance(run.labels[i], list))
    by_site = list(_by_site(sites, i))
    return [i, run.ids[i], examples.query(i), gold, predicted, certainty, by_site]


def packed_label(label: Any) -> Any:
    """The gold class, or the classes of multi-label data; -1 where unknown."""
    if not isinstance(label, list):
        return -1 if label is None else int(label)
    if min(label, default=-1) < 0:
        return -1
    return np.flatnonzero(label).tolist()


def packed_prediction(probabilities: np.ndarray, multi_label: bool) -> tuple[Any, float | None]:
    """What is predicted: a class and its probability, or classes and that of the least certain of all decisions.

    Args:
        probabilities: (C,).
        multi_label: whether each class is decided for by itself.

    Returns:
        -1 and None where the text could not be read.

    Example:
        >>> packed_prediction(np.array([0.2, 0.8]), False), packed_prediction(np.array([0.2, 0.7]), True)
        ((1, 0.8), ([1], 0.7))
    """
    chosen = probabilities >= 0.5  # (C,)
    certainty = float(probabilities.max(initial=-math.inf))
    if multi_label:
        certainty = float(np.where(chosen, probabilities, 1 - probabilities).min(initial=math.inf))
    rounded = round(certainty, 4) if math.isfinite(certainty) else None
    if multi_label:
        return np.flatnonzero(chosen).tolist(), rounded
    if rounded is None:
        return -1, None
    return int(probabilities.argmax()), rounded


def _by_site(sites: Sequence[_Site], i: int) -> Iterator[list[Any]]:
    """[text, cells, lines, what is known of its heads] of each site; 0 for a text that is that of the first site."""
    first: str | None = None
    for site in sites:
        text = packed_text(site.examples.words(i), site.examples.joined(i))
        cells = [column[i] for column in site.cells]
        lines = [kind[i] for kind in site.lines]
        yield [0 if text == first else text, cells, lines, site.examples.about_heads(i)]
        if first is None:
            first = text


def packed_text(words: Sequence[str], joined: Sequence[bool]) -> str:
    """All items in one string, each with what stands before it."""
    pieces = []
    for word, is_joined in zip(words, joined, strict=True):
        pieces.append(NO_BLANK if is_joined else BLANK)
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
        return packed_line(self.bytes[start:end], self.largest[row], self.examples.note(self.kind, i))

    def _single(self, i: int) -> list[Any] | int:
        """The entry of a line that names items, or whose stored list is not one number an item."""
        line = self.examples.line(self.kind, i)
        if line is None:
            return 0
        if line.values is None:
            return [line.places, line.note]
        starts = np.array([0, len(line.values)])
        packed, largest = quantized(line.values, starts, self.kind.signed)
        return packed_line(packed, largest[0], line.note)


def packed_line(packed: np.ndarray, largest: float, note: str) -> list[Any]:
    """A line of a text, of what `quantized` gives."""
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
