"""Logits under another attention of the classifier's row at a layer below the last: only that row changes behind it.

In the altered block itself one row is run. In the block behind it all rows attend to the changed one, but the queries,
keys and values of every other row are those of the model's own forward. The last block is run for one row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful.models.stock.forward import StockForward
from attn_faithful.models.stock.interface import OneRow, OutputKnownError, Trace
from attn_faithful.models.stock.layers import patched, repeated, taken

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


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
    """

    def __init__(
        self,
        model: StockForward,
        inputs: dict[str, Tensor],
        before: dict[int, Any],
        count: int,
        place: Tensor,
    ) -> None:
        self.model = model
        self.inputs = inputs
        self.count = count
        self.place = place
        self.own = OwnForward(before)
        self.steps = model.blocks.steps

    def logits(self, output: Tensor, text: Tensor) -> Tensor:
        """Logits (R, C) of some texts (R,) where the altered block's attention gives ``output`` (R, 1, H, D) there."""
        if self.own.output is None:
            self._run_own()
        place = self.place[text]
        last = len(self.steps) - 1
        one_row = OneRow(self.steps[last].first, place)
        trace = Trace(values={self.steps[self.count].first: lambda: output}, one_row=one_row)
        known = self._known(text)
        before_last: list[Any] = []
        rows = torch.arange(len(text), device=text.device)

        def run(step: int, member: nn.Module, forward: Callable[..., Any], arguments: Arguments) -> Any:
            args, kwargs = arguments
            if step < self.count:
                trace.count = self.steps[step].last
                return known[self.steps[step].stack]
            if step == self.count:
                before_last[:] = [self._with_changed_row(forward, arguments, text, place)]
                return before_last[0]
            following = step == self.count + 1
            with self._spliced(text, place) if following else nullcontext():
                try:
                    value = forward(*args, **kwargs)
                except OutputKnownError:  # of the last block
                    return before_last[0]
            before_last[:] = [value]
            return value

        with self.model.blocks.handled(run):
            self.model.run(repeated(self.inputs, text), trace)
        stack = self.steps[last].stack
        known_at_place = {stack: taken(before_last[0], rows, len(text), place)}
        of_row = Trace(values={one_row.call: lambda: one_row.output})
        with self.model.blocks.skipping(last, known_at_place, of_row):
            return self.model.run(repeated(self.inputs, text, place), of_row)

    def _known(self, text: Tensor) -> dict[int, Any]:
        """What is known of some texts (R,) when the altered block begins."""
        texts = len(self.place)
        return {stack: taken(output, text, texts) for stack, output in self.own.before.items()}

    @torch.no_grad()
    def _run_own(self) -> None:
        """Run the altered block and the next one with the model's own attention, and keep what they give."""
        trace = Trace()
        own = self.own

        def run(step: int, member: nn.Module, forward: Callable[..., Any], arguments: Arguments) -> Any:
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

        return patched([module for module in member.modules() if _is_linear(module)], noted)

    @contextmanager
    def _spliced(self, text: Tensor, place: Tensor) -> Iterator[None]:
        """Linear layers before the attention are run for the changed row; other rows are those of the own forward."""
        rows = torch.arange(len(text), device=text.device)

        def spliced(module: nn.Module) -> Callable[..., Tensor]:
            forward = module.forward
            own = self.own.projected[module]  # (B, T, .)

            def called(values: Tensor) -> Tensor:
                changed = forward(values[rows, place][:, None])  # (R, 1, .)
                output = own[text]  # (R, T, .), a copy
                output[rows, place] = changed[:, 0]
                return output

            return called

        with patched(self.own.projected, spliced):
            yield

    def _with_changed_row(self, forward: Callable[..., Any], arguments: Arguments, text: Tensor, place: Tensor) -> Any:
        """The altered block's output (R, T, .): its own in every row but one, which is run with other attention."""
        args, kwargs = arguments
        rows = torch.arange(len(text), device=text.device)
        if args:
            changed = forward(args[0][rows, place][:, None], *args[1:], **kwargs)
        else:
            hidden = kwargs["hidden_states"][rows, place][:, None]  # (R, 1, .)
            changed = forward(**{**kwargs, "hidden_states": hidden})
        own = taken(self.own.output, text, len(self.place))
        return _replaced(own, changed, rows, place)


def _is_linear(module: nn.Module) -> bool:
    """Whether a module gives each token a linear function of it; GPT-2 has a class of its own for that."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def _replaced(own: Any, changed: Any, rows: Tensor, place: Tensor) -> Any:
    """A block's output with the rows at ``place`` (R,) of its hidden states (R, T, .) replaced by (R, 1, .)."""
    if isinstance(own, Tensor):
        if own.dim() != 3:
            return own
        output = own.clone()
        output[rows, place] = changed[:, 0]
        return output
    if isinstance(own, tuple):
        first, *others = own
        return (_replaced(first, changed[0], rows, place), *others)
    return own
