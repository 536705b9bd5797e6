"""Adversarial attention: how far can attention move while the prediction stays?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.adversarial import adversarial_of_lists

_DESCRIPTION = """eps-max JSD: the largest divergence (JSD, nats, 0 to ln 2) from the model's attention among
alternatives that change its class probabilities by at most eps (TVD); its mean over texts. 0: attention cannot move."""

_CITATION = """Sarthak Jain and Byron C. Wallace. Attention is not Explanation. NAACL 2019 (section 4.2.2)"""

_INPUTS = """
Args:
    predictions: class probabilities under alternative attention, one list of rows an example, one row an alternative.
    references: class probabilities under the model's own attention, one list an example.
    prediction_attentions: the alternatives over the content tokens, one list of rows an example.
    reference_attentions: the model's own attention over the same tokens, one list an example.
    eps: largest change of the class probabilities (TVD) that an alternative may make.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    adversarial_attention, std, low, high, n, n_undefined, reasons, reason, n_none, jsd_reachable, ratio, n_ratio,
    reason_ratio, tvd; with reduction="none" lists of adversarial_attention, jsd_reachable, ratio, tvd, n_within,
    reason, reason_ratio."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class AdversarialAttention(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROWS,
            references=_base.ROW,
            prediction_attentions=_base.ROWS,
            reference_attentions=_base.ROW,
        )

    def _compute(
        self, predictions, references, prediction_attentions, reference_attentions, eps=0.01, reduction="mean"
    ):
        return adversarial_of_lists(
            predictions, references, prediction_attentions, reference_attentions, eps=eps, reduction=reduction
        )
