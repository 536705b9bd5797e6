"""The two channels of a model of the set: what its attention reads of a word, and what it weighs.

The first embedding dimensions and the encoder's units over them are all that the scores see; they read each word alone.
The other dimensions and units are all that the read-out sees. So two models can have the same attention, to the last
bit, and do different things with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attn_faithful.models.encoders import CNNEncoder, RecurrentEncoder
from attn_faithful.models.pooled import AttentionClassifier

ENCODERS = ("none", "mlp", "lstm", "gru", "cnn")

SCORED = 8  # embedding dimensions that the scores read
WIDTH = 24  # of the embedding, and of the states
_UNITS_SCORED = {"none": 8, "mlp": 8, "recurrent": 4, "cnn": 4}  # of a recurrent encoder: in each direction
_KERNELS = (1, 5)
SHUT = -50.0  # a gate's bias: what passes it is lost in rounding
_SATURATING = 20.0  # a weight under which tanh of +-1 is +-1 in float32

Masks = Mapping[str, Tensor]  # parameter -> bool, of its shape


@dataclass(frozen=True)
class Channels:
    """Which entries of a model's parameters belong to which channel; all others stay as they were built.

    Attributes:
        scores: what attention is computed from.
        values: what attention weighs, and the read-out.
    """

    scores: Masks
    values: Masks


def settings(encoder: str, vocab_size: int) -> dict[str, object]:
    """The settings of a model of the set."""
    hidden = WIDTH // 2 if encoder in ("lstm", "gru") else WIDTH
    return {
        "vocab_size": vocab_size,
        "embedding_size": WIDTH,
        "encoder": encoder,
        "hidden_size": hidden,
        "kernel_sizes": list(_KERNELS),
        "attention": "additive",
        "attention_size": SCORED,
        "id2label": {0: "negative", 1: "positive"},
    }


def parted(model: AttentionClassifier, reads_alone: bool) -> Channels:
    """Part a new model into two channels that do not touch: every weight between them becomes 0.

    Args:
        model: with random weights.
        reads_alone: whether the values read each word alone; what the scores read they always read alone.
    """
    channels = _channels(model, reads_alone)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            belongs = channels.scores[name] | channels.values[name]
            parameter.masked_fill_(~belongs, 0.0)
        if isinstance(model.encoder, RecurrentEncoder):
            _shut_gates(model.encoder, reads_alone)
    return channels


def fix_values(model: AttentionClassifier, channels: Channels, signs: Tensor, size: float) -> None:
    """Give every word a value of one size, +size or -size in the logit of class 1, and nothing else.

    Args:
        model: whose values read each word alone.
        channels: of it.
        signs: (V,), +1 or -1 for each word; 0 for one without a value.
        size: of a value.
    """
    encoder = model.encoder
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.masked_fill_(channels.values[name], 0.0)
        model.embedding.weight[:, SCORED] = signs
        model.embedding.weight[model.config.pad_token_id] = 0.0
        unit = int((~scored_units(model)).nonzero()[0])
        reached = 1.0  # what the state of +1 is
        if isinstance(encoder, CNNEncoder):
            weight = encoder.convolutions[0].weight  # (F, E, 1)
            weight[unit, SCORED] = 1.0
            weight[unit + 1, SCORED] = -1.0
            model.readout.weight[:, unit + 1] = -size
        elif isinstance(encoder, RecurrentEncoder):
            reached = _fix_recurrent(encoder.ahead[0], unit)
        elif model.config.encoder == "mlp":
            encoder.projection.weight[unit, SCORED] = _SATURATING
        model.readout.weight[:, unit] = size / reached


def _fix_recurrent(cell: nn.RNNBase, unit: int) -> float:
    """Let the state of a unit be the sign of its word; how large it is."""
    units = cell.hidden_size
    if isinstance(cell, nn.GRU):
        cell.weight_ih_l0[2 * units + unit, SCORED] = _SATURATING
        return 1.0
    cell.weight_ih_l0[2 * units + unit, SCORED] = _SATURATING
    cell.bias_ih_l0[unit] = -SHUT
    cell.bias_ih_l0[3 * units + unit] = -SHUT
    return math.tanh(1.0)


def copy_channel(masks: Masks, source: nn.Module, target: nn.Module) -> None:
    """Give a model the entries of a channel that another model has."""
    taken = dict(source.named_parameters())
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            mask = masks[name]
            if bool(mask.any()):
                parameter[mask] = taken[name][mask]


def _channels(model: AttentionClassifier, reads_alone: bool) -> Channels:
    scores: dict[str, Tensor] = {}
    values: dict[str, Tensor] = {}
    scored = scored_units(model)  # (N,)
    for name, parameter in model.named_parameters():
        of_scores = torch.zeros_like(parameter, dtype=torch.bool)
        of_values = torch.zeros_like(parameter, dtype=torch.bool)
        if name.endswith("embedding.weight"):
            of_scores[:, :SCORED] = True
            of_values[:, SCORED:] = True
        elif name.startswith("attention.scorer"):
            of_scores[:] = scored if name.endswith("token.weight") else True
        elif name.startswith("readout"):
            of_values[:] = ~scored if name.endswith("weight") else True
        elif name.startswith("encoder"):
            _part_encoder(model, name, of_scores, of_values, reads_alone)
        else:  # a path around the attention
            of_values[:] = True
        scores[name], values[name] = of_scores, of_values
    return Channels(scores, values)


def scored_units(model: AttentionClassifier) -> Tensor:
    """Which units of the states (N,) the scores read."""
    scored = torch.zeros(model.encoder.width, dtype=torch.bool)
    kind = _kind(model)
    count = _UNITS_SCORED[kind]
    if kind == "recurrent":
        half = len(scored) // 2
        scored[:count] = True
        scored[half : half + count] = True
    else:
        scored[:count] = True
    return scored


def _kind(model: AttentionClassifier) -> str:
    if isinstance(model.encoder, RecurrentEncoder):
        return "recurrent"
    return str(model.config.encoder)


def _part_encoder(
    model: AttentionClassifier, name: str, of_scores: Tensor, of_values: Tensor, reads_alone: bool
) -> None:
    """Mark the entries of one of the encoder's parameters."""
    count = _UNITS_SCORED[_kind(model)]
    if isinstance(model.encoder, CNNEncoder):
        narrow = ".0." in name  # windows of one word
        if narrow and name.endswith("weight"):
            of_scores[:count, :SCORED] = True
            of_values[count:, SCORED:] = True
        elif narrow:
            of_scores[:count] = True
            of_values[count:] = True
        elif not reads_alone:
            of_values[:] = True
            if name.endswith("weight"):
                of_values[:, :SCORED] = False
        return
    units = model.config.hidden_size
    gates = len(of_scores) // units  # 1 but for recurrent encoders
    unit = torch.arange(units).repeat(gates)  # of each row
    scored = unit < count
    if "bias" in name:
        of_scores[scored] = True
        of_values[~scored] = True
    elif "weight_hh" in name:
        if not reads_alone:
            of_values[~scored, count:] = True
    else:
        of_scores[scored, :SCORED] = True
        of_values[~scored, SCORED:] = True
    if isinstance(model.encoder, RecurrentEncoder):
        # the second gate lets earlier states through: "forget" of an LSTM, "update" of a GRU
        keeps = torch.arange(gates * units) // units == 1
        of_scores[keeps] = False
        if reads_alone:
            of_values[keeps] = False


def _shut_gates(encoder: RecurrentEncoder, reads_alone: bool) -> None:
    """Let no earlier state through: of the scored units, and of all where values read each word alone."""
    count = _UNITS_SCORED["recurrent"]
    for way in encoder.ways:
        bias = way[0].bias_ih_l0
        units = way[0].hidden_size
        stop = 2 * units if reads_alone else units + count
        bias[units:stop] = SHUT
