"""The permutation that changes nothing is drawn among the others (Jain and Wallace 2019, section 4.2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evidence.published_faults.comparing import compared_means
from evidence.published_faults.effects import Comparison, Fault
from evidence.published_faults.trained import Trained, aligned

FAULT = Fault(
    name="identity_permutation",
    title="The identity among the permutations",
    paper="jain_wallace_2019",
    where="successar/AttentionExplanation, model/Binary_Classification.py, permute_attn",
    published="draws 100 permutations of all, with replacement, whatever the length: half of those of two words change "
    "nothing",
    printed="100 permutations, and not how they are drawn; here all but the identity up to five words, and 100 without "
    "it beyond",
    remark="Their loader leaves texts of five words or fewer out of SST, so that its numbers hardly move.",
)

LONGEST = 5  # words, up to which all permutations are gone through
SCORE = "attention_permutation attention"
GROUPS = {"2 words": (2, 2), "3 words": (3, 3), "4 or 5 words": (4, LONGEST), "6 words or more": (LONGEST + 1, np.inf)}


def measure(models: Sequence[Trained]) -> dict[tuple[str, str, str], Comparison]:
    """(metric, unit, texts) -> the median TVD of a text, by the number of its words."""
    published = aligned([model.scores({"permutation": {"permutations": 100, "identity": True}}) for model in models])
    printed = aligned([model.scores({"permutation": {"permutations": 100, "identity": False}}) for model in models])
    found = {}
    for texts, (fewest, most) in {"all": (0, np.inf), **GROUPS}.items():
        ways = []
        for frames in (published, printed):
            inside = [frame["items"].between(fewest, most) for frame in frames]
            ways.append(
                [frame[SCORE].where(of_group).to_numpy() for frame, of_group in zip(frames, inside, strict=True)]
            )
        if any(np.isfinite(values).any() for values in ways[0]):
            found["median TVD", "probability", texts] = compared_means(*ways)
    return found
