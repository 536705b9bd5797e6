"""Importance entropy: do a few tokens hold the importance, or is it spread over the text?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.importance_entropy import importance_entropy_of_lists

_DESCRIPTION = """Normalized entropy of importance over the content tokens of each text, and its mean: 0 where one token
holds all, 1 where all tokens matter alike. Beside it entropy in nats, the number of tokens that matter, Gini."""

_CITATION = """Clara Meister, Stefan Lazov, Isabelle Augenstein, and Ryan Cotterell. Is Sparse Attention more
Interpretable? ACL 2021 (section 4)"""

_INPUTS = """
Args:
    predictions: importance of the content tokens (gradients, leave-one-out, attention, any other), one list an example.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    importance_entropy, std, low, high, n, n_undefined, reasons, reason, entropy, support_size, gini, n_mass,
    reason_mass; with reduction="none" lists of importance_entropy, entropy, support_size, gini, reason, reason_mass."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class ImportanceEntropy(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
        )

    def _compute(self, predictions, reduction="mean"):
        return importance_entropy_of_lists(predictions, reduction=reduction)
