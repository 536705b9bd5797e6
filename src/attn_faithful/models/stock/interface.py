"""The attention function that stock transformers models call, so that their attention can be read and replaced.

It is registered with transformers under a name of its own, with a mask that is always boolean. What is to be read and
replaced travels through the forward's keyword arguments, so nothing global is set and no hook is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.functional.projections import PROJECTIONS, project
from attn_faithful.models.stock.thread_local import overriding

TRACED = "attn_faithful"
KEYWORD = "attention_trace"
SPARSE = ("sparsemax", "sparsegen", "entmax15", "entmax")  # projections that are implementations of their own
SOFTMAX = ("None", "eager", "sdpa", "flash", "flex")  # how the names of transformers' own begin
SPARSEGEN_LAMBDA, ENTMAX_ALPHA = "sparsegen_lambda", "entmax_alpha"  # of a model's config

Alter = Callable[[Tensor, Tensor], Tensor]  # weights, allowed (B, H, Q, T) -> weights
Reached = tuple[Tensor, Tensor, Tensor | None]  # keys, values (B, H, T, D) and mask (B or 1, ., Q, T) of a call
Reach = Callable[[int, Reached], Reached]  # of a call by number


@dataclass
class Call:
    """One call of the attention function: what a layer's heads did.

    Attributes:
        attention: (B, H, Q, T).
        scores: before the projection, (B, H, Q, T).
        allowed: bool (B, 1, Q, T), or with the heads.
        value: value vectors, (B, H, T, D).
        module: the layer's attention module.
        parameters: of the projection.
    """

    attention: Tensor
    scores: Tensor
    allowed: Tensor
    value: Tensor
    module: nn.Module
    parameters: Mapping[str, float]


class OutputKnownError(Exception):
    """Ends a block whose attention has given the one row that is asked for; caught where the block was called."""


@dataclass
class OneRow:
    """The one row of a call that is asked for: the rest of its block is run for this row alone, later.

    Attributes:
        call: by number.
        place: the row of each text, (B,).
        output: of the attention function, (B, 1, H, D); None before the call.
    """

    call: int
    place: Tensor
    output: Tensor | None = None


@dataclass
class Trace:
    """What to read and what to replace in one forward; calls are counted in their order.

    Attributes:
        read: calls to keep; None for all.
        alter: call -> what becomes of its weights.
        values: call -> its output (B, Q, H, D), whatever the layer gives.
        reach: what takes the place of a call's keys, values and mask; None for the layer's own.
        one_row: the call that ends its block once one row is known; None for whole forwards.
        projection: what makes weights of scores.
        in_float32: whether attention is computed in float32 where the blocks around it are not.
        seen: the calls that were kept.
        count: calls so far.
        inside: whether the attention function is at work.
        known_mask, known_answer: the mask that `lets_all` saw last, and what it said.
    """

    read: set[int] | None = field(default_factory=set)
    alter: Mapping[int, Alter] = field(default_factory=dict)
    values: Mapping[int, Callable[[], Tensor]] = field(default_factory=dict)
    reach: Reach | None = None
    one_row: OneRow | None = None
    projection: str = "softmax"
    in_float32: bool = False
    seen: dict[int, Call] = field(default_factory=dict)
    count: int = 0
    inside: bool = False
    known_mask: Tensor | None = None
    known_answer: bool = False

    def lets_all(self, mask: Tensor | None) -> bool:
        """Whether a mask lets every token attend to every other; False where asking would make a device wait."""
        if mask is None or mask.dtype != torch.bool or mask.device.type != "cpu":
            return False
        if mask is not self.known_mask:  # layers share their masks
            self.known_mask = mask
            self.known_answer = bool(mask.all())
        return self.known_answer


def register() -> None:
    """Make transformers know the traced function and the sparse projections as attention implementations."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    for name in (TRACED, *SPARSE):
        projection = None if name == TRACED else name
        AttentionInterface.register(name, partial(_attend, projection=projection))
        # without a mask of its own padding would be read
        AttentionMaskInterface.register(name, partial(_always, sdpa_mask))


def _always(mask: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """A boolean mask where transformers would leave it out."""
    return mask(*args, **{**kwargs, "allow_is_causal_skip": False, "allow_is_bidirectional_skip": False})


@dataclass(frozen=True)
class _Options:
    """What layers may ask of an attention function beside queries, keys, values and mask.

    Attributes:
        scaling: of the scores; None for one over the root of the queries' width.
        dropout: of the weights.
        softcap: bound of the scores, by a tanh.
        position_bias: added to the scores.
        projection: of the implementation; None for that of the trace.
    """

    scaling: float | None = None
    dropout: float = 0.0
    softcap: float | None = None
    position_bias: Tensor | None = None
    projection: str | None = None


_OPTIONS = tuple(each.name for each in fields(_Options))


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """The attention function of transformers: (B, H, Q, D) and so on -> output (B, Q, H, D), weights (B, H, Q, T)."""
    if kwargs.get("s_aux") is not None:
        raise InputError(
            f"{type(module).__name__} has attention sinks, mass that goes to no token, and is not supported."
        )
    trace: Trace = kwargs.pop(KEYWORD, None) or Trace()
    device = query.device.type
    if trace.in_float32 and torch.is_autocast_enabled(device):
        kwargs[KEYWORD] = trace
        with torch.autocast(device, enabled=False):
            return _attend(module, query.float(), key.float(), value.float(), attention_mask, **kwargs)
    if trace.reach is not None:
        key, value, attention_mask = trace.reach(trace.count, (key, value, attention_mask))
    trace.inside = True
    try:
        options = _Options(**{name: kwargs[name] for name in _OPTIONS if name in kwargs})
        one_row = trace.one_row
        if one_row is None or one_row.call != trace.count:
            return _weighed(trace, module, query, key, value, attention_mask, options)
        place = one_row.place
        bias = _row_of(options.position_bias, place)
        of_row = (_row_of(query, place), key, value, _row_of(attention_mask, place))
        one_row.output, _ = _weighed(trace, module, *of_row, replace(options, position_bias=bias))
        raise OutputKnownError
    finally:
        trace.inside = False


def _row_of(values: Tensor | None, place: Tensor) -> Tensor | None:
    """One row (B, ., 1, .) of each text, of values (B or 1, ., Q, .) at ``place`` (B,)."""
    if values is None:
        return None
    of_each_text = values.expand(len(place), *values.shape[1:])
    return of_each_text[torch.arange(len(place), device=place.device), :, place][:, :, None]


def _weighed(
    trace: Trace,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    options: _Options,
) -> tuple[Tensor, Tensor]:
    call = trace.count
    trace.count += 1
    if call in trace.values:
        output = trace.values[call]()
        return output.to(value.dtype), output.new_empty(0)
    groups = getattr(module, "num_key_value_groups", 1)
    if groups > 1:
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
    if options.scaling is None:
        options = replace(options, scaling=query.shape[-1] ** -0.5)
    projection = options.projection or trace.projection
    read = trace.read is None or call in trace.read
    altered = call in trace.alter
    plain = projection == "softmax" and options.softcap is None and not options.dropout
    if plain and not (read or altered):
        if trace.lets_all(attention_mask) and options.position_bias is None:
            attended = nn.functional.scaled_dot_product_attention(query, key, value, scale=options.scaling)
            return attended.transpose(1, 2).contiguous(), query.new_empty(0)
        return _unseen(query, key, value, attention_mask, options), query.new_empty(0)
    scores = _scores(query, key, options)  # (B, H, Q, T)
    allowed = _allowed(attention_mask, scores)
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        scores = scores + torch.where(allowed, attention_mask[..., : scores.shape[-1]], 0.0)
    parameters = parameters_of(projection, getattr(module, "config", None))
    weights = project(projection, scores, allowed.expand_as(scores), **parameters)  # (B, H, Q, T)
    if altered:
        weights = torch.where(allowed, trace.alter[call](weights, allowed), 0.0)
    if read:
        trace.seen[call] = Call(weights, scores, allowed, value, module, parameters)
    dropped = nn.functional.dropout(weights, options.dropout, module.training).to(value.dtype)
    return (dropped @ value).transpose(1, 2).contiguous(), weights


def _scores(query: Tensor, key: Tensor, options: _Options) -> Tensor:
    """Scores (B, H, Q, T) before the mask, in float32 at least."""
    scores = query @ key.transpose(-1, -2) * options.scaling
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if options.softcap is not None:
        scores = (scores / options.softcap).tanh() * options.softcap
    if options.position_bias is not None:
        scores = scores + options.position_bias
    return scores


def _unseen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    options: _Options,
) -> Tensor:
    """The output (B, Q, H, D) of attention that nobody looks at, by torch's own kernel, several times as fast."""
    scores = query.new_empty(len(query), 1, query.shape[2], key.shape[2])  # whose shape alone is read
    allowed = _allowed(mask, scores)  # (B, 1 or H, Q, T)
    bias = options.position_bias
    empty = ~allowed.any(-1, keepdim=True)  # rows that give zeros, of which kernels say different things
    added: Tensor = allowed | empty
    if mask is not None and mask.dtype != torch.bool:
        mask = mask[..., : key.shape[2]]
        bias = mask if bias is None else bias + mask
    if bias is not None:
        added = torch.where(added, bias.to(query.dtype), -torch.inf)
    output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=added, scale=options.scaling)
    return output.masked_fill(empty, 0.0).transpose(1, 2).contiguous()


def _allowed(mask: Tensor | None, scores: Tensor) -> Tensor:
    """Where a mask lets attention go, bool (B, 1 or H, Q, T)."""
    if mask is None:
        return torch.ones_like(scores[:, :1], dtype=torch.bool)
    mask = mask[..., : scores.shape[-1]]
    if mask.dtype == torch.bool:
        return mask
    return mask > torch.finfo(mask.dtype).min / 2


def parameters_of(projection: str, config: Any) -> dict[str, float]:
    """The parameters of a projection in a model's config: `sparsegen_lambda` (0) and `entmax_alpha` (1.5)."""
    if projection == "sparsegen":
        return {"lam": getattr(config, SPARSEGEN_LAMBDA, 0.0)}
    if projection == "entmax":
        return {"alpha": getattr(config, ENTMAX_ALPHA, 1.5)}
    return {}


def projection_of(implementation: str | None) -> str:
    """The projection of an attention implementation: softmax for those of transformers."""
    if implementation in PROJECTIONS:
        return implementation
    return "softmax"


def configs_of(model: nn.Module) -> list[Any]:
    """Every config in a model that names an attention implementation, each once."""
    configs: dict[int, Any] = {}
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    while waiting:
        config = waiting.pop()
        if id(config) in configs or not hasattr(config, "_attn_implementation"):
            continue
        configs[id(config)] = config
        inner = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
        waiting += [part for part in inner if part]
    return list(configs.values())


def traced(configs: list[Any]) -> AbstractContextManager[None]:
    """The traced function in place of the configs' own implementations inside, for this thread alone."""
    # the private name: the public one passes a value on to every config below, and would not give each its own back
    return overriding(configs, _attn_implementation_internal=TRACED)
