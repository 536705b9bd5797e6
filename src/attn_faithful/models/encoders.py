"""Encoders: embeddings (B, T, E) and a right-padded mask (B, T) in, states (B, T, N) out.

An encoder never lets one text's states depend on its batch mates or on padding, and takes a text without any token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful._registry import Registry
from attn_faithful.models.orthogonal_lstm import OrthogonalLSTM
from attn_faithful.models.reversal import Turn, reversal, wide

ENCODERS: Registry[type[Encoder]] = Registry("encoder")


class EncoderSettings(Protocol):
    """What encoders take of a configuration; see `AttentionClassifierConfig` for the meaning."""

    embedding_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    num_heads: int
    kernel_sizes: Sequence[int]
    activation: str
    positions: str
    max_positions: int
    dropout: float


class Encoder(nn.Module):
    """Base of the encoders.

    Attributes:
        width: N, of the states.
        reach: how many tokens on each side a token's state depends on; None for all of the text.
    """

    reach: int | None = None
    width: int

    @property
    def reads_alone(self) -> bool:
        """Whether a token's state depends on nothing but that token."""
        return self.reach == 0

    @property
    def layers_from_bottom(self) -> list[list[nn.Module]]:
        """The modules of each layer, the one that reads the embeddings first."""
        return [[self]]

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        raise TypeError("an encoder defines forward")

    def summary(self, states: Tensor, mask: Tensor) -> Tensor:
        """One vector a text, (B, N): the mean state; recurrent encoders give their last states."""
        weights = mask.to(states.dtype)[:, :, None]  # (B, T, 1)
        total = (states * weights).sum(1)  # (B, N)
        return total / weights.sum(1).clamp(min=1)


class TokenEncoder(Encoder):
    """``activation(W e + b)``: each token is read alone."""

    reach = 0

    def __init__(self, config: EncoderSettings, activation: str) -> None:
        super().__init__()
        self.projection = nn.Linear(config.embedding_size, config.hidden_size)
        self.activation = nn.Tanh() if activation == "tanh" else nn.ReLU()
        self.width = config.hidden_size

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        return self.activation(self.projection(embedded))


@ENCODERS.register("mlp")
class MLPEncoder(TokenEncoder):
    """The MLP of Wiegreffe and Pinter (2019) and Amini and Kosseim: always tanh."""

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__(config, "tanh")


@ENCODERS.register("average")
class AverageEncoder(TokenEncoder):
    """The "Average" of Jain and Wallace (2019): a projection, tanh in their code and ReLU in the paper."""

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__(config, config.activation)


@ENCODERS.register("none")
class NoEncoder(Encoder):
    """The embeddings themselves."""

    reach = 0

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__()
        self.width = config.embedding_size

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        return embedded


class RecurrentEncoder(Encoder):
    """Two one-way networks a layer, the second on each text reversed within its own length; or the first alone.

    The same states as a packed bidirectional network, whose backward pass takes time quadratic in the length on a CPU.

    Attributes:
        ahead: the networks that read from the first token on, one a layer.
        back: those that read from the last token on; empty for an encoder of one direction, whose states are half as
            wide.
    """

    cell: type[nn.RNNBase]

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__()
        both = self.reads_back(config)
        self.width = 2 * config.hidden_size if both else config.hidden_size
        sizes = [config.embedding_size] + [self.width] * (config.num_layers - 1)
        self.ahead = self._one_way(sizes, config.hidden_size)
        self.back = self._one_way(sizes if both else [], config.hidden_size)

    @staticmethod
    def reads_back(config: EncoderSettings) -> bool:
        """Whether texts are read in both directions."""
        return config.bidirectional

    def _one_way(self, sizes: Sequence[int], hidden_size: int) -> nn.ModuleList:
        """A network a layer, of inputs of these sizes."""
        return nn.ModuleList([self.cell(size, hidden_size, batch_first=True) for size in sizes])

    @property
    def ways(self) -> list[nn.ModuleList]:
        """The networks of each direction, one a layer; the states of the directions stand side by side."""
        return [self.ahead, self.back] if len(self.back) else [self.ahead]

    @property
    def layers_from_bottom(self) -> list[list[nn.Module]]:
        return [list(layer) for layer in zip(*self.ways, strict=True)]

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        if embedded.device.type != "cpu":
            return self._read(embedded, mask)
        # on many processors there is no LSTM in bfloat16, whatever autocast says
        with torch.autocast("cpu", enabled=False):
            return self._read(embedded.to(next(self.parameters()).dtype), mask)

    def _read(self, embedded: Tensor, mask: Tensor) -> Tensor:
        if len(self.back):
            return self._both_ways(embedded, mask)
        states = embedded
        for ahead in self.ahead:
            states = ahead(states)[0]  # (B, T, N), which padding behind a text does not reach
        return states

    def _both_ways(self, embedded: Tensor, mask: Tensor) -> Tensor:
        states = embedded
        turned = reversal(mask)
        for ahead, back in zip(self.ahead, self.back, strict=True):
            forwards = ahead(states)[0]  # (B, T, N)
            backwards = back(Turn.apply(states, turned))[0]  # (B, T, N), by position in the text reversed
            backwards = Turn.apply(backwards, turned)  # by position in the text
            states = torch.cat([forwards, backwards], dim=-1)  # (B, T, 2N)
        return states

    def summary(self, states: Tensor, mask: Tensor) -> Tensor:
        last = (mask.sum(1) - 1).clamp(min=0)  # (B,)
        rows = torch.arange(len(states), device=states.device)
        # each way has read all of the text at its end
        if len(self.back):
            forwards, backwards = states.chunk(2, dim=-1)
            ends = torch.cat([forwards[rows, last], backwards[:, 0]], dim=-1)  # (B, 2N)
        else:
            ends = states[rows, last]  # (B, N)
        return ends * mask.any(1, keepdim=True)


@ENCODERS.register("lstm")
class LSTMEncoder(RecurrentEncoder):
    """LSTM, in both directions or one."""

    cell = nn.LSTM


@ENCODERS.register("gru")
class GRUEncoder(RecurrentEncoder):
    """GRU, in both directions or one."""

    cell = nn.GRU


@ENCODERS.register("orthogonal_lstm")
class OrthogonalLSTMEncoder(RecurrentEncoder):
    """LSTM each of whose states is orthogonal to the mean of the earlier ones; one direction whatever is set."""

    cell = OrthogonalLSTM

    @staticmethod
    def reads_back(config: EncoderSettings) -> bool:
        return False


@ENCODERS.register("cnn")
class CNNEncoder(Encoder):
    """Convolutions of several odd widths side by side, padded to the same length, ReLU."""

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__()
        filters = config.hidden_size // len(config.kernel_sizes)
        self.convolutions = nn.ModuleList()
        for size in config.kernel_sizes:
            convolution = nn.Conv1d(config.embedding_size, filters, size, padding=size // 2)
            self.convolutions.append(convolution)
        self.width = config.hidden_size
        self.reach = max(config.kernel_sizes) // 2

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        inputs = (embedded * mask[:, :, None]).transpose(1, 2)  # (B, E, T); padding must read as zeros
        filtered = [convolution(inputs) for convolution in self.convolutions]  # (B, F, T) each
        return torch.cat(filtered, dim=1).relu().transpose(1, 2)


@ENCODERS.register("transformer")
class TransformerEncoder(Encoder):
    """Pre-norm Transformer layers with learned or sinusoidal positions."""

    def __init__(self, config: EncoderSettings) -> None:
        super().__init__()
        width = config.hidden_size
        self.width = width
        self.input = nn.Linear(config.embedding_size, width)
        self.max_positions = config.max_positions
        self.positions = None
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_positions, width)
        layer = nn.TransformerEncoderLayer(
            width,
            config.num_heads,
            4 * width,
            dropout=config.dropout,
            norm_first=True,
            batch_first=True,
        )
        self.layers = nn.TransformerEncoder(
            layer,
            config.num_layers,
            norm=nn.LayerNorm(width),
            enable_nested_tensor=False,
        )

    @property
    def layers_from_bottom(self) -> list[list[nn.Module]]:
        inputs = [self.input] if self.positions is None else [self.input, self.positions]
        *lower, last = self.layers.layers
        return [inputs, *([layer] for layer in lower), [last, self.layers.norm]]

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        coded = self._coded_positions(embedded, mask)  # (T, N)
        # a text without a token may look at its padding, whose states nobody reads: a softmax over nothing is NaN
        hidden = mask.any(1, keepdim=True) & ~mask  # (B, T)
        return self.layers(self.input(embedded) + coded, src_key_padding_mask=hidden)

    def _coded_positions(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Codes (T, N) of the positions."""
        length = embedded.shape[1]
        positions = torch.arange(length, device=embedded.device)
        if self.positions is None:
            return _sinusoids(positions, self.width).to(embedded.dtype)
        if length > self.max_positions:
            longest = int(mask.sum(1).max())
            if longest > self.max_positions:
                raise InputError(
                    f"A text has {longest} tokens, but the model has learned positions for {self.max_positions}; "
                    "truncate the text or choose sinusoidal positions."
                )
        return self.positions(positions.clamp(max=self.max_positions - 1))  # beyond them lies padding only


def _sinusoids(positions: Tensor, width: int) -> Tensor:
    """Vaswani et al. (2017), section 3.5: (T, N), sines in the first half and cosines in the second."""
    half = (width + 1) // 2
    # -9.21... is minus the logarithm of 10,000
    numbers = torch.arange(half, device=positions.device)
    rates = torch.exp(numbers * (-9.210340371976184 / half))
    angles = positions[:, None] * rates  # (T, half)
    codes = torch.cat([angles.sin(), angles.cos()], dim=1)
    return codes[:, :width]


def compaction(read: Tensor) -> tuple[Tensor, Tensor]:
    """The mask with all read positions first, and the order (B, T) that brings them there."""
    order = torch.argsort(~read, dim=1, stable=True)
    return read.gather(1, order), order


def encode_padded(encoder: Encoder, embedded: Tensor, read: Tensor) -> Tensor:
    """States with 0 where nothing was read; gaps and padding on the left are closed for the encoder, then reopened."""
    if 0 in embedded.shape[:2]:
        return embedded.new_zeros(*embedded.shape[:2], encoder.width)
    starts_again = read[:, 1:] & ~read[:, :-1]  # behind a gap, or behind padding on the left
    if encoder.reads_alone or not bool(starts_again.any()):
        return encoder(embedded, read) * read[:, :, None]
    compact, order = compaction(read)
    embedded = embedded.gather(1, wide(order, embedded.shape[-1]))
    states = encoder(embedded, compact) * compact[:, :, None]  # (B, T, N)
    back = wide(order, states.shape[-1])
    return torch.zeros_like(states).scatter(1, back, states)
