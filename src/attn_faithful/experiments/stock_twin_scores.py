"""The numbers of a stock model's twins: a row an example and layer, a record a class, an entry a twin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attn_faithful.data.text_column import values_at
from attn_faithful.evaluators import attefa
from attn_faithful.experiments.columns import Columns
from attn_faithful.experiments.readable_texts import Split
from attn_faithful.experiments.scoring import Groups, by_prediction, score_records
from attn_faithful.experiments.trained_models import TrainingRecord
from attn_faithful.experiments.twin_plan import TwinPlan
from attn_faithful.functional import attefa as faithfulness
from attn_faithful.functional.reasons import NEVER_MOVED
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.model import StockModel
from attn_faithful.records.scores import ScoreRecord
from attn_faithful.records.twins import TwinRecord
from attn_faithful.training.metrics import classification_metrics
from attn_faithful.training.stock_pair import StockOutputs


class ComparedTwins:
    """All twins of a stock model, one added after another.

    Args:
        base: the model.
        test: the split that they are compared on.
        label_names: of the classes.

    Attributes:
        twins: their entries in summary.json.
        records: of all twins, by site and class.
        scores, variants: rows of the tables.
        probabilities: the model's, (n, C); NaN for texts that it cannot read.
    """

    probabilities: np.ndarray

    def __init__(
        self,
        base: StockModel,
        test: Split,
        label_names: Sequence[str],
    ) -> None:
        self.base = base
        self.test = test
        self.label_names = label_names
        self.examples = test.rows.examples
        self.twins: dict[str, TwinRecord] = {}
        self.records: list[ScoreRecord] = []
        self.scores = Columns("scores")
        self.variants = Columns("variants")

    def add(
        self,
        plan: TwinPlan,
        training: TrainingRecord,
        outputs: StockOutputs,
    ) -> None:
        """Add a twin by its outputs on all examples of the split."""
        self.probabilities = outputs.base
        multi_label = self.base.multi_label
        joint = self._variants(JOINT, plan.name, outputs, outputs.jsd)
        scores = self._scores(plan.name, outputs, joint)
        self.scores.extend(scores)
        joint.pop("attention")
        self.variants.extend(joint)
        groups = by_prediction(outputs.base, self.label_names, multi_label)
        self.records += _records(scores, outputs, self.examples, groups)
        labels = np.asarray(self.test.rows.labels)
        metrics = classification_metrics(outputs.twin, labels, multi_label)
        numbers = attefa.score(outputs.tvd, outputs.jsd, outputs.base, plan.max_tvd, multi_label)
        self.twins[plan.name] = plan.record(training, metrics, numbers, _layers(outputs, multi_label))

    def _scores(
        self,
        name: str,
        outputs: StockOutputs,
        joint: Mapping[str, list[Any]],
    ) -> Columns:
        """Rows of the table "scores" of a twin: over all layers, from its variants, and by layer."""
        scores = Columns("scores")
        scores.extend(attefa.per_example(joint))
        for place, layer in enumerate(outputs.layers):
            columns = self._variants(f"layer.{layer}", name, outputs, outputs.by_layer[:, place])
            scores.extend(_of_metric("jsd", attefa.per_example(columns)))
        examples_and_reasons = zip(scores["example"], scores["reason"], strict=True)
        scores["reason"] = [self.test.failed.get(example, reason) for example, reason in examples_and_reasons]
        return scores

    def _variants(
        self,
        site: str,
        name: str,
        outputs: StockOutputs,
        jsd: np.ndarray,
    ) -> dict[str, list[Any]]:
        """Rows of the table "variants" of a twin at a site."""
        n = len(self.examples)
        return {
            "example": list(self.examples),
            "site": [site] * n,
            "slot": [0] * n,
            "test": ["attefa"] * n,
            "variant": [name] * n,
            "attention_jsd": jsd.tolist(),
            "output_tvd": outputs.tvd.tolist(),
            "probabilities": outputs.twin.tolist(),
            # of heads and rows, and too much to keep; where it is empty the reason is no content
            "attention": [[]] * n,
        }


def _of_metric(name: str, rows: Mapping[str, list[Any]]) -> dict[str, Sequence[Any]]:
    places = [place for place, metric in enumerate(rows["metric"]) if metric == name]
    return {column: values_at(values, places) for column, values in rows.items()}


def _records(
    scores: Mapping[str, list[Any]], outputs: StockOutputs, examples: Sequence[str], groups: Groups
) -> list[ScoreRecord]:
    """Records by site and class; AtteFa is that of the means, not the mean of the texts' own ratios."""
    records = []
    for record in score_records(scores, examples, groups):
        if record.metric == attefa.ATTEFA.name:
            record = _of_means(record, outputs, groups[record.group])
        records.append(record)
    return records


def _of_means(
    record: ScoreRecord,
    outputs: StockOutputs,
    places: np.ndarray,
) -> ScoreRecord:
    """The record of AtteFa over the examples at some places."""
    tvd, jsd = outputs.tvd[places], outputs.jsd[places]
    ratio = faithfulness.attefa(tvd, jsd)
    low, high = faithfulness.bootstrap_attefa([tvd], [jsd])
    if ratio.reason is None:
        reasons = {reason: n for reason, n in record.reasons.items() if reason != NEVER_MOVED}
    else:
        reasons = {ratio.reason: ratio.n_undefined}
    return replace(
        record,
        mean=ratio.attefa,
        std=math.nan,
        low=low,
        high=high,
        n=ratio.n,
        n_undefined=ratio.n_undefined,
        reasons=reasons,
    )


def _layers(outputs: StockOutputs, multi_label: bool) -> list[dict[str, Any]]:
    """Of each layer: JSD, the mass on content tokens, and for each head of the twin its head of the base."""
    layers = []
    for place, layer in enumerate(outputs.layers):
        numbers = attefa.score(outputs.tvd, outputs.by_layer[:, place], outputs.base, None, multi_label)
        base, twin = np.nanmean(outputs.content_mass[:, place], axis=0)  # but for texts that the model cannot read
        layers.append(
            {
                "layer": layer,
                "jsd": numbers["jsd"].as_json(),
                "content_mass": {"base": base, "twin": twin},
                "assignment": outputs.assignments[place].tolist(),
            }
        )
    return layers
