"""Whatever a user calls a model, as something that speaks the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from attn_faithful._checks import InputError
from attn_faithful.models.adapted import AdaptedModel, adapted, input_embeddings
from attn_faithful.models.protocol import AttentionModel
from attn_faithful.models.stock.model import StockModel
from attn_faithful.models.supported import SUPPORTED, refusal, unwrapped


def as_attention_model(model: Any) -> Any:
    """The model where it speaks the protocol, under its base, else a transformers classifier wrapped.

    Raises:
        InputError: it is no model, or one that cannot be wrapped; what is supported, and what would be next.
    """
    if isinstance(model, AdaptedModel):
        return model
    if isinstance(model, nn.Module):
        inner = unwrapped(model)[1]
        if speaks_protocol(inner):
            return adapted(inner)
        return StockModel(model)
    if isinstance(model, type):
        raise InputError(f"Expected a model, but got the class {model.__name__}; make or load one of it first.")
    lacking = [name for name in ("sites", "encode", "config", "parameters") if not _defines(model, name)]
    if lacking:
        raise InputError(
            f"Expected a model whose attention can be read and replaced, but {type(model).__name__} has no "
            f"{', '.join(lacking)} (the order is model, tokenizer, data). {SUPPORTED}."
        )
    return adapted(model)


def speaks_protocol(model: Any) -> bool:
    """Whether a torch module has attention sites."""
    return hasattr(model, "sites")


def _defines(model: Any, name: str) -> bool:
    """Whether a model or its class has a member, apart from the defaults of the base."""
    if name in getattr(model, "__dict__", {}):
        return True
    if not hasattr(type(model), name):
        return False
    if name not in vars(AttentionModel):
        return True
    return getattr(type(model), name) is not getattr(AttentionModel, name)


def as_stock_model(model: Any) -> StockModel:
    """A transformers classifier wrapped; the model itself where it is wrapped already.

    Raises:
        InputError: it cannot be wrapped.
    """
    if isinstance(model, StockModel):
        return model
    return StockModel(model)


def check_vocabulary(model: Any, tokenizer: Any) -> None:
    """Raise where a tokenizer has tokens that the model has no embedding of, with their names."""
    rows = getattr(input_embeddings(model), "num_embeddings", None)
    if rows is None or not hasattr(tokenizer, "get_vocab"):
        return
    beyond = []
    for token, number in tokenizer.get_vocab().items():
        if number >= rows:
            beyond.append((number, token))
    if beyond:
        beyond.sort()
        named = ", ".join(f"{token!r} ({number})" for number, token in beyond[:3])
        more = f" and {len(beyond) - 3} more" if len(beyond) > 3 else ""
        raise InputError(
            f"The tokenizer has tokens that the model has no embedding of, as it embeds {rows}: {named}{more}; if they "
            "were added to it, call model.resize_token_embeddings(len(tokenizer)) and train them, else load the "
            "tokenizer that was saved with the model."
        )


def is_pipeline(model: Any) -> bool:
    """Whether it is a pipeline of transformers."""
    return all(hasattr(model, name) for name in ("model", "tokenizer", "task", "preprocess"))


def of_pipeline(pipeline: Any) -> tuple[Any, Any]:
    """The model and the tokenizer of a pipeline.

    Raises:
        InputError: its answers are not the model's own classes.
    """
    if pipeline.task == "zero-shot-classification":
        raise InputError(
            "A zero-shot pipeline asks its model once for each of the labels that you name; give the model itself, "
            "pipeline.model, with pairs of texts and hypotheses (query_column)."
        )
    return pipeline.model, pipeline.tokenizer


def in_full(model: Any) -> tuple[Any, dict[str, str]]:
    """A model in single precision at least, and the types that its weights are stored and measured in.

    Weights of half precision are copied into float32, so that numbers are those of float32 up to the weights' own
    rounding; the model itself stays as it is.
    """
    loaded = getattr(model, "model", model)
    stored = getattr(loaded, "_stored_dtype", None) or _dtypes(model)
    model = adapted(model.in_full())
    precision = {"stored": stored, "measured": _dtypes(model)}
    backbone = getattr(model, "backbone", None)
    if backbone is not None:
        precision["backbone"] = str(backbone).removeprefix("torch.")
        precision["rounding"] = f"{model.rounding:.2g}"
    return model, precision


def _dtypes(model: Any) -> str:
    """The types of a model's weights, in words."""
    dtypes = {str(weight.dtype) for weight in model.parameters() if weight.is_floating_point()}
    return " and ".join(sorted(dtype.removeprefix("torch.") for dtype in dtypes)) or "float32"


def explained_sources(model: Any) -> list[str]:
    """The sources of importance that explanations show where none are named: those that the model can answer."""
    if model.embedding_gradients:
        return ["input_x_gradient", "leave_one_out"]
    if model.deletes:
        return ["leave_one_out"]
    return ["attention_gradient"]


def in_order(model: Any, tokenizer: Any, data: Any) -> tuple[Any, Any]:
    """Tokenizer and data, also where a model that brings its tokenizer was followed by the data at once."""
    if data is not None:
        return tokenizer, data
    brings = isinstance(model, str | Path) or is_pipeline(model)
    if tokenizer is None or not brings or hasattr(tokenizer, "get_vocab"):
        raise InputError("Expected data: a Hub id, a folder, a file, a data set or a list of texts.")
    return None, tokenizer


def stored_type(path: str | Path, trust_remote_code: bool) -> str | None:
    """The type that a saved model's weights are stored in; None where its configuration does not say.

    Raises:
        InputError: the configuration cannot be read, or is that of a model for another task.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=trust_remote_code)
    except Exception as error:  # whatever transformers or the file raise: told with the path
        raise InputError(f"{path} cannot be loaded: {shown(error)}") from error
    for architecture in getattr(config, "architectures", None) or []:
        reason = refusal(architecture)
        if reason is not None:
            raise InputError(f"{path} cannot be tested: {reason}")
    dtype = getattr(config, "dtype", None)
    if dtype is None:
        return None
    return str(dtype).removeprefix("torch.")


def shown(error: Exception) -> str:
    """An error of another library in one line, and what it means where it does not say."""
    text = " ".join(str(error).split())
    if isinstance(error, KeyError):
        return f"its configuration names {text}, which this version of transformers does not know"
    if "ignore_mismatched_sizes" in text:
        return "its weights have other shapes than its configuration says; save model and configuration together"
    if len(text) > 30:
        return text
    return f"{type(error).__name__}: {text}"
