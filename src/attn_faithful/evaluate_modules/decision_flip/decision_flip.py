"""Decision flips: how many items does a ranking remove until the decision changes?"""

import evaluate

import attn_faithful.metrics.base as _base  # a class imported by name would be taken for the metric
from attn_faithful.metrics.decision_flip import decision_flip_of_lists

_DESCRIPTION = """The fraction of attended items that are removed, from the top of an importance ranking down and with
the rest renormalized, until a classifier's decision changes; its mean over texts. Beside it the fraction of the
smallest set of all that changes the decision, NAOPC (the loss of probability along the ranking between that of the
worst and of the best order) and the certified core: the fewest items whose attention proves the decision, whatever the
rest of the attention is. Lower says that the ranking finds what the decision rests on."""

_CITATION = """Sofia Serrano and Noah A. Smith. Is Attention Interpretable? ACL 2019 (section 5)"""

_INPUTS = """
Args:
    predictions: importance of each item by the ranking that is judged, one list an example.
    references: attention weights of the same items, one list an example.
    token_logits: what each item alone would say, without the bias, one list of rows an example, one row an item.
    biases: the bias of each class, one list an example.
    reduction: "mean" for the data set, "none" for lists with one value an example.
Returns:
    decision_flip, std, low, high, n, n_undefined, reasons, reason, mass, single_flip, smallest, ratio, optimal,
    naopc, core_size, core_share, core_is_top, core_reasons, naopc_reasons; with reduction="none" lists of
    decision_flip, mass, single_flip, smallest, ratio, optimal, naopc, core_size, core_share, core_is_top, reason,
    core_reason, naopc_reason."""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _INPUTS)
class DecisionFlip(_base.Metric):
    def _info(self):
        return _base.info(
            _DESCRIPTION,
            _CITATION,
            _INPUTS,
            predictions=_base.ROW,
            references=_base.ROW,
            token_logits=_base.ROWS,
            biases=_base.ROW,
        )

    def _compute(self, predictions, references, token_logits, biases, reduction="mean"):
        return decision_flip_of_lists(predictions, references, token_logits, biases, reduction=reduction)
