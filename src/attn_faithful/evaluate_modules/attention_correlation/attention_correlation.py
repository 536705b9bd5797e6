"""Attention correlation: does attention rank the tokens as another measure of importance does?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.correlation import correlation_of_lists

_DESCRIPTION = """Kendall's tau-b (-1 to 1) between attention and importance over the content tokens of each text, its
mean, and the share of texts in which it is significant. 1: both rank the tokens alike, 0: unrelated, -1: opposite."""

_CITATION = """Sarthak Jain and Byron C. Wallace. Attention is not Explanation. NAACL 2019 (section 4.1, table 2)"""

_INPUTS = """
Args:
    predictions: attention weights over the content tokens, one list an example.
    references: importance of the same tokens (gradients, leave-one-out, any other), one list an example.
    magnitude: take absolute values of the references; attention has no sign.
    tie_tolerance: relative gap up to which neighbouring values count as tied; 0 repeats the papers.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    kendall_tau_b, std, interval, spearman, significant, significant_n5, prediction_ties, reference_ties, n, n5,
    n_undefined, reasons, reason, reason_n5; with reduction="none" lists of kendall_tau_b, p_value, spearman,
    prediction_ties, reference_ties, n_tokens, reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class AttentionCorrelation(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
            references=_base.ROW,
        )

    def _compute(self, predictions, references, magnitude=True, tie_tolerance=1e-6, reduction="mean"):
        return correlation_of_lists(
            predictions, references, magnitude=magnitude, tie_tolerance=tie_tolerance, reduction=reduction
        )
