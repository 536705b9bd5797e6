"""What `attn_faithful.compare` gives back: two models over the same texts, as tables, data frames and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from attn_faithful._checks import InputError
from attn_faithful.reports.characters import visible, writable
from attn_faithful.reports.compare.compared import Compared
from attn_faithful.reports.compare.differences import of_attention
from attn_faithful.reports.compare.side import FIRST, SECOND, Side
from attn_faithful.reports.compare.tables import (
    difference_frame,
    difference_table,
    distance_table,
    settings_table,
    values_frame,
)
from attn_faithful.reports.html.compare import comparison_page
from attn_faithful.reports.html.shell import write_html
from attn_faithful.reports.numbers import counted
from attn_faithful.reports.run import Run
from attn_faithful.reports.run_search import find
from attn_faithful.reports.tables.table import Table


def compare(
    first: Any, second: Any = None, *, twin: str | None = None, names: Sequence[str] | None = None
) -> Comparison:
    """Two models over the same texts, as ``attn-faithful compare`` shows them.

    Args:
        first: a finished run: its folder, or what :func:`attn_faithful.evaluate_attention` gives.
        second: another one; None compares the model of `first` with a twin of it.
        twin: which of several twins, by its name in the summary, such as "attefa-10"; None for the first.
        names: of both models, such as ("softmax", "sparsemax"); None for what tells their runs apart.

    Returns:
        the comparison: ``tables()``, ``table()``, ``examples``, ``save(path)``; it shows itself in a notebook.

    Raises:
        InputError: no finished run, a run without what is compared, runs over different texts or classes, an unknown
            twin, other than two names.

    Example:
        >>> import tempfile
        >>> from attn_faithful.api import evaluate_attention
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
        >>> texts = ["good film", "a bad film", "not good , not bad"]
        >>> tokenizer = train_tokenizer(texts)
        >>> runs = []
        >>> for projection in ("softmax", "sparsemax"):
        ...     settings = AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp", projection=projection)
        ...     model = AttentionClassifier(settings)
        ...     runs.append(evaluate_attention(model, tokenizer, texts, ["permutation"], output=tempfile.mkdtemp()))
        >>> found = compare(*runs, names=("softmax", "sparsemax"))
        >>> found.title, len(found), list(found.examples.columns[:3])
        ('softmax against sparsemax', 3, ['example', 'attention_jsd', 'attention_tvd'])
    """
    base = _run(first)
    if names is not None and (isinstance(names, str) or len(names) != 2 or not all(names)):
        raise InputError(
            f"Expected the names of two models, but got {names!r}; give two, such as softmax and sparsemax."
        )
    if second is None:
        return Comparison(Side(base, FIRST), Side(base, SECOND, _twin(base, twin)), names)
    if twin is not None:
        raise InputError("Expected a twin of one run, but two runs were given; leave out the twin or the second run.")
    return Comparison(Side(base, FIRST), Side(_run(second), SECOND), names)


def _run(given: Any) -> Run:
    """One finished run, and that it holds what is compared."""
    if isinstance(given, Run):
        return given
    if not isinstance(given, str | Path):
        raise InputError(
            f"Expected a run folder or the result of evaluate_attention, but got {type(given).__name__}; pass its path."
        )
    runs = find([given]).runs
    if len(runs) > 1:
        names = ", ".join(str(run.path) for run in runs[:6])
        raise InputError(f"Expected one run, but {given} holds {len(runs)}: {names}; name one of them.")
    return runs[0]


def _twin(base: Run, name: str | None) -> str:
    twins = list(base.twins)
    if not twins:
        raise InputError(f"{base.path} has no twin to compare its model with; give a second run.")
    if name is None:
        return twins[0]
    if name not in twins:
        raise InputError(f"Unknown twin {name!r}; {base.path} has {', '.join(twins)}.")
    return name


class Comparison(Compared):
    """Two models over the same texts: tables, data frames and a page; it shows itself in a notebook and a terminal."""

    # as tables

    def tables(self, full: bool = True) -> list[Table]:
        """What differs in settings, how far the models are apart, and the numbers of both.

        Args:
            full: every number; else those of predictions and attention, without other sources of importance.
        """
        numbers = self.differences if full else of_attention(self.differences)
        compared = difference_table(numbers, corrected=self.n_tests)
        tables = [settings_table(self.settings), distance_table(self.distances), compared]
        return [table for table in tables if table is not None]

    def table(self) -> Any:
        """A data frame with one row a number: metric, source, both means, difference, interval, effect, p, n."""
        return difference_frame(self.differences)

    @property
    def examples(self) -> Any:
        """A data frame with one row a text: the distances, and each number of both models."""
        ids = [self.first.ids[place] for place in self.matched.first]
        return values_frame(self.differences, self.distances, ids)

    # as a page

    def html(self) -> str:
        """The page: both models, their differences, and every text with both attentions aligned."""
        return comparison_page(self)

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file; its folder is made, nothing half-written stays behind."""
        target = Path(path)
        if target.is_dir():
            raise InputError(f"Expected the name of a file, but {target} is a folder; give {target / 'compare.html'}.")
        return write_html(self.html(), target)

    # shown

    @property
    def lines(self) -> list[str]:
        """What was compared and the comparison in words, a line each."""
        return [self.about, *self.notes, *self.sentences]

    def __str__(self) -> str:
        return "\n".join(map(visible, self.lines))

    def __repr__(self) -> str:
        return f"Comparison({self.title!r}, {counted(len(self), 'text')})"

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        for line in self.lines:
            yield Text(writable(line, options.encoding))
        for table in self.tables(full=False):
            yield Text("")
            yield table.rich()

    def _repr_html_(self) -> str:
        parts = [Markup("<p>{}</p>").format(line) for line in self.lines]
        parts += [table.html() for table in self.tables(full=False)]
        parts.append(Markup("<p>Every text with both attentions: <code>save(path)</code> writes the page.</p>"))
        return str(Markup("").join(parts))
