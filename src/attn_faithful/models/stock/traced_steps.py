"""What a model's functions do to numbers that follow from attention, noted as nodes while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attn_faithful.models.stock.composites import Composite, composites_of, recognised
from attn_faithful.models.stock.layers import patched
from attn_faithful.models.stock.proposals import Called, proposed, tensors_in
from attn_faithful.models.stock.tail_nodes import Attended, Node, gap_of, made

NEAR = 1e-4  # of their size: within which a function's numbers, in float32 perhaps, are those of its node
EXACT = 1e-9  # the same where all is computed in float64


@dataclass(frozen=True)
class Unknown:
    """Numbers that follow from attention by something that is not understood.

    Attributes:
        cause: such as "the function softmax".
    """

    cause: str


class TracedSteps(TorchFunctionMode):
    """Notes what becomes of the output of an attention function, in the forward that is run inside.

    What a function does is proposed by its name, and taken where this gives the function's numbers. All else makes
    numbers unknown, which matters where the logits need them.

    Args:
        output: of the attention function for one row of each text, (R, 1, H, V).

    Attributes:
        exact: whether all numbers so far were computed in float64.
    """

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.texts = len(output)
        self.exact = True
        self._noted: dict[int, tuple[Tensor, Node | Unknown]] = {}  # by id: no other gets it while the tensor is kept
        self._rests = False
        numbers = output.double().flatten(1)  # (R, H * V)
        self._note(output, Attended(numbers, None, torch.zeros_like(numbers)), "attention")

    def node_of(self, value: Any) -> Node | Unknown | None:
        """What is noted of a tensor; None of one that does not follow from the attention."""
        _, node = self._noted.get(id(value), (None, None))
        return node

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Note what the functions and the composite modules of a model do inside."""
        with patched(composites_of(model), self._watched), self:
            yield

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        nodes = {} if self._rests else self._nodes_in((args, kwargs))
        if not nodes:
            return function(*args, **kwargs)
        called = Called(function, args, kwargs, nodes, self.texts)
        unknown = next((node for node in nodes.values() if isinstance(node, Unknown)), None)
        proposal = None if unknown else proposed(called)
        result = function(*args, **kwargs)
        what = f"the function {called.name}"
        outputs = list(tensors_in(result))
        if called.in_place and not outputs:
            outputs = [args[0]]
        if proposal is None or len(proposal) != len(outputs):
            proposal = [unknown or Unknown(what)] * len(outputs)
        for output, node in zip(outputs, proposal, strict=True):
            self._note(output, node, what)
        return result

    def _nodes_in(self, arguments: Any) -> dict[int, Node | Unknown]:
        """What is noted of the tensors in some arguments, by id."""
        nodes = {}
        for value in tensors_in(arguments):
            node = self.node_of(value)
            if node is not None:
                nodes[id(value)] = node
        return nodes

    def _note(self, output: Tensor, node: Node | Unknown, what: str) -> None:
        """Note a node of a tensor, or that it is unknown where the node has other numbers."""
        if not isinstance(node, Unknown) and not self._agree(output, node):
            node = Unknown(what)
        if output.is_floating_point():
            self.exact = self.exact and output.dtype == torch.float64
        self._noted[id(output)] = (output, node)

    def _agree(self, output: Tensor, node: Node) -> bool:
        if output.numel() != node.numbers.numel():
            return False
        return gap_of(node.numbers, output.detach().reshape(self.texts, -1)) <= NEAR

    def _watched(self, module: nn.Module) -> Callable[..., Any]:
        """A module's forward, noted as one step where it is one."""
        forward = module.forward

        def called(*args: Any, **kwargs: Any) -> Any:
            composite = self._composite(module, forward, args, kwargs)
            if composite is None:
                return forward(*args, **kwargs)
            node = self.node_of(args[0])
            with self._resting():
                output = forward(*args)
            self.exact = self.exact and composite.gap <= EXACT
            self._note(output, made(composite.step, node), f"the module {type(module).__name__}")
            return output

        return called

    def _composite(
        self,
        module: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Composite | None:
        """The step that a module is; None where it is called with anything but one traced row of each text."""
        if self._rests or len(args) != 1 or kwargs:
            return None
        (argument,) = args
        node = self.node_of(argument)
        if node is None or isinstance(node, Unknown) or argument.shape[-1] != node.numbers.shape[1]:
            return None
        with self._resting():
            return recognised(module, forward, argument)

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """Inside, functions are not noted."""
        self._rests = True
        try:
            yield
        finally:
            self._rests = False
