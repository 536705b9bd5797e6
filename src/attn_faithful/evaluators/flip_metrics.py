"""The rows of the metric table of the test `flips`."""

from __future__ import annotations

import math

from attn_faithful.evaluators.aopc_scores import AopcMetrics
from attn_faithful.evaluators.base import MetricSpec
from attn_faithful.functional.divergences import LN2

# of a ranking, or of the smallest set
FRACTION = MetricSpec(
    "decision_flip",
    "fraction removed",
    "share of the items that must be removed, along the ranking, until the decision changes",
    direction="lower",
)
MASS = MetricSpec(
    "flip_mass",
    "mass removed",
    "share of the attention on all items that these items hold; what special tokens keep is no part of it",
    unit="probability",
)
SIZE = MetricSpec(
    "flip_size",
    "items removed",
    "number of these items",
    low=1.0,
    high=math.inf,
    direction="lower",
)
RATIO = MetricSpec(
    "flip_ratio",
    "over smallest",
    "items removed over those of the smallest set that changes the decision (of the "
    "smallest that was found, where the read-out is not affine)",
    high=math.inf,
    direction="lower",
)
OPTIMAL = MetricSpec(
    "flip_optimal",
    "optimal",
    "whether no set that changes the decision is smaller (as far as is known, where the read-out is not affine)",
    direction="higher",
)
AT_LAST = MetricSpec(
    "flip_at_last",
    "only at the last",
    "whether the decision changes only once nothing at all is left",
    direction="lower",
)
NEVER_FLIPS = MetricSpec(
    "flip_never",
    "never flips",
    "whether the ranking never changes the decision, to the last item",
)
SPREAD = MetricSpec(
    "flip_spread",
    "spread of draws",
    "standard deviation of the fraction removed over the random rankings",
)

TRIED = MetricSpec(
    "flip_tried",
    "removals tried",
    "number of removals that the model was asked for to find the smallest set, where the read-out is not affine",
    high=math.inf,
    shown=False,
)

# of the items whose attention must be believed, and of a ranking
CORE_SIZE = MetricSpec(
    "core_size",
    "items in the core",
    "fewest items whose attention must be believed: with theirs as it is the decision stands however the rest is dealt "
    "to the other items; 0 where no attention changes it; for more than two classes the fewest that were found",
    high=math.inf,
)
CORE_LOWER = MetricSpec(
    "core_size_lower",
    "its lower bound",
    "what no core has fewer items than; the size itself for two classes",
    high=math.inf,
    shown=False,
)
CORE_SHARE = MetricSpec(
    "core_share",
    "core over items",
    "items in the core over all items",
)
CORE_IS_TOP = MetricSpec(
    "core_is_top",
    "top is a core",
    "whether as many items as the core has are a core from the top of the ranking, of texts whose core has an item; of "
    "random rankings the share of draws",
    direction="higher",
)

# of the top item removed alone, beside a random other one
SINGLE_JS = MetricSpec(
    "single_js",
    "JS without the top",
    "JSD of the prediction and that without the top item",
    high=LN2,
    direction="higher",
    unit="nats",
)
JS_DIFFERENCE = MetricSpec(
    "js_difference",
    "delta JS",
    "JSD without the top item minus JSD without a random other item",
    low=-LN2,
    high=LN2,
    direction="higher",
    unit="nats",
)
NEGATIVE = MetricSpec(
    "js_negative",
    "delta JS < 0",
    "whether the random other item matters more than the top one",
    direction="lower",
)
ATTENTION_DIFFERENCE = MetricSpec(
    "attention_difference",
    "delta attention",
    "attention to the top item minus attention to the random other one",
    low=-1.0,
    shown=False,
)
BOTH = MetricSpec(
    "flip_both",
    "both flip",
    "whether removing the top item changes the decision, and so does a random other one",
    shown=False,
)
TOP_ONLY = MetricSpec(
    "flip_top_only",
    "top only",
    "whether removing the top item changes the decision, and a random other one does not",
    shown=False,
)
RANDOM_ONLY = MetricSpec(
    "flip_random_only",
    "random only",
    "whether only removing the random other item changes the decision",
    shown=False,
)
NEITHER = MetricSpec(
    "flip_neither",
    "neither",
    "whether neither removal changes the decision",
    shown=False,
)

# of two rankings
SOONER = MetricSpec(
    "flips_sooner",
    "flips with fewer",
    "whether the first ranking needs fewer items than the second",
    shown=False,
)
LATER = MetricSpec(
    "flips_later",
    "flips with more",
    "whether the first ranking needs more items than the second",
    shown=False,
)
DIFFERENCE = MetricSpec(
    "flip_difference",
    "difference of fractions",
    "fraction removed by the first ranking minus that of the second",
    low=-1.0,
    shown=False,
)

# of a ranking, between all orders of removals
REMOVAL_AOPC = AopcMetrics.named("_removal", ", removal", "removed from the attention")

METRICS = (
    FRACTION,
    MASS,
    SIZE,
    RATIO,
    OPTIMAL,
    AT_LAST,
    NEVER_FLIPS,
    SPREAD,
    TRIED,
    CORE_SIZE,
    CORE_LOWER,
    CORE_SHARE,
    CORE_IS_TOP,
    SINGLE_JS,
    JS_DIFFERENCE,
    NEGATIVE,
    ATTENTION_DIFFERENCE,
    BOTH,
    TOP_ONLY,
    RANDOM_ONLY,
    NEITHER,
    SOONER,
    LATER,
    DIFFERENCE,
    *REMOVAL_AOPC.all,
)
