"""The blocks that a stock model is a stack of, and forwards that leave out those whose outputs are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.interface import Trace

Forward = Callable[..., Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Handle = Callable[[int, nn.Module, Forward, Arguments], Any]
Wrapped = Callable[[int, Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Step:
    """One call of a block: its stack, and the attention calls from `first` to before `last` that it made."""

    stack: int
    first: int
    last: int


class Blocks:
    """The blocks of a model's stacks: the members of its outermost module lists.

    Args:
        model: any.

    Attributes:
        steps: the calls of blocks with attention in one forward, in order; see `learn`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.members: dict[nn.Module, int] = {}  # -> their stack
        self._collect(model)
        self.steps: list[Step] = []

    def _collect(self, module: nn.Module) -> None:
        for child in module.children():
            if isinstance(child, nn.ModuleList):
                for member in child:
                    self.members.setdefault(member, id(child))
            else:
                self._collect(child)

    @contextmanager
    def learning(self, trace: Trace) -> Iterator[None]:
        """Find out the steps in the one forward that is run inside."""
        steps: list[Step] = []

        def wrapped(stack: int, forward: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                first = trace.count
                output = forward(*args, **kwargs)
                steps.append(Step(stack, first, trace.count))
                return output

            return called

        with self._patched(wrapped):
            yield
        self.steps = steps

    def before(self, call: int) -> int:
        """How many steps are over when an attention call is made; 0 where a step's calls are not one after another."""
        for number, step in enumerate(self.steps):
            if step.last > call:
                return number
        return 0

    @contextmanager
    def noting(self, outputs: list[Any]) -> Iterator[None]:
        """Note the output of every block, in the forward inside."""

        def wrapped(stack: int, forward: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                output = forward(*args, **kwargs)
                outputs.append(output)
                return output

            return called

        with self._patched(wrapped):
            yield

    @contextmanager
    def keeping(self, count: int, outputs: dict[int, Any]) -> Iterator[None]:
        """Note of each stack the output of its last block among the first ``count`` steps, in the forward inside."""
        wanted = {step.stack: place for place, step in enumerate(self.steps[:count])}
        place = -1

        def wrapped(stack: int, forward: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                nonlocal place
                place += 1
                output = forward(*args, **kwargs)
                if place == wanted.get(stack):
                    outputs[stack] = output
                return output

            return called

        with self._patched(wrapped) if count else nullcontext():
            yield

    @contextmanager
    def skipping(
        self,
        count: int,
        known: dict[int, Any],
        trace: Trace,
    ) -> Iterator[None]:
        """The first ``count`` steps give what is known of their stack's last block, in the forward inside."""
        place = -1

        def wrapped(stack: int, forward: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:
                nonlocal place
                place += 1
                if place >= count:
                    return forward(*args, **kwargs)
                trace.count = self.steps[place].last
                return known[stack]

            return called

        with self._patched(wrapped) if count else nullcontext():
            yield

    @contextmanager
    def handled(self, handle: Handle) -> Iterator[None]:
        """``handle(step, block, forward, (args, kwargs))`` in place of each step's forward, in the forward inside."""
        step = -1

        def wrapped(member: nn.Module) -> Callable[..., Any]:
            forward = member.forward

            def called(*args: Any, **kwargs: Any) -> Any:
                nonlocal step
                step += 1
                return handle(step, member, forward, (args, kwargs))

            return called

        with patched(self.members, wrapped):
            yield

    def _patched(self, wrapped: Wrapped) -> Any:
        return patched(self.members, lambda member: wrapped(self.members[member], member.forward))


@contextmanager
def patched(
    modules: Iterable[nn.Module],
    wrapped: Callable[[nn.Module], Callable[..., Any]],
) -> Iterator[None]:
    """``wrapped(module)`` in place of each module's forward inside; afterwards the class's, or its own, is back.

    Other threads that run the modules meanwhile meet their own forwards.
    """
    before = [(module, module.__dict__.get("forward")) for module in modules]
    try:
        for module, _ in before:
            module.forward = _for_this_thread(wrapped(module), module.forward)
        yield
    finally:
        for module, own in before:
            if own is None:
                module.__dict__.pop("forward", None)
            else:
                module.forward = own


@contextmanager
def computing_in(dtype: torch.dtype, blocks: Iterable[nn.Module], device: str) -> Iterator[None]:
    """Inside, the products of some blocks are of another type; their weights and residual stream stay float32."""

    def wrapped(block: nn.Module) -> Callable[..., Any]:
        forward = block.forward

        def called(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device, dtype):
                return forward(*args, **kwargs)

        return called

    with patched(blocks, wrapped):
        yield


def _for_this_thread(
    patch: Callable[..., Any],
    own: Callable[..., Any],
) -> Callable[..., Any]:
    thread = get_ident()

    def called(*args: Any, **kwargs: Any) -> Any:
        function = patch if get_ident() == thread else own
        return function(*args, **kwargs)

    return called


def taken(
    output: Any,
    rows: Tensor,
    texts: int,
    place: Tensor | None = None,
) -> Any:
    """What a block's output holds of some texts (R,) of the batch, or of one position ``place`` (R,) of each.

    Args:
        output: tensors, in tuples perhaps; those without an axis of the batch stay as they are.
        rows: indices of texts.
        texts: of the batch.
        place: positions.
    """
    if isinstance(output, Tensor):
        if output.dim() < 2 or output.shape[0] != texts:
            return output
        if place is None or output.dim() != 3:
            return output[rows]
        return output[rows, place][:, None]
    if isinstance(output, Sequence) and not isinstance(output, str):
        parts = (taken(part, rows, texts, place) for part in output)
        return type(output)(parts)
    return output


def repeated(
    inputs: dict[str, Tensor],
    rows: Tensor,
    place: Tensor | None = None,
) -> dict[str, Tensor]:
    """The forward's inputs (B, T) for some rows (R,) of the batch, or for one position of each, (R, 1)."""
    chosen = {name: values[rows] for name, values in inputs.items()}
    if place is None:
        return chosen
    column = place[:, None]
    return {name: values.gather(1, column) for name, values in chosen.items()}


def linear_layers(module: nn.Module) -> list[nn.Module]:
    """The layers that give each token a linear function of it; GPT-2 has a class of its own for them."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear) or type(layer).__name__ == "Conv1D"]
