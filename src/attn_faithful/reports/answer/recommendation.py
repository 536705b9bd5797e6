"""What may be shown as an explanation, in words: the recommended source with its evidence, or that there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_faithful.records.recommendation import (
    CHANCE,
    ORDER,
    POLARITY,
    STABILITY,
    UNMEASURED,
    RankedSource,
    Recommendation,
)
from attn_faithful.reports.answer.verdict import ENOUGH
from attn_faithful.reports.numbers import number, percent
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.run import ATTENTION, Run

BEGINNING = "What may be shown"
_SEVERAL = 2  # texts, below which nobody asks for a rule
_SIGNIFICANT = 0.05  # of the paired tests
_WAYS = {  # the measure -> the orders that it compares
    "naopc_removal": "{}s are removed from the attention",
    "naopc": "{}s are deleted",
    "naopc_mask": "{}s are masked",
}
# sources that readers ask about, whichever is the best -> how a sentence names them
_ASKED = {ATTENTION: "attention", "given": "the given importance"}
_ERASED = {"naopc": ("delete", "deleted"), "naopc_mask": ("mask", "masked")}


def recommendation_text(runs: Sequence[Run], site: str | None, distinct: int, unfit: bool = False) -> str:
    """The recommendation at a site, of one run or of several seeds; "" where no orders were compared, or of one text.

    Args:
        runs: one, or one a seed.
        site: where in the model.
        distinct: different texts of each run.
        unfit: whether the model is not shown to predict.
    """
    found = [recommended(run, site) for run in runs]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or distinct < _SEVERAL:
        return ""
    noun = runs[0].noun(site)
    few = min(distinct, *(each.n for each in known))
    if few < ENOUGH:
        return f"{BEGINNING}: no recommendation, few texts, {few} of at least {ENOUGH}."
    text = _of_seeds(runs, known) if len(known) > 1 else _of_one(known[0], noun, runs[0].source_seconds)
    if unfit:
        text += " The model itself is not shown to predict: this tells what it does, not that it is right."
    return f"{BEGINNING}: {text}"


def recommended(run: Run, site: str | None) -> Recommendation | None:
    """The recommendation of a run at a site; None where no orders were compared."""
    for each in run.summary.recommendation:
        if each.site == site and each.sources:
            return each
    return None


def _of_seeds(runs: Sequence[Run], found: Sequence[Recommendation]) -> str:
    """What the seeds of a model agree in."""
    shown = {each.source for each in found}
    if shown == {None}:
        return f"none of these, for each of {len(runs)} seeds."
    if len(shown) == 1:
        orders = ", ".join(number(_entry(each, each.source).naopc.mean, 2) for each in found)
        return f"{title_of(str(found[0].source))}, for each of {len(runs)} seeds (NAOPC {orders})."
    by_seed = []
    for run, each in zip(runs, found, strict=True):
        by_seed.append(f"seed {run.seed}: {_name(each.source)}")
    return f"no one source for all seeds ({'; '.join(by_seed)})."


def _name(source: str | None) -> str:
    return "none of these" if source is None else title_of(source)


def _of_one(found: Recommendation, noun: str, seconds: Mapping[str, float]) -> str:
    """The recommendation of one run with its evidence, and what speaks against attention and given importance."""
    if found.source is None:
        ranked = f"none of these ({found.n:,} texts; {_WAYS[found.measure].format(noun)})."
        return " ".join([ranked, *_refusals(found, noun), *_of_texts(found, noun)])
    sentences = [f"{title_of(found.source)}.", _evidence(found, noun, seconds)]
    sentences += _as_good(found)
    sentences += _of_asked(found, noun)
    sentences += _of_texts(found, noun)
    return " ".join(sentences)


def _evidence(found: Recommendation, noun: str, seconds: Mapping[str, float]) -> str:
    """What speaks for the recommended source."""
    best = _entry(found, found.source)
    way = _WAYS[found.measure].format(noun)
    parts = [f"Its order is near the best one in which {way} (NAOPC {_with_interval(best)}{_beside_random(found)})"]
    if best.optimal.n:
        parts.append(f"in {percent(best.optimal.mean)} of the texts that it flips no fewer {noun}s would do")
    if best.polarity.n:
        parts.append(f"its first {noun} does not speak for the decision in {percent(best.polarity.mean)}")
    if best.stability.n:
        parts.append(
            f"its ranking stays when a {noun} without effect is another (tau {number(best.stability.mean, 2)})"
        )
    cost = seconds.get(best.source)
    if cost:
        parts.append(f"it costs {_time(cost)} a text beside the forward pass")
    return f"{'; '.join(parts)}."


def _as_good(found: Recommendation) -> list[str]:
    """The other sources that pass and whose order is not significantly worse."""
    names = []
    for source in found.sources:
        # NaN, of the first of the list, is not above the line
        if source.source != found.source and not source.fails and source.p_best >= _SIGNIFICANT:
            names.append(title_of(source.source))
    if not names:
        return []
    return [f"Not shown to be worse: {', '.join(names)}."]


def _of_asked(found: Recommendation, noun: str) -> list[str]:
    """What is to be said of attention, and of given importance, where another source is recommended."""
    sentences = []
    for source in found.sources:
        name = _ASKED.get(source.source)
        if name is None or source.source == found.source:
            continue
        if source.fails:
            sentences.append(f"Not {name}: {_why_not(source, found, noun)}.")
        else:
            sentences.append(f"{_capital(name)} may be shown as well (NAOPC {_with_interval(source)}).")
    return sentences


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _of_texts(found: Recommendation, noun: str) -> list[str]:
    """Whether the texts that orders were compared on are such as the model was trained on."""
    if found.measure not in _ERASED:
        return []
    operator, done = _ERASED[found.measure]
    share, line = found.outside.get(operator), found.lines.get("outside")
    if share is None or line is None:
        return []
    if share > line:
        return [
            f"Caution: {percent(share)} of the texts with {noun}s {done} are unlike what the model was trained on, so "
            "that an order may be good at breaking texts."
        ]
    if operator == "mask" and found.outside.get("delete", 0.0) > line:
        return [f"Ranked by masks, since texts with {noun}s deleted are unlike what the model was trained on."]
    return []


def _refusals(found: Recommendation, noun: str) -> list[str]:
    """Why the best source, attention and given importance may not be shown."""
    sentences = []
    best = found.sources[0]
    if best.fails:
        sentences.append(f"The best of them, {title_of(best.source)}: {_why_not(best, found, noun)}.")
    for source in found.sources[1:]:
        if source.source in _ASKED and source.fails:
            sentences.append(f"{_capital(_ASKED[source.source])}: {_why_not(source, found, noun)}.")
    return sentences


def _why_not(source: RankedSource, found: Recommendation, noun: str) -> str:
    """The lines that a source does not pass, in words."""
    reasons = []
    if ORDER in source.fails:
        reasons.append(_too_far(source, found.lines["order"]))
    if CHANCE in source.fails:
        reasons.append("its order is no better than a random one")
    if POLARITY in source.fails:
        share = percent(source.polarity.mean)
        reasons.append(f"its first {noun} does not speak for the decision in {share} of the texts")
    if STABILITY in source.fails:
        tau = number(source.stability.mean, 2)
        reasons.append(f"its ranking changes with a {noun} that has no effect (tau {tau})")
    if UNMEASURED in source.fails:
        reasons.append("not all of the numbers above were measured of it")
    return ", and ".join(reasons)


def _too_far(source: RankedSource, line: float) -> str:
    """That the interval of a source's NAOPC is not above the line, or that too few texts leave it open."""
    order = f"NAOPC {_with_interval(source)}, not above {number(line, 2)}"
    if source.naopc.high > line:
        return f"its order is not shown to be near the best one ({order}; more texts may show it)"
    return f"its order is too far from the best one ({order})"


def _with_interval(source: RankedSource) -> str:
    low, high = number(source.naopc.low, 2), number(source.naopc.high, 2)
    return f"{number(source.naopc.mean, 2)}, {low} to {high}"


def _beside_random(found: Recommendation) -> str:
    """The NAOPC of random orders, and over how many texts; of controls, which stand last."""
    texts = f", {found.n:,} texts"
    control = found.sources[-1]
    if control.source in ("random", "random_ranking"):
        return f"; random orders {number(control.naopc.mean, 2)}{texts}"
    return texts


def _entry(found: Recommendation, name: str | None) -> RankedSource:
    return next(source for source in found.sources if source.source == name)


def _time(seconds: float) -> str:
    """Seconds, or milliseconds.

    Example:
        >>> _time(0.00042), _time(2.5)
        ('0.42 ms', '2.5 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds:.2g} s"
