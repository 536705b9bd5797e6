"""One direction of a recurrent layer, read column by column, so that it can start again behind a deleted token."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_faithful.models.orthogonal_lstm import OrthogonalLSTM, without_part_along

PERIOD = 8  # columns between two looks at which rows have come back to their text's own states
ROUNDING = 4  # epsilons within which they have


class RecurrentPass:
    """One direction of a recurrent layer over texts that end together, at the last column.

    Args:
        net: one way, one layer.
        embedded: (B, T, E).
        token: (B, T), which token each column reads.
        first: (B,), the column at which a text begins.
    """

    def __init__(
        self,
        net: nn.RNNBase,
        embedded: Tensor,
        token: Tensor,
        first: Tensor,
    ) -> None:
        self.cell = CELLS[type(net)](net)
        self.token = token
        self.column = torch.argsort(token, dim=1)  # (B, T), the column that reads each token
        self.size = token.shape[1]
        self.inputs = self.cell.inputs(take_tokens(embedded, token).transpose(0, 1).contiguous())  # (T, B, G)
        state: list[Tensor] = []  # (B, n) each
        self.own: list[Tensor] = []  # (T + 1, B, n) each, the text's own states before each column
        for _ in range(self.cell.parts):
            part = embedded.new_zeros(len(token), net.hidden_size)
            state.append(part)
            self.own.append(part.new_zeros(self.size + 1, *part.shape))
        order = torch.argsort(first)
        for column, _, high in self._steps(state, order, first[order], whole=True):
            for own, part in zip(self.own, state, strict=True):
                own[column + 1, order[:high]] = part[:high]

    @property
    def states(self) -> Tensor:
        """Of the whole texts, by token, (B, T, n)."""
        after_columns = self.own[0][1:]  # (T, B, n)
        return take_tokens(after_columns.transpose(0, 1), self.column)

    def changed(self, text: Tensor, place: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The states behind the token at each place, without it.

        Args:
            text: (R,).
            place: (R,), of the deleted token.

        Returns:
            states (P, n), and the row of ``text`` and the token (P,) that each belongs to.
        """
        deleted = self.column[text, place]  # (R,), the column of the deleted token
        order = torch.argsort(deleted, stable=True)
        text = text[order]
        deleted = deleted[order]
        state = [own[deleted, text] for own in self.own]  # (R, n) each
        behind = int((self.size - 1 - deleted).sum())  # states behind the tokens, at most to be read again
        states = state[0].new_empty(behind, state[0].shape[1])
        spans = []  # a column, how far its first row is from the first of its states, how many states it has
        done = 0
        for column, low, high in self._steps(state, text, deleted + 1):
            count = high - low
            states[done : done + count] = state[0][low:high]
            spans.append((column, low - done, count))
            done += count
        table = torch.tensor(spans, dtype=torch.long, device=text.device).reshape(-1, 3)
        columns, shifts, counts = table.unbind(1)
        rank = torch.arange(done, device=text.device) + shifts.repeat_interleave(counts)  # (P,)
        column_of_state = columns.repeat_interleave(counts)  # (P,)
        token = self.token[text[rank], column_of_state]
        return states[:done], order[rank], token

    def _steps(
        self,
        state: list[Tensor],
        text: Tensor,
        start: Tensor,
        whole: bool = False,
    ) -> Iterator[tuple[int, int, int]]:
        """Read column by column; rows `low` to `high` are under way, and `state` is theirs after `column`.

        Rows are in order of their start. A row whose states have come back to those of the whole text, but for
        rounding, would read on as the whole text did: it is dropped as soon as all before it are.
        """
        begun = torch.bincount(start, minlength=self.size + 1).cumsum(0).tolist()
        low = 0
        for column in range(self.size):
            high = begun[column]
            if low == high:
                continue
            current = [part[low:high] for part in state]
            self.cell.step(self.inputs[column], text[low:high], current)
            yield column, low, high
            is_due = column % PERIOD == 0 and column >= 2 * PERIOD
            if is_due and not whole:
                old = max(0, begun[column - 2 * PERIOD] - low)
                old_states = [part[:old] for part in current]
                low += self._come_back(column, old_states, text[low : low + old])

    def _come_back(self, column: int, state: list[Tensor], text: Tensor) -> int:
        """How many rows have come back, counted from the first to one that has not."""
        back = torch.ones_like(text, dtype=torch.bool)
        for own, part in zip(self.own, state, strict=True):
            whole = own[column + 1].index_select(0, text)  # (R, n)
            tolerance = ROUNDING * torch.finfo(part.dtype).eps
            near = tolerance * whole.abs().clamp_(min=1)
            back &= ((part - whole).abs_() <= near).all(1)
        until_first_that_has_not = back.int().cumprod(0)
        return int(until_first_that_has_not.sum())


class Cell:
    """A recurrent cell whose inputs are mapped beforehand, once for all rows that read the same text."""

    parts: int  # tensors of the state; the first is what others see
    weight: Tensor
    bias: Tensor

    def __init__(self, net: nn.RNNBase) -> None:
        self._buffer = torch.empty(0)

    def inputs(self, embedded: Tensor) -> Tensor:
        """What the embeddings (T, B, E) add to the gates, (T, B, G)."""
        return F.linear(embedded, self.weight, self.bias)

    def gathered(self, inputs: Tensor, text: Tensor) -> Tensor:
        """``inputs[text]`` in memory that is used again: new memory for each column takes longer than the column."""
        if len(self._buffer) < len(text):
            self._buffer = inputs.new_empty(len(text), inputs.shape[1])
        return torch.index_select(inputs, 0, text, out=self._buffer[: len(text)])

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        """Read one token, of ``inputs`` (B, G) that of each row's text (R,); changes the states (R, n) in place."""
        raise TypeError("a cell defines step")


class LSTMCell(Cell):
    parts = 2

    def __init__(self, net: nn.RNNBase) -> None:
        super().__init__(net)
        self.weight = self._laid_out(net.weight_ih_l0)
        self.bias = self._laid_out(net.bias_ih_l0 + net.bias_hh_l0)
        self.hidden = self._laid_out(net.weight_hh_l0).T.contiguous()

    @staticmethod
    def _laid_out(weight: Tensor) -> Tensor:
        # tanh(x) = 2 sigmoid(2 x) - 1: with the candidate doubled one sigmoid, three times as fast, does for all
        enter, forget, candidate, leave = weight.chunk(4)
        return torch.cat([enter, forget, 2 * candidate, leave])

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        hidden, memory, *_ = state
        gates = self.gathered(inputs, text).addmm_(hidden, self.hidden).sigmoid_()  # (R, 4n)
        enter, forget, candidate, leave = gates.chunk(4, dim=1)
        memory.mul_(forget).addcmul_(enter, candidate, value=2).sub_(enter)
        torch.mul(memory, 2, out=hidden).sigmoid_().mul_(2).sub_(1).mul_(leave)


class OrthogonalLSTMCell(LSTMCell):
    parts = 3  # the third is the sum of the states, which does not come back: a deleted token's state is missing in it

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        super().step(inputs, text, state)
        hidden, _, total = state
        hidden.copy_(without_part_along(total, hidden))
        total.add_(hidden)


class GRUCell(Cell):
    parts = 1

    def __init__(self, net: nn.RNNBase) -> None:
        super().__init__(net)
        size = net.hidden_size
        self.size = size
        self.weight = net.weight_ih_l0
        # the candidate's hidden bias is added apart, since the reset gate scales it
        bias_of_gates = net.bias_hh_l0[: 2 * size]
        self.bias = net.bias_ih_l0 + F.pad(bias_of_gates, (0, size))
        self.hidden = net.weight_hh_l0.T.contiguous()
        self.hidden_bias = net.bias_hh_l0[2 * size :]

    def step(self, inputs: Tensor, text: Tensor, state: list[Tensor]) -> None:
        hidden = state[0]
        both = 2 * self.size  # columns of the two gates
        from_input = self.gathered(inputs, text)  # (R, 3n)
        from_hidden = hidden @ self.hidden  # (R, 3n)
        gates = from_input[:, :both].add_(from_hidden[:, :both]).sigmoid_()
        reset, stay = gates.chunk(2, dim=1)
        from_hidden = from_hidden[:, both:].add_(self.hidden_bias)
        candidate = from_input[:, both:].addcmul_(reset, from_hidden).tanh_()
        torch.lerp(candidate, hidden, stay, out=hidden)


CELLS: dict[type[nn.RNNBase], type[Cell]] = {
    nn.LSTM: LSTMCell,
    nn.GRU: GRUCell,
    OrthogonalLSTM: OrthogonalLSTMCell,
}


def take_tokens(values: Tensor, index: Tensor) -> Tensor:
    """``values`` (B, T, N) at the positions ``index`` (B, T) of each text."""
    starts = torch.arange(len(index), device=index.device) * values.shape[1]  # (B,)
    flat = index + starts[:, None]  # (B, T), among the tokens of all texts
    taken = values.flatten(0, 1).index_select(0, flat.flatten())  # (B * T, N)
    return taken.unflatten(0, index.shape)
