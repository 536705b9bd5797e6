"""A model's weights drawn anew as before its training, and put in their place for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Weights = Mapping[nn.Parameter, Tensor]
_RESETS = ("reset_parameters", "_reset_parameters")  # what modules of torch call their own initialisation
_AT_LEAST = (torch.float32, torch.float64)  # types that weights are drawn in


@torch.no_grad()
def drawn_weights(network: nn.Module, seed: int) -> dict[nn.Parameter, Tensor]:
    """All weights of a network as its own initialisation draws them, each once where several modules share it.

    That is transformers' `_init_weights` where there is one, `reset_parameters` where it leaves weights out, and for
    weights that nothing initialises a normal distribution with their own mean and standard deviation. They are drawn
    on the CPU, so that one seed gives the same weights on every device, in any order of work. The network is left as it
    is, its buffers too.

    Args:
        network: any.
        seed: of all draws.

    Returns:
        weight -> new values, of its shape, type and device; whole numbers are left out.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> one, same = drawn_weights(layer, 3), drawn_weights(layer, 3)
        >>> torch.equal(one[layer.weight], same[layer.weight]), torch.equal(one[layer.weight], layer.weight)
        (True, False)
    """
    with torch.random.fork_rng(devices=[]), _blank(network) as blanks:
        torch.manual_seed(seed)
        _initialise(network)
        for own, blank in blanks.items():
            _fill(own, blank)
    drawn = {}
    for own, blank in blanks.items():
        drawn[own] = blank.detach().to(own.device, own.dtype)
    return drawn


@contextmanager
def replaced(values: Weights) -> Iterator[None]:
    """Inside, some weights have other values; afterwards their own, bit for bit, whatever happened.

    The parameters stay the objects that they are, with their gradients, and nothing is copied.
    """
    before: list[tuple[nn.Parameter, Tensor]] = []
    try:
        for weight, value in values.items():
            before.append((weight, weight.data))
            weight.data = value
        torch.clear_autocast_cache()  # a caller's autocast may keep what it made of the weights in half precision
        yield
    finally:
        for weight, own in before:
            weight.data = own
        torch.clear_autocast_cache()


@contextmanager
def _blank(network: nn.Module) -> Iterator[dict[nn.Parameter, nn.Parameter]]:
    """Inside, a network has new parameters that are not initialised, NaN all over, and copies of its buffers.

    Yields:
        own parameter -> the new one in its place.
    """
    blanks: dict[nn.Parameter, nn.Parameter] = {}
    before = [(module, dict(module._parameters), dict(module._buffers)) for module in network.modules()]
    try:
        for module, parameters, buffers in before:
            for name, own in parameters.items():
                if own is not None and own.is_floating_point():
                    if own not in blanks:
                        blanks[own] = _blank_like(own)
                    module._parameters[name] = blanks[own]
            for name, buffer in buffers.items():
                if buffer is not None:
                    module._buffers[name] = buffer.clone()
        yield blanks
    finally:
        for module, parameters, buffers in before:
            module._parameters.update(parameters)
            module._buffers.update(buffers)


def _blank_like(own: nn.Parameter) -> nn.Parameter:
    dtype = own.dtype if own.dtype in _AT_LEAST else torch.float32
    return nn.Parameter(torch.full(own.shape, torch.nan, dtype=dtype), requires_grad=own.requires_grad)


def _initialise(network: nn.Module) -> None:
    """Call what initialises each module, inner ones first, then what torch's modules have for weights left out."""
    for module, initialise in _with_initialisers(network, None):
        if initialise is not None:
            initialise(module)
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        if own and all(bool(weight.isnan().all()) for weight in own if weight.numel()):
            _reset(module)


def _with_initialisers(
    module: nn.Module, initialise: Callable[[nn.Module], Any] | None
) -> Iterator[tuple[nn.Module, Callable[[nn.Module], Any] | None]]:
    """Every module behind those within it, with the `_init_weights` of the nearest model of transformers around it."""
    initialise = getattr(module, "_init_weights", None) or initialise
    for child in module.children():
        yield from _with_initialisers(child, initialise)
    yield module, initialise


def _reset(module: nn.Module) -> None:
    for name in _RESETS:
        reset = getattr(module, name, None)
        if reset is not None:
            reset()
            return


def _fill(own: nn.Parameter, blank: nn.Parameter) -> None:
    """Draw what nothing initialised, around the mean of the weight's own values and as far as they lie from it."""
    missing = blank.isnan()
    if not bool(missing.any()):
        return
    values = own.detach().to("cpu", blank.dtype)
    spread = values.std(correction=0)
    draws = values.mean() + spread * torch.randn(blank.shape, dtype=blank.dtype)
    blank.copy_(torch.where(missing, draws, blank))


def of_weights(values: Weights, weights: Iterable[nn.Parameter]) -> dict[nn.Parameter, Tensor]:
    """The values of some weights; of whole numbers there are none."""
    return {weight: values[weight] for weight in weights if weight in values}
