"""How much a token's state after a layer depends on each value vector, of transformers models alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item
from attn_faithful.attributions.layered_text import LayeredText, calls_at, layered_text
from attn_faithful.models.blocks import CELLS
from attn_faithful.models.modes import analysing
from attn_faithful.models.protocol import precise
from attn_faithful.models.stock.interface import Alter, Call, Trace
from attn_faithful.models.stock.layers import Arguments, Forward, repeated, taken


@SOURCES.register("value_zeroing")
@torch.no_grad()
def value_zeroing(request: Request) -> Attribution:
    """Share of each token in what the read token's state after a layer loses without one value vector; 0 to 1.

    ``C_ij = 1 - cos(x_i, x_i without v_j)``, divided by its sum over all tokens j: ``x_i`` is the layer's output at the
    read token i, and ``v_j`` the value vectors of token j in all heads, set to 0 while the attention weights stay.
    Where the classifier reads all tokens it is the mean over their rows. 0 for every token where no value changes the
    output. Only the layer itself is run again, for the one row where nothing else of it is needed. The setting `layers`
    counts at the site of all layers.

    Raises:
        InputError: the layer is not one of a list of blocks that each give a state a token.

    Reference:
        Mohebbi et al. (2023), Quantifying context mixing in transformers.
    """
    text = layered_text(request, "value_zeroing")
    calls = calls_at(request, text, "value_zeroing")
    steps = [_step_of(text, call) for call in calls]
    by_call = []
    with analysing(text.model):
        own = _OwnForward.of(text, calls, steps)
        for call, step in zip(calls, steps, strict=True):
            shares = _shares(own, call, step)  # (B, T)
            by_call.append(text.at_tokens(call, shares))
    values = torch.stack(by_call).mean(0)  # (B, T)
    return Attribution(by_item(request, values))


@dataclass(frozen=True, eq=False)
class _OwnForward:
    """A forward of some texts with nothing set to 0.

    Attributes:
        text: the model and its inputs.
        calls: what the heads of the layers did.
        outputs: step -> the output of the block that it runs: of those that are run again, those before them, and the
            last of each stack.
        entering: step -> the states (B, T, N) that the block which is run again is given.
    """

    text: LayeredText
    calls: dict[int, Call]
    outputs: dict[int, Any]
    entering: dict[int, Tensor]

    @classmethod
    def of(cls, text: LayeredText, calls: list[int], steps: list[int]) -> _OwnForward:
        """Run the texts, with the attention of some calls read, and the outputs of the blocks that hold them."""
        blocks = text.model.blocks
        last_of_stack = {step.stack: number for number, step in enumerate(blocks.steps)}
        before = {step - 1 for step in steps}
        wanted = {*steps, *before, *last_of_stack.values()}
        outputs: dict[int, Any] = {}
        entering: dict[int, Tensor] = {}
        trace = Trace(read=set(calls))

        def run(number: int, block: nn.Module, forward: Forward, arguments: Arguments) -> Any:
            args, kwargs = arguments
            output = forward(*args, **kwargs)
            if number in steps:
                entering[number] = args[0] if args else kwargs["hidden_states"]
            if number in wanted:
                outputs[number] = output
            return output

        with blocks.handled(run):
            text.model.run(text.inputs, trace)
        return cls(text, trace.seen, outputs, entering)

    def known(self, number: int) -> Any:
        """What a step that is not run again gives: its output, or where nobody reads that the last of its stack."""
        if number in self.outputs:
            return self.outputs[number]
        steps = self.text.model.blocks.steps
        of_stack = [other for other in self.outputs if steps[other].stack == steps[number].stack]
        return self.outputs[max(of_stack)]

    def again(self, step: int, trace: Trace, rows: Tensor, place: Tensor | None) -> Tensor:
        """States (R, T, N) after one block that is run again with a trace; all others give what they gave.

        Args:
            step: of the block.
            trace: of the forward.
            rows: which texts, (R,).
            place: the one position of each that is run, (R,), of states (R, 1, N); None for all.
        """
        model, inputs = self.text.model, self.text.inputs
        texts = len(inputs["input_ids"])
        after: Any = None

        def run(number: int, block: nn.Module, forward: Forward, arguments: Arguments) -> Any:
            nonlocal after
            args, kwargs = arguments
            if number == step and place is None:
                after = forward(*args, **kwargs)
                return after
            if number == step:
                after = _of_states(forward, arguments, taken(self.entering[step], rows, texts, place))
                return after
            if not model.skips:
                return forward(*args, **kwargs)
            trace.count = model.blocks.steps[number].last
            return taken(self.known(number), rows, texts, place)

        with model.blocks.handled(run):
            model.run(repeated(inputs, rows, place), trace)
        return _states(after)


def _step_of(text: LayeredText, call: int) -> int:
    """The step whose block makes an attention call.

    Raises:
        InputError: there is none.
    """
    for number, step in enumerate(text.model.blocks.steps):
        if step.first <= call < step.last:
            return number
    raise InputError(
        f"The source 'value_zeroing' runs one layer again, but the attention of layer {call} of "
        f"{type(text.model.model).__name__} stands in no list of blocks; choose 'raw_attention' or 'value_norm'."
    )


def _of_states(forward: Forward, arguments: Arguments, states: Tensor) -> Any:
    """What a block gives of other states (R, 1, N) than those that it is called with."""
    args, kwargs = arguments
    if args:
        return forward(states, *args[1:], **kwargs)
    return forward(**{**kwargs, "hidden_states": states})


def _states(output: Any) -> Tensor:
    """The states (B, T, N) in a block's output."""
    states = output if isinstance(output, Tensor) else output[0]
    if not isinstance(states, Tensor) or states.dim() != 3:
        raise InputError(
            "The source 'value_zeroing' needs blocks whose output is a state a token; "
            "choose 'raw_attention' or 'value_norm'."
        )
    return states


def _shares(own: _OwnForward, call: int, step: int) -> Tensor:
    """Shares (B, T) of a layer's keys, in the mean over the rows that the classifier reads."""
    distances = _distances(own, call, step)  # (B, Q, T)
    totals = distances.sum(-1, keepdim=True)
    by_row = distances / torch.where(totals > 0, totals, 1.0)
    rows = own.text.row_shares(call)  # (B, T)
    if by_row.shape[1] == 1:
        return by_row[:, 0]
    shares = rows[:, None].to(by_row.dtype) @ by_row  # (B, 1, T)
    return shares[:, 0]


def _distances(own: _OwnForward, call: int, step: int) -> Tensor:
    """Distances (B, Q, T) of each row's state from that without each token's value; Q is 1 where one row suffices."""
    text = own.text
    model, (texts, length) = text.model, text.read.shape
    of_text, zeroed = text.read.nonzero(as_tuple=True)  # (R,) each, one a token
    before = _states(own.outputs[step])  # (B, T, N)
    place = None
    cost = model.cost(length)
    if _one_row_suffices(text, call, step):
        place = model.probe.place(text.inputs, model.config)  # (B,)
        before = before[torch.arange(texts, device=place.device), place][:, None]  # (B, 1, N)
        cost = length
    found = precise(before).new_zeros(texts, before.shape[1], length)
    size = max(1, CELLS // cost)
    for rows, tokens in zip(of_text.split(size), zeroed.split(size), strict=True):
        if place is None:
            trace = Trace(alter={call: _without_column(text, tokens)})
            after = own.again(step, trace, rows, None)  # (R, T, N)
        else:
            output = _without_value(own, call, rows, tokens, place[rows])
            trace = Trace(values={call: lambda output=output: output})
            after = own.again(step, trace, rows, place[rows])  # (R, 1, N)
        found[rows, :, tokens] = _cosine_distance(before[rows], after)
    return found


def _one_row_suffices(text: LayeredText, call: int, step: int) -> bool:
    """Whether the layer may be run for the token that the classifier reads alone, once its attention is known."""
    model = text.model
    block = model.blocks.steps[step]
    one_call = (block.first, block.last) == (call, call + 1)
    return one_call and model.skips and model.single and model.reads_one_token(call)


def _without_column(text: LayeredText, tokens: Tensor) -> Alter:
    """Attention (R, H, Q, T) of the chosen heads without that to one token of each row (R,): as if its value were 0."""

    def alter(weights: Tensor, allowed: Tensor) -> Tensor:
        chosen = _heads(text, weights)  # (H,)
        rows = torch.arange(len(tokens), device=tokens.device)
        altered = weights.clone()
        altered[rows[:, None], chosen, :, tokens[:, None]] = 0.0
        return altered

    return alter


def _without_value(own: _OwnForward, call: int, rows: Tensor, tokens: Tensor, place: Tensor) -> Tensor:
    """What the heads give one row of each text (R,) without the value of one token (R,) in the chosen heads.

    Args:
        own: the forward.
        call: of the attention.
        rows: which texts, (R,).
        tokens: whose value is 0, (R,).
        place: the one row of each, (R,).

    Returns:
        outputs of the attention, (R, 1, H, D).
    """
    seen = own.calls[call]
    weights = seen.attention[rows, :, place].to(seen.value.dtype)  # (R, H, T)
    chosen = _heads(own.text, weights)  # (H,)
    each = torch.arange(len(rows), device=rows.device)
    weights[each[:, None], chosen, tokens[:, None]] = 0.0
    outputs = weights[:, :, None] @ seen.value[rows]  # (R, H, 1, D)
    return outputs.transpose(1, 2)


def _heads(text: LayeredText, weights: Tensor) -> Tensor:
    """The numbers of the heads (B, H, ...) that the model was wrapped with."""
    every = torch.arange(weights.shape[1], device=weights.device)
    return text.chosen_heads(every[None])[0]


def _cosine_distance(states: Tensor, others: Tensor) -> Tensor:
    """``1 - cos`` (..., ) of vectors (..., N), as half the squared distance of unit vectors, which rounds less."""
    unit = nn.functional.normalize(precise(states), dim=-1)
    other_unit = nn.functional.normalize(precise(others), dim=-1)
    return (unit - other_unit).square().sum(-1) / 2
