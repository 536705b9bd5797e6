"""One label a text or several: the labels of the data are brought into the shape that the model has."""

from __future__ import annotations

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.data.sources import TextData


def fit_label_shapes(texts: TextData, multi_label: bool) -> None:
    """Bring labels into the shape that a model has; one label a text is read as one yes among noes, with a note.

    Args:
        texts: their splits are changed.
        multi_label: see `configurations.is_multi_label`.

    Raises:
        InputError: several labels a text for a model of one class a text.
    """
    changed = False
    for name, rows in texts.splits.items():
        labels = rows["label"][:]
        several = [i for i, label in enumerate(labels) if np.ndim(label)]
        if several and not multi_label:
            first = several[0]
            raise InputError(
                f"The model gives one class a text, but the texts of {texts.name} have several labels each, such as "
                f"{labels[first]} of {rows['example'][first]!r}; give one label a text, or data without labels."
            )
        if not multi_label or several or max(labels, default=-1) < 0:
            continue
        flags = [_flags(label, len(texts.label_names)) for label in labels]
        texts.splits[name] = rows.remove_columns(["label"]).add_column("label", flags)
        changed = True
    if changed:
        texts.notes.append("The data has one label a text and the model several: every other label is taken as a no.")


def _flags(label: int, classes: int) -> list[int]:
    """A class as 0 and 1 for each label; of an unknown one -1 for all."""
    if label < 0:
        return [-1] * classes
    return [int(c == label) for c in range(classes)]
