"""summary.json: every number of a run over its whole split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attn_faithful.records.controls import ControlRecord
from attn_faithful.records.facts import Fact, fact_from_json
from attn_faithful.records.json_values import Json
from attn_faithful.records.recommendation import Recommendation
from attn_faithful.records.scores import MetricFacts, ScoreRecord
from attn_faithful.records.twins import TwinRecord


@dataclass(frozen=True)
class RunSummary:
    """summary.json: every number of a run over its whole split.

    Attributes:
        base: how well the model predicts (accuracy, f1, roc_auc, ...); epoch and seconds where it was trained here.
        tests: a record a number.
        metrics: what the metrics of the records are.
        facts: what tests say beside means and shares.
        twins: by variant and seed.
        controls: of Wiegreffe and Pinter, by name; those under a twin's attention by its variant and seed too.
        recommendation: what may be shown as an explanation, one a site where orders of items were compared.
        informative_mass: mean attention on planted tokens; None where nothing is known to be planted.
    """

    base: dict[str, Any] = field(default_factory=dict)
    tests: Sequence[ScoreRecord] = ()
    metrics: Mapping[str, MetricFacts] = field(default_factory=dict)
    facts: Sequence[Fact] = ()
    twins: Mapping[str, TwinRecord] = field(default_factory=dict)
    controls: Mapping[str, ControlRecord] = field(default_factory=dict)
    informative_mass: float | None = None
    recommendation: Sequence[Recommendation] = ()

    @classmethod
    def from_json(cls, values: Json) -> RunSummary:
        metrics = {}
        for name, entry in values.get("metrics", {}).items():
            metrics[name] = MetricFacts.from_json({"name": name, **entry})
        twins = {}
        for name, entry in values.get("twins", {}).items():
            twins[name] = TwinRecord.from_json(entry)
        controls = {}
        for name, entry in values.get("controls", {}).items():
            controls[name] = ControlRecord.from_json(name, entry)
        facts = [fact_from_json(entry) for entry in values.get("facts", [])]
        return cls(
            base=dict(values.get("base", {})),
            tests=[ScoreRecord.from_json(entry) for entry in values.get("tests", [])],
            metrics=metrics,
            facts=[fact for fact in facts if fact is not None],  # None: a kind that this version does not know
            twins=twins,
            controls=controls,
            informative_mass=values.get("informative_mass"),
            recommendation=[Recommendation.from_json(entry) for entry in values.get("recommendation", [])],
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "informative_mass": self.informative_mass,
            "twins": {name: twin.as_json() for name, twin in self.twins.items()},
            "controls": {name: control.as_json() for name, control in self.controls.items()},
            "tests": [record.as_json() for record in self.tests],
            "metrics": {name: metric.as_json() for name, metric in self.metrics.items()},
            "facts": [fact.as_json() for fact in self.facts],
            "recommendation": [each.as_json() for each in self.recommendation],
        }
