"""How many items a ranking removes until the decision changes, from lists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attn_faithful._checks import InputError, check_same_length
from attn_faithful.functional.aopc_limits import aopc_limits
from attn_faithful.functional.attention_removal import first_flip, prefix_logits, removal_order, removed_mass
from attn_faithful.functional.certified_core import certified_core, core_is_top
from attn_faithful.functional.flip_set import smallest_flip_set
from attn_faithful.functional.naopc import normalized_aopc, order_aopc
from attn_faithful.functional.ragged import Array, RaggedRows, Rows, numbers
from attn_faithful.functional.reasons import (
    ALIKE,
    ATTENTION_PROOF,
    MORE_CLASSES,
    NAN_ATTENTION,
    NAN_SCORES,
    NEVER,
    NO_TOKEN,
    ONE_ITEM,
    first_reasons,
    or_else,
)
from attn_faithful.functional.summaries import summarize
from attn_faithful.metrics.lists import Nested, check_reduction, lists_of, mean_of, means_of

_CORE = ("core_size", "core_share", "core_is_top")
_COLUMNS = ("decision_flip", "mass", "single_flip", "smallest", "ratio", "optimal", "naopc", *_CORE)
_ALSO_OF_NEVER = ("single_flip", *_CORE)  # defined too where the decision never changes


def decision_flip_of_lists(
    predictions: Rows,
    references: Rows,
    token_logits: Nested,
    biases: Rows,
    reduction: str = "mean",
) -> dict[str, Any]:
    r"""Fraction of the items that a ranking removes, the rest renormalized, until the decision changes, from lists.

    The logits are ``sum_t a_t z_t + b``, and the bias alone where no weight is left. The decision is the argmax, the
    lowest index on ties. Items of equal importance are removed in order of position. The set that a ranking removes
    is itself one that changes the decision, so the smallest is never larger, whatever rounding says of a tie. The core
    needs no removal: see :func:`~attn_faithful.functional.certified_core.certified_core`.

    Args:
        predictions: B rows of T importances, of the ranking that is judged: the largest is removed first. To judge
            attention itself, pass it here too. T differs by row.
        references: B rows of T attention weights of the items, which sum to 1.
        token_logits: B lists of T rows of C, what each item alone would say, without the bias; C may differ by
            example.
        biases: B rows of C; -inf for a class that never counts.
        reduction: "mean" for the data set, "none" for every example.

    Returns:
        for "mean" ``decision_flip``, the mean fraction removed until the decision changes (above 0 to 1, lower says
        that the ranking finds what the decision rests on), its ``std`` over examples (ddof 0) and 95% bootstrap
        interval ``low`` to ``high`` (NaN for fewer than two examples), ``n`` defined examples and ``n_undefined``,
        their number by reason (``reasons``), why the mean is NaN (``reason``, else None). Means over the same texts:
        ``mass``, the attention removed (0 to 1); ``smallest``, the fraction of the smallest set that changes the
        decision, exact over all subsets; ``ratio``, the ranking's number of items over that (at least 1);
        ``optimal``, the share where they are equal. ``single_flip`` is the share of all texts with 2 items or more,
        also those that never flip, of which the first item alone changes the decision. Over the same texts as that:
        ``core_size``, the fewest items whose attention must be believed for the decision to stand, however the rest is
        dealt to the other items (exact for two classes, for more the fewest that were found), ``core_share``, over the
        items, and ``core_is_top``, the share of those texts whose core has an item in which as many items from the top
        of the ranking are a core; ``core_reasons``, how many texts have none by reason. ``naopc`` says where the loss
        of the decision's probability along the ranking lies between that of the worst order of the items (0) and of the
        best (1), see :func:`~attn_faithful.functional.aopc_limits.aopc_limits`; ``naopc_reasons``, how many texts have
        none by reason. For "none" lists of these ten, ``reason`` ("no content token", "one item", "nan in attention",
        "nan in scores", "never flips": the bias keeps the decision; else None), ``core_reason``, why ``core_is_top`` is
        NaN ("attention-proof": no item must be believed; or as before), and ``naopc_reason`` ("more than two classes",
        "all orders alike"; or as before).

    Raises:
        InputError: an unknown reduction, unequal lengths, attention that is no distribution; the example is named.

    Reference:
        Serrano and Smith, sections 5.1 to 5.3 (appendix A.3 for the mass and single items); the smallest set is the
        "gold standard" of section 5.2.

    Example:
        >>> result = decision_flip_of_lists(
        ...     predictions=[[0.5, 0.3, 0.2], [1.0]], references=[[0.5, 0.3, 0.2], [1.0]],
        ...     token_logits=[[[0.0, 1.0], [0.0, 4.0], [1.0, 0.0]], [[0.0, 1.0]]], biases=[[0.0, 0.0], [0.0, 0.0]])
        >>> round(result["decision_flip"], 6), round(result["mass"], 6), round(result["smallest"], 6)
        (0.666667, 0.8, 0.666667)
        >>> round(result["naopc"], 6)
        0.724969
        >>> result["n"], result["reasons"]
        (1, {'one item': 1})
    """
    check_reduction(reduction)
    names = ("predictions", "references", "token_logits")
    columns = (predictions, references, token_logits)
    check_same_length((*names, "biases"), (*columns, biases))
    for i, rows in enumerate(zip(*columns, strict=True)):
        check_same_length(names, rows, example=i)
        _check_readout(i, token_logits[i], biases[i])
    importance = RaggedRows("predictions", predictions)
    attention = RaggedRows("references", references)
    n = attention.lengths
    attention.check_distributions((n > 0) & ~attention.has_nan)

    values = np.full((len(n), len(_COLUMNS)), math.nan)
    finite = np.zeros(len(n), dtype=bool)
    for chunk in attention.chunks():
        items = attention.inside(chunk)
        readout = _Readout.padded(token_logits[chunk], biases[chunk], items)
        values[chunk], finite[chunk] = _flips(importance.padded(chunk), attention.padded(chunk), readout)

    undefined = first_reasons(
        {
            NO_TOKEN: n == 0,
            ONE_ITEM: n == 1,
            NAN_ATTENTION: attention.has_nan,
            NAN_SCORES: ~finite | importance.has_nan,
        }
    )
    values[[reason is not None for reason in undefined]] = math.nan
    never = first_reasons({NEVER: np.isnan(values[:, 0])})
    reasons = or_else(undefined, never)
    needs_none = first_reasons({ATTENTION_PROOF: values[:, _COLUMNS.index("core_size")] == 0})
    core_reasons = or_else(undefined, needs_none)
    more = [sum(b > -math.inf for b in bias) > 2 for bias in biases]
    alike = np.isnan(values[:, _COLUMNS.index("naopc")])
    naopc_reasons = or_else(undefined, first_reasons({MORE_CLASSES: np.array(more, dtype=bool), ALIKE: alike}))
    if reduction == "none":
        each = {"reason": reasons, "core_reason": core_reasons, "naopc_reason": naopc_reasons}
        return {**lists_of(_COLUMNS, values), **each}
    reasons_of = dict.fromkeys(_COLUMNS, reasons)
    reasons_of.update(dict.fromkeys(_ALSO_OF_NEVER, undefined))
    reasons_of["core_is_top"] = core_reasons
    reasons_of["naopc"] = naopc_reasons
    summaries = dict(zip(_COLUMNS, summarize(values, list(reasons_of.values())), strict=True))
    fraction = summaries.pop("decision_flip")
    return {
        **mean_of("decision_flip", fraction),
        **means_of(summaries.keys(), summaries.values()),
        "core_reasons": summaries["core_is_top"].reasons,
        "naopc_reasons": summaries["naopc"].reasons,
    }


@dataclass(frozen=True)
class _Readout:
    """Affine read-outs, padded.

    Attributes:
        items: (B, T), bool.
        token_logits: (B, T, C).
        bias: (B, C), -inf where an example has no such class.
    """

    items: Tensor
    token_logits: Tensor
    bias: Tensor

    @classmethod
    def padded(cls, token_logits: Nested, biases: Rows, items: Tensor) -> _Readout:
        """From lists of the examples whose items (B, T) these are."""
        classes = max(len(bias) for bias in biases)
        z = np.zeros((*items.shape, classes))  # (B, T, C)
        b = np.full((len(biases), classes), -math.inf)
        for i, (rows, bias) in enumerate(zip(token_logits, biases, strict=True)):
            b[i, : len(bias)] = bias
            if len(rows):
                z[i, : len(rows), : len(bias)] = np.asarray(rows, dtype=np.float64)
        return cls(items, torch.from_numpy(z), torch.from_numpy(b))


def _flips(importance: Tensor, attention: Tensor, readout: _Readout) -> tuple[Array, Array]:
    """The columns (B, 10), and whether the scores of a text are finite."""
    items, token_logits, bias = readout.items, readout.token_logits, readout.bias
    log_weights = attention.log()
    order = removal_order(importance, items)
    after = prefix_logits(log_weights, order, items, token_logits, bias)  # (B, T + 1, C)
    logits = after[:, 0]  # (B, C), of the whole text
    finite = ~logits.isnan().any(-1)
    # numpy's argmax promises the lowest index on ties
    decision = torch.from_numpy(logits.numpy().argmax(-1))
    size = first_flip(after, decision)
    never = size.isnan()
    mass = removed_mass(log_weights, order, items, size)
    smallest = smallest_flip_set(log_weights, items, token_logits, bias).size
    smallest = torch.fmin(smallest, size)
    smallest = torch.where(never, math.nan, smallest)
    is_smallest = (size == smallest).double()
    optimal = torch.where(never, math.nan, is_smallest)
    n = items.sum(1)
    single = (size == 1).double()
    core = certified_core(attention, items, token_logits, bias).size
    is_top = core_is_top(attention, items, token_logits, bias, order, core)
    limits = aopc_limits(log_weights, items, token_logits, bias, decision)
    aopc = order_aopc(after, items, decision)
    naopc = normalized_aopc(aopc, limits.including(aopc[None])).value
    columns = (size / n, mass, single, smallest / n, size / smallest, optimal, naopc, core, core / n, is_top)
    return torch.stack(columns, 1).numpy(), finite.numpy()


def _check_readout(example: int, rows: Rows, bias: Sequence[float]) -> None:
    check_same_length((f"biases[{example}]",), (bias,))
    numbers("biases", example, bias)
    if not len(bias):
        raise InputError(f"Expected `biases[{example}]` with one number a class, but got none.")
    for t, row in enumerate(rows):
        if not hasattr(row, "__len__"):
            raise InputError(
                f"Expected `token_logits[{example}]` to be a list of rows, one an item, but got one row of numbers; "
                "a row holds one number a class."
            )
        if len(row) != len(bias):
            check_same_length((f"token_logits[{example}][{t}]", f"biases[{example}]"), (row, bias))
        numbers(f"token_logits[{example}]", t, row)
