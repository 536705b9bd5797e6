"""What a recipe gives back in a notebook: its records, and the answers, tables and figures of its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful.reports.answer.answer import Answer, answers
from attn_faithful.reports.figures.display import Figures
from attn_faithful.reports.groups import Group
from attn_faithful.reports.report import Report, report
from attn_faithful.reports.result import Result
from attn_faithful.reports.roar import roar_records
from attn_faithful.reports.tables.catalogue import recipe_tables, short_tables
from attn_faithful.reports.tables.table import Tables

FEW = 4  # models, up to which each has its whole answer at the prompt; of more each has one line
_FOLDED = Markup(
    '<details style="margin:.3em 0"><summary><b>{}</b></summary><div style="margin-left:1em">{}</div></details>'
)


class RecipeResult(list[dict[str, Any]]):
    """The records of a recipe, one a group of cells that differ in nothing but the seed; a notebook shows its answers
    and tables.

    Args:
        groups: runs over seeds, one group a model.
        recipe: as it is on disk, with the paper's numbers where it has some.

    Attributes:
        groups: as given.
    """

    def __init__(self, groups: Sequence[Group], recipe: Mapping[str, Any]) -> None:
        super().__init__({**group.as_record(), "roar": roar_records(group)} for group in groups)
        self.groups = list(groups)
        self._recipe = recipe

    @cached_property
    def results(self) -> list[Result]:
        """One a run folder: a model and a seed."""
        runs = chain.from_iterable(group.runs for group in self.groups)
        return [Result(run.path) for run in runs]

    @cached_property
    def answers(self) -> list[Answer]:
        """One a model, over its seeds."""
        return answers(self.groups)

    def short_tables(self) -> Tables:
        """How well models and twins predict, one row a test, and the paper's numbers beside ours."""
        return Tables(short_tables(self.groups, self._recipe))

    def tables(self) -> Tables:
        """All tables, those that the command line prints with ``--full``."""
        return Tables(recipe_tables(self.groups, self._recipe))

    @property
    def figures(self) -> Figures:
        """The papers' figures, all models in each: name -> png; a notebook shows them all."""
        return Figures(self.results)

    def report(self, output: str | Path | None = None) -> Report:
        """Write tables, figures and a page a run.

        Args:
            output: where to; None for the folder "report" in what the run folders have in common.
        """
        return report([result.path for result in self.results], output)

    def _repr_html_(self) -> str:
        parts = self._html_of_answers()
        parts += [table.html() for table in self.short_tables()]
        parts.append(
            Markup("<p>All tables: <code>tables()</code>; of each run: <code>results</code>; <code>figures</code>.</p>")
        )
        return str(Markup("").join(parts))

    def _html_of_answers(self) -> list[Markup]:
        """The answer of one model; of several each below its line, to be opened."""
        if len(self.answers) == 1:
            return [self.answers[0].html()]
        return [_FOLDED.format(each.short, each.html()) for each in self.answers]

    def __repr__(self) -> str:
        every = [str(each) if len(self.groups) <= FEW else each.short for each in self.answers]
        return "\n\n".join([*every, repr(self.short_tables())])
