"""The names of a model's classes, by index and by name: either says the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attn_faithful._checks import InputError

Names = dict[int, str]


def class_names(id2label: Any, label2id: Any, count: int | None = None) -> Names | None:
    """Names in the order of their indices, from what a configuration was given; None where it names none.

    Args:
        id2label: index -> name, or a list of names.
        label2id: name -> index. Numbered names (LABEL_0 and so on), which transformers makes up, count for nothing
            beside others.
        count: `num_labels`, where it was given.

    Raises:
        InputError: indices that do not run from 0, two classes of one name, or two of the three that contradict each
            other.

    Example:
        >>> class_names(None, {"pos": 1, "neg": 0})
        {0: 'neg', 1: 'pos'}
    """
    by_index = None if id2label is None else _by_index(id2label)
    by_name = None if label2id is None else _by_name(label2id)
    for which, names in {"id2label": by_index, "label2id": by_name}.items():
        if names is not None and count is not None and len(names) != count:
            raise InputError(f"num_labels is {count}, but {which} names {len(names)} labels; give one of them.")
    if by_index is None:
        return by_name
    if by_name is None:
        return by_index
    one_is_numbered = _numbered(by_index) or _numbered(by_name)
    if by_index != by_name and not one_is_numbered:
        raise InputError(
            f"id2label says {by_index}, but label2id says {by_name}; give one of them, the other follows from it."
        )
    if _numbered(by_index) and len(by_index) == len(by_name):
        return by_name
    return by_index


def _by_index(id2label: Any) -> Names:
    if isinstance(id2label, Sequence) and not isinstance(id2label, str):
        id2label = dict(enumerate(id2label))
    if not isinstance(id2label, Mapping):
        raise InputError(f"Expected id2label to map 0, 1, ... to names, but got {id2label!r}.")
    try:
        names = {int(index): str(name) for index, name in id2label.items()}
    except (TypeError, ValueError):
        raise InputError(f"Expected id2label to map 0, 1, ... to names, but got {id2label!r}.") from None
    return _checked(names, "id2label", id2label)


def _by_name(label2id: Any) -> Names:
    if not isinstance(label2id, Mapping) or not all(_is_index(index) for index in label2id.values()):
        raise InputError(f"Expected label2id to map names to 0, 1, ..., but got {label2id!r}.")
    names = {index: str(name) for name, index in label2id.items()}
    if len(names) < len(label2id):  # two names of one class
        names = {}
    return _checked(names, "label2id", label2id)


def _is_index(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked(names: Names, which: str, mapping: Any) -> Names:
    """The names in order, where indices run from 0 and no two are the same."""
    from_zero = sorted(names) == list(range(len(names)))
    if not names or not from_zero:
        raise InputError(f"Expected {which} to name each of the classes 0, 1, ... once, but got {mapping!r}.")
    if len(set(names.values())) < len(names):
        raise InputError(f"Expected {which} to name every class differently, but got {mapping!r}.")
    return {index: names[index] for index in sorted(names)}


def _numbered(names: Names) -> bool:
    return all(name == f"LABEL_{index}" for index, name in names.items())


def inverse(names: Mapping[int, str]) -> dict[str, int]:
    """Name -> index."""
    return {name: index for index, name in names.items()}
