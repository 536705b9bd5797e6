"""What the verdict, and each test that it rests on, says of models whose truth is known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attn_faithful.bench.measured import Measured, TextValues
from attn_faithful.bench.running import TestedModel
from attn_faithful.records.bench import BenchVerdict
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.answer.verdict import AGAINST, FOR, MIXED
from attn_faithful.reports.run import ATTENTION
from attn_faithful.reports.scores import Scores

VERDICT, NOTHING = "verdict", "nothing"
NO_VERDICT = "no verdict"
_AS_NUMBER = {FOR: 1.0, MIXED: 0.0, AGAINST: -1.0}


@dataclass(frozen=True)
class Said:
    """What is said of one model.

    Attributes:
        kind: of the model.
        by_test: test, or "verdict" -> "against", "for", "open", "mixed" or "nothing".
    """

    kind: str
    by_test: Mapping[str, str]


def said_of(models: Sequence[TestedModel]) -> list[Said]:
    """What the verdict and its tests say of each model."""
    said = []
    for one in models:
        found = answer(one.run).verdict
        by_test = {VERDICT: NOTHING if found is None else found.key}
        for finding in findings(Scores([one.run], one.run.main_site)):
            by_test[finding.test] = finding.says
        said.append(Said(one.model.kind, by_test))
    return said


def verdicts(said: Sequence[Said]) -> list[BenchVerdict]:
    """Kind by kind what is said of its models: by the verdict, then by each test that says something of any model."""
    tests: dict[str, None] = {}
    for one in said:
        tests |= dict.fromkeys(one.by_test)
    found = []
    for kind in dict.fromkeys(one.kind for one in said):
        for test in tests:
            says = Counter(one.by_test.get(test, NOTHING) for one in said if one.kind == kind)
            found.append(BenchVerdict(kind, test, dict(says)))
    return found


def verdict_numbers(numbers: Sequence[Measured], said: Sequence[Said]) -> list[Measured]:
    """The verdict as a number of every text of a model: 1 for, 0 mixed, -1 against attention; NaN where it is none."""
    found = []
    for one, of_model in zip(numbers, said, strict=True):
        key = of_model.by_test[VERDICT]
        n = len(one.examples)
        reason = None if key in _AS_NUMBER else NO_VERDICT
        values = TextValues(np.full(n, _AS_NUMBER.get(key, math.nan)), [reason] * n)
        found.append(replace(one, numbers={(VERDICT, ATTENTION): values}, of_model={}))
    return found
