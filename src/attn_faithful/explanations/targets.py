"""Which class an explanation is of."""

from __future__ import annotations

from collections.abc import Sequence

from attn_faithful._checks import InputError, check_choice


def named_class(
    target: int | str | None, names: Sequence[str] | None, n_classes: int, predicted: int
) -> tuple[int, str]:
    """The index of a class and its name.

    Args:
        target: index or name; None for the predicted class.
        names: of the classes, where they are known.
        n_classes: how many there are.
        predicted: index of the class that the model predicts.

    Raises:
        InputError: there is no such class.

    Example:
        >>> named_class("good", ["bad", "good"], 2, 0), named_class(None, None, 2, 0)
        ((1, 'good'), (0, '0'))
    """
    names = [str(place) for place in range(n_classes)] if names is None else list(names)
    if target is None:
        return predicted, names[predicted]
    if isinstance(target, str):
        return names.index(check_choice("class of the explanation", target, names)), target
    if not 0 <= target < n_classes:
        raise InputError(f"Expected a class from 0 to {n_classes - 1}, but got {target}.")
    return target, names[target]
