"""The cards of the page: each one question of one test, its number, and what the sentence on top says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from attn_faithful.functional.summaries import wilson
from attn_faithful.reports.examples import SETS, counted, first_source
from attn_faithful.reports.histogram import histogram
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.runs import Run
from attn_faithful.reports.scores import Scores, counts_of, interval_of, percent, small
from attn_faithful.reports.tables import number
from attn_faithful.reports.verdict import (
    AGAINST,
    DIFFERENT,
    FOR,
    OPEN,
    SHARE_LINE,
    SHUFFLE_LINE,
    TAU_LINE,
    TWIN_LINE,
    Answer,
    answer,
)

LN2 = math.log(2)
ORDER = ("move", "agree", "shuffle", "remove", "twins")  # of the sentences
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


def cards(run: Run, site: str | None) -> tuple[list[Card], dict[str, list[str]]]:
    """The cards of a site; and why -> the tests of those that are left out."""
    scores = Scores(run, site)
    found: list[Card] = []
    missing: dict[str, list[str]] = {}
    for test, make in MAKERS.items():
        card = make(scores)
        if card is not None:
            found.append(card)
        elif test != "attefa":
            why = f"no number at {site}" if test in scores.tests else "not run"
            missing.setdefault(why, []).append(test)
    return found, missing


def lead(found: Sequence[Card]) -> list[Sequence[Part]]:
    """The sentences of the cards, in the order of reading."""
    return [card.sentence for card in sorted(found, key=lambda card: ORDER.index(card.key)) if card.sentence]


def plain(sentence: Sequence[Part]) -> str:
    """A sentence without its links.

    Example:
        >>> plain(["In ", ("move", "84% of the texts"), " it does."])
        'In 84% of the texts it does.'
    """
    return "".join(part if isinstance(part, str) else part[1] for part in sentence)


def _agreement(scores: Scores) -> Card | None:
    source = first_source(scores.run, scores.site)
    record = None if source is None else scores.record("attention_correlation", f"attention~{source}")
    if record is None or source is None:
        return None
    title, tau = title_of(source), scores.mean("attention_correlation", f"attention~{source}")
    values = scores.values("attention_correlation", f"attention~{source}")
    others = [f"{what} {number(value, 2)}" for what, value in _yardsticks(scores, source)]
    sentence: list[Part] = []
    if record["n"]:
        peers = next((f"; {text.replace(' ~ ', ' and ')}" for text in others if " ~ " in text), "")
        sentence = [f"Attention {_agrees(tau)} with {title} (", ("agree", f"tau {number(tau, 2)}"), f"{peers})."]
    least = float(np.nanmin(values)) if np.isfinite(values).any() else 0.0
    low = next(edge for edge in (-0.2, -0.5, -1.0) if least >= edge or edge == -1)
    return Card(
        "agree", source, f"Does attention rank the {scores.noun}s as {title} does?", number(tau, 2),
        interval_of(record), histogram(values, low, 1, "Kendall's tau-b"),
        "; ".join(["1: the same order, 0: no relation", *others]) + ".", counts_of(record), sentence,
        answer("correlation", record["low"], record["high"], record["n"], TAU_LINE, "above"),
    )  # fmt: skip


def _agrees(tau: float) -> str:
    steps = ((-0.1, "disagrees"), (0.2, "hardly agrees"), (0.5, "agrees only weakly"), (0.7, "agrees in part"))
    return next((words for end, words in steps if tau < end), "agrees")


def _yardsticks(scores: Scores, source: str) -> Iterator[tuple[str, float]]:
    """What other pairs reach: attention with the others, the importances among themselves, chance."""
    pairs = [pair for pair in scores.run.scored("attention_correlation", scores.site) if pair.count("~") == 1]
    for a, b in (pair.split("~") for pair in pairs):
        value = scores.mean("attention_correlation", f"{a}~{b}")
        if math.isnan(value) or (a, b) == ("attention", source) or a == "uniform" or (a == "random" and b != source):
            continue
        if a == "random":
            yield "random attention", value
        elif a == "attention":
            yield f"with {title_of(b)}", value
        else:
            yield f"{title_of(a)} ~ {title_of(b)}", value


def _move(scores: Scores) -> Card | None:
    record = scores.record("adversarial_attention")
    if record is None:
        return None
    jsd, bound = scores.mean("adversarial_attention"), scores.mean("adversarial_upper")
    exact = bound == bound and math.isclose(bound, jsd, abs_tol=1e-9)
    kind = "exact" if exact else f"found; at most {number(bound, 2)}" if bound == bound else "the best found"
    share, most, n = _completely_different(scores)
    reading = f"0.693 means wholly different {scores.noun}s, for p that changes by {_eps(scores):g} at most"
    proof = scores.mean("attention_proof")
    if proof > 0 and not scores.single:
        reading += f"; in {percent(proof)} of the texts no attention at all changes the decision"
    return Card(
        "move", "adversarial", "How far can attention move while the answer stays?", number(jsd, 2),
        ", ".join(filter(None, (interval_of(record), kind))),
        histogram(scores.values("adversarial_attention"), 0, LN2, "largest JSD, nats"), reading + ".",
        counts_of(record), _about_moves(scores, share, n, exact), _says_of_moves(share, most, n),
    )  # fmt: skip


def _about_moves(scores: Scores, share: float, n: int, exact: bool) -> list[Part]:
    if not n:
        return []
    if not share and not exact:
        where = "" if scores.single else " in any text"
        return ["No completely different attention that gives the same answer was ", ("move", f"found{where}"), "."]
    if scores.single:
        which = "another attention, completely different," if share else "no completely different attention"
        return ["Here ", ("move", which), " gives the same answer."]
    least = "In " if exact else "In at least "
    return [
        least, ("move", f"{percent(share)} of the texts"), " a completely different attention gives the same answer."
    ]  # fmt: skip


def _eps(scores: Scores) -> float:
    return float(scores.tests.get("adversarial", {}).get("eps", _EPS))


def _completely_different(scores: Scores) -> tuple[float, float, int]:
    """Share of the texts in which such an attention is known, the share that there can be at most, and of how many."""
    lower, reach = scores.values("adversarial_attention"), scores.values("jsd_reachable")
    reach = np.where(np.isfinite(reach), reach, LN2)
    with np.errstate(invalid="ignore", divide="ignore"):
        found, most = lower / reach, scores.values("adversarial_upper") / reach
    known = np.isfinite(found)
    if not known.any():
        return math.nan, math.nan, 0
    most = np.where(np.isfinite(most), most, 1.0)
    return float((found[known] >= DIFFERENT).mean()), float((most[known] >= DIFFERENT).mean()), int(known.sum())


def _says_of_moves(share: float, most: float, n: int) -> Answer | None:
    """Against where such texts prevail as far as is known; for where they do not even at most."""
    known = answer("adversarial", *wilson(share, n), n, SHARE_LINE, "below")
    if known is None or known.says != FOR:
        return known
    bound = answer("adversarial", *wilson(most, n), n, SHARE_LINE, "below")
    return known if bound is not None and bound.says == FOR else Answer("adversarial", OPEN)


def _shuffle(scores: Scores) -> Card | None:
    record = scores.record("attention_permutation")
    if record is None:
        return None
    change, certain, flips = (
        scores.mean(name) for name in ("attention_permutation", "permutation_certified", "permutation_flips")
    )
    values = scores.values("attention_permutation")
    top = 0.25 if not np.isfinite(values).any() or np.nanmax(values) <= 0.25 else 1.0
    reading = f"0: it does not matter which {scores.noun} has which weight"
    if certain == certain and not scores.single:
        reading += f"; in {percent(certain)} of the texts no permutation flips the decision"
    elif flips == flips:
        reading += f"; {percent(flips)} of the permutations flip the decision"
    sentence: list[Part] = []
    if record["n"]:
        typically = "" if scores.single else "typically "
        sentence = [f"Shuffling attention {typically}changes the probability by ", ("shuffle", small(change)), "."]
    return Card(
        "shuffle", "attention", f"What if the weights go to other {scores.noun}s?", small(change),
        ", ".join(filter(None, (interval_of(record), "median TVD"))),
        histogram(values, 0, top, "median change of p"), reading + ".", counts_of(record), sentence,
        answer("permutation", record["low"], record["high"], record["n"], SHUFFLE_LINE, "above"),
    )  # fmt: skip


def _removal(scores: Scores) -> Card | None:
    record = scores.record("decision_flip")
    if record is None:
        return None
    best = next((name for name in SETS if scores.record("decision_flip", name) is not None), None)
    fewest = np.full(0, math.nan) if best is None else scores.values("decision_flip", best)
    possible = "best possible" if best == SETS[0] else "best found"
    beside = [interval_of(record)]
    if best is not None:
        beside.append(f"{possible} {number(scores.mean('decision_flip', best), 2)}")
    reading = f"Share of the {scores.noun}s, most attention first"
    reading += f"; outline: {possible}" if np.isfinite(fewest).sum() > 1 else ""
    chance = scores.mean("decision_flip", "random_ranking")
    reading += f"; in random order {number(chance, 2)}" if chance == chance else ""
    return Card(
        "remove", "attention", "How much must go until the decision flips?", number(scores.mean("decision_flip"), 2),
        "; ".join(filter(None, beside)),
        histogram(scores.values("decision_flip"), 0, 1, "fraction removed", beside=fewest, name=possible),
        reading + ".", counts_of(record), _about_removal(scores, best), _says_of_order(scores, best),
    )  # fmt: skip


def _about_removal(scores: Scores, best: str | None) -> list[Part]:
    sizes = scores.values("flip_size")
    fewest = sizes if best is None else scores.values("flip_size", best)
    both = np.isfinite(sizes) & np.isfinite(fewest)
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


def _says_of_order(scores: Scores, best: str | None) -> Answer | None:
    """Of the texts in which some part flips the decision: whether attention's order is as short as any set."""
    if best is None:
        return None
    fraction, fewest = scores.values("decision_flip", best), scores.values("flip_size", best)
    part = fraction < 1
    n = int(part.sum())
    short = scores.values("flip_size")[part] <= fewest[part]  # False where the order never flips it
    return answer("flips", *wilson(float(short.mean()) if n else math.nan, n), n, SHARE_LINE, "above")


def _twins(scores: Scores) -> Card | None:
    twins = {name: t for name, t in (scores.run.summary.get("twins") or {}).items() if "attefa" in t}
    if not twins or len(scores.run.scored("tvd", scores.site)) == 0:
        return None
    name, twin = next(iter(twins.items()))
    ratio, gave_up = twin["attefa"], bool(twin["collapsed"]["value"])
    tvd, jsd, value = twin["tvd"]["value"], twin["jsd"]["value"], number(ratio["value"], 2)
    sentence: list[Part] = []
    if ratio["value"] is not None and gave_up:
        sentence = [
            "A second model, trained to attend elsewhere, gave up predicting (AtteFa ", ("twins", value),
            " only says that this search found no other attention).",
        ]  # fmt: skip
    elif ratio["value"] is not None:
        sentence = [
            "A second model, trained to attend elsewhere, changes the probability by ", ("twins", small(tvd)),
            " with attention that lies ", ("twins", f"{number(jsd, 2)} nats"), " away.",
        ]  # fmt: skip
    listed = ", ".join(f"{name} {number(t['attefa']['value'], 2)}" + _collapsed(t) for name, t in twins.items())
    reading = (
        f"TVD {number(tvd)} over JSD {number(jsd)} / ln 2. Near 0: other attention, same predictions; high: none was "
        f"found. Twins: {listed}."
    )
    low = not gave_up and ratio["high"] is not None and ratio["high"] < TWIN_LINE
    return Card(
        "twins", "adversarial", "Can a second model attend elsewhere and predict the same?", value,
        ", ".join(filter(None, (interval_of(ratio), "AtteFa" + _collapsed(twin)))),
        histogram(scores.values("jsd", name), 0, LN2, "JSD of its attention, nats"), reading, counts_of(ratio),
        sentence, Answer("attefa", AGAINST) if low else None,
    )  # fmt: skip


def _collapsed(twin: Mapping[str, Mapping[str, object]]) -> str:
    return " (collapsed)" if twin["collapsed"]["value"] else ""


MAKERS: dict[str, Callable[[Scores], Card | None]] = {
    "correlation": _agreement,
    "adversarial": _move,
    "permutation": _shuffle,
    "flips": _removal,
    "attefa": _twins,
}
