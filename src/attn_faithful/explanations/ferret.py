"""Explanations of ferret."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import Explanations, ScoredText


def from_ferret(explanations: Any, *, explainer: str | None = None, tokenizer: Any = None) -> Explanations:
    """Explanations of ferret's ``Benchmark.explain`` and of its explainers, one or a list.

    Args:
        explanations: objects with ``text``, ``tokens`` (the tokenizer's, special ones too), ``scores``, ``explainer``
            and ``target``, as ``ferret.explainers.explanation.Explanation`` has.
        explainer: the name of one explainer, where there are several, such as "Partition SHAP".
        tokenizer: that of the model, which knows where its tokens stand; None to search for them in the text.

    Returns:
        explanations with ferret's scores, positive where a token speaks for the target.

    Raises:
        InputError: other objects, several explainers, tokens that are not in the text.

    Reference:
        Attanasio et al. (2023), section 3; the library ferret.

    Example:
        >>> from types import SimpleNamespace
        >>> found = SimpleNamespace(text="Unhappy", tokens=["[CLS]", "un", "##happy", "[SEP]"], explainer="LIME",
        ...     scores=[0, 0.5, 0.25, 0], target=1)
        >>> from_ferret(found)[0].spans
        ((0, 0), (0, 2), (2, 7), (0, 0))
    """
    listed = list(explanations) if isinstance(explanations, Sequence) else [explanations]
    for found in listed:
        lacking = [name for name in ("text", "tokens", "scores", "explainer") if not hasattr(found, name)]
        if lacking:
            raise InputError(
                f"Expected explanations of ferret, but got a {type(found).__name__} without {', '.join(lacking)}."
            )
    names = list(dict.fromkeys(found.explainer for found in listed))
    if explainer is not None:
        check_choice("explainer", explainer, names)
        listed = [found for found in listed if found.explainer == explainer]
    elif len(names) > 1:
        raise InputError(f"Expected explanations of one explainer, but got {', '.join(names)}; name one (explainer=).")
    return Explanations("ferret", tuple(_scored(found, tokenizer) for found in listed))


def _scored(found: Any, tokenizer: Any) -> ScoredText:
    tokens = [str(token) for token in found.tokens]
    target = getattr(found, "target", None)
    return ScoredText(
        text=found.text,
        tokens=tuple(tokens),
        spans=tuple(find_spans(found.text, tokens, tokenizer)),
        scores=tuple(np.asarray(found.scores, dtype=np.float64).tolist()),
        target=None if target is None else str(target),
    )
