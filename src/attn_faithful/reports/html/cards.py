"""The cards of the page: the question of a test, its number with the count of texts, and how to read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from attn_faithful.records.twins import TwinRecord
from attn_faithful.reports.answer.findings import LN2, eps_of
from attn_faithful.reports.answer.head_statements import searched
from attn_faithful.reports.answer.verdict import constant_base
from attn_faithful.reports.html.histogram import histogram
from attn_faithful.reports.numbers import counted, number, percent, small
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.randomisation import IGNORES, TAU, ignoring
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import SETS, Scores, counts_of, interval_of, same_texts


@dataclass(frozen=True)
class Card:
    """One question and its answer.

    Attributes:
        key: of its anchor.
        hue: entry of the palette.
        question: what the test asks.
        value, beside: the number, and its interval.
        chart: the distribution; empty where there are too few values.
        reading: how to read it.
        counts: n and how many are undefined, with the reasons.
    """

    key: str
    hue: str
    question: str
    value: str
    beside: str
    chart: Markup
    reading: str
    counts: str


def cards(run: Run, site: str | None) -> tuple[list[Card], dict[str, list[str]]]:
    """The cards of a site; and reason -> tests without a card."""
    scores = Scores([run], site)
    made: list[Card] = []
    missing: dict[str, list[str]] = {}
    for test, makers in MAKERS.items():
        of_test = [card for card in (make(scores) for make in makers) if card is not None]
        made += of_test
        if not of_test and test not in _UNASKED:
            reason = f"no number at {site}" if test in scores.tests else "not run"
            missing.setdefault(reason, []).append(test)
    return made, missing


def _joined(*parts: str, by: str = ", ") -> str:
    return by.join(part for part in parts if part)


def _beside(first: np.ndarray, second: np.ndarray, name: str) -> str:
    """A number beside another, both over the same texts, with both means and their n where these are not all texts of
    the first. Empty where they share none.

    Example: "random attention 0.01", "random attention 0.01 against 0.20 in the same 12 texts".
    """
    both = same_texts(first, second)
    if not both.n:
        return ""
    text = f"{name} {number(both.second, 2)}"
    if both.n < np.isfinite(first).sum():
        text += f" against {number(both.first, 2)} in the same {counted(both.n, 'text')}"
    return text


def _agreement(scores: Scores) -> Card | None:
    source = scores.run.first_source(scores.site)
    if source is None:
        return None
    pair = f"attention~{source}"
    record = scores.record("attention_correlation", pair)
    if record is None:
        return None
    values = scores.values("attention_correlation", pair)
    reading = _joined("1: the same order, 0: no relation", *_yardsticks(scores, source, values), by="; ")
    return Card(
        "agree",
        source,
        f"Does attention rank the {scores.noun}s as {title_of(source)} does?",
        number(record.mean, 2),
        interval_of(record),
        histogram(values, _lowest_tau(values), 1, "Kendall's tau-b"),
        reading + ".",
        counts_of(record),
    )


def _lowest_tau(values: np.ndarray) -> float:
    """Where the axis begins: low enough for every value."""
    least = np.nanmin(values, initial=0.0)
    for edge in (-0.2, -0.5):
        if least >= edge:
            return edge
    return -1.0


def _yardsticks(scores: Scores, source: str, values: np.ndarray) -> Iterator[str]:
    """The agreement of other pairs on the same texts: of attention and others, of importances, of random attention."""
    for pair in scores.run.sources("attention_correlation", scores.site):
        if pair.count("~") != 1:
            continue
        first, second = pair.split("~")
        is_own_number = first == "attention" and second == source
        is_other_control = first == "uniform" or (first == "random" and second != source)
        if is_own_number or is_other_control:
            continue
        name = f"{title_of(first)} ~ {title_of(second)}"
        if first == "random":
            name = "random attention"
        if first == "attention":
            name = f"with {title_of(second)}"
        yield _beside(values, scores.values("attention_correlation", pair), name)


def _move(scores: Scores) -> Card | None:
    record = scores.record("adversarial_attention")
    if record is None:
        return None
    reading = f"{_most_of(scores)}, for p that changes by {eps_of(scores):g} at most"
    distance = scores.record("flip_distance")
    if distance is not None and distance.n:
        reading += (
            f"; the nearest attention that changes the decision lies {number(distance.mean)} nats away "
            f"(n {distance.n:,})"
        )
    certainty = _certainty(record.mean, scores.mean("adversarial_upper"))
    return Card(
        "move",
        "adversarial",
        "How far can attention move while the answer stays?",
        number(record.mean, 2),
        _joined(interval_of(record), certainty),
        histogram(scores.values("adversarial_attention"), 0, LN2, "largest JSD, nats"),
        reading + ".",
        counts_of(record),
    )


def _heads(scores: Scores) -> Card | None:
    """Of models whose answers are not exact: how much of the attention of one head alone changes nothing."""
    record = scores.record("head_certified")
    if record is None or not searched(scores):
        return None
    flipped, unknown = scores.mean("head_flipped"), scores.mean("head_open")
    proved, found = scores.values("certified_radius"), scores.values("attack_radius")
    chart = histogram(proved, 0, 1, "share of other attention mixed in", beside=found, name="found")
    headline, meaning = record, "of the heads could not (proved)"
    reading = f"Of {percent(flipped)} another attention does; of {percent(unknown)} it is not known."
    if not record.n:
        headline, meaning = scores.record("head_flipped") or record, "of the heads could (found)"
        reading = f"Of the other {percent(unknown)} it is not known: nothing is proved here."
    if chart:
        reading += (
            " All heads together: how much of any other attention can be mixed in without a change (proved); outline: "
            "how much was found to be enough, 1 where none was."
        )
    return Card(
        "heads",
        "adversarial",
        "Could other attention of one head change the decision?",
        percent(headline.mean) if headline.n else "-",
        _joined(interval_of(headline), meaning),
        chart,
        reading,
        counts_of(record),
    )


def _most_of(scores: Scores) -> str:
    """The largest JSD that there can be: less than ln 2 where special tokens keep some of the attention."""
    reach = scores.values("jsd_reachable")
    known = reach[np.isfinite(reach)]
    layers = bool(scores.run.info.attention)  # of a transformers model, whose special tokens keep their weight
    if layers and len(known) and known.mean() < LN2 - 0.01:
        return f"{number(known.mean(), 2)} (mean) is the most that the {scores.noun}s' share of the attention can move"
    return f"0.693 means wholly different {scores.noun}s"


def _certainty(jsd: float, bound: float) -> str:
    """Whether the largest JSD is exact, or lies below a bound, or is the best that a search found."""
    if math.isnan(bound):
        return "the best found"
    if math.isclose(bound, jsd, abs_tol=1e-9):
        return "exact"
    return f"found; at most {number(bound, 2)}"


def _shuffle(scores: Scores) -> Card | None:
    record = scores.record("attention_permutation")
    if record is None:
        return None
    values = scores.values("attention_permutation")
    top = 0.25 if np.nanmax(values, initial=0.0) <= 0.25 else 1.0
    reading = f"0: it does not matter which {scores.noun} has which weight"
    certain = scores.record("permutation_certified")
    flips = scores.record("permutation_flips")
    if certain is not None and certain.n and not scores.single:
        reading += f"; in {percent(certain.mean)} of {scores.over(certain.n)} no permutation flips the decision"
    elif flips is not None and flips.n:
        reading += f"; {percent(flips.mean)} of the permutations flip the decision ({scores.over(flips.n)})"
    return Card(
        "shuffle",
        "attention",
        f"What if the weights go to other {scores.noun}s?",
        small(record.mean),
        _joined(interval_of(record), "median TVD"),
        histogram(values, 0, top, "median change of p"),
        reading + ".",
        counts_of(record),
    )


def _removal(scores: Scores) -> Card | None:
    record = scores.record("decision_flip")
    if record is None:
        return None
    values = scores.values("decision_flip")
    fewest = np.zeros(0)
    best, beside = "", ""
    if scores.best_set is not None:
        fewest = scores.values("decision_flip", scores.best_set)
        best = "best possible" if scores.best_set == SETS[0] else "best found"
        beside = _beside(values, fewest, best)
    outline = f"outline: {best}" if np.isfinite(fewest).sum() > 1 else ""
    chance = _beside(values, scores.values("decision_flip", "random_ranking"), "in random order")
    reading = _joined(f"Share of the {scores.noun}s, most attention first", outline, chance, by="; ")
    return Card(
        "remove",
        "attention",
        "How much must go until the decision flips?",
        number(record.mean, 2),
        _joined(interval_of(record), beside, by="; "),
        histogram(values, 0, 1, "fraction removed", beside=fewest, name=best),
        reading + ".",
        counts_of(record),
    )


def _weights(scores: Scores) -> Card | None:
    record = scores.record(TAU)
    if record is None:
        return None
    ignorant = ignoring(scores.run.records, scores.site)
    values = scores.values(TAU)
    others = []
    for source in scores.run.sources(TAU, scores.site):
        if source != "attention":
            mark = f" ({IGNORES})" if source in ignorant else ""
            others.append(_beside(values, scores.values(TAU, source), title_of(source)) + mark)
    return Card(
        "weights",
        "attention",
        f"Does the order of the {scores.noun}s change when all weights are drawn anew?",
        number(record.mean, 2),
        interval_of(record),
        histogram(values, _lowest_tau(values), 1, "tau-b of attention with itself"),
        _joined("1: the same order as before, which says nothing of the model", *others, by="; ") + ".",
        counts_of(record),
    )


def _twins(scores: Scores) -> Card | None:
    if not scores.twins:
        return None
    first, twin = next(iter(scores.twins.items()))
    listed = []
    for name, each in scores.twins.items():
        listed.append(f"{name} {number(each.attefa.value, 2)}{_mark(each)}")
    reading = (
        f"TVD {number(twin.tvd.value)} over JSD {number(twin.jsd.value)} / ln 2. Near 0: other attention, "
        f"same predictions; high: none was found. Twins: {', '.join(listed)}."
    )
    return Card(
        "twins",
        "adversarial",
        "Can a second model attend elsewhere and predict the same?",
        number(twin.attefa.value, 2),
        _joined(interval_of(twin.attefa), f"AtteFa{_mark(twin)}"),
        histogram(scores.values("jsd", first), 0, LN2, "JSD of its attention, nats"),
        reading,
        counts_of(twin.attefa),
    )


def _mark(twin: TwinRecord) -> str:
    """Why a twin does not count for the verdict."""
    if constant_base(twin):
        return " (base constant)"
    return " (collapsed)" if twin.collapsed else ""


_UNASKED = ("attefa", "randomisation")  # tests that run where they are asked for by name

MAKERS: dict[str, tuple[Callable[[Scores], Card | None], ...]] = {
    "correlation": (_agreement,),
    "adversarial": (_heads, _move),
    "permutation": (_shuffle,),
    "flips": (_removal,),
    "randomisation": (_weights,),
    "attefa": (_twins,),
}
