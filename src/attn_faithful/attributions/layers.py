"""Importance that is read off the attention of many layers: transformers models alone have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from attn_faithful._checks import InputError
from attn_faithful.attributions.base import SOURCES, Attribution, Request, by_item, outcome, reached
from attn_faithful.attributions.gradients import analysing, row_parts
from attn_faithful.functional.flow import attention_flow as flow_of
from attn_faithful.functional.rollout import over_heads, positive_part, relevance
from attn_faithful.functional.rollout import rollout as rollout_of
from attn_faithful.models.adapted import class_name
from attn_faithful.models.protocol import JOINT
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.layers import patched
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.stock.slots import keys_of_text

NUMBERS = 2**24  # that the transformed vectors of some rows may hold
SAME = 1e-4  # of the size of an output, that two ways to work it out in float32 may differ by


@SOURCES.register("raw_attention")
@torch.no_grad()
def raw_attention(request: Request) -> Attribution:
    """Attention of the token that the classifier reads, or the mean over the text's rows; 0 to 1.

    Of a layer's heads the setting `heads` makes one weight. At the site of all layers the setting `layers` says whose
    it is: the last one's, or the mean over all.
    """
    model = _stock(request, "raw_attention")
    calls = _calls_at(request, model, "raw_attention")
    inputs = model.inputs(request.batch)
    shares = {n: _start(model, n, inputs) for n in calls}

    def take(n: int, weights: Tensor) -> Tensor:
        chosen = over_heads(_heads_of(model, weights), request.settings.heads)
        return _to_text(model, n, inputs, (shares[n][:, None].to(chosen.dtype) @ chosen)[:, 0])

    return Attribution(by_item(request, _taken(model, inputs, calls, take).mean(1)))


@SOURCES.register("value_norm")
@torch.no_grad()
def value_norm(request: Request) -> Attribution:
    """Length of what each token's value adds to the read token's state: ``|| sum_h a_h f_h(x) ||``; 0 and up.

    ``f_h(x)`` is the head's value vector through the layer's output projection, without that projection's bias. Vectors
    are summed over the heads before their length is taken, so heads may cancel out. Where the classifier reads all
    tokens it is the mean of the lengths. The setting `layers` counts at the site of all layers.

    Raises:
        InputError: the site's attention goes into no linear map.

    Reference:
        Kobayashi et al. (2020), section 3, equations 3 to 7.
    """
    model = _stock(request, "value_norm")
    calls = _calls_at(request, model, "value_norm")
    inputs = model.inputs(request.batch)
    trace = Trace(read=set(calls))
    with analysing(model), _projections(model, trace, calls) as maps:
        model.run(inputs, trace)
    norms = []
    for n in calls:
        if n not in maps:
            raise InputError(
                f"The source 'value_norm' found no linear map that the attention of layer {n} of "
                f"{type(model.model).__name__} goes into; choose 'raw_attention'."
            )
        shares = _start(model, n, inputs)
        norms.append(_to_text(model, n, inputs, _norms(model, trace.seen[n], shares, maps[n])))
    return Attribution(by_item(request, torch.stack(norms).mean(0)))


@SOURCES.register("rollout")
@torch.no_grad()
def rollout(request: Request) -> Attribution:
    """Attention followed down through all layers, half of each around it; over all tokens it sums to 1.

    Heads are made one by the setting `heads`. The row is that of the token that the classifier reads, or the mean over
    the text's rows.

    Raises:
        InputError: an encoder with a decoder, which the paper says nothing of.

    Reference:
        Abnar and Zuidema (2020), section 3, equation 1.
    """
    return Attribution(by_item(request, rollout_of(*_maps(request, "rollout"))))


@SOURCES.register("attention_flow")
@torch.no_grad()
def attention_flow(request: Request) -> Attribution:
    """The most that can flow down to each token through all layers, the network for itself alone; 0 to 1.

    Where the classifier reads all tokens, the flow starts at all of them in equal shares. A text of n tokens takes n
    flows through a network of layers times n^2 edges: in six layers a tenth of a second for 30 tokens, seconds for 128.

    Raises:
        InputError: an encoder with a decoder, which the paper says nothing of.

    Reference:
        Abnar and Zuidema (2020), section 3, attention flow.
    """
    attention, start = _maps(request, "attention_flow")
    return Attribution(by_item(request, flow_of(attention, start, reached(request)).nan_to_num(0.0)))


@SOURCES.register("attention_relevance")
def attention_relevance(request: Request) -> Attribution:
    """Attention that speaks for the target, added up through all layers; 0 and up.

    Gradients are those of the target's log-odds, whatever the setting `of`: those of a sure model's probability are so
    small that only the identity would be left. The token that is read has the identity's 1 too.

    Raises:
        InputError: an encoder with a decoder.

    Reference:
        Chefer et al. (2021), Generic attention-model explainability, section 3.1, equations 5 and 6.
    """
    model = _one_stack(request, "attention_relevance")
    calls, found = range(len(model.probe.heads)), []
    for rows in row_parts(request):
        inputs = model.inputs({name: values[rows] for name, values in request.batch.items()})
        added: dict[int, Tensor] = {}
        weights: dict[int, Tensor] = {}

        def alter(n: int, added: dict[int, Tensor] = added, weights: dict[int, Tensor] = weights) -> Any:
            def altered(own: Tensor, allowed: Tensor) -> Tensor:
                # nothing is added, and yet the gradient has a place to be taken at, also of a model that is frozen
                added[n], weights[n] = torch.zeros_like(own).requires_grad_(), own.detach()
                return own + added[n]

            return altered

        with analysing(model), torch.enable_grad():
            logits = model.run(inputs, Trace(alter={n: alter(n) for n in calls}))
            odds = outcome(request.read(logits), request.classes[rows], "logit", request.asked.multi_label)
            gradients = torch.autograd.grad(odds.sum(), [added[n] for n in calls])
        steps = torch.stack([positive_part(weights[n], gradients[n]) for n in calls], dim=1)
        found.append(relevance(steps, _start(model, calls[-1], inputs)))
    return Attribution(by_item(request, torch.cat(found)))


def _stock(request: Request, source: str) -> StockModel:
    if not isinstance(request.model, StockModel):
        raise InputError(
            f"The source {source!r} needs a transformers model with layers of attention, but "
            f"{class_name(request.model)} is none; choose 'attention' or 'attention_x_gradient'."
        )
    return request.model


def _one_stack(request: Request, source: str) -> StockModel:
    """The model, if each of its layers attends from the text's tokens to the text's tokens."""
    model = _stock(request, source)
    if any(model.probe.encoder) or any(model.probe.shifted):
        raise InputError(
            f"The source {source!r} follows one stack of layers, but {type(model.model).__name__} has an encoder and a "
            "decoder; choose 'raw_attention' or 'value_norm', which are of one site, or 'attention_x_gradient'."
        )
    return model


def _calls_at(request: Request, model: StockModel, source: str) -> list[int]:
    """The layers of the site that are read."""
    if not request.site:
        raise InputError(f"The source {source!r} is of one site; pass its name, one of {', '.join(model.sites)}.")
    calls = model.calls(request.site)
    return calls[-1:] if request.site == JOINT and request.settings.layers == "last" else calls


def _start(model: StockModel, call: int, inputs: dict[str, Tensor]) -> Tensor:
    """Shares (B, T) of a layer's rows in what the classifier reads: 1 for its token, or equal ones of the text."""
    read = inputs["attention_mask"].bool()
    if model.probe.reads in ("first", "last") and not model.probe.encoder[call]:
        return one_hot(model.probe.place(inputs, model.config), read.shape[1]).double()
    return read.double() / read.sum(1, keepdim=True).clamp(min=1)


def _maps(request: Request, source: str) -> tuple[Tensor, Tensor]:
    """The attention of all layers, (B, L, T, T), and the shares (B, T) of the rows that are read."""
    model = _one_stack(request, source)
    inputs, calls = model.inputs(request.batch), range(len(model.probe.heads))
    maps = _taken(model, inputs, calls, lambda n, weights: over_heads(weights, request.settings.heads))
    return maps, _start(model, calls[-1], inputs)


def _taken(
    model: StockModel, inputs: dict[str, Tensor], calls: Sequence[int], take: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """What ``take(call, weights (B, H, Q, T))`` makes of the layers' weights, beside one another: (B, L, ...)."""
    found: dict[int, Tensor] = {}

    def looking(n: int) -> Any:
        def look(own: Tensor, allowed: Tensor) -> Tensor:
            found[n] = take(n, own)
            return own

        return look

    with analysing(model):
        model.run(inputs, Trace(alter={n: looking(n) for n in calls}))
    return torch.stack([found[n] for n in calls], dim=1)


def _heads_of(model: StockModel, values: Tensor) -> Tensor:
    """Of (B, H, ...) the heads that the model is asked about."""
    return values if model.heads is None else values[:, list(model.heads)]


def _to_text(model: StockModel, call: int, inputs: dict[str, Tensor], values: Tensor) -> Tensor:
    """Values at a layer's keys (B, T) at the text's tokens: a decoder's input is the text one position later."""
    if not model.probe.shifted[call]:
        return values
    return values.gather(1, keys_of_text(inputs["attention_mask"].bool()))


@contextmanager
def _projections(model: StockModel, trace: Trace, calls: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """The linear maps (H * D, N) that the attention of some layers goes into, found in the one forward run inside.

    A module is one if it is given a layer's output and nothing else, and answers as a linear map and a bias would. Of
    several around one another the outermost counts, which holds what adapters add.
    """
    found: dict[int, Tensor] = {}
    inside = set()

    def wrapped(forward: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            output, n = forward(*args, **kwargs), trace.count - 1
            if n in calls and n not in inside and len(args) == 1 and not kwargs and _is_output(args[0], trace.seen[n]):
                inside.add(n)  # trying a module calls it, and those in it
                matrix = _matrix(forward, args[0], output)
                inside.discard(n)
                if matrix is not None:
                    found[n] = matrix
            return output

        return called

    weighted = [module for module in model.model.modules() if any(True for _ in module.parameters())]
    with patched(weighted, lambda module: wrapped(module.forward)):
        yield found


def _is_output(given: Any, call: Call) -> bool:
    """Whether a module is given what the attention function has just returned, its heads side by side."""
    batch, heads, rows, _ = call.attention.shape
    if not isinstance(given, Tensor) or given.shape != (batch, rows, heads * call.value.shape[-1]):
        return False
    output = (call.attention.to(call.value.dtype) @ call.value).transpose(1, 2).flatten(2)
    return _alike(given, output)


def _matrix(forward: Callable[..., Any], given: Tensor, output: Any) -> Tensor | None:
    """The linear map (N', N) of a module, without its bias; None for what is none."""
    if not isinstance(output, Tensor) or output.shape[:-1] != given.shape[:-1]:
        return None
    size = given.shape[-1]
    bias = forward(given.new_zeros(1, 1, size))
    matrix = (forward(torch.eye(size, dtype=given.dtype, device=given.device)[None]) - bias)[0]
    return matrix if _alike(given @ matrix + bias, output) else None


def _alike(found: Tensor, expected: Tensor) -> bool:
    return bool((found - expected).abs().max() <= SAME * expected.abs().max())


def _norms(model: StockModel, call: Call, shares: Tensor, matrix: Tensor) -> Tensor:
    """Lengths (B, T) of what the keys give the rows, in the mean over the rows by ``shares`` (B, Q)."""
    size = call.value.shape[-1]
    parts = _heads_of(model, matrix.view(1, -1, size, matrix.shape[-1]))[0]  # (H, D, N)
    weights, values = _heads_of(model, call.attention), _heads_of(model, call.value)
    found = torch.zeros(len(weights), weights.shape[-1], dtype=torch.float64, device=weights.device)
    for text, share in enumerate(shares):
        vectors = (values[text] @ parts).transpose(0, 1)  # (T, H, N)
        rows = share.nonzero()[:, 0]
        for some in rows.split(max(1, NUMBERS // vectors[:, 0].numel())):
            mixed = weights[text][:, some].permute(2, 1, 0) @ vectors  # (T, R, N)
            found[text] += torch.linalg.vector_norm(mixed, dim=-1, dtype=torch.float64) @ share[some]
    return found
