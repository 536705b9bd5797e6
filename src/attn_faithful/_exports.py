"""What a run says of its texts in the formats of other tools: Captum's, inseq's and SHAP's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attn_faithful._checks import InputError


def to_captum(texts: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Records for ``captum.attr.visualization.visualize_text``, one a text.

    The attribution score of a record is the sum of its words'; the convergence score, which only integrated gradients
    have, is NaN.

    Args:
        texts: see `reports.explained_texts.ExplainedText`.
        names: of the classes.
    """
    import torch
    from captum.attr import visualization

    records = []
    for text in texts:
        name = _name(names, text.predicted)
        records.append(
            visualization.VisualizationDataRecord(
                word_attributions=torch.tensor(text.scores),  # (T,)
                pred_prob=float(text.probabilities.max()),
                pred_class=name,
                true_class=_name(names, text.label),
                attr_class=name,
                attr_score=float(text.scores.sum()),
                raw_input_ids=text.words,
                convergence_score=float("nan"),
            )
        )
    return records


def to_inseq(texts: Sequence[Any], names: Sequence[str], source: str, model: str) -> Any:
    """A ``FeatureAttributionOutput`` of inseq, whose source is a text's words and whose target is the predicted class.

    Its score "probability" is that of the class.

    Args:
        texts, names: see :func:`to_captum`.
        source: what inseq calls the method.
        model: what it calls the model.

    Raises:
        InputError: inseq is not installed.
    """
    import torch

    try:
        from inseq.data.attribution import CoarseFeatureAttributionSequenceOutput, FeatureAttributionOutput
        from inseq.utils.typing import TokenWithId
    except ImportError as error:
        raise InputError(f"Expected inseq, but it is not installed ({error}); pip install inseq.") from error
    sequences = []
    for text in texts:
        target = TokenWithId(_name(names, text.predicted), text.predicted)
        sequences.append(
            CoarseFeatureAttributionSequenceOutput(
                source=[TokenWithId(word, place) for place, word in enumerate(text.words)],
                target=[target],
                source_attributions=torch.tensor(text.scores, dtype=torch.float32)[:, None],  # (T, 1)
                step_scores={"probability": torch.tensor([text.probabilities.max()], dtype=torch.float32)},
                sequence_scores={},
                attr_pos_start=0,
            )
        )
    info = {
        "attribution_method": source,
        "model_name": model,
        "input_texts": ["".join(text.pieces) for text in texts],
        "generated_texts": [sequence.target[0].token for sequence in sequences],
    }
    return FeatureAttributionOutput(sequence_attributions=sequences, info=info)


def to_shap(texts: Sequence[Any]) -> Any:
    """A ``shap.Explanation`` whose features are a text's words; ``shap.plots.text`` shows one of its rows.

    Args:
        texts: see :func:`to_captum`.

    Raises:
        InputError: shap is not installed.
    """
    try:
        import shap
    except ImportError as error:
        raise InputError(f"Expected shap, but it is not installed ({error}); pip install shap.") from error
    return shap.Explanation(
        values=_ragged([text.scores for text in texts]),
        base_values=np.zeros(len(texts)),
        data=_ragged([np.asarray(text.pieces, dtype=object) for text in texts]),
    )


def _ragged(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths as one of objects."""
    filled = np.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        filled[place] = row
    return filled


def _name(names: Sequence[str], place: int) -> str:
    """The name of a class; "unknown" where there is none."""
    return names[place] if 0 <= place < len(names) else "unknown"
