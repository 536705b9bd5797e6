"""Plausibility: does importance point at the tokens that people marked as the reason?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.plausibility import plausibility_of_lists

_DESCRIPTION = """Agreement of importance with human rationales: area under the precision-recall curve (AUPRC), token
F1 and span F1 (IOU) of the most important tokens, 0 to 1. Plausible explanations need not be faithful."""

_CITATION = """Jay DeYoung, Sarthak Jain, Nazneen Fatema Rajani, Eric Lehman, Caiming Xiong, Richard Socher, and
Byron C. Wallace. ERASER: A Benchmark to Evaluate Rationalized NLP Models. ACL 2020 (section 4.1)"""

_INPUTS = """
Args:
    predictions: importance of the content tokens, higher first, one list an example.
    references: 1 for the tokens that people marked, 0 for the others, one list an example.
    share: of the tokens that is selected for the F1 scores; None for as many as the rationale has.
    threshold: overlap (intersection over union) from which a selected span is a hit.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    auprc, std, low, high, n, n_undefined, reasons, reason, random_auprc, token_f1, token_precision, token_recall,
    iou_f1, iou_precision, iou_recall; with reduction="none" lists of auprc, random_auprc, token_f1, token_precision,
    token_recall, iou_f1, iou_precision, iou_recall, reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class Plausibility(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
            references=_base.MARKS,
        )

    def _compute(self, predictions, references, share=None, threshold=0.5, reduction="mean"):
        return plausibility_of_lists(predictions, references, share=share, threshold=threshold, reduction=reduction)
