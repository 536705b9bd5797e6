"""What one text raises makes that text undefined, with the reason, and loses nothing of the others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from attn_faithful._checks import InputError, is_of_memory
from attn_faithful.experiments.block_rows import TableRows
from attn_faithful.experiments.columns import Columns
from attn_faithful.models.blocks import Block

PATIENCE = 8  # texts that may fail one after the other before the fault is not a text's but the run's
KEYS = ("site", "source", "metric", "label")  # what tells the numbers of a text apart
LONGEST = 120  # characters of a reason

Measure = Callable[[Block], TableRows]
Found = TypeVar("Found")


def is_of_the_run(error: Exception) -> bool:
    """Whether an error says something of the settings, the memory or the disk, and so of every text."""
    return isinstance(error, InputError | OSError) or is_of_memory(error)


def reason_of(error: Exception) -> str:
    """Why a text is undefined, in one line."""
    reason = f"not measured: {type(error).__name__}"
    message = " ".join(str(error).split())
    if message:
        reason = f"{reason}: {message}"
    if len(reason) > LONGEST:
        reason = reason[: LONGEST - 3] + "..."
    return reason


def of_readable(block: Block, found_in: Callable[[Block], list[Found]]) -> list[Found]:
    """What the texts of a block give; where that raises, each text by itself, without those that raise.

    Raises:
        Exception: an error of the run.
    """
    try:
        return found_in(block)
    except Exception as error:
        if is_of_the_run(error):
            raise
    if len(block.copies) == 1:
        return []
    found: list[Found] = []
    for alone in block.alone():
        found += of_readable(alone, found_in)
    return found


@dataclass
class BlockGuard:
    """Measures blocks; where that raises, each text of the block alone, so that only those are lost that raise.

    Args:
        measure: all that a block gives, as rows of the tables.
        outputs: the same without the tests: what the model itself does.
        examples: ids, by place.

    Attributes:
        measured: texts that gave numbers so far.
        errors: what was raised, of the texts that gave none.
    """

    measure: Measure
    outputs: Measure
    examples: Sequence[str]
    measured: int = 0
    errors: list[Exception] = field(default_factory=list)

    def __call__(self, block: Block) -> tuple[TableRows, dict[str, str]]:
        """What a block gives, and why some of its examples give nothing, by id.

        Raises:
            Exception: an error of the run; or any, where it is raised for every text.
        """
        try:
            tables = self.measure(block)
        except Exception as error:
            if is_of_the_run(error):
                raise
            return self._one_by_one(block, error)
        self.measured += len(block.copies)
        return tables, {}

    def _one_by_one(self, block: Block, error: Exception) -> tuple[TableRows, dict[str, str]]:
        texts = block.alone()
        if len(texts) == 1:
            return self._outputs_alone(block, error)
        tables = TableRows()
        failed: dict[str, str] = {}
        for text in texts:
            rows, reasons = self(text)
            failed |= reasons
            tables.extend(rows)
        return tables, failed

    def _outputs_alone(self, text: Block, error: Exception) -> tuple[TableRows, dict[str, str]]:
        """The model's outputs for a text that cannot be tested, if it can be read at all."""
        self.errors.append(error)
        if not self.measured and len(self.errors) >= PATIENCE:
            raise self.errors[0]
        examples = [self.examples[place] for place in text.places]
        failed = dict.fromkeys(examples, reason_of(error))
        try:
            return self.outputs(text), failed
        except Exception as other:
            if is_of_the_run(other):
                raise
            return TableRows(), failed


def failed_scores(scores: Sequence[Mapping[str, Sequence[Any]]], failed: Mapping[str, str]) -> Columns:
    """Rows of the table "scores" for examples that could not be measured: every number undefined.

    Args:
        scores: the columns in `KEYS` of the others' numbers.
        failed: example -> reason.
    """
    keys: dict[tuple[Any, ...], None] = {}
    for part in scores:
        columns = [part[name] for name in KEYS]
        keys |= dict.fromkeys(zip(*columns, strict=True))
    rows = Columns("scores")
    for example, reason in failed.items():
        for key in keys:
            of_key = dict(zip(KEYS, key, strict=True))
            rows.append({**of_key, "example": example, "slot": 0, "value": math.nan, "reason": reason})
    return rows


def failure_note(failed: Mapping[str, str], n_texts: int) -> str:
    """One sentence for all examples that could not be measured."""
    first, reason = next(iter(failed.items()))
    return f"{len(failed)} of {n_texts} texts could not be measured and are undefined, the first is {first!r}: {reason}"


class UndefinedTextWarning(UserWarning):
    """Some texts could not be measured."""


def warn_of(failed: Mapping[str, str], n_texts: int) -> None:
    """Warn once of the texts that could not be measured."""
    if failed:
        warnings.warn(failure_note(failed, n_texts), UndefinedTextWarning, stacklevel=4)
