"""What a source of importance is given and gives back, and the registry of sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attn_faithful._checks import check_choice
from attn_faithful._registry import Registry
from attn_faithful.models.protocol import Batch, Encoded

REDUCTIONS = ("xxex", "sum", "l1", "l2")
PATHS = ("detached", "attached")
OPERATORS = ("delete", "mask", "unk", "pad", "zero")
SIGNS = ("magnitude", "signed")
VALUES = ("probability", "logit")


@dataclass(frozen=True)
class SourceSettings:
    """How importance is computed.

    Attributes:
        reduction: of a gradient's numbers to one a token.
        attention_path: whether gradients flow through the attention weights.
        operator: what removing a token means.
        sign: whether importance is a magnitude.
        of: what is differentiated.
        n_steps: of integrated gradients.
    """

    reduction: str = "xxex"
    attention_path: str = "detached"
    operator: str = "delete"
    sign: str = "magnitude"
    of: str = "probability"
    n_steps: int = 50

    def __post_init__(self) -> None:
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("attention_path", self.attention_path, PATHS)
        check_choice("operator", self.operator, OPERATORS)
        check_choice("sign", self.sign, SIGNS)
        check_choice("of", self.of, VALUES)


@dataclass(frozen=True)
class Attribution:
    """Importance of the tokens (B, T), NaN outside content, and what belongs to it, an entry an example."""

    values: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What a source is asked."""

    model: Any
    batch: Batch
    encoded: Encoded
    target: Tensor
    settings: SourceSettings
    keys: Sequence[str]
    seed: int
    token_ids: Mapping[str, int | None] = field(default_factory=dict)


SOURCES: Registry[Callable[[Request], Attribution]] = Registry("source")


def attribute(name: str, request: Request) -> Attribution:
    """Importance by one source."""
    return SOURCES[name](request)
