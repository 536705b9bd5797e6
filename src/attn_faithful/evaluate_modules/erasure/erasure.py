"""Erasure: does the prediction need the most important tokens, and are they enough for it?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.erasure import erasure_of_lists

_DESCRIPTION = """Comprehensiveness (what the predicted probability loses without the most important tokens, higher is
more faithful) and sufficiency (what it loses with only them, lower is more faithful), means over shares of tokens."""

_CITATION = """Jay DeYoung, Sarthak Jain, Nazneen Fatema Rajani, Eric Lehman, Caiming Xiong, Richard Socher, and
Byron C. Wallace. ERASER: A Benchmark to Evaluate Rationalized NLP Models. ACL 2020 (section 4.2)"""

_INPUTS = """
Args:
    predictions: probabilities of the target class without the top tokens, one list an example, one number a share.
    references: probability of the same class for the whole text, one number an example.
    sufficient: probabilities of the same class with only the top tokens, one list an example, one number a share.
    reduction: "mean" for the data set, "none" for lists with one value an example.
    removals: None, or three lists of the same probabilities without the first 1, 2, ... n - 1 tokens, one list an
        example: along the ranking, the best order and the worst.
Returns:
    comprehensiveness, std, low, high, n, n_undefined, reasons, reason, sufficiency, sufficiency_std, sufficiency_low,
    sufficiency_high, comprehensiveness_by_share, sufficiency_by_share, naopc, naopc_low, naopc_high, naopc_n,
    naopc_reasons; with reduction="none" lists of comprehensiveness, sufficiency, reason, naopc, naopc_reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Erasure(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
            references=_base.NUMBER,
            sufficient=_base.ROW,
        )

    def _compute(self, predictions, references, sufficient, reduction="mean", removals=None):
        return erasure_of_lists(predictions, references, sufficient, reduction=reduction, removals=removals)
