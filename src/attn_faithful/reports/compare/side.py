"""One of two models that are compared: the model of a run, or a twin of it, with what it says of every text."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.reports.examples import Examples, Kind
from attn_faithful.reports.run import ATTENTION, Run

FIRST, SECOND = "A", "B"


class Side:
    """One of the two models.

    Args:
        run: that it was tested in.
        letter: "A" or "B", by which tables and pages call it.
        twin: of the run, by its name in the summary; None for the run's own model.

    Attributes:
        name: in words; `compared.Compared` sets it to what tells both apart.
        examples: the texts, at the site nearest to the output that was tested.
    """

    def __init__(self, run: Run, letter: str, twin: str | None = None) -> None:
        self.run, self.letter, self.twin = run, letter, twin
        self.name = run.title
        self.examples = Examples(run)
        self.kinds = {kind.key: kind for kind in self.examples.kinds}

    @property
    def site(self) -> str | None:
        """Where in the model the attention is."""
        return self.examples.site

    @property
    def ids(self) -> list[str]:
        """Of the texts."""
        return self.run.ids

    @property
    def multi_label(self) -> bool:
        """Whether a text has several labels."""
        return any(isinstance(label, list) for label in self.run.labels[:1])

    # what it predicts

    @cached_property
    def probabilities(self) -> np.ndarray:
        """(B, C), NaN for a text that it could not read."""
        if self.twin is None:
            return self.run.probabilities
        by_text = self._of_twin
        undefined = np.full(len(self.run.label_names), np.nan)
        rows = [by_text.get(example, undefined) for example in self.ids]
        return np.stack(rows) if rows else np.zeros((0, len(undefined)))

    @cached_property
    def _of_twin(self) -> dict[str, np.ndarray]:
        """Text -> the twin's probabilities (C,)."""
        table = self.run.read("variants", ["example", "site", "test", "variant", "probabilities"])
        found: dict[str, np.ndarray] = {}
        for row in table.to_pylist():
            of_this = row["test"] == "attefa" and row["variant"] == self.twin and row["site"] == self.site
            if of_this and row.get("probabilities") is not None:
                found[str(row["example"])] = np.asarray(row["probabilities"], dtype=float)
        if not found:
            raise InputError(
                f"Expected the probabilities of the twin {self.twin!r}, but {self.run.path} holds none at {self.site}; "
                "run the command that made it again."
            )
        return found

    # what it attends to

    @property
    def attention(self) -> Kind | None:
        """The line of its attention; None where no text has one."""
        return self.kinds.get(ATTENTION if self.twin is None else f"twin {self.twin}")

    @property
    def importances(self) -> list[Kind]:
        """The lines of importance beside attention; a twin has none."""
        if self.twin is not None:
            return []
        weighing = [kind for kind in self.examples.kinds if not kind.outlined and not kind.of_variants]
        return [kind for kind in weighing if kind.key != ATTENTION]

    def weights(self, kind: Kind | None, i: int) -> np.ndarray | None:
        """The numbers of a line, one an item of a text; None where this text has none."""
        if kind is None:
            return None
        return self.examples.values(kind, i)

    def spans(self, i: int) -> np.ndarray:
        """Start and end of each item in the text (items, 2); where none are stored, as if one blank lay between two."""
        stored = self.examples.spans(i)
        if stored is not None:
            return stored
        lengths = np.array([len(word) for word in self.examples.words(i)], dtype=int)
        ends = np.cumsum(lengths + 1) - 1
        return np.stack([ends - lengths, ends], axis=1)
