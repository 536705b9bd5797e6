"""Explanations of LIME."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError
from attn_faithful.explanations.base import Explanations, ScoredText
from attn_faithful.explanations.targets import named_class


def from_lime(explanations: Any, *, target: int | str | None = None) -> Explanations:
    """Explanations of LIME's ``LimeTextExplainer``, one or a list.

    A bag of words (``bow=True``) has one weight for all occurrences of a word: they share it evenly, so that the scores
    of a text add up to the weights of LIME's model. Words that LIME was not asked for have no score; explain with
    ``num_features`` as large as the text.

    Args:
        explanations: what ``explain_instance`` gives.
        target: index or name of a class that was explained; None for the predicted one.

    Returns:
        explanations with LIME's weights, in probability, positive where a word speaks for the class.

    Raises:
        InputError: no explanation of texts, or none of the class.

    Reference:
        Ribeiro et al. (2016), section 3; the library lime.

    Example:
        >>> from types import SimpleNamespace as Some
        >>> string = Some(raw_string=lambda: "bad, bad film", num_words=lambda: 2, word=["bad", "film"].__getitem__,
        ...     string_position=[[0, 5], [9]].__getitem__)
        >>> found = Some(domain_mapper=Some(indexed_string=string), mode="classification", predict_proba=[0.75, 0.25],
        ...     class_names=["negative", "positive"], local_exp={0: [(0, 0.5), (1, -0.25)]})
        >>> from_lime(found)[0].scores, from_lime(found)[0].spans, from_lime(found)[0].target
        ((0.25, 0.25, -0.25), ((0, 3), (5, 8), (9, 13)), 'negative')
    """
    listed = list(explanations) if isinstance(explanations, Sequence) else [explanations]
    return Explanations("lime", tuple(_scored(explanation, target) for explanation in listed))


def _scored(explanation: Any, target: int | str | None) -> ScoredText:
    string = getattr(getattr(explanation, "domain_mapper", None), "indexed_string", None)
    if string is None:
        raise InputError(
            f"Expected an explanation of LimeTextExplainer, but got {type(explanation).__name__!r} without words."
        )
    text = string.raw_string()
    label, name = _label(explanation, text, target)
    weights = {int(feature): float(weight) for feature, weight in explanation.local_exp[label]}
    occurrences = []
    for feature in range(string.num_words()):
        starts = np.atleast_1d(string.string_position(feature)).ravel().tolist()
        score = weights.get(feature, math.nan) / len(starts)
        word = string.word(feature)
        for start in starts:
            occurrences.append((start, str(word), score))
    occurrences.sort()
    return ScoredText(
        text=text,
        tokens=tuple(word for _, word, _ in occurrences),
        spans=tuple((start, start + len(word)) for start, word, _ in occurrences),
        scores=tuple(score for _, _, score in occurrences),
        target=name,
    )


def _label(explanation: Any, text: str, target: int | str | None) -> tuple[int, str | None]:
    """The key of a class among those that were explained, and its name."""
    explained = list(explanation.local_exp)
    if explanation.mode != "classification":
        return explanation.dummy_label, None
    probabilities = np.asarray(explanation.predict_proba)  # (C,)
    label, name = named_class(target, explanation.class_names, len(probabilities), int(probabilities.argmax()))
    if label not in explained:
        classes = ", ".join(str(explanation.class_names[int(key)]) for key in explained)
        raise InputError(
            f"Expected LIME's explanation of the class {name!r} of {text!r:.60}, but it explains {classes}; explain "
            "with top_labels=1 for the predicted class, or name the class (target=)."
        )
    return label, name
