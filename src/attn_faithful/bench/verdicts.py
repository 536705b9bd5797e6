"""What the verdict, and each test that it rests on, says of models whose truth is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attn_faithful.bench.running import TestedModel
from attn_faithful.records.bench import BenchVerdict
from attn_faithful.reports.answer.answer import answer
from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores

VERDICT, NOTHING = "verdict", "nothing"


def verdicts(models: Sequence[TestedModel]) -> list[BenchVerdict]:
    """Kind by kind what is said of its models: by the verdict, then by each test that says something of any model."""
    said = [(one.model.kind, _said(one.run)) for one in models]
    tests = dict.fromkeys([VERDICT])
    for _, by_test in said:
        tests |= dict.fromkeys(by_test)
    found = []
    for kind in dict.fromkeys(kind for kind, _ in said):
        of_kind = [by_test for model_kind, by_test in said if model_kind == kind]
        for test in tests:
            says = Counter(by_test.get(test, NOTHING) for by_test in of_kind)
            found.append(BenchVerdict(kind, test, dict(says)))
    return found


def _said(run: Run) -> Mapping[str, str]:
    """Test, or "verdict" -> what it says of a model."""
    found = answer(run).verdict
    by_test = {VERDICT: found.key if found is not None else NOTHING}
    for finding in findings(Scores([run], run.main_site)):
        by_test[finding.test] = finding.says
    return by_test
