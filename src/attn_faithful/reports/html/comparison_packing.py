"""The texts of two models as one block of JSON: both attentions over the words that both read, and every number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attn_faithful.reports.compare.compared import Compared
from attn_faithful.reports.compare.differences import Difference, Distance, of_attention
from attn_faithful.reports.compare.side import Side
from attn_faithful.reports.examples import Kind
from attn_faithful.reports.html.packing import (
    Packed,
    fitted,
    packed_label,
    packed_line,
    packed_prediction,
    packed_text,
    quantized,
)
from attn_faithful.reports.numbers import number, percent
from attn_faithful.reports.tables.sources import shown

_SHORT = ("JSD", "TVD", "TVD of p")  # heads of the columns of distances: of attention, of attention, of predictions
_MENTIONED = 0.005  # share of the attention on words that the other model does not read, from which a note says so


def pack_comparison(compared: Compared, budget: int, seed: int) -> Packed:
    """The texts of a comparison.

    Args:
        compared: two models.
        budget: bytes.
        seed: of the sample, where not all texts fit.
    """
    return _Packing(compared).packed(budget, seed)


@dataclass(frozen=True)
class _Line:
    """One line of the heat maps, of all texts.

    Attributes:
        head: what the page's script needs to know of it.
        weights: one a word of each text; None for a text that has none.
        notes: what to say beside it, one a text.
    """

    head: dict[str, Any]
    weights: Sequence[np.ndarray | None]
    notes: Sequence[str]

    @cached_property
    def _quantized(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes = [0 if weights is None else len(weights) for weights in self.weights]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        there = [weights for weights in self.weights if weights is not None]
        flat = np.concatenate(there) if there else np.zeros(0)
        packed, largest = quantized(flat, starts, self.head["signed"])
        return packed, largest, starts

    def __getitem__(self, place: int) -> list[Any] | int:
        """The line of one text; 0 where it has none."""
        packed, largest, starts = self._quantized
        if math.isnan(largest[place]):
            return 0
        return packed_line(packed[starts[place] : starts[place + 1]], largest[place], self.notes[place])


class _Packing:
    """What the page holds of every text."""

    def __init__(self, compared: Compared) -> None:
        self.compared, self.texts = compared, compared.texts
        self.sides = (compared.first, compared.second)
        self.numbers = of_attention(compared.differences)
        self.reasons: dict[str, int] = {}  # why a number is undefined -> its place in the data
        self.lines = self._lines()

    def packed(self, budget: int, seed: int) -> Packed:
        first = self.compared.first
        contents = []
        for place in range(len(self.texts)):
            contents.append(f"{self._id(place)} {' '.join(self.texts.common[place].words)}")
        entries = [self._entry(place) for place in range(len(self.texts))]
        data: dict[str, Any] = {
            "labels": first.run.label_names,
            "noun": self.compared.noun,
            "letters": [side.letter for side in self.sides],
            "distances": [_distance_head(*column) for column in zip(_SHORT, self.compared.distances, strict=False)],
            "numbers": [_number_head(each) for each in self.numbers],
            "first": sum(not each.numbers.source for each in self.numbers),  # the first number of a test
            "kinds": [line.head for line in self.lines],
            "reasons": list(self.reasons),
            "examples": [],
        }
        return fitted(data, contents, entries.__getitem__, budget, seed)

    def _id(self, place: int) -> str:
        return self.compared.first.ids[self.compared.matched.first[place]]

    def _entry(self, place: int) -> list[Any]:
        """[place, id, query, gold, [predicted of both], [their probabilities], text, distances, numbers, lines].

        The numbers are those of the first model and of the second in turn; a word is the place of a reason.
        """
        matched, multi_label = self.compared.matched, self.texts.multi_label
        first, second = self.texts.probabilities
        predictions = [packed_prediction(rows[place], multi_label) for rows in (first, second)]
        common = self.texts.common[place]
        distances = [
            self._cell(each.values[place], each.reasons[place]) for each in self.compared.distances[: len(_SHORT)]
        ]
        numbers = []
        for compared in self.numbers:
            for values in (compared.numbers.first, compared.numbers.second):
                numbers.append(self._cell(values[place], compared.numbers.reasons[place]))
        return [
            matched.first[place],
            self._id(place),
            self.compared.first.examples.query(matched.first[place]),
            packed_label(matched.labels[place]),
            [predicted for predicted, _ in predictions],
            [certainty for _, certainty in predictions],
            packed_text(common.words, common.joined),
            distances,
            numbers,
            [line[place] for line in self.lines],
        ]

    def _cell(self, value: float, reason: str | None) -> float | str:
        """A rounded number, or the place of the reason why it is undefined, as a word."""
        if math.isfinite(value):
            return round(float(value), 4)
        place = self.reasons.setdefault(reason or "undefined", len(self.reasons))
        return str(place)

    # lines

    def _lines(self) -> list[_Line]:
        """Attention of both and its difference; then the importances that a page of one run shows at first."""
        laid = [self._laid(which, side.attention) for which, side in enumerate(self.sides)]
        lines = []
        for which, (side, hue) in enumerate(zip(self.sides, ("attention", "adversarial"), strict=True)):
            head = _line_head(f"{side.letter}: attention", hue)
            lines.append(_Line(head, laid[which], self._notes_on_attention(which, laid[which])))
        lines.append(self._difference())
        for which, side in enumerate(self.sides):
            for kind in side.importances:
                if kind.shown:
                    head = _line_head(f"{side.letter}: {kind.title}", kind.hue, shown=False, signed=kind.signed)
                    lines.append(_Line(head, self._laid(which, kind), [""] * len(self.texts)))
        return lines

    def _laid(self, which: int, kind: Kind | None) -> list[np.ndarray | None]:
        """The weights of a line over the common words, one entry a text."""
        side: Side = self.sides[which]
        places = (self.compared.matched.first, self.compared.matched.second)[which]
        found: list[np.ndarray | None] = []
        for common, i in zip(self.texts.common, places, strict=True):
            weights = side.weights(kind, i)
            found.append(None if weights is None else common.laid(which, weights))
        return found

    def _notes_on_attention(self, which: int, laid: Sequence[np.ndarray | None]) -> list[str]:
        """The entropy of the attention, and how much of it lies where the other model reads nothing."""
        entropies = self.texts.entropies()[which]
        other = self.sides[1 - which].letter
        notes = []
        for common, weights, entropy in zip(self.texts.common, laid, entropies, strict=True):
            note = f"entropy {number(entropy, 2)} nats"
            if weights is not None:
                elsewhere = float(np.nansum(weights[~common.both]) / max(np.nansum(weights), 1e-12))
                if elsewhere > _MENTIONED:
                    note += f"; {percent(elsewhere)} on words that {other} does not read"
            notes.append(note)
        return notes

    def _difference(self) -> _Line:
        """The attention of the first minus that of the second, over the words that both read."""
        found: list[np.ndarray | None] = []
        notes = []
        for common, shares, jsd in zip(self.texts.common, self.texts.shares, self.texts.attention_jsd, strict=True):
            difference = None
            if shares.reason is None:
                difference = np.full(len(common.words), np.nan)
                difference[common.both] = shares.first - shares.second
            found.append(difference)
            notes.append(f"JSD {number(jsd, 3)} nats; underlined: more in B")
        return _Line(_line_head("A - B", "other", signed=True), found, notes)


def _line_head(title: str, hue: str, *, shown: bool = True, signed: bool = False) -> dict[str, Any]:
    return {"title": title, "hue": hue, "outlined": False, "shown": shown, "signed": signed}


def _distance_head(short: str, each: Distance) -> dict[str, Any]:
    title = each.metric.title
    return {"title": title, "short": short, "help": f"{title}: {each.metric.meaning}", "digits": 3}


def _number_head(each: Difference) -> dict[str, Any]:
    metric, source = each.numbers.metric, each.numbers.source
    title = f"{metric.title}: {shown(source)}" if source else metric.title
    return {"title": title, "help": metric.meaning, "digits": 3}
