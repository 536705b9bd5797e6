"""AtteFa of a data set, from lists: the outputs of a base model and of its adversarially trained twin."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from attn_faithful.functional.attefa import attefa, attefa_per_example
from attn_faithful.functional.ragged import Rows, per_example_divergences
from attn_faithful.functional.reasons import or_else
from attn_faithful.metrics.lists import check_reduction


def attefa_of_lists(
    predictions: Rows,
    references: Rows,
    prediction_attentions: Rows,
    reference_attentions: Rows,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""AtteFa, ``min(mean TVD / (mean JSD / ln 2), 1)``, straight from the outputs of a base model and its twin.

    Args:
        predictions: B rows of C class probabilities, the twin's.
        references: B rows of C class probabilities, the base's.
        prediction_attentions: B rows of T weights over the content tokens, the twin's; T differs by row.
        reference_attentions: B rows of T weights, the base's.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``attefa`` (0 to 1, higher is more faithful), ``tvd`` (0 to 1), ``jsd`` (nats), ``s_jsd`` (0 to
        1), ``n``, ``n_undefined`` and ``reason``; for "none" lists of ``attefa``, ``tvd``, ``jsd``, ``reason``.

    Raises:
        InputError: an unknown reduction, and what `per_example_divergences` refuses.

    Reference:
        Amini and Kosseim, section 3.3, equation 7.

    Example:
        >>> result = attefa_of_lists([[0.7, 0.3]], [[0.4, 0.6]], [[1.0, 0.0]], [[0.0, 1.0]])
        >>> round(result["attefa"], 6), result["n"], result["reason"]
        (0.3, 1, None)
    """
    check_reduction(reduction)
    tvds, jsds, undefined = per_example_divergences(
        predictions, references, prediction_attentions, reference_attentions
    )
    if reduction == "mean":
        return asdict(attefa(tvds, jsds))
    values, reasons = attefa_per_example(tvds, jsds)
    return {
        "attefa": values.tolist(),
        "tvd": tvds.tolist(),
        "jsd": jsds.tolist(),
        "reason": or_else(undefined, reasons),
    }
