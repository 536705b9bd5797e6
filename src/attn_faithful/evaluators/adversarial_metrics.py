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
HEAD_CERTIFIED = MetricSpec(
    "head_certified",
    "heads certified",
    "share of the heads of which it is proved that none of their attention changes the decision, "
    "the others keeping theirs",
    direction="lower",
)
HEAD_FLIPPED = MetricSpec(
    "head_flipped",
    "heads flipped",
    "share of the heads of which an attention was found that changes the decision, the others keeping theirs",
    direction="higher",
)
HEAD_OPEN = MetricSpec(
    "head_open",
    "heads open",
    "share of the heads of which neither is known",
)
JOINT_FLIP = MetricSpec(
    "joint_flip",
    "joint flip",
    "whether an attention of all heads together was found that changes the decision",
    direction="higher",
)
CERTIFIED_RADIUS = MetricSpec(
    "certified_radius",
    "certified radius",
    "largest rho for which it is proved that no mixture (1 - rho) a + rho q of the attention a of all heads with any q "
    "changes the decision",
    direction="lower",
)
ATTACK_RADIUS = MetricSpec(
    "attack_radius",
    "attack radius",
    "smallest rho at which such a mixture was found to change the decision; 1 where none was",
    direction="lower",
)

DECISION = (KEEPING, KEEPING_UPPER, DISTANCE, PROOF)
HEADS = (HEAD_CERTIFIED, HEAD_FLIPPED, HEAD_OPEN, JOINT_FLIP, CERTIFIED_RADIUS, ATTACK_RADIUS)
METRICS = (JSD, UPPER, RATIO, REACHABLE, TVD, LIKELIHOOD, ACCURACY, *DECISION, *HEADS)
