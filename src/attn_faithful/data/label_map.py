"""From a source's label values to the indices of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful._checks import Faults, InputError, did_you_mean
from attn_faithful.data.class_spelling import cleaned
from attn_faithful.data.label_names import UNLABELLED, feature_names, is_indicator, text_of

MISSING: Any = object()  # of a row without a label, where such rows are dropped
DROPPED: Any = object()  # of a row whose label is left out


@dataclass
class LabelMap:
    """Label names in order and the way from a source's values to their indices.

    Attributes:
        multi_label: a text may have several labels.
        names: of the classes, in the order of their indices.
        renamed: a label's name in the data -> its name here.
        left_out: names whose rows are dropped.
        source_names: names that the source states for its indices.
        numbered: a number in the data -> the class of a trained model that it means.
        whose: what the classes are, for messages.
        indicators: of several labels: the lists are 0 and 1 for each class, and no indices.
    """

    multi_label: bool
    renamed: Mapping[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    source_names: list[str] | None = None
    numbered: dict[str, str] = field(default_factory=dict)
    whose: str = "the labels are those of train"
    indicators: bool = False

    @property
    def unknown(self) -> Any:
        """The label of a text without one."""
        return [-1] * len(self.names) if self.multi_label else -1

    def encode(
        self, values: Sequence[Any], feature: Any, split: str, drop_none: bool, faults: Faults | None = None
    ) -> list[Any]:
        """For each value an index (a 0/1 list where texts may have several labels), -1, `MISSING` or `DROPPED`.

        A value that is None or not among the classes is a fault, with label, split and row.
        """
        faults = faults or Faults()
        index = self._index()
        stated = feature_names(feature) or self.source_names
        encode = self._encode_several if self.multi_label else self._encode_one
        encoded = []
        for row, value in enumerate(values):
            if value is None or value == "" or value != value:  # NaN
                if not drop_none:
                    error = InputError(
                        f"Expected a label, but row {row} of split {split!r} has none (rows count from 0); fill it, "
                        f"use -1 for unlabelled texts outside train, or drop such rows (drop_none)."
                    )
                    faults.add(error, f"no label {split}")
                encoded.append(MISSING)
                continue
            try:
                encoded.append(encode(value, stated, index, split, row))
            except InputError as error:
                faults.add(error, f"label {value!r:.200} {split}")
                encoded.append(DROPPED)
        return encoded

    def _index(self) -> dict[str, int]:
        """Class -> index, by its name and by that without invisible characters around it, of two alike the first."""
        index = {}
        for i, name in enumerate(self.names):
            index.setdefault(cleaned(name), i)
        for i, name in enumerate(self.names):
            index[name] = i
        return index

    def name_of(self, value: Any, stated: Sequence[str] | None) -> str:
        """A value's label name after ``label_map``."""
        text = text_of(value)
        if stated is not None and not isinstance(value, str) and text != UNLABELLED:
            if not text.isdigit() or int(text) >= len(stated):
                raise InputError(f"Expected label indices below {len(stated)} ({', '.join(stated)}), but got {text}.")
            text = stated[int(text)]
        name = self.renamed.get(text, text)
        return self.numbered.get(name, name)

    def _encode_one(self, value: Any, stated: Any, index: Mapping[str, int], split: str, row: int) -> Any:
        name = self.name_of(value, stated)
        if name in self.left_out:
            return DROPPED
        if name in index:
            return index[name]
        if name == UNLABELLED:
            return -1
        raise self._unknown_label(name, split, row)

    def _encode_several(self, value: Any, stated: Any, index: Mapping[str, int], split: str, row: int) -> list[int]:
        if not isinstance(value, list | tuple):
            raise InputError(
                f"Expected a list of labels (multi_label), but row {row} of split {split!r} has {value!r}."
            )
        n_classes = len(self.names)
        if self.indicators:
            if not is_indicator(value, n_classes):
                raise InputError(
                    f"Expected 0 or 1 for each of the {n_classes} classes, but row {row} of split {split!r} has "
                    f"{value!r:.60}."
                )
            return list(map(int, value))
        labels = [0] * n_classes
        for item in value:
            name = self.name_of(item, stated)
            if name not in index:
                raise self._unknown_label(name, split, row)
            labels[index[name]] = 1
        return labels

    def _unknown_label(self, name: str, split: str, row: int) -> InputError:
        return InputError(
            f"Unknown label {name!r} in row {row} of split {split!r}; {self.whose}.{did_you_mean(name, self.names)} "
            f"Rename others with label_map (--map {name}=...) or drop them."
        )

    def encode_candidates(
        self, rows: Mapping[int, Sequence[Any]], feature: Any, labels: Sequence[Any], split: str
    ) -> tuple[list[list[int]], int]:
        """For each row 1 at the classes that may be its answer, and how many candidates are no class.

        Args:
            rows: row -> names (or indices) of its candidates.
            feature: of the column.
            labels: of all rows of the split, the index of the answer; negative where unknown.
            split: for messages.

        Raises:
            InputError: an answer that is none of its candidates, or a row without any, with the row.
        """
        index = self._index()
        stated = feature_names(feature) or self.source_names
        masks = []
        n_unknown = 0
        for row, values in rows.items():
            names = {self.name_of(value, stated) for value in values}
            classes = {index[name] for name in names if name in index}
            n_unknown += len(names) - len(classes)
            where = f"row {row} of split {split!r}"
            if not classes:
                raise InputError(f"Expected candidates that are classes, but {where} has none (rows count from 0).")
            if labels[row] >= 0 and labels[row] not in classes:
                listed = ", ".join(sorted(names)[:10])
                raise InputError(
                    f"Expected the answer to be one of its candidates, but {where} has the answer "
                    f"{self.names[labels[row]]!r} and the candidates {listed}; add it to them or leave the row out."
                )
            masks.append([int(i in classes) for i in range(len(self.names))])
        return masks, n_unknown


def label_notes(values: Sequence[Any], labels: Sequence[Any], split: str) -> list[str]:
    """What was done to labels without being asked: invisible characters cut, -1 read as no label."""
    notes = []
    texts = [value for value in values if isinstance(value, str)]
    n_blank = sum(text != text.strip() for text in texts)
    if n_blank:
        notes.append(f"{split}: blanks around {n_blank} labels were cut.")
    n_invisible = sum(text.strip() != cleaned(text) for text in texts)
    if n_invisible:
        notes.append(
            f"{split}: {n_invisible} labels were rid of invisible characters, or their letters composed (NFC)."
        )
    n_unlabelled = sum(isinstance(label, int) and label == -1 for label in labels)
    if n_unlabelled:
        notes.append(f"{split}: {n_unlabelled} of {len(labels)} texts have no label (-1).")
    return notes
