"""What other attention of one head, or of all together, could change in many texts; in one text: `head_statements`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from attn_faithful.reports.answer.head_statements import (
    ALONE,
    FOUND,
    JOINT,
    PROVED,
    HeadStatements,
    any_of,
    enough,
    searched,
    stays,
    whose_of,
)
from attn_faithful.reports.answer.wording import Sentence, share_of
from attn_faithful.reports.heads import CERTIFIED, FLIPPED, Heads, heads_of, slots_of
from attn_faithful.reports.numbers import percent
from attn_faithful.reports.scores import Scores

_CARD = "heads"


def heads_sentences(scores: Scores) -> Iterator[Sentence]:
    """Why nothing is proved, or what is; then what attention of single heads changes, and of all together."""
    yield from _why_unproved(scores)
    if not searched(scores):
        return
    if scores.single and not scores.by_label(JOINT):
        yield [HeadStatements(scores.run, scores.site)[0]]
        return
    yield from _of_single_heads(scores)
    yield from _of_all_together(scores)


def _why_unproved(scores: Scores) -> Iterator[Sentence]:
    """Of a transformers model of whose heads nothing is proved, why."""
    record = scores.record(CERTIFIED)
    if record is None or record.n or not record.reasons or not scores.run.info.attention:
        return
    reasons = "; ".join(record.reasons)
    yield [f"What no attention of a head could change is not proved here: {reasons}."]


def _of_single_heads(scores: Scores) -> Iterator[Sentence]:
    if slots_of(scores.run, scores.site) == 1:
        return
    heads = heads_of(scores.run, scores.site)
    if heads is None or len(scores.runs) > 1:
        yield from _of_mean_heads(scores)
    elif (heads.certified == 1).any():
        yield from _of_proofs(scores, heads)
    else:
        if np.isfinite(heads.certified).any():
            yield ["Of no head is it proved that its attention changes nothing."]
        yield _of_flips(scores, heads)


def _of_proofs(scores: Scores, heads: Heads) -> Iterator[Sentence]:
    """The heads that change nothing in any text, in how many no head does, and the head of which least is proved."""
    harmless = heads.harmless[heads.known]  # (n, S)
    n, slots = harmless.shape
    never = np.flatnonzero(harmless.all(0)).tolist()
    if never:
        count = f" ({len(never)} of {slots})" if 1 < len(never) < slots else ""
        texts = (_CARD, share_of(scores, 1.0, n))
        yield [
            "In ",
            texts,
            f" no attention of {any_of(heads, never)}{count} could change the decision, {ALONE} (proved).",
        ]
    if len(never) == slots:
        return
    every = float(harmless.all(1).mean())
    whose = f"of any one of the {slots} heads"
    if every:
        none = f"no attention {whose} could change the decision, {ALONE} (proved)."
    else:
        none = f"is it proved that no attention {whose} could change the decision, {ALONE}."
    yield ["In ", (_CARD, share_of(scores, every, n)), f" {none}"]
    least = heads.least_certain
    proved, changing = heads.counts(least[0])
    yield [
        f"{_least(heads, least)} proved in ",
        (_CARD, f"{proved:,} of {scores.over(n)}"),
        f"; another attention of it alone changes the decision in {changing:,}.",
    ]


def _least(heads: Heads, places: Sequence[int]) -> str:
    """The heads of which least is proved, as the beginning of a sentence on one of them."""
    if len(places) == len(heads.heads):
        return "Each head is"
    if len(places) == 1:
        return f"The least certain is {heads.named(places)}:"
    return f"The least certain are {heads.named(places)}: each is"


def _of_flips(scores: Scores, heads: Heads) -> Sentence:
    """In how many texts a head alone changes the decision, and which most often, where nothing is proved."""
    changing = heads.flipped[heads.known] == 1  # (n, S)
    share = float(changing.any(1).mean())
    texts = (_CARD, share_of(scores, share, len(changing)))
    if not share:
        return ["In ", texts, " was an attention of one head alone found that changes the decision."]
    most = heads.least_certain
    _, count = heads.counts(most[0])
    often = f"{heads.named(most)} most often, in {count:,}"
    if len(most) > 1:
        often = f"{heads.named(most)} most often, each in {count:,}"
    return ["In ", texts, f" another attention of one head alone changes the decision: of {often}."]


def _of_mean_heads(scores: Scores) -> Iterator[Sentence]:
    """Shares of the heads, where they have no names or those of several models meet."""
    proved = scores.of_questions(CERTIFIED)
    if np.isfinite(proved).any():
        heads = (_CARD, f"{percent(float(np.nanmean(proved)))} of the heads")
        yield ["No attention of ", heads, f" of a text could change its decision, {ALONE} (proved)."]
    changing = float(np.nanmean(scores.of_questions(FLIPPED)))
    yield ["Another attention of ", (_CARD, f"{percent(changing)} of the heads"), ", each alone, changes the decision."]


def _of_all_together(scores: Scores) -> Iterator[Sentence]:
    """In how many texts nothing changes the decision, in how many something does, and how little is enough."""
    joint, proved, found = (scores.of_questions(name) for name in (JOINT, PROVED, FOUND))
    known = np.isfinite(joint)
    n = int(known.sum())
    whose = whose_of(slots_of(scores.run, scores.site), heads_of(scores.run, scores.site))
    never = proved[known] == 1
    others = proved[known][~never]
    typical = float(np.median(others)) if len(others) else math.nan
    mixed = stays(typical, "up to a median of")
    if never.any():
        texts = (_CARD, share_of(scores, float(never.mean()), n, JOINT))
        of_others = stays(typical, f"in the other {len(others):,} up to a median of")
        yield ["In ", texts, f" no attention{whose} could change the decision (proved){of_others}."]
        mixed = ""
    if never.all():
        return
    share = float(joint[known].mean())
    if share:
        mixed = enough(float(np.median(found[joint == 1])), "a median of ") + mixed
    texts = (_CARD, share_of(scores, share, n, JOINT))
    yield [f"Another attention{whose} that changes the decision was found in ", texts, f"{mixed}."]
