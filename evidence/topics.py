"""What is kept of evaluations for the pages of docs/results: of each topic its metrics and their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

EVERY = ("*",)
ORDERS = ("attention", "attention_gradient", "attention_x_gradient", "random_ranking")
WORDS = ("attention", "attention_gradient", "attention_x_gradient", "random")


@dataclass(frozen=True)
class Topic:
    """The numbers that the tables of a topic need.

    Attributes:
        kept: metric -> patterns of the sources that are kept.
        cores: whether numbers of certified cores are made from the scores of texts.
        shown: whether it is kept which sources may be shown.
        twins: whether the numbers of twins are kept.
        agreement: sources whose tau with every other source is made from the table of tokens.
    """

    kept: Mapping[str, Sequence[str]]
    cores: bool = False
    shown: bool = False
    twins: bool = False
    agreement: Sequence[str] = ()

    def keeps(self, metric: str, source: str) -> bool:
        """Whether a number is one of them."""
        return any(fnmatchcase(source, pattern) for pattern in self.kept.get(metric, ()))


TOPICS = {
    "shown_sst": Topic(
        {
            "core_is_top": ("attention", "random_ranking"),
            "naopc_removal": ORDERS,
            "flip_optimal": ORDERS,
            "polarity_violation": WORDS,
            "polarity_violation_removal": ("attention",),
            "stability_tau": WORDS,
        },
        cores=True,
        shown=True,
    ),
    "shown_minilm": Topic(
        {
            "naopc": EVERY,
            "naopc_removal": ORDERS,
            "comprehensiveness": EVERY,
            "polarity_violation": EVERY,
            "stability_tau": EVERY,
        },
        shown=True,
    ),
    "sources_minilm": Topic(
        {"comprehensiveness": EVERY, "sufficiency": EVERY},
        agreement=("leave_one_out", "signed_leave_one_out"),
    ),
    "randomisation": Topic(
        {
            "randomisation_tau": EVERY,
            "randomisation_draw": EVERY,
            "randomisation_cascading": EVERY,
            "randomisation_single": ("*@encoder.layer.3", "*@embeddings"),
        }
    ),
    "leverage": Topic(
        {
            "attention_proof": ("attention",),
            "flip_distance": ("attention",),
            "core_is_top": ("attention",),
            "conicity": ("attention",),
            "comprehensiveness": ("attention", "random"),
            "naopc_removal": ORDERS,
            "polarity_violation": WORDS,
            "polarity_violation_removal": ("attention",),
        },
        shown=True,
    ),
    "stability": Topic(
        {
            "stability_tau": ("attention",),
            "importance_entropy": ("attention",),
            "attention_correlation": ("attention~input_x_gradient",),
            "polarity_violation": ("attention", "random"),
        }
    ),
    "lin_tasc": Topic(
        {
            "decision_flip": ORDERS,
            "flip_never": ("smallest_set",),
            "attention_proof": ("attention",),
            "flip_distance": ("attention",),
            "polarity_violation": WORDS,
            "attention_correlation": ("attention~input_x_gradient",),
            "stability_tau": ("attention",),
            "importance_entropy": ("attention",),
            "conicity": ("attention",),
        }
    ),
    "projections": Topic({"decision_flip": ("attention",), "zero_attention": ("attention",)}),
    "mohankumar_2020": Topic(
        {
            "conicity": ("attention",),
            "attention_correlation": ("attention~input_x_gradient",),
            "plausibility": ("attention", "random"),
            "decision_flip": ("attention",),
            "flip_never": ("smallest_set",),
        }
    ),
    "pruthi_2020": Topic(
        {
            "impermissible_mass": ("attention", "leave_one_out"),
            "impermissible_share": ("attention",),
            "naopc_removal": ORDERS,
            "polarity_violation": ("attention",),
            "adversarial_attention": ("attention",),
            "attention_proof": ("attention",),
            "js_negative": ("attention", "attention_gradient"),
            "importance_entropy": ("attention",),
            "attention_correlation": ("attention~leave_one_out",),
            "decision_flip": ("attention",),
        }
    ),
    "faithful_attention": Topic(
        {
            "conicity": ("attention",),
            "attention_proof": ("attention",),
            "flip_distance": ("attention",),
            "polarity_violation": ("attention",),
            "polarity_violation_removal": ("attention",),
            "naopc_removal": ORDERS,
            "stability_tau": ("attention",),
            "plausibility": ("attention", "random"),
            "attention_correlation": ("attention~input_x_gradient",),
        },
        shown=True,
        twins=True,
    ),
}
