"""What a paper printed for the rows of a recipe; the run of a recipe leaves it beside each of its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError
from attn_faithful.store import RunFolder

RECIPE = "recipe.json"  # in a run of a recipe: its claim, and what the paper printed


@dataclass(frozen=True)
class PaperNumbers:
    """The paper's numbers.

    Attributes:
        key: the axes whose labels name a row.
        metrics: of the columns.
        rows: name of a row -> its numbers, None where the paper prints none.
        band: metric -> how far ours may lie from the paper's.
    """

    key: Sequence[str]
    metrics: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]
    band: Mapping[str, float]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> PaperNumbers:
        return cls(**{entry.name: values[entry.name] for entry in fields(cls)})


@dataclass(frozen=True)
class Claim:
    """What a recipe is about.

    Attributes:
        claim: in words; it names the paper.
        expected: the paper's numbers; None where the recipe names none.
    """

    claim: str
    expected: PaperNumbers | None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Claim:
        """The claim of a recipe, or of what `write_recipe` wrote."""
        claim, expected = str(values["claim"]), values["expected"]
        if expected is None:
            return cls(claim, None)
        return cls(claim, PaperNumbers.from_json(expected))


def write_recipe(run: str | Path | RunFolder, recipe: Mapping[str, Any]) -> None:
    """Leave in a run of a recipe what is of the whole recipe: its ``claim`` and what the paper ``expected``."""
    values = {name: recipe[name] for name in ("claim", "expected")}
    text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    folder = run if isinstance(run, RunFolder) else RunFolder(run)
    folder.place(folder / RECIPE, lambda path: path.write_text(text, encoding="utf-8"))


def read_recipe(run: str | Path) -> Claim | None:
    """What `write_recipe` left there; None where it left nothing.

    Raises:
        InputError: the file is damaged.
    """
    path = Path(run) / RECIPE
    try:
        return Claim.from_json(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); remove it and run the recipe again to make it anew.") from error
