"""Where the training of a stock model's twin starts, and what is made of its adapters at the end."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.configurations import note_masking
from attn_faithful.models.modes import evaluating
from attn_faithful.models.stock.interface import Call, Trace
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.trainer import seeded


def new_stock_twin(
    base: StockModel,
    settings: Any,
    seed: int,
) -> tuple[StockModel, nn.Module]:
    """A twin to be trained, and the module whose parameters are: the twin's model, or adapters around it.

    Args:
        base: its weights are copied; with adapters they are shared, and never change.
        settings: a `StockTwinSettings`.
        seed: of new weights and of the disturbance.

    Raises:
        InputError: a layer that does not exist, adapters without peft.
    """
    layers = base.choosing(layers=settings.layers or base.layers).layers
    with seeded(seed):
        model, trained = _start(base.model, settings)
        note_masking(model.config, None)  # twins are trained on texts as they are
        stock = StockModel(model, base.queries, base.heads, base.layers)
        if settings.start == "base":
            _disturb(stock, layers, settings.perturbation)
    if settings.freeze_embeddings:
        for table in _tables(model).values():
            table.weight.requires_grad_(False)
    return stock, trained


def _start(base: nn.Module, settings: Any) -> tuple[nn.Module, nn.Module]:
    """The twin's model before it is disturbed, and the module that is trained."""
    if settings.lora_rank is not None:
        trained: Any = _adapted(base, settings.lora_rank)
        return trained.get_base_model(), trained
    if settings.start == "base":
        model = copy.deepcopy(base)
    else:
        model = type(base)(copy.deepcopy(base.config))
        _copy_tables(base, model)
    return model, model


def merged(stock: StockModel, trained: nn.Module) -> StockModel:
    """The trained twin in eval mode, on its own: adapters become part of a copy of the weights that they changed."""
    if trained is stock.model:
        stock.eval()
        return stock
    model = copy.deepcopy(trained).merge_and_unload().eval()
    return StockModel(model, stock.queries, stock.heads, stock.layers)


def _tables(model: nn.Module) -> dict[str, nn.Embedding]:
    """Embeddings of words, positions and segments: those as wide as the words' (T5's biases of attention are not)."""
    width = model.get_input_embeddings().weight.shape[1]
    tables = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and module.embedding_dim == width:
            tables[name] = module
    return tables


@torch.no_grad()
def _copy_tables(source: nn.Module, target: nn.Module) -> None:
    tables = _tables(target)
    for name, table in _tables(source).items():
        tables[name].weight.copy_(table.weight)


def _adapted(model: nn.Module, rank: int) -> nn.Module:
    """Adapters around a model that shares its weights with the given one."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise InputError("lora_rank needs the package peft, which is not installed: pip install peft.") from None
    # a deep copy that takes these in the place of its own weights
    shared = {}
    for weight in model.parameters():
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False)
    adapters = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear")
    return get_peft_model(copy.deepcopy(model, shared), adapters)


def _disturb(stock: StockModel, layers: list[int], share: float) -> None:
    """Add noise to the weights that a layer's scores depend on: its queries and keys, whatever they are called."""
    trace = Trace(read=set(layers))
    with evaluating(stock), torch.enable_grad():
        stock.run(stock.inputs(stock.probe.texts), trace)
        done: set[int] = set()  # layers may share a module
        for layer in layers:
            call = trace.seen[layer]
            weights = [weight for weight in _matrices(call.module) if id(weight) not in done]
            if not weights:
                continue
            spread = _adapter_spread(call.module)
            slopes = _slopes(call, weights)
            for weight, slope in zip(weights, slopes, strict=True):
                done.add(id(weight))
                acts_on_scores = slope != 0
                _add_noise(weight, acts_on_scores, share, spread.get(id(weight)))


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    """The trained weights of a module but for its biases and factors."""
    return [weight for weight in module.parameters() if weight.requires_grad and weight.dim() > 1]


@torch.no_grad()
def _add_noise(
    weight: nn.Parameter,
    mask: Tensor,
    share: float,
    spread: Tensor | None,
) -> None:
    """Add noise where the mask is set: a table of queries, keys and values in one has no slope where it is values'.

    Args:
        weight: changed in place.
        mask: of its shape.
        share: of the spread.
        spread: None for the standard deviation of the weights under the mask.
    """
    if not mask.any():
        return
    if spread is None:
        spread = weight[mask].std()
    noise = torch.randn_like(weight)
    weight += share * spread * noise * mask


def _slopes(call: Call, weights: list[nn.Parameter]) -> list[Tensor]:
    """The gradient of a random combination of the scores with respect to each weight, 0 where there is none."""
    factors = torch.randn_like(call.scores) * call.allowed  # (B, H, Q, T)
    total = (call.scores * factors).sum()
    slopes = torch.autograd.grad(total, weights, retain_graph=True, allow_unused=True)
    filled = []
    for weight, slope in zip(weights, slopes, strict=True):
        filled.append(torch.zeros_like(weight) if slope is None else slope)
    return filled


def _adapter_spread(module: nn.Module) -> dict[int, Tensor]:
    """For the outer factor of each adapter, 0 at first, the spread at which the product is as large as the weight."""
    spread = {}
    for part in module.modules():
        for name, outer in getattr(part, "lora_B", {}).items():
            inner = part.lora_A[name].weight
            rank = inner.shape[0]
            scale = part.scaling[name] * rank**0.5 * inner.std()
            spread[id(outer.weight)] = part.get_base_layer().weight.std() / scale
    return spread
