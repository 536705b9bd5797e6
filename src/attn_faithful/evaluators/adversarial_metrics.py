"""The rows of the metric table of the test `adversarial`."""

from __future__ import annotations

import math

from attn_faithful.evaluators.base import MetricSpec
from attn_faithful.functional.divergences import LN2

JSD = MetricSpec(
    "adversarial_attention",
    "eps-max JSD",
    "largest JSD from the model's attention that moves the prediction by eps "
    "at most; a lower bound for more than two classes and for the gradient search",
    high=LN2,
    direction="lower",
    unit="nats",
)
UPPER = MetricSpec(
    "adversarial_upper",
    "upper bound",
    "what no attention within eps can exceed; the value itself where that is exact",
    high=LN2,
    direction="lower",
    unit="nats",
)
RATIO = MetricSpec(
    "adversarial_ratio",
    "share of reach",
    "eps-max JSD over the largest JSD that can be reached on these tokens",
    direction="lower",
)
REACHABLE = MetricSpec(
    "jsd_reachable",
    "reach",
    "largest JSD from the model's attention that dealing it anew to these tokens can give; "
    "what special tokens keep adds nothing to it",
    high=LN2,
    unit="nats",
)
TVD = MetricSpec(
    "adversarial_tvd",
    "TVD",
    "change of the prediction under that attention",
    unit="probability",
)
LIKELIHOOD = MetricSpec(
    "adversarial_kl",
    "KL",
    "how unlikely that attention is under the model's: KL(it || the model's)",
    high=math.inf,
    unit="nats",
)
ACCURACY = MetricSpec(
    "adversarial_accuracy",
    "accuracy there",
    "whether the prediction under that attention is the gold class",
)
KEEPING = MetricSpec(
    "decision_jsd",
    "decision-keeping JSD",
    "largest JSD from the model's attention that keeps the decision; a lower bound for more than two classes",
    high=LN2,
    direction="lower",
    unit="nats",
)
KEEPING_UPPER = MetricSpec(
    "decision_upper",
    "its upper bound",
    "what no attention that keeps the decision can exceed",
    high=LN2,
    direction="lower",
    unit="nats",
)
DISTANCE = MetricSpec(
    "flip_distance",
    "flip distance",
    "smallest JSD from the model's attention to one that changes the decision, exact",
    high=LN2,
    direction="lower",
    unit="nats",
)
PROOF = MetricSpec(
    "attention_proof",
    "attention-proof",
    "whether no attention at all changes the decision",
    direction="lower",
)

DECISION = (KEEPING, KEEPING_UPPER, DISTANCE, PROOF)
METRICS = (JSD, UPPER, RATIO, REACHABLE, TVD, LIKELIHOOD, ACCURACY, *DECISION)
