"""The examples of a page as one block of JSON: a byte a weight, and only as many texts as fit."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attn_faithful.reports.examples import SETS, Examples, Kind, counted
from attn_faithful.reports.palette import title_of

TOP = 254  # the byte of a line's largest magnitude; 255 is undefined
ZERO = 127  # the byte of 0 in lines with a sign
UNDEFINED = 255
BLANK, NO_BLANK = "\n", "\t"  # before an item that stands apart from the one before, and one that does not


@dataclass(frozen=True)
class Column:
    """One number of the list of examples.

    Attributes:
        title: its head.
        help: what it is.
        metric, source: where it stands.
        digits: after the point.
        bar: entry of the palette of a bar beside the number; None without.
        high: where the bar is full.
    """

    title: str
    help: str
    metric: str
    source: str
    digits: int = 2
    bar: str | None = None
    high: float = 1.0


@dataclass(frozen=True)
class Packed:
    """The data of a page, and what to say where texts were left out."""

    data: dict[str, Any]
    sample: str | None


def columns(examples: Examples) -> list[Column]:
    """The numbers of the list, of the tests that ran."""
    run, site, source = examples.run, examples.site, examples.first_source
    asked = [
        Column(
            "tau",
            f"Kendall's tau-b of attention and {title_of(source or '')}",
            "attention_correlation",
            f"attention~{source}",
        ),
        Column(
            "can move",
            "largest JSD from the model's attention that moves the prediction by eps at most, nats",
            "adversarial_attention",
            "attention",
            bar="adversarial",
            high=math.log(2),
        ),
        Column(
            "shuffled", "median change of p when the weights go to other words", "attention_permutation", "attention"
        ),
        Column("flips at", "fraction removed, by attention, until the decision flips", "decision_flip", "attention"),
        *(
            Column(title, f"{what} {examples.noun}s without which the decision flips", "flip_size", name, digits=0)
            for name, title, what in zip(SETS, ("smallest set", "small set"), ("fewest", "few"), strict=True)
        ),
    ]
    for name in (kind.key.removeprefix("twin ") for kind in examples.kinds if kind.key.startswith("twin ")):
        asked.append(Column("twin TVD", f"change of p by the twin {name}", "tvd", name))
        asked.append(
            Column("twin JSD", f"JSD of the attention of {name}", "jsd", name, bar="adversarial", high=math.log(2))
        )
        break
    return [column for column in asked if column.source in run.scored(column.metric, site)]


def pack(sites: Sequence[Examples], budget: int, seed: int) -> Packed:
    """The texts of a run, of all its sites.

    Args:
        sites: one a site; the last is shown first.
        budget: bytes.
        seed: of the sample, where not all texts fit.
    """
    run, several = sites[0].run, len(sites) > 1
    shown = [columns(examples) for examples in sites]
    parts = [_Site(examples, listed) for examples, listed in zip(sites, shown, strict=True)]
    head = {
        "labels": run.label_names,
        "sites": [part.head for part in parts],
        "examples": [],
    }
    left = budget - len(embedded(head).encode())
    held: dict[int, list[Any]] = {}
    for i in _order(sites[-1], seed):
        entry = _example(parts, i)
        left -= len(embedded(entry).encode()) + 1
        if left < 0:
            break
        held[i] = entry
    n = len(run.examples)
    head["examples"] = [held[i] for i in sorted(held)]
    sample = None
    if len(held) < n:
        sample = (
            f"{counted(len(held), 'text')} of {n:,} stand here, chosen by a hash of their content (seed {seed}): the "
            f"others would take this file past its limit. Numbers above are over all {n:,}"
            + (" and the columns of all sites." if several else ".")
        )
    return Packed(head, sample)


def embedded(value: Any) -> str:
    """Strict JSON that may stand inside a ``<script>``: nothing in it can end the element.

    Example:
        >>> embedded(["</script><!--", "a & b"])
        '["\\\\u003c/script\\\\u003e\\\\u003c!--","a \\\\u0026 b"]'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # lone surrogates are no UTF-8; the two line separators end a line of script in old browsers
    found = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
    for sign, escaped in found.items():
        text = text.replace(sign, escaped)
    return text.encode("utf-8", "backslashreplace").decode()


class _Site:
    """What the page needs of one site."""

    def __init__(self, examples: Examples, listed: Sequence[Column]) -> None:
        self.examples, self.listed = examples, listed
        self.columns = [_Scores(examples, column) for column in listed]
        self.lines = [_Lines(examples, kind) for kind in examples.kinds]

    @property
    def head(self) -> dict[str, Any]:
        """What holds for all texts."""
        return {
            "name": self.examples.site,
            "noun": self.examples.noun,
            "columns": [
                {"title": c.title, "help": c.help, "digits": c.digits, "bar": c.bar, "high": round(c.high, 4)}
                for c in self.listed
            ],
            "kinds": [
                {"title": k.title, "hue": k.hue, "outlined": k.outlined, "shown": k.shown, "signed": k.signed}
                for k in self.examples.kinds
            ],
        }


class _Scores:
    """One column of the list, rounded; where a number is undefined its reason stands."""

    def __init__(self, examples: Examples, column: Column) -> None:
        at = {"source": column.source, "site": examples.site}
        self.values = examples.run.scores(column.metric, **at).tolist()
        self.reasons = examples.run.reasons(column.metric, **at)

    def __getitem__(self, i: int) -> float | str:
        value = self.values[i]
        return round(value, 4) if math.isfinite(value) else self.reasons[i] or "undefined"


def _order(examples: Examples, seed: int) -> list[int]:
    """All texts in the order in which they are taken: that of a hash of seed and content."""
    ids = examples.run.examples
    keys = [hashlib.sha256(f"{seed} {ids[i]} {examples.text(i)}".encode("utf-8", "replace")) for i in range(len(ids))]
    return sorted(range(len(ids)), key=lambda i: keys[i].digest())


def _example(sites: Sequence[_Site], i: int) -> list[Any]:
    """[place, id, query, gold, predicted, probability of that, [[text, values, lines] a site]]."""
    run = sites[0].examples.run
    chances, label = run.probabilities[i], run.labels[i]
    if isinstance(label, list):  # several labels a text
        predicted: Any = np.flatnonzero(chances >= 0.5).tolist()
        gold: Any = [c for c, there in enumerate(label) if there] if min(label, default=-1) >= 0 else -1
        sure = float(np.where(chances >= 0.5, chances, 1 - chances).min()) if len(chances) else math.nan
    else:
        predicted, gold = int(run.predicted[i]), -1 if label is None else int(label)
        sure = float(chances.max()) if len(chances) else math.nan
    first: str | None = None
    places = []
    for site in sites:
        text = _text(site.examples, i)
        listed = [column[i] for column in site.columns], [lines[i] for lines in site.lines]
        places.append([0 if text == first else text, *listed])
        first = text if first is None else first
    query = sites[0].examples.query(i)
    return [i, run.examples[i], query, gold, predicted, round(sure, 4) if math.isfinite(sure) else None, places]


def _text(examples: Examples, i: int) -> str:
    """All items in one string, each with what stands before it."""
    words = (word.replace(BLANK, " ").replace(NO_BLANK, " ") for word in examples.words(i))
    return "".join(
        (NO_BLANK if joined else BLANK) + word for word, joined in zip(words, examples.joined(i), strict=True)
    )


class _Lines:
    """The lines of one kind: [bytes, largest magnitude, note], [places, note], or 0 where a text has none."""

    def __init__(self, examples: Examples, kind: Kind) -> None:
        self.examples, self.kind = examples, kind
        self.lists, self.rows = examples.stored(kind)
        if not kind.outlined:
            self.bytes, self.largest = quantized(self.lists.flat, self.lists.starts, kind.signed)

    def __getitem__(self, i: int) -> list[Any] | int:
        row = self.rows.get(self.examples.run.examples[i])
        if row is None:
            return 0
        start, end = self.lists.starts[row], self.lists.starts[row + 1]
        if self.kind.outlined or end - start != len(self.examples.words(i)):
            line = self.examples.line(self.kind, i)
            if line is None or line.values is None:
                return 0 if line is None else [line.places, line.note]
            packed, largest = quantized(line.values, np.array([0, len(line.values)]), self.kind.signed)
            return self._line(packed, largest[0], line.note)
        if not self.lists.there[row] or math.isnan(self.largest[row]):
            return 0
        return self._line(self.bytes[start:end], self.largest[row], self.examples.note(self.kind, i))

    @staticmethod
    def _line(packed: np.ndarray, largest: float, note: str) -> list[Any]:
        return [base64.b64encode(packed.tobytes()).decode(), float(f"{largest:.4g}"), note]


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
    sizes = np.diff(starts)
    largest = np.full(len(sizes), math.nan)
    held = sizes > 0
    if held.any():
        largest[held] = np.fmax.reduceat(np.abs(flat), starts[:-1][held])
    over = np.repeat(largest, sizes)
    share = np.divide(flat, over, out=np.zeros(len(flat)), where=over > 0)
    scaled = ZERO + ZERO * share if signed else TOP * share
    whole = np.where(np.isfinite(flat), np.rint(scaled), UNDEFINED).clip(0, UNDEFINED)
    return whole.astype(np.uint8), largest
