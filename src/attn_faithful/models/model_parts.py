"""The parts that a model is a stack of, from its output down to its embeddings: what is drawn anew together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import nn

from attn_faithful.models.adapted import network_of, original
from attn_faithful.models.encoders import Encoder
from attn_faithful.models.protocol import Batch
from attn_faithful.models.stock.interface import Trace


@dataclass(frozen=True, eq=False)
class ModelPart:
    """Some modules of a model, one step of its depth.

    Attributes:
        name: dotted, as the model's own attributes name it.
        modules: that are called; none of weights that a module with further parts holds by itself.
        weights: each of the model's weights is in one part, also where several modules share it.
    """

    name: str
    modules: tuple[nn.Module, ...]
    weights: tuple[nn.Parameter, ...]


def weights_of(model: Any) -> nn.Module | None:
    """The torch module that holds a model's weights; None where none is known."""
    network = network_of(model)
    if network is None:
        network = getattr(original(model), "module", None)
    if isinstance(network, nn.Module) and any(True for _ in network.parameters()):
        return network
    return None


@torch.no_grad()
def parts_from_top(model: Any, batch: Batch) -> list[ModelPart]:
    """The parts of a model from its output down, in the order in which a forward calls them, the last one first.

    A part is a member of one of the outermost module lists, a layer of one of our encoders, or else a module in which
    there is no such list. One that no forward calls stands above the part that the model lists before it. Weights that
    several parts share belong to the lowest.

    Args:
        model: speaks the protocol, and has weights.
        batch: texts for one forward; transformers models are run on texts of their own.

    Example:
        >>> from attn_faithful.models.configuration import AttentionClassifierConfig
        >>> from attn_faithful.models.pooled import AttentionClassifier
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=10, encoder="lstm"))
        >>> [part.name for part in parts_from_top(model, {"input_ids": torch.tensor([[2, 3, 4]])})]
        ['readout', 'attention', 'encoder', 'embedding']
    """
    network = weights_of(model)
    if network is None:
        return []
    listed = list(_listed(network, ""))
    calls = _first_calls(model, batch, listed)
    from_bottom = _in_order(listed, calls)
    parts = []
    taken: set[int] = set()
    for part in from_bottom:
        own = tuple(weight for weight in part.weights if id(weight) not in taken)
        taken.update(map(id, own))
        if own:
            parts.append(ModelPart(_short(part.name, network), part.modules, own))
    return parts[::-1]


def _listed(module: nn.Module, name: str) -> Iterator[ModelPart]:
    """The parts of a module in the order in which it lists them, shared weights in each of those that share them."""
    if name and not _has_list(module):
        yield from _whole(module, name)
        return
    own = tuple(module.parameters(recurse=False))
    if own:
        yield ModelPart(name or type(module).__name__, (), own)
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        if isinstance(child, nn.ModuleList) and not isinstance(module, Encoder):
            for number, member in enumerate(child):
                yield from _whole(member, f"{path}.{number}")
        else:
            yield from _listed(child, path)


def _has_list(module: nn.Module) -> bool:
    return not isinstance(module, Encoder) and any(isinstance(inner, nn.ModuleList) for inner in module.modules())


def _whole(module: nn.Module, name: str) -> Iterator[ModelPart]:
    """A module as one part, of our encoders one a layer."""
    layers = module.layers_from_bottom if isinstance(module, Encoder) else [[module]]
    for number, modules in enumerate(layers):
        path = f"{name}.{number}" if len(layers) > 1 else name
        weights = dict.fromkeys(weight for inner in modules for weight in inner.parameters())
        if weights:
            yield ModelPart(path, tuple(modules), tuple(weights))


def _first_calls(model: Any, batch: Batch, parts: Sequence[ModelPart]) -> dict[int, int]:
    """Of each part, by its place, when it was called first in one forward; none of those that were not called."""
    calls: dict[int, int] = {}
    thread = get_ident()
    with ExitStack() as hooks:
        for place, part in enumerate(parts):

            def note(*_: Any, place: int = place) -> None:
                if get_ident() == thread:
                    calls.setdefault(place, len(calls))

            for module in part.modules:
                handle = module.register_forward_pre_hook(note)
                hooks.callback(handle.remove)
        if model.layered:
            with model.analysing():
                model.run(model.probe.texts, Trace())
        else:
            model.encode(batch, model.sites[0])
    return calls


def _in_order(parts: Sequence[ModelPart], calls: dict[int, int]) -> list[ModelPart]:
    """Parts from the first called to the last; one that was not called stands behind the one listed before it."""
    keys = []
    call = -1
    for place in range(len(parts)):
        call = calls.get(place, call)
        keys.append((call, place))
    return [parts[place] for _, place in sorted(keys)]


def _short(name: str, network: nn.Module) -> str:
    """A name without that of the transformers model within a classifier, which all but the classifier begin with."""
    prefix = getattr(network, "base_model_prefix", "")
    if not prefix or hasattr(network, name.removeprefix(f"{prefix}.").split(".")[0]):
        return name
    return name.removeprefix(f"{prefix}.")
