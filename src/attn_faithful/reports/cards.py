"""The cards of the page: each one question of one test, its number, and what the sentence on top says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from attn_faithful.reports.examples import SETS, counted, evaluation_of, first_source, noun_of
from attn_faithful.reports.histogram import histogram
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.runs import ALL, Run
from attn_faithful.reports.tables import number
from attn_faithful.reports.verdict import (
    AGAINST,
    DIFFERENT,
    FOR,
    SHARE_LINE,
    SHUFFLE_LINE,
    TAU_LINE,
    TWIN_LINE,
    Answer,
    answer,
    wilson,
)

LN2 = math.log(2)
NEVER = "never flips"
_EPS = 0.01  # of the adversarial test where its settings name none

Part = str | tuple[str, str]  # words, or (key of a card, figure that is linked to it)


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
        sentence: what it adds to the summary, words and linked figures in turn.
        answer: for the verdict.
    """

    key: str
    hue: str
    question: str
    value: str
    beside: str
    chart: Markup
    reading: str
    counts: str
    sentence: Sequence[Part] = ()
    answer: Answer | None = None


@dataclass(frozen=True)
class Missing:
    """A card that is left out, and why."""

    question: str
    why: str


class Scores:
    """The numbers of a run at one site.

    Args:
        run: the run.
        site: where in the model.
    """

    def __init__(self, run: Run, site: str | None) -> None:
        self.run, self.site, self.noun = run, site, noun_of(run, site)
        self._records = {
            (r["metric"], r["source"]): r for r in run.records if r["class"] == ALL and r["site"] == site
        }  # fmt: skip

    def record(self, metric: str, source: str = "attention") -> Mapping[str, Any] | None:
        """The summary's record; None where the metric was not computed."""
        return self._records.get((metric, source))

    def mean(self, metric: str, source: str = "attention") -> float:
        """Its mean, NaN where there is none."""
        record = self.record(metric, source)
        return math.nan if record is None or record["mean"] is None else float(record["mean"])

    def values(self, metric: str, source: str = "attention") -> np.ndarray:
        """Of every example."""
        return np.asarray(self.run.scores(metric, source, self.site), dtype=float)

    @property
    def named(self) -> Mapping[str, Mapping[str, Any]]:
        """The tests that ran -> what was set for them."""
        evaluation = evaluation_of(self.run)
        settings = evaluation.get("settings", {})
        return {test: settings.get(test, {}) for test in evaluation.get("tests", [])}

    @property
    def single(self) -> bool:
        """Whether there is one text, of which nothing is typical."""
        return len(self.run.examples) == 1


def cards(run: Run, site: str | None) -> tuple[list[Card], list[Missing]]:
    """The cards of a site, and those that are left out."""
    scores = Scores(run, site)
    found, missing = [], []
    for test, (question, make) in MAKERS.items():
        card = make(scores)
        if card is not None:
            found.append(card)
        elif test != "attefa":
            missing.append(Missing(question.format(noun=scores.noun), _why(scores, test)))
    return found, missing


def _why(scores: Scores, test: str) -> str:
    if test not in scores.named:
        return f"the test {test} was not run"
    return f"the test {test} gave no number at {scores.site}"


# the five cards


def _agreement(scores: Scores) -> Card | None:
    source = first_source(scores.run, scores.site)
    record = None if source is None else scores.record("attention_correlation", f"attention~{source}")
    if record is None or source is None:
        return None
    title = title_of(source)
    tau = scores.mean("attention_correlation", f"attention~{source}")
    reading = ["1: the same order, 0: no relation, -1: the reverse"]
    reading += [f"{what} {number(value, 2)}" for what, value in _yardsticks(scores, source)]
    sentence: list[Part] = []
    if record["n"]:
        others = [text for text in reading[1:] if " ~ " in text]
        after = f"; {others[0].replace(' ~ ', ' and ')}" if others else ""
        sentence = [f"Attention {_agrees(tau)} with {title} (", ("agree", f"tau {number(tau, 2)}"), f"{after})."]
    return Card(
        "agree", source, f"Does attention rank the {scores.noun}s as {title} does?", number(tau, 2), _interval(record),
        histogram(scores.values("attention_correlation", f"attention~{source}"), -1, 1, "Kendall's tau-b"),
        "; ".join(reading) + ".", _counts(record), sentence,
        answer("correlation", record["low"], record["high"], record["n"], TAU_LINE, "above"),
    )  # fmt: skip


def _agrees(tau: float) -> str:
    steps = ((-0.1, "disagrees"), (0.2, "hardly agrees"), (0.5, "agrees only weakly"), (0.7, "agrees in part"))
    return next((words for end, words in steps if tau < end), "agrees")


def _yardsticks(scores: Scores, source: str) -> Iterator[tuple[str, float]]:
    """What other pairs reach: the importances among themselves, attention with the others, chance."""
    pairs = [pair for pair in scores.run.scored("attention_correlation", scores.site) if pair.count("~") == 1]
    for a, b in (pair.split("~") for pair in pairs):
        value = scores.mean("attention_correlation", f"{a}~{b}")
        if math.isnan(value) or (a, b) == ("attention", source) or a == "uniform" or (a == "random" and b != source):
            continue
        if a == "random":
            yield "random attention", value
        elif a == "attention":
            yield f"attention with {title_of(b)}", value
        else:
            yield f"{title_of(a)} ~ {title_of(b)}", value


def _move(scores: Scores) -> Card | None:
    record = scores.record("adversarial_attention")
    if record is None:
        return None
    jsd, bound = scores.mean("adversarial_attention"), scores.mean("adversarial_upper")
    exact = bound == bound and math.isclose(bound, jsd, abs_tol=1e-9)
    kind = "exact" if exact else f"found; at most {number(bound, 2)}" if bound == bound else "the best found"
    share, n, top = _completely_different(scores)
    eps = scores.named.get("adversarial", {}).get("eps", _EPS)
    sentence: list[Part] = []
    if n and scores.single:
        sentence = ["Here ", ("move", "another attention" if share else "no completely different attention")]
        sentence.append(" gives the same answer." if not share else ", completely different, gives the same answer.")
    elif n:
        sentence = [
            "In " if exact else "In at least ", ("move", f"{100 * share:.0f}% of the texts"),
            " a completely different attention gives the same answer.",
        ]  # fmt: skip
    proof = scores.mean("attention_proof")
    if proof > 0 and not scores.single:
        sentence += [" In ", ("move", f"{100 * proof:.0f}%"), " no attention at all could change the decision."]
    reading = (
        f"0.693 means wholly different {scores.noun}s; p changes by {eps:g} at most. Completely different: "
        f"{100 * DIFFERENT:.0f}% of what the text allows, or more."
    )
    return Card(
        "move", "adversarial", "How far can attention move while the answer stays?", number(jsd, 2),
        " ".join(filter(None, (_interval(record), f"nats, {kind}"))),
        histogram(scores.values("adversarial_attention"), 0, LN2, "largest JSD, nats"), reading, _counts(record),
        sentence, _moves(share, top, n),
    )  # fmt: skip


def _completely_different(scores: Scores) -> tuple[float, int, float]:
    """Share of the texts in which such an attention is known, of how many, and the share that there can be at most."""
    lower, reach = scores.values("adversarial_attention"), scores.values("jsd_reachable")
    reach = np.where(np.isfinite(reach), reach, LN2)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = lower / reach
        most = scores.values("adversarial_upper") / reach
    known = np.isfinite(found)
    n = int(known.sum())
    if not n:
        return math.nan, 0, math.nan
    most = np.where(np.isfinite(most), most, 1.0)
    return float((found[known] >= DIFFERENT).mean()), n, float((most[known] >= DIFFERENT).mean())


def _moves(share: float, top: float, n: int) -> Answer | None:
    """Against where such texts are the most part even as far as is known; for where they are not even at most."""
    least, most = answer("adversarial", *wilson(share, n), n, SHARE_LINE, "below"), None
    if least is not None and least.says == FOR:
        most = answer("adversarial", *wilson(top, n), n, SHARE_LINE, "below")
        return most if most is not None and most.says == FOR else Answer("adversarial", "open")
    return least


def _shuffle(scores: Scores) -> Card | None:
    record = scores.record("attention_permutation")
    if record is None:
        return None
    change, certain, flips = (
        scores.mean(name) for name in ("attention_permutation", "permutation_certified", "permutation_flips")
    )
    values = scores.values("attention_permutation")
    top = 0.25 if not np.isfinite(values).any() or np.nanmax(values) <= 0.25 else 1.0
    reading = "0: it does not matter which of them has the weight"
    if certain == certain and not scores.single:
        reading += f"; in {100 * certain:.0f}% of the texts no permutation at all flips the decision"
    elif flips == flips:
        reading += f"; {100 * flips:.0f}% of the permutations flip the decision"
    sentence: list[Part] = []
    if record["n"]:
        typical = "" if scores.single else " in a typical shuffle"
        sentence = [
            f"Dealing its weights to other {scores.noun}s changes the probability by ", ("shuffle", _small(change)),
            f"{typical}.",
        ]  # fmt: skip
    return Card(
        "shuffle", "attention", f"How much does p change when the weights go to other {scores.noun}s?", _small(change),
        " ".join(filter(None, (_interval(record), "median TVD"))),
        histogram(values, 0, top, "median change of p"), reading + ".", _counts(record), sentence,
        answer("permutation", record["low"], record["high"], record["n"], SHUFFLE_LINE, "above"),
    )  # fmt: skip


def _removal(scores: Scores) -> Card | None:
    record = scores.record("decision_flip")
    if record is None:
        return None
    best = next((name for name in SETS if scores.record("decision_flip", name) is not None), None)
    fewest = np.full(0, math.nan) if best is None else scores.values("decision_flip", best)
    possible = "best possible" if best == SETS[0] else "the best found"
    beside = [_interval(record)]
    if best is not None:
        beside.append(f"{possible} {number(scores.mean('decision_flip', best), 2)}")
    chance = scores.mean("decision_flip", "random_ranking")
    reading = f"Share of the {scores.noun}s, by attention, that must go" + (
        f"; outline: {possible}" if best is not None and len(fewest[np.isfinite(fewest)]) > 1 else ""
    )
    reading += f"; in random order {number(chance, 2)}" if chance == chance else ""
    return Card(
        "remove", "attention", "How much must be removed until the decision flips?",
        number(scores.mean("decision_flip"), 2), "; ".join(filter(None, beside)),
        histogram(scores.values("decision_flip"), 0, 1, "fraction removed", beside=fewest, name=possible),
        reading + ".", _counts(record), _about_removal(scores, best), _orders_well(scores, best),
    )  # fmt: skip


def _about_removal(scores: Scores, best: str | None) -> list[Part]:
    sizes = scores.values("flip_size")
    both = np.isfinite(sizes)
    fewest = np.full_like(sizes, math.nan) if best is None else scores.values("flip_size", best)
    both &= np.isfinite(fewest) if best is not None else True
    if not both.any():
        never = scores.mean("flip_never") == 1
        return [f"Removing {scores.noun}s ", ("remove", "never"), " flips the decision."] if never else []
    typical = "" if scores.single else "a median of "
    found: list[Part] = [
        f"Removing the {scores.noun}s with most attention flips the decision after {typical}",
        ("remove", counted(float(np.median(sizes[both])), scores.noun)),
    ]
    if best is not None:
        found += ["; ", ("remove", f"{np.median(fewest[both]):g} would do")]
    return [*found, "."]


def _orders_well(scores: Scores, best: str | None) -> Answer | None:
    """Of the texts of which some part flips the decision: whether attention's order is as short as any."""
    if best is None:
        return None
    fraction, fewest = scores.values("decision_flip", best), scores.values("flip_size", best)
    part = fraction < 1
    n = int(part.sum())
    short = scores.values("flip_size")[part] <= fewest[part]  # False where the order never flips it
    return answer("flips", *wilson(float(short.mean()) if n else math.nan, n), n, SHARE_LINE, "above")


def _twins(scores: Scores) -> Card | None:
    twins = scores.run.summary.get("twins") or {}
    defined = {name: twin for name, twin in twins.items() if "attefa" in twin}
    if not defined or scores.site not in (None, "pool", scores.run.sites[-1] if scores.run.sites else scores.site):
        return None
    name, twin = next(iter(defined.items()))
    ratio, gave_up = twin["attefa"], bool(twin["collapsed"]["value"])
    tvd, jsd = twin["tvd"]["value"], twin["jsd"]["value"]
    record = {"n": ratio["n"], "n_undefined": ratio["n_undefined"], "low": ratio["low"], "high": ratio["high"]}
    value = number(ratio["value"], 2)
    sentence: list[Part]
    if ratio["value"] is None:
        sentence = []
    elif gave_up:
        sentence = [
            "A second model, trained to attend elsewhere, gave up predicting (AtteFa ", ("twins", value),
            " only says that this search found no other attention).",
        ]  # fmt: skip
    else:
        sentence = [
            "A second model, trained to attend elsewhere, changes the probability by ", ("twins", _small(tvd)),
            " with attention that lies ", ("twins", f"{number(jsd, 2)} nats"), " away.",
        ]  # fmt: skip
    reading = (
        f"TVD {number(tvd)} over JSD {number(jsd)} / ln 2. Near 0: other attention, same predictions (proof); high: "
        "this search found none"
    )
    reading += f". Twins: {', '.join(_twin(name, other) for name, other in defined.items())}."
    low = not gave_up and ratio["high"] is not None and ratio["high"] < TWIN_LINE
    return Card(
        "twins", "adversarial", "Can a second model attend elsewhere and predict the same?", value,
        " ".join(filter(None, (_interval(record), "AtteFa" + (", collapsed" if gave_up else "")))),
        histogram(scores.run.scores("jsd", name), 0, LN2, "JSD of its attention, nats"), reading, _counts(record),
        sentence, Answer("attefa", AGAINST) if low else None,
    )  # fmt: skip


def _twin(name: str, twin: Mapping[str, Any]) -> str:
    return f"{name} {number(twin['attefa']['value'], 2)}" + (" (collapsed)" if twin["collapsed"]["value"] else "")


# test -> its question while it has no card, and what makes the card
MAKERS: dict[str, tuple[str, Callable[[Scores], Card | None]]] = {
    "correlation": ("Does attention rank the {noun}s as gradients do?", _agreement),
    "adversarial": ("How far can attention move while the answer stays?", _move),
    "permutation": ("How much does p change when the weights go to other {noun}s?", _shuffle),
    "flips": ("How much must be removed until the decision flips?", _removal),
    "attefa": ("Can a second model attend elsewhere and predict the same?", _twins),
}


def _interval(record: Mapping[str, Any]) -> str:
    low, high = record["low"], record["high"]
    if record["n"] < 2 or low is None or high is None or low != low:
        return ""
    digits = 2 if round(low, 2) != round(high, 2) else 3
    return f"{number(low, digits)} to {number(high, digits)}"


def _counts(record: Mapping[str, Any]) -> str:
    """n and n_undefined, with reasons."""
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in record.get("reasons", {}).items())
    return f"n {record['n']:,}, undefined {record['n_undefined']:,}" + (f" ({reasons})" if reasons else "")


def _small(value: float | None) -> str:
    """Two digits, and not 0 for what is above it."""
    return "less than 0.01" if value is not None and 0 < value < 0.005 else number(value, 2)
