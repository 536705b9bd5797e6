"""Activations of networks by name, with what bounds of them need: the largest curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_faithful._registry import Registry


@dataclass(frozen=True)
class Curve:
    """An activation, applied to each number alone.

    Attributes:
        value: the function.
        bend: the largest absolute second derivative; None for a function with a kink, which is convex.

    Example:
        >>> CURVES["tanh"].bend, CURVES["relu"].value(torch.tensor([-1.0, 2.0]))
        (0.77, tensor([0., 2.]))
    """

    value: Callable[[Tensor], Tensor]
    bend: float | None


def _gelu_by_tanh(values: Tensor) -> Tensor:
    return F.gelu(values, approximate="tanh")


def _quick_gelu(values: Tensor) -> Tensor:
    return values * torch.sigmoid(1.702 * values)


CURVES: Registry[Curve] = Registry("activation")
CURVES.register("relu")(Curve(torch.relu, None))
# second derivatives: largest values rounded up; gelu has 2 phi(0) = .798 at 0, silu .5 at 0, tanh .7699, sigmoid .0963
CURVES.register("gelu")(Curve(F.gelu, 0.7979))
CURVES.register("gelu_tanh")(Curve(_gelu_by_tanh, 0.81))
CURVES.register("quick_gelu")(Curve(_quick_gelu, 0.852))
CURVES.register("silu")(Curve(F.silu, 0.5001))
CURVES.register("tanh")(Curve(torch.tanh, 0.77))
CURVES.register("sigmoid")(Curve(torch.sigmoid, 0.0963))
