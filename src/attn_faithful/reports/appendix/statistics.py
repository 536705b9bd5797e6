"""The section of an appendix about statistics: means, intervals, tests and corrections, those that were used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attn_faithful.records.facts import PairedRankings
from attn_faithful.reports.appendix.document import Cited, Line, Paragraph, Section
from attn_faithful.reports.run import Run

_RESAMPLES = "1,000"  # the default of every interval in `functional`
_EXACT = 50  # `functional.summaries.EXACT_PAIRS`


def statistics_used(runs: Sequence[Run]) -> Section:
    """How the numbers of the runs were summarized and compared."""
    return Section("Statistics", tuple(Paragraph(line) for line in _lines(runs)))


def _lines(runs: Sequence[Run]) -> Iterator[Line]:
    yield (
        "Each number is a mean over the texts in which it is defined, with the standard deviation of the population "
        "(SD). n counts these texts; the others are counted as undefined, with their reasons, and taken for no value. "
        f"Intervals hold 95%: percentile bootstrap of the mean over texts, {_RESAMPLES} resamples ",
        Cited(("efron-tibshirani-1993",)),
        "; of the accuracy Wilson's interval ",
        Cited(("wilson-1927",)),
        " (of texts with several labels the bootstrap). They speak of other texts of the same kind, not of other "
        "seeds.",
    )
    if any(run.twins for run in runs):
        yield (
            "AtteFa is a ratio of means; its interval is the bootstrap of that ratio, with TVD and JSD of the same "
            "resampled texts.",
        )
    if len({run.seed for run in runs}) > 1:
        yield ("Runs of several seeds are reported one by one.",)
    pairs = [len([fact for fact in run.summary.facts if isinstance(fact, PairedRankings)]) for run in runs]
    recommended = any(run.summary.recommendation for run in runs)
    if any(pairs) or recommended:
        yield tuple(_comparisons(pairs, recommended))
    else:
        yield ("No hypothesis was tested on these numbers, so that nothing had to be corrected for.",)


def _comparisons(pairs: Sequence[int], recommended: bool) -> Iterator[str | Cited]:
    yield "Two rankings of the same texts are compared by Wilcoxon's signed-rank test "
    yield Cited(("wilcoxon-1945",))
    yield ", two-sided, with Pratt's ranks of zeros "
    yield Cited(("pratt-1959",))
    yield f", exact up to {_EXACT} pairs that differ. p-values are corrected by Holm's method "
    yield Cited(("holm-1979",))
    compared = []
    counts = sorted({count for count in pairs if count})
    if counts:
        compared.append(f"over the {' or '.join(map(str, counts))} pairs of rankings in the test flips, of each run")
    if recommended:
        compared.append(
            "in the recommendation over all comparisons of a source's NAOPC with that of random rankings and of the "
            "first source"
        )
    yield f": {'; '.join(compared)}."
