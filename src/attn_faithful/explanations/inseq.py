"""Explanations of inseq."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import Explanations, ScoredText


def from_inseq(
    output: Any, texts: Sequence[str] | str | None = None, *, step: int | None = None, tokenizer: Any = None
) -> Explanations:
    """Explanations of an inseq ``FeatureAttributionOutput``: of the source of an encoder-decoder, or of the prompt.

    Scores with an axis of embeddings are aggregated as inseq does by default.

    Args:
        output: what ``model.attribute`` gives.
        texts: raw; None for those that inseq was given.
        step: the generated token that is explained, by its number; None for all of them, whose scores are summed.
        tokenizer: that of the model, which knows where its tokens stand; None to search for them in the text.

    Returns:
        explanations with inseq's scores; most of its methods give lengths, which have no sign.

    Raises:
        InputError: another object, no texts, a step that was not generated, tokens that are not in the text.

    Reference:
        Sarti et al. (2023), section 3; the library inseq.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace as Some
        >>> sequence = Some(source=[Some(token="\u2581Good"), Some(token="\u2581film")], target=[Some(token="yes")],
        ...     source_attributions=torch.tensor([[0.75], [0.25]]), attr_pos_start=0, attr_pos_end=1)
        >>> output = Some(sequence_attributions=[sequence], info={"input_texts": ["Good film"]})
        >>> from_inseq(output)[0].scores, from_inseq(output)[0].spans
        ((0.75, 0.25), ((0, 4), (5, 9)))
    """
    sequences = getattr(output, "sequence_attributions", None)
    if sequences is None:
        raise InputError(f"Expected a FeatureAttributionOutput of inseq, but got a {type(output).__name__}.")
    if texts is None:
        texts = (getattr(output, "info", None) or {}).get("input_texts")
    if texts is None:
        raise InputError("Expected the texts that inseq explains, but the output does not hold them; give texts=.")
    if isinstance(texts, str):
        texts = [texts]
    check_same_length(("texts", "the explanations"), (texts, sequences))
    found = []
    for text, sequence in zip(texts, sequences, strict=True):
        found.append(_scored(text, sequence, step, tokenizer))
    return Explanations("inseq", tuple(found))


def _scored(text: str, sequence: Any, step: int | None, tokenizer: Any) -> ScoredText:
    of_source = sequence.source_attributions is not None
    if (sequence.source_attributions if of_source else sequence.target_attributions).dim() > 2:
        sequence = sequence.aggregate()
    # (tokens, steps) of the source, or of the prompt and what was generated behind it
    scores = sequence.source_attributions if of_source else sequence.target_attributions
    read = sequence.source if of_source else sequence.target[: sequence.attr_pos_start]
    tokens = [item.token for item in read]
    generated = [item.token for item in sequence.target[sequence.attr_pos_start : sequence.attr_pos_end]]
    scores = scores[: len(tokens)].double().cpu()
    if step is None:
        values, target = scores.sum(1), " ".join(generated)
    else:
        n_steps = scores.shape[1]
        if not -n_steps <= step < n_steps:
            raise InputError(f"Expected a generated token from 0 to {n_steps - 1} of {text!r:.60}, but got {step}.")
        values, target = scores[:, step], generated[step]
    return ScoredText(
        text=text,
        tokens=tuple(tokens),
        spans=tuple(find_spans(text, tokens, tokenizer)),
        scores=tuple(values.tolist()),
        target=target,
    )
