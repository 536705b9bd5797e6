"""What each test says of attention, as one or two sentences that name the texts they rest on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from attn_faithful.reports.answer.cores import core_sentences
from attn_faithful.reports.answer.erased import erased_sentences
from attn_faithful.reports.answer.findings import completely_different, eps_of
from attn_faithful.reports.answer.heads import heads_sentences
from attn_faithful.reports.answer.randomisation import randomisation_sentences
from attn_faithful.reports.answer.removal import removal_sentences
from attn_faithful.reports.answer.verdict import constant_base
from attn_faithful.reports.answer.wording import Sentence, share_of
from attn_faithful.reports.numbers import counted, number, small
from attn_faithful.reports.palette import title_of
from attn_faithful.reports.scores import Scores, same_texts


def sentences(scores: Scores) -> list[Sentence]:
    """What the tests that ran say, in the order of reading; each sentence has its n, what is never so comes first."""
    listed: list[Sentence] = []
    for say in (*SAY, _undefined):
        listed += say(scores)
    return listed


# how far attention can move


def _move(scores: Scores) -> Iterator[Sentence]:
    yield from _proof(scores)
    yield from heads_sentences(scores)
    different = completely_different(scores)
    if not different.n:
        return
    if scores.single:
        yield _of_one_text(scores, different.share, different.most)
        return
    where: Sentence = ["In ", ("move", share_of(scores, different.share, different.n))]
    other, within = "a completely different attention", f"(p within {eps_of(scores):g})"
    if different.most == different.share:
        gives = f"{other} gives" if different.share else f"does {other} give"
        yield [*where, f" {gives} the same answer {within}."]
        return
    missed = round((different.most - different.share) * different.n)
    if different.share:
        finds, others = "the search found", counted(missed, "other")
    else:
        finds, others = "did the search find", f"{missed:,} of them"
    yield [
        *where,
        f" {finds} {other} that gives the same answer {within}; ",
        f"in {others} there may be one that it missed.",
    ]


def _of_one_text(scores: Scores, share: float, most: float) -> Sentence:
    within = f"(p within {eps_of(scores):g})"
    if share:
        return ["Here ", ("move", "another attention, completely different,"), f" gives the same answer {within}."]
    none = ("move", "no completely different attention")
    if not most:
        return ["Here ", none, f" gives the same answer {within}."]
    return ["The search found ", none, f" that gives the same answer here {within}."]


def _proof(scores: Scores) -> Iterator[Sentence]:
    """In how many texts no attention could change the decision."""
    proof = scores.of_questions("attention_proof")
    n = int(np.isfinite(proof).sum())
    if not n:
        return
    share = float(np.nanmean(proof))
    if scores.single and not scores.by_label("attention_proof"):
        if share:
            yield [("move", "No attention at all"), f" could change this decision: every {scores.noun} alone says it."]
        return
    texts = ("move", share_of(scores, share, n, "attention_proof"))
    if share:
        yield [
            "In ",
            texts,
            f" no attention at all could change the decision: every {scores.noun} alone says the same.",
        ]
    else:
        yield ["In ", texts, " is the decision beyond what attention can change."]


# whether attention ranks as importance does


def _agree(scores: Scores) -> Iterator[Sentence]:
    source = scores.run.first_source(scores.site)
    if source is None:
        return
    values = scores.values("attention_correlation", f"attention~{source}")
    n = int(np.isfinite(values).sum())
    if not n:
        return
    tau, peers, same = float(np.nanmean(values)), "", ""
    other = _other_pair(scores)
    if other is not None:
        a, b = other
        both = same_texts(values, scores.values("attention_correlation", f"{a}~{b}"))
        if both.n:
            tau, n, same = both.first, both.n, "the same "
            peers = f", that of {title_of(a)} and {title_of(b)} {number(both.second, 2)}"
    mean, texts = "mean ", f", over {same}{scores.over(n)}"
    if scores.single:
        mean, texts = "", ""
    by_masks = ""
    if source in _LEFT_OUT and scores.run.evaluation.get("sources", {}).get("operator") == "mask":
        by_masks = " by masks"
    agrees = f"Attention {_agrees(tau)} with {title_of(source)}{by_masks}: "
    yield [agrees, ("agree", f"{mean}tau {number(tau, 2)}"), peers, texts, "."]


def _other_pair(scores: Scores) -> tuple[str, str] | None:
    """Two importances that were compared with each other, the yardstick of attention's agreement."""
    for pair in scores.run.sources("attention_correlation", scores.site):
        names = pair.split("~")
        if len(names) == 2 and _NO_PEERS.isdisjoint(names):
            return names[0], names[1]
    return None


def _agrees(tau: float) -> str:
    for end, words in _AGREEMENT.items():
        if tau < end:
            return words
    return "agrees"


# what shuffling changes


def _shuffle(scores: Scores) -> Iterator[Sentence]:
    values = scores.values("attention_permutation")
    n = int(np.isfinite(values).sum())
    if not n:
        return
    change = float(np.nanmean(values))
    if not change and not scores.single:
        none = ("shuffle", share_of(scores, 0, n))
        yield ["In ", none, " does shuffling attention change the probability (median)."]
        return
    over = "median" if scores.single else f"the mean of {scores.over(n)}, of each the median"
    yield ["Shuffling attention changes the probability by ", ("shuffle", small(change)), f" ({over})."]


# whether the first item speaks for the decision


def _polarity(scores: Scores) -> Iterator[Sentence]:
    values = scores.values("polarity_violation")
    n = int(np.isfinite(values).sum())
    if not n:
        return
    share = float(np.nanmean(values))
    most = f"the {scores.noun} with most attention"
    where = share_of(scores, share, n, "polarity_violation")
    if not scores.single and share:
        yield ["In ", where, f" {most} does not speak for the decision."]
    elif not scores.single:
        yield ["In ", where, f" does {most} fail to speak for the decision."]
    elif share:
        yield [f"Here {most} does not speak for the decision, which is as sure without it."]


# twins


def _twins(scores: Scores) -> Iterator[Sentence]:
    twins = list(scores.twins.values())
    if not twins or np.isnan(twins[0].attefa.value):
        return
    twin, value = twins[0], number(twins[0].attefa.value, 2)
    n = counted(twin.attefa.n, "text")
    if len(scores.runs) > 1:
        n += f" of seed {scores.run.seed}"
    if constant_base(twin):
        yield [
            f"The model predicts nearly the same for all {n} (",
            ("twins", f"TVD {number(twin.constant_tvd)}"),
            " from the best constant prediction), so that its twins say nothing.",
        ]
        return
    rest = ""
    if len(twins) > 1:
        rest = f"; the first of {len(twins)} twins"
    if twin.collapsed:
        yield [
            "A second model, trained to attend elsewhere, gave up predicting (AtteFa ",
            ("twins", value),
            f" over {n} only says that this search found no other attention{rest}).",
        ]
        return
    yield [
        "A second model, trained to attend elsewhere, changes the probability by ",
        ("twins", small(twin.tvd.value)),
        " with attention that lies ",
        ("twins", f"{number(twin.jsd.value, 2)} nats"),
        f" away (means over {n}{rest}).",
    ]


# tests that say nothing


def _undefined(scores: Scores) -> Iterator[Sentence]:
    """Of tests that are undefined in every text that, and why, all of one reason in one sentence."""
    silent: dict[str, list[str]] = defaultdict(list)
    for test, (metric, source) in _NUMBERS.items():
        if test == "correlation":
            source = f"attention~{scores.run.first_source(scores.site)}"
        record = scores.record(metric, source)
        if record is not None and not record.n:
            reasons = ", ".join(f"{reason} ({n:,})" for reason, n in record.reasons.items())
            silent[reasons or "undefined"].append(test)
    texts = "this text" if scores.single else "these texts"
    for reasons, tests in silent.items():
        which = f"test {tests[0]} says" if len(tests) == 1 else f"tests {', '.join(tests)} say"
        yield [f"The {which} nothing of {texts}: {reasons}."]


_LEFT_OUT = ("leave_one_out", "signed_leave_one_out")  # sources that the setting `operator` is of
_NO_PEERS = {"attention", "random", "uniform"}  # in no pair that is attention's yardstick
# tau, below which attention does so
_AGREEMENT = {-0.1: "disagrees", 0.2: "hardly agrees", 0.5: "agrees only weakly", 0.7: "agrees in part"}
# test -> the number without which it says nothing, and its source
_NUMBERS = {
    "correlation": ("attention_correlation", ""),
    "permutation": ("attention_permutation", "attention"),
    "adversarial": ("adversarial_attention", "attention"),
    "flips": ("flip_never", "attention"),
    "erasure": ("comprehensiveness", "attention"),
    "entropy": ("importance_entropy", "attention"),
    "randomisation": ("randomisation_tau", "attention"),
}

SAY: tuple[Callable[[Scores], Iterator[Sentence]], ...] = (
    _move,
    core_sentences,
    _agree,
    _shuffle,
    removal_sentences,
    erased_sentences,
    _polarity,
    randomisation_sentences,
    _twins,
)
