"""Forwards whose last block is run for the token that the classifier reads; the others give keys and values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import OneRow, OutputKnownError, Trace
from attn_faithful.models.stock.layers import Arguments, Forward, linear_layers, patched

Around = Callable[[nn.Module], AbstractContextManager[None]]


def can_end_early(model: StockForward) -> bool:
    """Whether the last attention call starts the last block, which follows another one of its stack."""
    steps = model.blocks.steps
    if len(steps) < 2:
        return False
    before, last = steps[-2:]
    return last.last == last.first + 1 and last.stack == before.stack


class LastBlock:
    """The last block of a forward, which ends once the attention of one row is known.

    The rest of the block is run again for this row alone. That saves a block but for its keys and values: five sixths
    of it, an eighth of a model of six layers.

    Args:
        model: of which `can_end_early` holds.
        inputs: that it reads, (B, T).
        place: (B,), the token that the classifier reads.
        query_layers: see `query_layers`.
        read: whether to keep the attention of the one row, (B, H, 1, T).

    Attributes:
        trace: of the forward; its last block is to be called by `attended`.
    """

    def __init__(
        self,
        model: StockForward,
        inputs: dict[str, Tensor],
        place: Tensor,
        query_layers: Iterable[nn.Module],
        read: bool = False,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.place = place
        self.query_layers = query_layers
        self.step = len(model.blocks.steps) - 1
        self.rows = torch.arange(len(place), device=place.device)
        self.one_row = OneRow(model.blocks.steps[-1].first, place)
        calls = {self.one_row.call} if read else set()
        self.trace = Trace(read=calls, one_row=self.one_row)

    def run_to_attention(self, around: Around = lambda block: nullcontext()) -> Any:
        """Run the forward up to the last block's attention.

        Args:
            around: of the last block, a context in which it is called.

        Returns:
            the output of the block before.
        """
        before: Any = None

        def run(step: int, member: nn.Module, forward: Forward, arguments: Arguments) -> Any:
            nonlocal before
            if step < self.step:
                args, kwargs = arguments
                before = forward(*args, **kwargs)
            else:
                with around(member):
                    self.attended(forward, arguments)
            return before  # of the last block nobody reads it

        with self.model.blocks.handled(run):
            self.model.run(self.inputs, self.trace)
        return before

    def attended(self, forward: Forward, arguments: Arguments) -> None:
        """Call the block up to its attention."""
        args, kwargs = arguments
        with patched(self.query_layers, self._for_the_row):
            try:
                forward(*args, **kwargs)
            except OutputKnownError:
                return
        raise RuntimeError(f"{type(self.model.model).__name__} did not reach its last attention")

    def logits(self) -> Tensor:
        """Logits (B, C), as `StockForward.run` gives them but for rounding."""
        return self.logits_from(self.run_to_attention())

    def logits_from(self, before: Any) -> Tensor:
        """Logits (B, C), once the block was `attended`.

        Args:
            before: the output of the block before, (B, T, .).
        """
        outputs = {self.model.blocks.steps[-1].stack: before}
        trace = Trace(values={self.one_row.call: lambda: self.one_row.output})
        return self.model.continued(self.inputs, self.step, outputs, trace, self.rows, self.place)

    def _for_the_row(self, module: nn.Module) -> Callable[[Tensor], Tensor]:
        """A layer of queries, run for the row alone; it stands for all others too, which nobody reads."""
        forward = module.forward

        def called(values: Tensor) -> Tensor:
            query = forward(values[self.rows, self.place][:, None])  # (B, 1, .)
            return query.expand(-1, values.shape[1], -1)

        return called


@torch.enable_grad()
def query_layers(last_block: LastBlock) -> list[nn.Module]:
    """The linear layers of the last block that give queries alone: no row but the classifier's has a gradient there."""
    outputs: dict[nn.Module, Tensor] = {}
    twice: set[nn.Module] = set()

    def noted(module: nn.Module) -> Callable[[Tensor], Tensor]:
        forward = module.forward

        def called(values: Tensor) -> Tensor:
            if module in outputs:
                twice.add(module)
            outputs[module] = forward(values).detach().requires_grad_()
            return outputs[module]

        return called

    last_block.run_to_attention(lambda block: patched(linear_layers(block), noted))
    output = last_block.one_row.output
    layers = list(outputs)
    gradients = torch.autograd.grad(output.square().sum(), [outputs[layer] for layer in layers], allow_unused=True)
    found = []
    for layer, gradient in zip(layers, gradients, strict=True):
        if gradient is None or layer in twice or gradient.dim() != 3:
            continue
        gradient[last_block.rows, last_block.place] = 0
        if not bool(gradient.any()):
            found.append(layer)
    return found
