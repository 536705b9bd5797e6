"""AtteFa: how faithful attention is, from a base model and its adversarially trained twin."""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.attefa import attefa_of_lists

_DESCRIPTION = """AtteFa = min(mean TVD / (mean JSD / ln 2), 1), where TVD (0 to 1) compares the class probabilities of
an adversarially trained twin with the base model's, and JSD (nats) their attention. 0: it moves freely, 1: not."""

_CITATION = """Hessam Amini and Leila Kosseim. How (Un)Faithful is Attention? (section 3.3, equation 7)"""

_INPUTS = """
Args:
    predictions, references: class probabilities of the twin and of the base, one list an example.
    prediction_attentions, reference_attentions: their attention over the content tokens, one list an example.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    attefa, tvd, jsd, s_jsd, n, n_undefined, reason; with reduction="none" lists of attefa, tvd, jsd, reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Attefa(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
            references=_base.ROW,
            prediction_attentions=_base.ROW,
            reference_attentions=_base.ROW,
        )

    def _compute(self, predictions, references, prediction_attentions, reference_attentions, reduction="mean"):
        return attefa_of_lists(
            predictions, references, prediction_attentions, reference_attentions, reduction=reduction
        )
