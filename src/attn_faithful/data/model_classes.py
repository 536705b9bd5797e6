"""What bare numbers in the data mean among the classes of a trained model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from attn_faithful._checks import InputError


def by_number(known: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """What bare numbers in the data mean among a trained model's names, and a note that says so.

    Nothing, where the data's labels are among the names. Where each name holds a number of its own ("1 star"), the
    numbers in the data are those: 1 is "1 star". Data whose numbers are not among them are read as indices from 0 where
    they are all of 0 to C - 1. Names without numbers are counted from 0.

    Raises:
        InputError: numbers that could be counted from 0 or from 1.

    Example:
        >>> by_number(["1", "2"], ["1 star", "2 stars", "3 stars"])[0]
        {'1': '1 star', '2': '2 stars'}
    """
    are_numbers = all(name.isascii() and name.isdigit() for name in known)
    if not known or not are_numbers or set(known) <= set(names):
        return {}, None
    meanings = _meanings(known, names)
    if not meanings:
        raise InputError(
            f"Expected labels that are the model's classes ({', '.join(names)}) or indices of them from 0, but the "
            f"data have the labels {', '.join(known)}; say which is which with label_map (--map {known[0]}={names[0]},"
            "...)."
        )
    listed = ", ".join(f"{number} is {meanings[number]!r}" for number in known)
    return meanings, f"Numbers as labels, read as the model's classes: {listed}."


def _meanings(known: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Number in the data -> class; empty where that cannot be told."""
    indices = {str(i): name for i, name in enumerate(names)}
    numbers = _numbers_in(names)
    if numbers is not None:
        if set(known) <= set(numbers):
            return {number: numbers[number] for number in known}
        if set(known) == set(indices) and not any(map(str.isdigit, names)):
            return indices
        return {}
    counted_from_one = "0" not in known and str(len(names)) in known
    if counted_from_one or not set(known) <= set(indices):
        return {}
    return {number: indices[number] for number in known}


def _numbers_in(names: Sequence[str]) -> dict[str, str] | None:
    """Number -> name where every name holds one number, and no two the same."""
    numbers = {}
    for name in names:
        digits = re.findall(r"\d+", name)
        if len(digits) == 1:
            numbers[str(int(digits[0]))] = name
    return numbers if len(numbers) == len(names) else None
