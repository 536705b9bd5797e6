"""Attention permutation: does the prediction change when the attention weights are dealt to other tokens?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.permutation import permutation_of_lists

_DESCRIPTION = """Median change of the class probabilities (TVD, 0 to 1) over permutations of the attention weights of
each text, and its mean. 0: the prediction does not depend on which token holds which weight."""

_CITATION = """Sarthak Jain and Byron C. Wallace. Attention is not Explanation. NAACL 2019 (section 4.2.1)"""

_INPUTS = """
Args:
    predictions: class probabilities under permuted attention, one list of rows an example, one row a permutation other
        than the identity (all of them up to five tokens); an empty list where no permutation can change the attention.
    references: class probabilities under the model's own attention, one list an example.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    attention_permutation, std, low, high, n, n_undefined, reasons, reason, flips; with reduction="none" lists of
    attention_permutation, flips, reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class AttentionPermutation(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROWS,
            references=_base.ROW,
        )

    def _compute(self, predictions, references, reduction="mean"):
        return permutation_of_lists(predictions, references, reduction=reduction)
