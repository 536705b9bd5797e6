"""The letters of the shapes, the tables of a run folder and their columns. Imports nothing heavy.

Letters: B examples, K alternatives, S slots, T tokens, N hidden, H heads, C classes.
"""

from __future__ import annotations

SCHEMA_VERSION = 2

EXAMPLE = "example"
RATIONALE, IMPERMISSIBLE = "rationale", "impermissible"
MARKS = (RATIONALE, IMPERMISSIBLE)  # columns of a data set with a mark for each word, which are laid on the tokens

TABLES: dict[str, dict[str, str]] = {
    "predictions": {
        "example": "id of the example, unique in the data set",
        "label": "index of the gold label, -1 where unknown; a list of 0 and 1 for multi-label data",
        "probabilities": "probability of each class, in the order of the label names",
        "query": "of pairs: the question or hypothesis that asked the attention",
    },
    "tokens": {
        "example": "id of the example",
        "site": "where in the model the attention is",
        "slot": "which attention distribution of the site",
        "tokens": "content tokens as they stand in the text",
        "offsets": "start and end of each token in the text, flat: [start, end, start, end, ...]",
        "attention": "attention weight of each content token; they sum to 1, less what special tokens keep; of several "
        "heads and layers their mean",
        "informative": "1 where the token was planted as informative, where that is known",
        "saliency": "gradient with respect to each token's embedding, reduced to a number a token",
        "input_x_gradient": "gradient times embedding, reduced to a number a token",
        "integrated_gradients": "gradients along the path from the baseline, reduced to a number a token",
        "attention_gradient": "gradient of the prediction with respect to each attention weight, signed",
        "attention_x_gradient": "attention times that gradient, signed",
        "leave_one_out": "change of the prediction without the token",
        "state_saliency": "length of the gradient with respect to the encoder's state at each token",
        "state_leave_one_out": "change of the prediction without the state at each token",
        "hidden_gradient": "share of each token in what moves the encoder's states, averaged over the states",
        "occlusion": "change of the prediction with the token's embedding set to zero",
        "raw_attention": "attention of the token that a transformers model's classifier reads, heads as one",
        "value_norm": "length of what each token's values add to that token's state, through the output projection",
        "value_zeroing": "share of each token in what that token's state after a layer loses without one value vector",
        "rollout": "attention followed down through all layers, half of each around it",
        "attention_flow": "the most that can flow down to each token through all layers of attention",
        "attention_relevance": "attention that speaks for the target by its gradient, added up through all layers",
        "signed_input_x_gradient": "gradient times embedding, summed with its sign",
        "signed_integrated_gradients": "gradients along the path from the baseline, summed with their sign",
        "signed_leave_one_out": "the outcome with the token minus that without it",
        "learned_heads": "attention of all heads, each times the weight that training texts gave it",
        "random": "random importance, the control",
        "given": "importance that was computed elsewhere, from --source-file",
    },
    "variants": {
        "example": "id of the example",
        "site": "where in the model the attention is",
        "slot": "which attention distribution of the site; of the alternative head-flip the one that was changed",
        "test": "name of the evaluator",
        "variant": "which alternative: objective and seed of a twin, the method and rank of an adversary",
        "attention_jsd": "JSD between the alternative's attention and the model's, nats, 0 to ln 2",
        "output_tvd": "TVD between the alternative's probabilities and the model's, 0 to 1",
        "probabilities": "probability of each class under the alternative",
        "attention": "attention of the alternative, a weight a content token; they sum to what the model's own do",
        "changes": "permutations: output_tvd of each, in order; erasure: comprehensiveness at each share",
        "p_values": "erasure: how unusual the text is to the model (MaSF), without the top items at each share, then "
        "with these alone",
        "label": "of multi-label models: which label was asked, where one was by itself",
        "removed": "which items were removed, by their place among the items",
        "core": "items whose attention proves the decision, by their place among the items",
        "exact": "whether the alternative is the best there is; false for the best that a search found",
    },
    "controls": {
        "example": "id of the example",
        "control": "its name in summary.json: which it is, and the twin's variant and seed where there is one",
        "probabilities": "probability of each class, in the order of the label names",
    },
    "history": {
        "run": "which training: base or the twin's variant and seed",
        "epoch": "1-based",
        "metric": "name of the value",
        "value": "the value",
    },
    "scores": {
        "example": "id of the example; null for a value of the whole split",
        "site": "where in the model the attention is",
        "slot": "which attention distribution of the site",
        "source": "what was scored: attention or a control in its place, two sources (a~b), a twin's variant and seed",
        "label": "of multi-label models: which label was asked, where one was by itself",
        "metric": "name from the metric table",
        "value": "the value; NaN where undefined",
        "reason": "why it is undefined; null where it is defined",
    },
}


def columns(table: str) -> tuple[str, ...]:
    """Names of a table's columns, in order.

    Example:
        >>> columns("predictions")
        ('example', 'label', 'probabilities', 'query')
    """
    return tuple(TABLES[table])
