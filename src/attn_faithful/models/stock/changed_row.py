"""Logits under another attention of the classifier's row at a layer below the last: only that row changes behind it.

In the altered block itself one row is run. In the block behind it all rows attend to the changed one, but the queries,
keys and values of every other row are those of the model's own forward. The last block is run for one row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.last_block import LastBlock
from attn_faithful.models.stock.layers import Arguments, Forward, linear_layers, patched, repeated, taken


@dataclass
class OwnForward:
    """What the model's own forward gives around the altered block.

    Attributes:
        before: of each stack what is known when the block begins, see `Blocks.keeping`.
        output: the block's output.
        projected: linear layers of the next block before its attention -> what they give, (B, T, .).
    """

    before: dict[int, Any]
    output: Any = None
    projected: dict[nn.Module, Tensor] = field(default_factory=dict)


class ChangedRow:
    """Runs what follows from the changed row of some texts.

    Args:
        model: whose last block may be run for one row, see `last_block`.
        inputs: of the forward, (B, T).
        before: what is known when the altered block begins.
        count: how many blocks had run by then.
        place: the row of each text, (B,).
        query_layers: of the last block, see `last_block.query_layers`.
    """

    def __init__(
        self,
        model: StockForward,
        inputs: dict[str, Tensor],
        before: dict[int, Any],
        count: int,
        place: Tensor,
        query_layers: Iterable[nn.Module],
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.count = count
        self.place = place
        self.query_layers = query_layers
        self.own = OwnForward(before)
        self.steps = model.blocks.steps
        self.next_is_last = count + 2 == len(self.steps)

    def logits(self, output: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C) of some texts (R,) where the altered block's attention gives ``output`` (R, 1, H, D) there."""
        if self.own.output is None:
            self._run_own()
        place = self.place[text]
        known = self._known(text, place)
        # where the last block is the next one, all of its layers before the attention are run for the changed row
        query_layers = [] if self.next_is_last else self.query_layers
        last_block = LastBlock(self.model, repeated(self.inputs, text), place, query_layers)
        last_block.trace.values = {self.steps[self.count].first: lambda: output}
        before: Any = None

        def run(step: int, member: nn.Module, forward: Forward, arguments: Arguments) -> Any:
            nonlocal before
            if step < self.count:
                last_block.trace.count = self.steps[step].last
                return known[self.steps[step].stack]
            if step == self.count:
                before = self._with_changed_row(forward, arguments, text, place)
                return before
            is_next = step == self.count + 1
            with self._spliced(text, place) if is_next else nullcontext():
                if step == last_block.step:
                    last_block.attended(forward, arguments)
                else:
                    args, kwargs = arguments
                    before = forward(*args, **kwargs)
            return before  # of the last block nobody reads it

        with self.model.blocks.handled(run):
            self.model.run(last_block.inputs, last_block.trace)
        return last_block.logits_from(before)

    def _known(self, text: Tensor, place: Tensor) -> dict[int, Any]:
        """What is known of some texts (R,) when the altered block begins; of hidden states their one row everywhere."""
        texts, length = self.inputs["input_ids"].shape
        known = {}
        for stack, output in self.own.before.items():
            known[stack] = _everywhere(taken(output, text, texts, place), length)
        return known

    @torch.no_grad()
    def _run_own(self) -> None:
        """Run the altered block and the next one with the model's own attention, and keep what they give."""
        trace = Trace()
        own = self.own

        def run(step: int, member: nn.Module, forward: Forward, arguments: Arguments) -> Any:
            args, kwargs = arguments
            if step < self.count:
                trace.count = self.steps[step].last
                return own.before[self.steps[step].stack]
            if step == self.count:
                own.output = forward(*args, **kwargs)
            elif step == self.count + 1:
                with self._noting(member, trace):
                    forward(*args, **kwargs)
            return own.output  # nobody reads what comes behind

        with self.model.blocks.handled(run):
            self.model.run(self.inputs, trace)

    def _noting(self, member: nn.Module, trace: Trace) -> AbstractContextManager[None]:
        """Note what linear layers of a block give for each token before its attention is called."""
        before_attention = trace.count
        seen: set[nn.Module] = set()

        def noted(module: nn.Module) -> Callable[..., Tensor]:
            forward = module.forward

            def called(values: Tensor) -> Tensor:
                output: Tensor = forward(values)
                if trace.count == before_attention:
                    self.own.projected[module] = output
                    if module in seen:  # run twice: which of the two is meant cannot be told
                        del self.own.projected[module]
                    seen.add(module)
                return output

            return called

        return patched(linear_layers(member), noted)

    @contextmanager
    def _spliced(self, text: Tensor, place: Tensor) -> Iterator[None]:
        """Linear layers before the attention are run for the changed row; other rows are those of the own forward."""
        rows = torch.arange(len(text), device=text.device)

        def spliced(module: nn.Module) -> Callable[..., Tensor]:
            forward = module.forward
            own = self.own.projected[module]  # (B, T, .)
            only_queries = self.next_is_last and module in self.query_layers

            def called(values: Tensor) -> Tensor:
                changed = forward(values[rows, place][:, None])  # (R, 1, .)
                if only_queries:
                    return changed.expand(-1, values.shape[1], -1)
                output = own[text]  # (R, T, .), a copy
                output[rows, place] = changed[:, 0]
                return output

            return called

        with patched(self.own.projected, spliced):
            yield

    def _with_changed_row(self, forward: Forward, arguments: Arguments, text: Tensor, place: Tensor) -> Any:
        """The altered block's output (R, T, .): its own in every row but one, which is run with other attention."""
        args, kwargs = arguments
        rows = torch.arange(len(text), device=text.device)
        if args:
            changed = forward(args[0][rows, place][:, None], *args[1:], **kwargs)
        else:
            hidden = kwargs["hidden_states"][rows, place][:, None]  # (R, 1, .)
            changed = forward(**{**kwargs, "hidden_states": hidden})
        if self.next_is_last:  # of the last block's input the others are never read
            return _everywhere(changed, self.inputs["input_ids"].shape[1])
        own = taken(self.own.output, text, len(self.place))
        return _replaced(own, changed, rows, place)


def _everywhere(output: Any, length: int) -> Any:
    """A block's output whose hidden states (R, 1, .) stand in every row, (R, length, .), without a copy."""
    if isinstance(output, Tensor):
        if output.dim() != 3 or output.shape[1] != 1:
            return output
        return output.expand(-1, length, -1)
    if isinstance(output, tuple):
        return tuple(_everywhere(part, length) for part in output)
    return output


def _replaced(own: Any, changed: Any, rows: Tensor, place: Tensor) -> Any:
    """A block's output, a copy, with the rows at ``place`` (R,) of its hidden states (R, T, .) set to (R, 1, .)."""
    if isinstance(own, Tensor):
        if own.dim() == 3:
            own[rows, place] = changed[:, 0]
        return own
    if isinstance(own, tuple):
        first, *others = own
        return (_replaced(first, changed[0], rows, place), *others)
    return own
