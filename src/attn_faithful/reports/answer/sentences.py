"""What each test says of attention, as one or two sentences that name the texts they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from attn_faithful.reports.answer.findings import completely_different, eps_of
from attn_faithful.reports.answer.verdict import constant_base
from attn_faithful.reports.examples import SETS, counted, first_source
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.scores import Scores, percent, same_texts, small
from attn_faithful.reports.tables.table import number

Part = str | tuple[str, str]  # words, or (key of a card, figure that is linked to it)
Sentence = Sequence[Part]


def sentences(scores: Scores) -> list[Sentence]:
    """What the tests that ran say, in the order of reading; each sentence has its n, what is never so comes first."""
    found = [sentence for say in SAY for sentence in say(scores)]
    return [*found, *_undefined(scores)]


def plain(sentence: Sentence) -> str:
    """A sentence without its links.

    Example:
        >>> plain(["In ", ("move", "84% of 50 texts"), " it does."])
        'In 84% of 50 texts it does.'
    """
    return "".join(part if isinstance(part, str) else part[1] for part in sentence)


def _share(scores: Scores, share: float, n: int, metric: str | None = None) -> str:
    """A share of n texts in words, with the count behind it.

    Example: "none of the 60 texts", "all 60 texts", "37 of 60 texts (62%)".
    """
    if share == 0:
        return f"none of the {scores.over(n, metric)}"
    if share == 1:
        return f"all {scores.over(n, metric)}" if n > 1 else f"the {scores.over(n, metric)}"
    return f"{round(share * n):,} of {scores.over(n, metric)} ({percent(share)})"


# how far attention can move


def _move(scores: Scores) -> Iterator[Sentence]:
    yield from _proof(scores)
    found = completely_different(scores)
    if not found.n:
        return
    if scores.single:
        yield _of_one_text(scores, found.share, found.most)
        return
    where: list[Part] = ["In ", ("move", _share(scores, found.share, found.n))]
    other, within = "a completely different attention", f"(p within {eps_of(scores):g})"
    if found.most == found.share:
        gives = f"{other} gives" if found.share else f"does {other} give"
        yield [*where, f" {gives} the same answer {within}."]
        return
    missed = round((found.most - found.share) * found.n)
    finds = "the search found" if found.share else "did the search find"
    rest = f"{missed:,} of them"
    if found.share:
        rest = f"{missed:,} other{'' if missed == 1 else 's'}"
    yield [
        *where,
        f" {finds} {other} that gives the same answer {within}; ",
        f"in {rest} there may be one that it missed.",
    ]


def _of_one_text(scores: Scores, share: float, most: float) -> Sentence:
    within = f"(p within {eps_of(scores):g})"
    if share:
        return ["Here ", ("move", "another attention, completely different,"), f" gives the same answer {within}."]
    if not most:
        return ["Here ", ("move", "no completely different attention"), f" gives the same answer {within}."]
    none = ("move", "no completely different attention")
    return ["The search found ", none, f" that gives the same answer here {within}."]


def _proof(scores: Scores) -> Iterator[Sentence]:
    proof = scores.asked("attention_proof")
    n = int(np.isfinite(proof).sum())
    if not n:
        return
    share = float(np.nanmean(proof))
    if scores.single and not scores.by_label("attention_proof"):
        if share:
            yield [("move", "No attention at all"), f" could change this decision: every {scores.noun} alone says it."]
        return
    if not share:
        yield [
            "In ",
            ("move", _share(scores, share, n, "attention_proof")),
            " is the decision beyond what attention can change.",
        ]
        return
    yield [
        "In ",
        ("move", _share(scores, share, n, "attention_proof")),
        f" no attention at all could change the decision: every {scores.noun} alone says the same.",
    ]


# tests that say nothing


def _undefined(scores: Scores) -> Iterator[Sentence]:
    """Of tests that are undefined in every text that, and why, all of one reason in one sentence."""
    silent: dict[str, list[str]] = {}
    for test, (metric, source) in _NUMBERS.items():
        if test == "correlation":
            first = first_source(scores.run, scores.site)
            source = f"attention~{first}"
        record = scores.record(metric, source)
        if record is None or record["n"]:
            continue
        reasons = [f"{reason} ({n:,})" for reason, n in record.get("reasons", {}).items()]
        silent.setdefault(", ".join(reasons) or "undefined", []).append(test)
    for why, tests in silent.items():
        which = f"test {tests[0]} says" if len(tests) == 1 else f"tests {', '.join(tests)} say"
        yield [f"The {which} nothing of {'this text' if scores.single else 'these texts'}: {why}."]


# test -> the number without which it says nothing, and its source
_NUMBERS = {
    "correlation": ("attention_correlation", ""),
    "permutation": ("attention_permutation", "attention"),
    "adversarial": ("adversarial_attention", "attention"),
    "flips": ("flip_never", "attention"),
    "erasure": ("comprehensiveness", "attention"),
    "entropy": ("importance_entropy", "attention"),
}


# whether attention ranks as importance does


def _agree(scores: Scores) -> Iterator[Sentence]:
    source = first_source(scores.run, scores.site)
    if source is None:
        return
    values = scores.values("attention_correlation", f"attention~{source}")
    tau, n, peers = float("nan"), int(np.isfinite(values).sum()), ""
    if not n:
        return
    tau = float(np.nanmean(values))
    other = _other_pair(scores)
    if other is not None:
        a, b = other
        both = same_texts(values, scores.values("attention_correlation", f"{a}~{b}"))
        if both.n:
            tau, n = both.first, both.n
            peers = f", that of {title_of(a)} and {title_of(b)} {number(both.second, 2)}"
    mean = "" if scores.single else "mean "
    yield [
        f"Attention {_agrees(tau)} with {title_of(source)}: ",
        ("agree", f"{mean}tau {number(tau, 2)}"),
        peers,
        "" if scores.single else f", over {'the same ' if peers else ''}{scores.over(n)}",
        ".",
    ]


def _other_pair(scores: Scores) -> tuple[str, str] | None:
    """Two importances that were compared with each other, the yardstick of attention's agreement."""
    for pair in scores.run.scored("attention_correlation", scores.site):
        names = pair.split("~")
        if len(names) == 2 and not any(name in ("attention", "random", "uniform") for name in names):
            return names[0], names[1]
    return None


def _agrees(tau: float) -> str:
    steps = ((-0.1, "disagrees"), (0.2, "hardly agrees"), (0.5, "agrees only weakly"), (0.7, "agrees in part"))
    return next((words for end, words in steps if tau < end), "agrees")


# what shuffling changes


def _shuffle(scores: Scores) -> Iterator[Sentence]:
    values = scores.values("attention_permutation")
    n = int(np.isfinite(values).sum())
    if not n:
        return
    change = float(np.nanmean(values))
    if scores.single:
        yield ["Shuffling attention changes the probability by ", ("shuffle", small(change)), " (median)."]
        return
    if not change:
        yield ["In ", ("shuffle", _share(scores, 0, n)), " does shuffling attention change the probability (median)."]
        return
    yield [
        "Shuffling attention changes the probability by ",
        ("shuffle", small(change)),
        f" (the mean of {scores.over(n)}, of each the median).",
    ]


# what removal changes


def _remove(scores: Scores) -> Iterator[Sentence]:
    never = scores.asked("flip_never")
    asked = int(np.isfinite(never).sum())
    if not asked:
        return
    best = best_set(scores)
    sizes = scores.asked("flip_size")
    fewest = sizes if best is None else scores.asked("flip_size", best)
    stuck = int(np.nansum(never))
    single = scores.single and not scores.by_label("flip_never")
    if stuck == asked:
        removing = f"removing {scores.noun}s in attention's order"
        if single:
            yield [removing.capitalize(), " ", ("remove", "never"), f" flips the decision{_though(fewest, never)}."]
        else:
            none = ("remove", f"none of the {scores.over(asked, 'flip_never')}")
            yield ["In ", none, f" does {removing} flip the decision{_though(fewest, never)}."]
        return
    if stuck:
        yield [
            "In ",
            ("remove", f"{stuck:,} of {scores.over(asked, 'flip_never')}"),
            f" removing {scores.noun}s in attention's order never flips the decision{_though(fewest, never)}.",
        ]
    both = np.isfinite(sizes) & np.isfinite(fewest)
    n = int(both.sum())
    if not n:
        return
    where = f"In {n:,} of {scores.over(asked, 'flip_never')} removing"
    if n == asked:
        where = f"In all {scores.over(n, 'flip_never')} removing"
    if stuck and n == asked - stuck:
        where = f"In the other {n:,}, removing"
    if single:
        where = "Removing"
    typical = "" if single else "a median of "
    found: list[Part] = [
        f"{where} the {scores.noun}s with most attention flips the decision after {typical}",
        ("remove", counted(float(np.median(sizes[both])), scores.noun)),
    ]
    if best is not None:
        found += ["; ", ("remove", f"{np.median(fewest[both]):g} would do")]
    yield [*found, "."]


def _though(fewest: np.ndarray, never: np.ndarray) -> str:
    """In how many of the texts that the order never flips some other set does."""
    some = int((np.isfinite(fewest) & (never == 1)).sum())
    return f", though removing others does in {some:,} of them" if some else ""


def best_set(scores: Scores) -> str | None:
    """The source that names the smallest set, exact or found; None where none was sought."""
    return next((name for name in SETS if scores.record("decision_flip", name) is not None), None)


# twins


def _twins(scores: Scores) -> Iterator[Sentence]:
    twins = twins_of(scores)
    if not twins:
        return
    twin = twins[0]
    ratio, gave_up = twin["attefa"], bool(twin["collapsed"]["value"])
    if ratio["value"] is None:
        return
    value, n = number(ratio["value"], 2), _of_first(scores, ratio["n"])
    rest = f"; the first of {len(twins)} twins" if len(twins) > 1 else ""
    if constant_base(twin):
        constant = number(twin["constant_tvd"]["value"])
        yield [
            f"The model predicts nearly the same for all {n} (",
            ("twins", f"TVD {constant}"),
            " from the best constant prediction), so that its twins say nothing.",
        ]
        return
    if gave_up:
        yield [
            "A second model, trained to attend elsewhere, gave up predicting (AtteFa ",
            ("twins", value),
            f" over {n} only says that this search found no other attention{rest}).",
        ]
        return
    yield [
        "A second model, trained to attend elsewhere, changes the probability by ",
        ("twins", small(twin["tvd"]["value"])),
        " with attention that lies ",
        ("twins", f"{number(twin['jsd']['value'], 2)} nats"),
        f" away (means over {n}{rest}).",
    ]


def twins_of(scores: Scores) -> list[dict[str, dict[str, object]]]:
    """The records of the first run's twins; none at a site where twins were not compared."""
    found = [twin for twin in (scores.run.summary.get("twins") or {}).values() if "attefa" in twin]
    return found if scores.run.scored("tvd", scores.site) else []


def _of_first(scores: Scores, n: int) -> str:
    """A number of texts of the first run."""
    first = f" of seed {scores.run.seed}" if len(scores.runs) > 1 else ""
    return f"{n:,} text{'' if n == 1 else 's'}{first}"


SAY: tuple[Callable[[Scores], Iterator[Sentence]], ...] = (_move, _agree, _shuffle, _remove, _twins)
