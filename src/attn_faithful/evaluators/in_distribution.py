"""How unusual erased texts are to a model, as a test is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class InDistribution:
    """P-values of erased texts under what the model was trained on, see `functional.masf`.

    Attributes:
        p_values: "delete" and "mask" -> ``p_values(keep (B, K, T) bool) -> p (B, K)`` of the texts with the items
            outside ``keep`` erased; NaN for one that is left without a token.
        reason: why there are none; None where there are.
    """

    p_values: Mapping[str, Callable[[Tensor], Tensor]]
    reason: str | None = None
