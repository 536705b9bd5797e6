"""The result of an evaluation in a notebook: the view of its run folder with data frames, answer and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful.records.scores import ALL, COLUMNS
from attn_faithful.reports.answer.answer import Answer, answer
from attn_faithful.reports.appendix.appendix import Appendix, appendix
from attn_faithful.reports.examples import Examples
from attn_faithful.reports.explained_texts import explained_texts
from attn_faithful.reports.figures.display import Figures
from attn_faithful.reports.groups import SeedRuns
from attn_faithful.reports.html.heatmap import Heatmap, heatmap
from attn_faithful.reports.report import Report, report
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.flip_facts import tables_of_flips
from attn_faithful.reports.tables.headlines import headline_table
from attn_faithful.reports.tables.learned_heads import learned_heads_table
from attn_faithful.reports.tables.randomisation import tables_of_randomisation
from attn_faithful.reports.tables.recommendation import recommendation_tables
from attn_faithful.reports.tables.table import Table, Tables
from attn_faithful.store import strict


class Result(Run):
    """What the tests found, read from a run folder.

    Args:
        path: of the folder.
    """

    def table(self, by_class: bool = False) -> Any:
        """A data frame with one row a metric and source: mean, std, low, high, n, n_undefined, reasons, direction.

        Args:
            by_class: also a row for each predicted class.
        """
        import pandas as pd

        frame = pd.DataFrame([strict(record.as_json()) for record in self.records], columns=COLUMNS)
        directions: list[str | None] = []
        meanings: list[str | None] = []
        for name in frame["metric"]:
            metric = self.metrics.get(name)
            directions.append(None if metric is None else metric.direction)
            meanings.append(None if metric is None else metric.meaning)
        frame["direction"] = directions
        frame["meaning"] = meanings
        if by_class:
            return frame
        over_all = frame[frame["class"] == ALL].drop(columns="class")
        return over_all.reset_index(drop=True)

    @property
    def examples(self) -> Any:
        """A data frame with one row an example and a column a metric and source, named "metric source", of several
        sites "metric source site"."""
        scores = self.read("scores").to_pandas()
        names = scores["metric"] + " " + scores["source"]
        if scores["site"].nunique() > 1:
            names = names + " " + scores["site"]
        wide = scores.assign(name=names).pivot_table(
            index="example", columns="name", values="value", sort=False, dropna=False, observed=True
        )
        predictions = self.read("predictions").to_pandas().set_index("example")
        return predictions.join(wide).reset_index()

    @property
    def tokens(self) -> Any:
        """A data frame with one row an example: its tokens, offsets, attention and every source of importance."""
        return self.read("tokens").to_pandas()

    @property
    def variants(self) -> Any:
        """A data frame with one row an alternative attention."""
        return self.read("variants").to_pandas()

    def text(self, i: int) -> Heatmap:
        """The heat map of one text: attention, what serves as well, importance, the smallest set that decides.

        Args:
            i: its place in the data.
        """
        return heatmap(Examples(self), range(len(self.ids))[i])

    def tables(self) -> Tables:
        """All tables, those that the command line prints with ``--full``; they show themselves."""
        tables = Tables(tables_of_tests(self.records, self.metrics, self.label_names))
        tables += tables_of_flips(self.summary.facts)
        tables += tables_of_randomisation(self.records)
        tables += recommendation_tables([self])
        learned = learned_heads_table([SeedRuns(self.axes, [self])])
        if learned is not None:
            tables.append(learned)
        return tables

    @property
    def answer(self) -> Answer:
        """How well the model predicts, the verdict or why there is none, and what each test says; shows itself."""
        return answer(self)

    def short_table(self) -> Table | None:
        """One row a test, its number beside chance; None where no test was run."""
        return headline_table([SeedRuns(self.axes, [self])])

    @property
    def figures(self) -> Figures:
        """The papers' figures of this run: name -> png; a notebook shows them all."""
        return Figures([self])

    def to_captum(self, source: str = "attention") -> list[Any]:
        """Records for ``captum.attr.visualization.visualize_text``, one a text, see `_exports.to_captum`.

        Args:
            source: "attention", or a source of importance that the run computed.

        Raises:
            InputError: the run has no such source, or judges several labels of a text.
        """
        from attn_faithful._exports import to_captum

        return to_captum(explained_texts(self, source), self.label_names)

    def to_inseq(self, source: str = "attention") -> Any:
        """A ``FeatureAttributionOutput`` of inseq, whose target is the predicted class, see `to_captum`."""
        from attn_faithful._exports import to_inseq

        return to_inseq(explained_texts(self, source), self.label_names, source, self.title)

    def to_shap(self, source: str = "attention") -> Any:
        """A ``shap.Explanation`` whose features are the words of the texts, see `to_captum`."""
        from attn_faithful._exports import to_shap

        return to_shap(explained_texts(self, source))

    def report(self, output: str | Path | None = None) -> Report:
        """Write tables, figures and a page to browse; a notebook shows what was written.

        Args:
            output: where to; None for the folder "report" in the run folder.
        """
        return report([self.path], output)

    def appendix(self) -> Appendix:
        """The method appendix for a paper: tests, definitions, settings, numbers and works cited; shows itself."""
        return appendix([self])

    def __repr__(self) -> str:
        return f"Result({str(self.path)!r})\n{self.answer}"

    def _repr_html_(self) -> str:
        parts = [self.answer.html()]
        short = self.short_table()
        if short is not None:
            parts.append(short.html())
        parts.append(Markup("<p>All numbers: <code>table()</code>; of each text: <code>examples</code>.</p>"))
        return str(Markup("").join(parts))
