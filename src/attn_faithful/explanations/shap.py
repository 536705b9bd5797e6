"""Explanations of SHAP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.data.normalization import Span
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import Explanations, ScoredText
from attn_faithful.explanations.targets import named_class


def from_shap(
    explanation: Any,
    texts: Sequence[str] | str | None = None,
    *,
    target: int | str | None = None,
    tokenizer: Any = None,
) -> Explanations:
    """Explanations of a ``shap.Explanation`` of texts, of one row or of many, by the masker ``shap.maskers.Text``.

    Args:
        explanation: with ``values`` (tokens,) or (tokens, C) a text and ``data``, the pieces of the text.
        texts: raw; None for the pieces put together, which is the text where the tokenizer has offsets and cuts no
            character into pieces.
        target: index or name of a class; None for the one that each text is given by SHAP's own sum, ``base value +
            sum of values``, where there are several.
        tokenizer: that of the masker; needed only where pieces are not found in the text.

    Returns:
        explanations with SHAP's values, in the unit of the model's output, positive where a piece speaks for the class.

    Raises:
        InputError: no texts, another number of texts or classes, pieces that are not in the text.

    Reference:
        Lundberg and Lee (2017), section 4; the library shap.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> row = SimpleNamespace(values=np.array([0.5, -0.25]), data=np.array(["good ", "film"]), base_values=0.5,
        ...     output_names="positive")
        >>> from_shap(row)[0].spans, from_shap(row)[0].target
        (((0, 5), (5, 9)), 'positive')
    """
    for name in ("values", "data", "base_values"):
        if not hasattr(explanation, name):
            raise InputError(f"Expected a shap.Explanation, but got a {type(explanation).__name__}.")
    rows = _rows(explanation)
    if isinstance(texts, str):
        texts = [texts]
    if texts is not None:
        check_same_length(("texts", "the explanation"), (texts, rows))
    found = []
    for place, (pieces, values, base) in enumerate(rows):
        text = "".join(pieces) if texts is None else texts[place]
        scores, name = _of_class(values, base, explanation.output_names, target)
        spans = _spans(text, pieces, tokenizer)
        found.append(ScoredText(text, tuple(pieces), tuple(spans), tuple(scores.tolist()), name))
    return Explanations("shap", tuple(found))


def _rows(explanation: Any) -> list[tuple[list[str], np.ndarray, Any]]:
    """The pieces, the values and the base value of each text."""
    data, values, base = explanation.data, explanation.values, explanation.base_values
    if data is None or not len(data):
        raise InputError("Expected a shap.Explanation of texts, but its `data` is empty.")
    if isinstance(data[0], str):
        data, values, base = [data], [values], [base]
    first = data[0]
    if isinstance(first, str) or not hasattr(first, "__len__") or not all(isinstance(piece, str) for piece in first):
        raise InputError(
            f"Expected a shap.Explanation of texts, but its `data` holds {data[0]!r:.60}; explain texts with the "
            "masker shap.maskers.Text."
        )
    bases = np.broadcast_to(base, len(data)) if np.ndim(base) == 0 else base
    rows = []
    for pieces, row_values, row_base in zip(data, values, bases, strict=True):
        array = np.asarray(row_values, dtype=np.float64)  # (tokens,) or (tokens, C)
        if array.ndim not in (1, 2) or len(array) != len(pieces):
            raise InputError(
                f"Expected values of shape (tokens,) or (tokens, classes) for {len(pieces)} tokens, but got "
                f"{array.shape}."
            )
        rows.append(([str(piece) for piece in pieces], array, row_base))
    return rows


def _of_class(values: np.ndarray, base: Any, names: Any, target: int | str | None) -> tuple[np.ndarray, str | None]:
    """The values of one class, and its name."""
    if values.ndim == 1:
        name = str(names) if isinstance(names, str) else None
        if target is not None and name is not None and str(target) != name:
            raise InputError(f"Expected an explanation of the class {target!r}, but this one is of {name!r}.")
        return values, name
    listed = None
    if names is not None and not isinstance(names, str):
        listed = [str(name) for name in names]
    n_classes = values.shape[1]
    output = np.asarray(base, dtype=np.float64) + values.sum(0)  # (C,)
    index, name = named_class(target, listed, n_classes, int(np.argmax(output)))
    return values[:, index], name


def _spans(text: str, pieces: Sequence[str], tokenizer: Any) -> list[Span]:
    """Where SHAP's pieces stand: slices of the text one behind the other, with the blanks behind them.

    The pieces of one character are each all of it: they have its place.
    """
    spans: list[Span] = []
    start = end = 0
    for piece in pieces:
        if text.startswith(piece, end):
            start = end
        elif not piece.startswith(text[start:end]) or not text.startswith(piece, start) or start == end:
            return find_spans(text, pieces, tokenizer)
        end = start + len(piece)
        spans.append((start, end))
    return spans
