"""Attributions of Captum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import Explanations, ScoredText


def from_captum(
    attributions: Any, texts: Sequence[str] | str, tokenizer: Any = None, *, input_ids: Any = None
) -> Explanations:
    """Attributions of Captum: a tensor of token attributions, records of its visualization, or results for an LLM.

    Args:
        attributions: of B texts, one of: a tensor (B, T, N) of embeddings, whose last axis is summed as Captum's
            tutorials do, or (B, T); a list with a tensor (1, T, N), (1, T) or (T,) for each text; a list of
            ``VisualizationDataRecord``; a ``LLMAttributionResult``, or a list.
        texts: raw, one each.
        tokenizer: that made the model's inputs; tensors need it. Of records it may be left out: their tokens are
            searched for in the text.
        input_ids: of tensors, (B, T), what the model read; None where it read ``tokenizer(texts, padding=True)``.

    Returns:
        explanations with Captum's attributions, in the unit of the output that was explained.

    Raises:
        InputError: other objects or shapes, no tokenizer where one is needed, tokens that are not in the text.

    Reference:
        Kokhlikyan et al. (2020); the library captum.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> tokenizer = train_tokenizer(["good film"])
        >>> found = from_captum(torch.tensor([[[1.0, 2.0], [0.5, -1.0]]]), ["Good film"], tokenizer)
        >>> found[0].scores, found[0].spans
        ((3.0, -0.5), ((0, 4), (5, 9)))
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    listed = _listed(attributions)
    check_same_length(("texts", "attributions"), (texts, listed))
    if not any(isinstance(of_text, Tensor) for of_text in listed):
        return Explanations("captum", tuple(map(partial(_of_record, tokenizer=tokenizer), texts, listed)))
    if tokenizer is None:
        raise InputError("Expected the tokenizer that made the model's inputs, which says what each attribution is of.")
    read = _read(texts, listed, tokenizer, input_ids, together=isinstance(attributions, Tensor))
    check_same_length(("texts", "input_ids"), (texts, read))
    return Explanations("captum", tuple(map(partial(_of_tensor, tokenizer=tokenizer), texts, listed, read)))


def _listed(attributions: Any) -> list[Any]:
    """One entry a text: a tensor (T,), or a record."""
    if isinstance(attributions, Tensor):
        if attributions.dim() not in (1, 2, 3):
            raise InputError(
                f"Expected attributions of shape (B, T, N), (B, T) or (T,), but got {tuple(attributions.shape)}."
            )
        batch = attributions[None] if attributions.dim() == 1 else attributions
        return list(_summed(batch))
    if not isinstance(attributions, Sequence):
        return [attributions]
    listed: list[Any] = []
    for entry in attributions:
        if isinstance(entry, Tensor):
            listed += _listed(entry)
        else:
            listed.append(entry)
    return listed


def _summed(batch: Tensor) -> Tensor:
    """Attributions of embeddings (B, T, N), or of tokens (B, T), as (B, T) in float64."""
    batch = batch.detach().double().cpu()
    return batch.sum(-1) if batch.dim() == 3 else batch


def _read(texts: list[str], listed: list[Any], tokenizer: Any, input_ids: Any, together: bool) -> list[list[int]]:
    """What the model read of each text, padding too.

    Args:
        texts, listed, tokenizer, input_ids: see :func:`from_captum`.
        together: whether the texts were padded to one length.
    """
    if input_ids is not None:
        return [[int(number) for number in ids] for ids in input_ids]
    padding = together and len(texts) > 1  # one text needs no padding, and its tokenizer no token for it
    read: list[list[int]] = tokenizer(texts, padding=padding, verbose=False)["input_ids"]
    for text, of_text, ids in zip(texts, listed, read, strict=True):
        if len(of_text) != len(ids):
            raise InputError(
                f"Expected an attribution for each of the {len(ids)} tokens of {text!r:.60}, padding counted, but got "
                f"{len(of_text)}; where the model's inputs were cut or padded otherwise, or without special "
                "tokens, give input_ids=."
            )
    return read


def _of_tensor(text: str, scores: Tensor, ids: list[int], *, tokenizer: Any) -> ScoredText:
    tokens = tokenizer.convert_ids_to_tokens(ids)
    return _scored(text, tokens, scores.tolist(), None, tokenizer)


def _of_record(text: str, record: Any, *, tokenizer: Any) -> ScoredText:
    """A record of the visualization, or a result for a large language model."""
    if hasattr(record, "seq_attr"):
        return _scored(text, record.input_tokens, record.seq_attr.tolist(), "".join(record.output_tokens), tokenizer)
    if not hasattr(record, "word_attributions"):
        raise InputError(
            "Expected a tensor, a VisualizationDataRecord or a LLMAttributionResult, but got a "
            f"{type(record).__name__}."
        )
    scores = torch.as_tensor(record.word_attributions).double().tolist()
    target = None if record.attr_class is None else str(record.attr_class)
    return _scored(text, record.raw_input_ids, scores, target, tokenizer)


def _scored(text: str, tokens: Sequence[str], scores: list[float], target: str | None, tokenizer: Any) -> ScoredText:
    spans = find_spans(text, tokens, tokenizer)
    return ScoredText(text, tuple(tokens), tuple(spans), tuple(scores), target)
