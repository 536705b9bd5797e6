"""What a function does to traced numbers, proposed by its name; who asks compares with the function's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attn_faithful.functional.activations import CURVES
from attn_faithful.functional.tail import Activation, Norm
from attn_faithful.models.stock.tail_nodes import (
    Node,
    chosen,
    linear,
    made,
    product_of,
    scaled,
    shifted,
    sum_of,
)

Proposal = Callable[["Called"], "list[Node] | None"]


@dataclass(frozen=True)
class Called:
    """A function that is called with traced tensors.

    Attributes:
        function, args, kwargs: as torch hands them over.
        nodes: of the traced tensors among the arguments, by id.
        texts: R.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    nodes: Mapping[int, Node]
    texts: int

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def in_place(self) -> bool:
        """Whether it changes its first argument."""
        if self.name.startswith("__"):
            return self.name in ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
        return self.name.endswith("_")

    def traced(self) -> list[Node]:
        """The nodes of its own arguments, in order; those inside of lists are left out."""
        values = [*self.args, *self.kwargs.values()]
        return [self.nodes[id(value)] for value in values if id(value) in self.nodes]

    def named(self, *names: str) -> dict[str, Any]:
        """Its arguments by these names, None for those that were not given."""
        given = dict(zip(names, self.args, strict=False))
        return {name: given.get(name, self.kwargs.get(name)) for name in names}

    def one_row(self, tensor: Any) -> Node | None:
        """The node of a traced tensor (..., D) that holds one row of each text; None for any other."""
        node = self.nodes.get(id(tensor))
        if node is None or tensor.dim() == 0 or tensor.shape[-1] != node.numbers.shape[1]:
            return None
        return node

    def with_others(self, numbers: Callable[[Tensor], Tensor]) -> Any:
        """What it gives of other numbers in the place of traced ones; its other arguments stay as they are."""

        def other(value: Any) -> Any:
            if id(value) in self.nodes:
                return numbers(value)
            if isinstance(value, Tensor):
                return value.clone()  # which a function that works in place may change
            return value

        kwargs = {name: other(value) for name, value in self.kwargs.items()}
        return self.function(*map(other, self.args), **kwargs)


def proposed(called: Called) -> list[Node] | None:
    """The nodes of what a function gives, one a tensor; None where its name says nothing."""
    propose = PROPOSALS.get(called.name.strip("_"))
    if propose is None:
        return None
    return propose(called)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in a value: itself, or in tuples, lists and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)


def _precise(value: Tensor) -> Tensor:
    return value.detach().double()


def _linear(called: Called) -> list[Node] | None:
    given = called.named("input", "weight", "bias")
    node = called.one_row(given["input"])
    if node is None or len(called.traced()) != 1:
        return None
    weight = _precise(given["weight"])
    bias = given["bias"]
    bias = weight.new_zeros(len(weight)) if bias is None else _precise(bias)
    return [linear(node, weight, bias)]


def _addmm(called: Called) -> list[Node] | None:
    """``bias + x @ weight``: GPT-2's layers."""
    given = called.named("input", "mat1", "mat2")
    node = called.one_row(given["mat1"])
    if node is None or len(called.traced()) != 1 or given["input"].dim() != 1:
        return None
    return [linear(node, _precise(given["mat2"]).T, _precise(given["input"]))]


def _layer_norm(called: Called) -> list[Node] | None:
    given = called.named("input", "normalized_shape", "weight", "bias", "eps")
    eps = 1e-5 if given["eps"] is None else given["eps"]
    return _norm(called, given, eps, centred=True)


def _rms_norm(called: Called) -> list[Node] | None:
    given = called.named("input", "normalized_shape", "weight", "eps")
    eps = given["eps"]
    if eps is None:
        eps = torch.finfo(given["input"].dtype).eps
    return _norm(called, given, eps, centred=False)


def _norm(called: Called, given: Mapping[str, Any], eps: float, centred: bool) -> list[Node] | None:
    node = called.one_row(given["input"])
    if node is None or len(called.traced()) != 1 or len(given["normalized_shape"]) != 1 or eps <= 0:
        return None
    size = node.numbers.shape[1]
    weight, bias = given["weight"], given.get("bias")
    weight = node.numbers.new_ones(size) if weight is None else _precise(weight)
    bias = node.numbers.new_zeros(size) if bias is None else _precise(bias)
    return [made(Norm(0, weight, bias, eps, centred), node)]


def _activation(called: Called) -> list[Node] | None:
    nodes = called.traced()
    name = called.name.strip("_")
    if name == "gelu" and called.kwargs.get("approximate") == "tanh":
        name = "gelu_tanh"
    if len(nodes) != 1:
        return None
    return [made(Activation(0, name), nodes[0])]


def _plus(called: Called) -> list[Node] | None:
    nodes = called.traced()
    if len(nodes) == 1:
        shift = _flat(called, torch.zeros_like)
        return None if shift is None else [shifted(nodes[0], shift)]
    one, other = nodes
    if one.numbers.shape != other.numbers.shape:
        return None
    return [sum_of(one, other)]


def _times(called: Called) -> list[Node] | None:
    nodes = called.traced()
    if len(nodes) == 1:
        scale = _flat(called, torch.ones_like)
        product = None if scale is None else scaled(nodes[0], scale)
        return None if product is None else [product]
    one, other = nodes
    if one.numbers.shape != other.numbers.shape:
        return None
    return [product_of(one, other)]


def _flat(called: Called, numbers: Callable[[Tensor], Tensor]) -> Tensor | None:
    """What a function gives of other numbers, (R, D); None where it gives more or fewer than it got."""
    (node,) = called.traced()
    given = called.with_others(lambda traced: numbers(traced.double()))
    if given.numel() != node.numbers.numel():
        return None
    return _precise(given).reshape(called.texts, -1)


def _same_numbers(called: Called) -> list[Node] | None:
    """Functions that put numbers in other places or leave some out: which, they show with the places as numbers."""
    nodes = called.traced()
    if len(nodes) != 1:
        return None
    (node,) = nodes
    size = node.numbers.shape[1]
    places = torch.arange(called.texts * size, dtype=torch.float64, device=node.numbers.device)
    given = called.with_others(lambda traced: places.view(traced.shape))
    found = []
    for output in tensors_in(given):
        if output.numel() == 0 or output.numel() % called.texts:
            return None
        index = _of_each_text(output.reshape(called.texts, -1), size)
        if index is None:
            return None
        found.append(chosen(node, index))
    return found


def _of_each_text(places: Tensor, size: int) -> Tensor | None:
    """Places (R, O) among the numbers of all texts as places (O,) among the D of each; None where texts differ."""
    texts = torch.arange(len(places), device=places.device)
    index = places.long() - size * texts[:, None]  # (R, O)
    if bool((index != index[:1]).any()) or bool((index < 0).any()) or bool((index >= size).any()):
        return None
    return index[0]


STRUCTURE = (
    "view reshape view_as reshape_as flatten unflatten squeeze unsqueeze getitem select narrow chunk split "
    "split_with_sizes tensor_split unbind index_select transpose permute swapaxes movedim t get expand expand_as "
    "contiguous clone detach to type type_as float double dropout"
)
PROPOSALS: dict[str, Proposal] = {
    "linear": _linear,
    "addmm": _addmm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    **dict.fromkeys(CURVES, _activation),
    **dict.fromkeys(("add", "radd", "iadd", "sub", "isub"), _plus),
    **dict.fromkeys(("mul", "rmul", "imul", "div", "truediv", "itruediv", "neg"), _times),
    **dict.fromkeys(STRUCTURE.split(), _same_numbers),
}
