"""The result of an evaluation as a notebook reads it: data frames over a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from attn_faithful.reports.answer.answer import Answer, answer
from attn_faithful.reports.figures.display import Figures
from attn_faithful.reports.run import Run
from attn_faithful.reports.tables.by_test import tables_of_tests
from attn_faithful.reports.tables.flip_facts import tables_of_flips
from attn_faithful.reports.tables.headlines import Group, headline_table
from attn_faithful.reports.tables.table import Table
from attn_faithful.store import RunFolder

if TYPE_CHECKING:
    from attn_faithful.reports.report import Report


class Result:
    """What the tests found, read from a run folder.

    Args:
        path: of the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.folder = RunFolder(path)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def meta(self) -> dict[str, Any]:
        """How the numbers came about: settings, versions, seeds, facts of the data."""
        return self.folder.read_meta()

    def table(self, by_class: bool = False) -> Any:
        """A data frame with one row a metric and source: mean, std, low, high, n, n_undefined, reasons, direction.

        Args:
            by_class: also a row for each predicted class.
        """
        import pandas as pd

        summary = self.folder.read_summary()
        frame = pd.DataFrame(summary["tests"])
        facts = summary["metrics"]
        for name in ("direction", "meaning"):
            frame[name] = [facts.get(metric, {}).get(name) for metric in frame["metric"]]
        return frame if by_class else frame[frame["class"] == "all"].drop(columns="class").reset_index(drop=True)

    @property
    def examples(self) -> Any:
        """A data frame with one row an example and a column a metric and source, named "metric source", of several
        sites "metric source site"."""
        scores = self.folder.read_table("scores").to_pandas()
        names = scores["metric"] + " " + scores["source"]
        if scores["site"].nunique() > 1:
            names = names + " " + scores["site"]
        wide = scores.assign(name=names).pivot_table(
            index="example", columns="name", values="value", sort=False, dropna=False, observed=True
        )
        predictions = self.folder.read_table("predictions").to_pandas().set_index("example")
        return predictions.join(wide).reset_index()

    @property
    def tokens(self) -> Any:
        """A data frame with one row an example: its tokens, offsets, attention and every source of importance."""
        return self.folder.read_table("tokens").to_pandas()

    @property
    def variants(self) -> Any:
        """A data frame with one row an alternative attention."""
        return self.folder.read_table("variants").to_pandas()

    def tables(self) -> list[Any]:
        """All tables, those that the command line prints with ``--full``."""
        summary = self.folder.read_summary()
        found = tables_of_tests(summary["tests"], summary["metrics"], self.meta["label_names"])
        return [*found, *tables_of_flips(summary.get("facts", []))]

    @property
    def answer(self) -> Answer:
        """How well the model predicts, the verdict or why there is none, and what each test says; shows itself."""
        return answer(Run(self.path))

    def short_table(self) -> Table | None:
        """One row a test, its number beside chance; None where no test was run."""
        return headline_table([Group.of_run(Run(self.path))])

    @property
    def figures(self) -> Figures:
        """The papers' figures of this run: name -> png; a notebook shows them all."""
        return Figures([Run(self.path)])

    def report(self, output: str | Path | None = None) -> Report:
        """Write tables, figures and a page to browse; a notebook shows what was written.

        Args:
            output: where to; None for the folder "report" in the run folder.
        """
        from attn_faithful.reports.report import report

        return report([self.path], output)

    def __repr__(self) -> str:
        return f"Result({str(self.path)!r})\n{self.answer}"

    def _repr_html_(self) -> str:
        short = self.short_table()
        shown = "" if short is None else short.html()
        rest = Markup("<p>All numbers: <code>table()</code>; of each text: <code>examples</code>.</p>")
        return str(Markup("").join([self.answer.html(), shown, rest]))
