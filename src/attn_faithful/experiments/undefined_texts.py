"""What one text raises makes that text undefined, with the reason, and loses nothing of the others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful._checks import InputError, is_of_memory
from attn_faithful.models.blocks import Block

PATIENCE = 8  # texts that may fail one after the other before the fault is not a text's but the run's
KEYS = ("site", "source", "metric", "label")  # what tells the numbers of a text apart
LONGEST = 120  # characters of a reason

Columns = dict[str, dict[str, list[Any]]]
Columned = Callable[[Block], Columns]


def is_of_the_run(error: Exception) -> bool:
    """Whether an error says something of the settings, the memory or the disk, and so of every text."""
    return isinstance(error, InputError | OSError) or is_of_memory(error)


def reason_of(error: Exception) -> str:
    """Why a text is undefined, in one line."""
    said = " ".join(str(error).split())
    told = f"not measured: {type(error).__name__}: {said}" if said else f"not measured: {type(error).__name__}"
    return told if len(told) <= LONGEST else told[: LONGEST - 3] + "..."


@dataclass
class Guard:
    """Measures blocks; where that raises, each text of the block alone, so that only those are lost that raise.

    Args:
        measure: all that a block gives, as columns of the tables.
        outputs: the same without the tests: what the model itself does.
        empty: tables without a row.
        names: the ids of the examples.

    Attributes:
        measured: texts that gave numbers so far.
        errors: what was raised, of the texts that gave none.
    """

    measure: Columned
    outputs: Columned
    empty: Callable[[], Columns]
    names: Sequence[str]
    measured: int = 0
    errors: list[Exception] = field(default_factory=list)

    def __call__(self, block: Block) -> tuple[Columns, dict[str, str]]:
        """What a block gives, and why some of its examples give nothing, by id.

        Raises:
            Exception: an error of the run; or any, where it is raised for every text.
        """
        try:
            columns = self.measure(block)
        except Exception as error:
            if is_of_the_run(error):
                raise
            return self._one_by_one(block, error)
        self.measured += len(block.copies)
        return columns, {}

    def _one_by_one(self, block: Block, error: Exception) -> tuple[Columns, dict[str, str]]:
        texts = block.alone()
        if len(texts) == 1:
            return self._outputs(block, error)
        columns, failed = self.empty(), {}
        for text in texts:
            found, why = self(text)
            failed |= why
            for table, rows in found.items():
                for name, values in rows.items():
                    columns[table][name].extend(values)
        return columns, failed

    def _outputs(self, text: Block, error: Exception) -> tuple[Columns, dict[str, str]]:
        """Of a text that cannot be tested what the model says of it, if it says anything."""
        self.errors.append(error)
        if not self.measured and len(self.errors) >= PATIENCE:
            raise self.errors[0]
        failed = dict.fromkeys([self.names[place] for place in text.places], reason_of(error))
        try:
            return self.outputs(text), failed
        except Exception as other:
            if is_of_the_run(other):
                raise
            return self.empty(), failed


def failed_scores(scores: Sequence[Mapping[str, Sequence[Any]]], failed: Mapping[str, str]) -> dict[str, list[Any]]:
    """Rows of the table "scores" that say of every number why it is undefined for some examples.

    Args:
        scores: the columns in `KEYS` of the others' numbers.
        failed: example -> reason.
    """
    keys: dict[tuple[Any, ...], None] = {}
    for part in scores:
        keys |= dict.fromkeys(zip(*(part[name] for name in KEYS), strict=True))
    n = len(failed) * len(keys)
    found: dict[str, list[Any]] = {name: [key[i] for key in keys] * len(failed) for i, name in enumerate(KEYS)}
    found["example"] = [example for example in failed for _ in keys]
    found["reason"] = [why for why in failed.values() for _ in keys]
    return found | {"slot": [0] * n, "value": [math.nan] * n}


def unread(
    items: Callable[[str, int], tuple[list[str], Any]], site: str, place: int, classes: int
) -> tuple[list[float], list[float], list[str]]:
    """Probabilities and attention, all NaN, and the words of an example that the model could not read."""
    try:
        words, _ = items(site, place)
    except Exception:  # what could not be read may not be shown either
        words = []
    return [math.nan] * classes, [math.nan] * len(words), words


def told(failed: Mapping[str, str], of: int) -> str:
    """One sentence for all examples that could not be measured."""
    first, why = next(iter(failed.items()))
    return f"{len(failed)} of {of} texts could not be measured and are undefined, the first is {first!r}: {why}"


def failures(failed: Mapping[str, str]) -> dict[str, Any]:
    """What meta.json says of them, where there are any."""
    return {"failed": dict(failed)} if failed else {}


class UndefinedTextWarning(UserWarning):
    """Some texts could not be measured."""


def warn_of(failed: Mapping[str, str], of: int) -> None:
    """Tell once which texts could not be measured."""
    if failed:
        warnings.warn(told(failed, of), UndefinedTextWarning, stacklevel=3)
