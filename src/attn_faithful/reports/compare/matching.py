"""The texts that two models were both tested on: by their id, and by what stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attn_faithful._checks import InputError
from attn_faithful.reports.compare.side import Side
from attn_faithful.reports.compare.words import Items, read_alike, same_text
from attn_faithful.reports.numbers import counted


@dataclass(frozen=True)
class Matched:
    """The texts of both models.

    Attributes:
        first, second: place of each matched text in the data of the first and of the second run.
        labels: the gold label of each, as an index of the first run's classes (a list of 0 and 1 for multi-label data),
            of the second run where the first does not know it.
        order: place of each of the first run's classes among the second's.
        only_first, only_second: texts whose id the other run does not have.
        other_text: ids that stand for another text in the other run, or for one that was not read there.
        other_query: texts with another question in the other run.
        read_further: matched texts of which one model read more than the other.
        other_label: matched texts that have another label in the second run.
    """

    first: list[int]
    second: list[int]
    labels: list[object]
    order: list[int]
    only_first: int
    only_second: int
    other_text: int
    other_query: int
    read_further: int
    other_label: int

    def __len__(self) -> int:
        return len(self.first)

    @property
    def notes(self) -> list[str]:
        """What is left out or stands apart, in words."""
        counts = (
            (self.only_first, "in A alone"),
            (self.only_second, "in B alone"),
            (self.other_text, "of the same id that differ or were not read by one model"),
            (self.other_query, "with different questions"),
        )
        left_out = [f"{counted(n, 'text')} {where}" for n, where in counts if n]
        notes = []
        if left_out:
            notes.append(f"Left out: {', '.join(left_out)}.")
        if self.read_further:
            notes.append(
                f"Of {counted(self.read_further, 'text')} one model reads words that the other does not: attention is "
                "compared over the words that both read."
            )
        if self.other_label:
            verb = "has" if self.other_label == 1 else "have"
            notes.append(f"{counted(self.other_label, 'text')} {verb} another label in B; that of A stands here.")
        return notes


def items_of(side: Side, i: int) -> Items:
    """A text as one model reads it."""
    return Items(side.examples.words(i), side.spans(i))


def match(first: Side, second: Side) -> Matched:
    """The texts of both models, in the order of the first.

    Raises:
        InputError: other classes, or no text that both have.
    """
    order = _order_of_classes(first, second)
    places = {example: place for place, example in enumerate(second.ids)}
    pairs: list[tuple[int, int]] = []
    n_same_id, n_other_text, n_further = 0, 0, 0
    n_other_query = 0
    for i, example in enumerate(first.ids):
        j = places.get(example)
        if j is None:
            continue
        n_same_id += 1
        one, other = items_of(first, i), items_of(second, j)
        if not same_text(one, other):
            n_other_text += 1
        elif first.examples.query(i) != second.examples.query(j):
            n_other_query += 1
        else:
            pairs.append((i, j))
            n_further += not read_alike(one, other)
    if not pairs:
        raise InputError(_nothing(first, second, n_same_id))
    labels: list[object] = []
    n_other_label = 0
    for i, j in pairs:
        label, other = first.run.labels[i], _in_order(second.run.labels[j], order)
        labels.append(label if _is_known(label) else other)
        n_other_label += _is_known(label) and _is_known(other) and label != other
    return Matched(
        first=[i for i, _ in pairs],
        second=[j for _, j in pairs],
        labels=labels,
        order=order,
        only_first=len(first.ids) - n_same_id,
        only_second=len(second.ids) - n_same_id,
        other_text=n_other_text,
        other_query=n_other_query,
        read_further=n_further,
        other_label=n_other_label,
    )


def _order_of_classes(first: Side, second: Side) -> list[int]:
    """Place of each of the first model's classes among the second's."""
    one, other = first.run.label_names, second.run.label_names
    if sorted(one) != sorted(other):
        raise InputError(
            f"Expected two models of the same classes, but {first.run.path} has {', '.join(one)} and "
            f"{second.run.path} has {', '.join(other)}; evaluate both on data with the same labels."
        )
    if first.multi_label != second.multi_label:
        raise InputError("Expected two models of one task, but one of them has several labels a text.")
    return [other.index(name) for name in one]


def _in_order(label: object, order: Sequence[int]) -> object:
    """A label of the second run as the first one writes it."""
    if isinstance(label, list):
        return [label[place] for place in order] if len(label) == len(order) else label
    if isinstance(label, int) and 0 <= label < len(order):
        return order.index(label)
    return label


def _is_known(label: object) -> bool:
    """Whether a gold label is there."""
    if isinstance(label, list):
        return min(label, default=-1) >= 0
    return isinstance(label, int) and label >= 0


def _nothing(first: Side, second: Side, n_same_id: int) -> str:
    same = "none of the ids are the same"
    if n_same_id:
        same = f"{counted(n_same_id, 'id')} of both stand for different texts"
    return (
        f"Expected two runs over the same texts, but of the {counted(len(first.ids), 'text')} of {first.run.path} and "
        f"the {counted(len(second.ids), 'text')} of {second.run.path} {same}; evaluate both models on the same data "
        "and split."
    )
