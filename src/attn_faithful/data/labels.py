"""The mapping of labels to indices, fixed on the training split or to the classes of a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attn_faithful._checks import Faults, InputError, did_you_mean
from attn_faithful.data.class_spelling import cleaned, one_in_two_ways
from attn_faithful.data.columns import Columns
from attn_faithful.data.files.raw import Raw
from attn_faithful.data.label_map import LabelMap
from attn_faithful.data.label_names import UNLABELLED, known_labels, stated_names
from attn_faithful.data.model_classes import by_number
from attn_faithful.data.settings import DataSettings


@dataclass
class LabelChoice:
    """Which labels are renamed, kept and dropped, by their names without invisible characters around them."""

    renamed: dict[str, str]
    keep: list[str]
    drop: list[str]

    @classmethod
    def of(cls, settings: DataSettings) -> LabelChoice:
        """The choice in the settings."""
        renamed = {cleaned(name): cleaned(new) for name, new in (settings.label_map or {}).items()}
        keep = list(map(cleaned, settings.keep or ()))
        drop = list(map(cleaned, settings.drop or ()))
        return cls(renamed, keep, drop)

    def leaves_out(self, name: str) -> bool:
        """Whether rows of this label are left out."""
        return (bool(self.keep) and name not in self.keep) or name in self.drop

    def check_renamed(self, known: Sequence[str], faults: Faults) -> None:
        """Add a fault for each name in label_map that is no label."""
        for name in self.renamed:
            if name not in known and name != UNLABELLED:
                faults.add(InputError(f"Unknown label {name!r} in label_map.{did_you_mean(name, known)}"))

    def check_chosen(self, names: Sequence[str], more: Iterable[str], faults: Faults) -> None:
        """Add a fault for each name to keep or drop that is no label.

        Args:
            names: of the labels, which are proposed in place of others.
            more: further names that may be listed.
            faults: gets them.
        """
        known = {*names, *more, UNLABELLED}
        for option, chosen in (("keep", self.keep), ("drop", self.drop)):
            for name in chosen:
                if name not in known:
                    faults.add(InputError(f"Unknown label {name!r} in {option}.{did_you_mean(name, names)}"))


def fit_labels(
    raw: Raw,
    columns: Columns,
    settings: DataSettings,
    names: Sequence[str] | None = None,
    faults: Faults | None = None,
) -> LabelMap:
    """Fix the mapping on the training split (or to ``names``).

    Names stated by the source keep their order; other labels are sorted, numbers by value. ``label_map`` renames, then
    ``keep`` and ``drop`` choose; what is left is indexed in order. Names in the column of candidates are labels too,
    though they may be nobody's answer in train.

    Args:
        raw: the source.
        columns: where labels and candidates are.
        settings: what is renamed, kept and dropped.
        names: the classes of a trained model.
        faults: where faults go; None raises the first.
    """
    faults = faults or Faults()
    choice = LabelChoice.of(settings)
    labels = LabelMap(settings.multi_label, choice.renamed)
    known = _find_known(raw, columns, labels, all_splits=names is not None)
    if settings.multi_label and (choice.renamed or choice.keep or choice.drop):
        faults.add(InputError("Expected no keep, drop or label_map where texts may have several labels (multi_label)."))
    choice.check_renamed(known, faults)
    merged = _different(_renamed(known, choice.renamed))
    if names is None:
        _check_spelling(merged, faults)
    else:
        merged = _number(labels, merged, choice, list(names), raw.notes)
    unlabelled_class = choice.renamed.get(UNLABELLED)
    if unlabelled_class is not None and unlabelled_class not in merged:
        merged.insert(0, unlabelled_class)
    choice.check_chosen(merged, names or (), faults)
    labels.left_out = {name for name in merged if choice.leaves_out(name)}
    if UNLABELLED in choice.drop:
        labels.left_out.add(UNLABELLED)
    if names is None:
        labels.names = [name for name in merged if name not in labels.left_out]
    else:
        labels.names = list(names)
    return labels


def _find_known(raw: Raw, columns: Columns, labels: LabelMap, all_splits: bool) -> list[str]:
    """The labels of train, or of all splits, train first; tells the map what their indices and lists mean."""
    rows = _training_rows(raw)
    if columns.label is None or columns.label not in rows.column_names:
        return []
    labels.source_names = stated_names(raw, rows, columns.label)
    known = known_labels(rows, columns, labels.source_names, labels.multi_label)
    labels.indicators = known.indicators
    if not all_splits:
        return known.names
    names = list(known.names)
    for other in raw.splits.values():
        if other is not rows and columns.label in other.column_names:
            known = known_labels(other, columns, labels.source_names, labels.multi_label)
            labels.indicators = known.indicators
            names += known.names
    return _different(names)


def _training_rows(raw: Raw) -> Any:
    """The training split; the only one, or the first, where there is none."""
    for split in ("train", "all"):
        if split in raw.splits:
            return raw.splits[split]
    return next(iter(raw.splits.values()))


def _different(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _renamed(names: Iterable[str], new_names: Mapping[str, str]) -> list[str]:
    """Each name, or the new one where it has one."""
    return [new_names.get(name, name) for name in names]


def _check_spelling(names: Sequence[str], faults: Faults) -> None:
    for first, other in one_in_two_ways(names):
        faults.add(
            InputError(
                f"Expected one way of writing each class, but {first!r} and {other!r} are one number or truth value; "
                f"merge them with label_map (--map {other}={first}), or rename one."
            )
        )


def _number(
    labels: LabelMap, merged: Sequence[str], choice: LabelChoice, names: list[str], notes: list[str]
) -> list[str]:
    """The labels of the data in terms of a trained model's classes; tells the map and the choice what numbers mean."""
    labels.whose = "the classes are the model's"
    left_out = set(choice.drop)
    if set(choice.keep) & set(merged):
        left_out |= set(merged) - set(choice.keep)
    in_use = [name for name in merged if name not in left_out]
    labels.numbered, note = by_number(in_use, names)
    if note:
        notes.append(note)
    choice.keep = _renamed(choice.keep, labels.numbered)
    choice.drop = _renamed(choice.drop, labels.numbered)
    return _renamed(merged, labels.numbered)
