"""Models with their tokenizers: saved ones are loaded, those of transformers and of one's own are wrapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful._garbage import uncollected

_OF_STOCK = ("queries", "heads", "layers", "dtype")
_HALF = ("bfloat16", "float16")
_OF_OWN = ("labels", "multi_label", "name", "version", "module", "pad_token_id", "max_tokens")


def check_there(path: str | Path) -> None:
    """Raise where a path is neither a folder nor a Hub id; nothing here needs torch."""
    text = str(path)
    is_hub_id = text.count("/") == 1 and not text.startswith((".", "/", "~")) and not text.endswith("/")
    if not is_hub_id and not Path(path).exists():
        raise InputError(f"There is no folder {path}; give the folder of a saved model or a Hub id such as user/name.")


@uncollected()
def load(path: str | Path, *, device: str | None = None, dtype: Any = "float32", **kwargs: Any) -> tuple[Any, Any]:
    """A saved classifier and its tokenizer, ready to analyse; one of transformers' own is wrapped, see `wrap`.

    Args:
        path: a folder or a Hub id.
        device: where the model computes: "cpu", "cuda", "cuda:1", or "auto" for CUDA where it is, else the CPU. None
            leaves it where ``from_pretrained`` puts it: on the CPU, unless ``device_map`` says otherwise.
        dtype: of a transformers classifier, by name or torch's own: with "bfloat16" or "float16" its blocks compute in
            half precision, and probabilities are a little off; see `attn_faithful.models.stock.half`. Weights are read
            as float32 even then.
        kwargs: for ``from_pretrained``. Unless they say otherwise weights are read from safetensors alone, and no code
            of the folder's is run.

    Returns:
        (model, tokenizer); the model is in eval mode.

    Raises:
        InputError: the folder does not exist or cannot be read, it holds a model for another task, weights are missing,
            or the tokenizer does not fit the model; there is no such device.
    """
    import torch

    from attn_faithful.data.model_files import saved_tokenizer, saved_training_texts
    from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
    from attn_faithful.models.devices import device_named
    from attn_faithful.models.entry import speaks_protocol, stored_type
    from attn_faithful.models.pretrained import incomplete, read_classifier
    from attn_faithful.models.stock.sparse import restore_projection

    check_there(path)
    target = None if device is None else device_named(device)
    type_name = str(dtype).removeprefix("torch.")
    check_choice("dtype", type_name, ("float32", "float64", *_HALF))
    weights = torch.float64 if type_name == "float64" else torch.float32
    trusted = kwargs.get("trust_remote_code", False)
    stored = stored_type(path, trusted)
    model, missing = read_classifier(path, **{"dtype": weights, **kwargs})
    if missing:
        raise incomplete(path, missing)
    tokenizer = saved_tokenizer(path, trusted)
    text = model.config.get_text_config()
    check_tokenizer_fits(tokenizer, text.vocab_size, text.pad_token_id, text)
    model = model.eval()
    if target is not None:
        model = model.to(target)
    model._stored_dtype = stored
    model.training_texts = saved_training_texts(path)
    if speaks_protocol(model):
        if type_name in _HALF:
            raise InputError(
                f"dtype: {path} is none of transformers' own models and measured in float32; leave it out."
            )
        return model, tokenizer
    restore_projection(model)
    half = type_name if type_name in _HALF else "float32"
    return wrap(model, dtype=half), tokenizer


def wrap(
    model: Any = None,
    *,
    encode: Callable[..., Any] | None = None,
    without: Callable[..., Any] | None = None,
    sites: Sequence[str] = ("pool",),
    **chosen: Any,
) -> Any:
    """The protocol around a transformers classifier, or around a hand-written torch model.

    Args:
        model: a transformers classifier, and nothing else: its heads can then be read and replaced. The model stays as
            it is.
        chosen: with `model`: ``queries``, ``heads``, ``layers``, ``dtype``, which hold in every evaluation; see
            `attn_faithful.models.stock.model.StockModel`. With `encode`: ``labels``, ``multi_label``, ``name``,
            ``version``, ``module``, ``pad_token_id``, ``max_tokens``; see `attn_faithful.models.wrapped.OwnModel`.
        encode: ``encode(batch) -> Encoded`` (with several sites ``encode(batch, site)``); its ``decode`` must give the
            model's logits for the model's own attention, and be differentiable in it.
        without: ``without(batch, keep) -> logits (B, K, C)``, for tests that delete tokens.
        sites: names of its attention sites.

    Returns:
        an object with ``sites``, ``encode`` and ``without`` that every test takes. Evaluations also need ``labels``,
        the names of the classes; gradients with respect to embeddings are not asked of a model of your own.

    Raises:
        InputError: both or neither of `model` and `encode`; a model that cannot be wrapped, by name, with what could.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> bert = BertForSequenceClassification(BertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
        >>> wrap(bert).sites
        ('layer.0', 'joint')
    """
    if (model is None) == (encode is None):
        raise InputError("wrap takes a transformers classifier, or encode= for a model of your own, and not both.")
    known = _OF_STOCK if encode is None else _OF_OWN
    for name in chosen:
        if name not in known:
            raise InputError(f"wrap: unknown argument {name!r}.{did_you_mean(name, known)}")
    if encode is not None:
        from attn_faithful.models.wrapped import OwnModel

        return OwnModel(encode, without, sites, **chosen)
    from attn_faithful.models.stock.model import StockModel

    return StockModel(model, **chosen)


def model_and_tokenizer(model: Any, tokenizer: Any, device: str = "auto") -> tuple[Any, Any, str | None]:
    """A model that speaks the protocol, its tokenizer, and the path or Hub id that it was read from.

    Args:
        model: a folder, a Hub id, a pipeline, a transformers classifier, or what :func:`load` and :func:`wrap` give.
        tokenizer: None for that of the folder or pipeline.
        device: where a model that is read from a folder or the Hub computes, see :func:`load`.

    Raises:
        InputError: there is no tokenizer, or the model is none that can be tested.
    """
    from attn_faithful.models.entry import as_attention_model, is_pipeline, of_pipeline

    origin = None
    own_tokenizer = None
    if isinstance(model, str | Path):
        origin = str(model)
        model, own_tokenizer = load(model, device=device)
    elif is_pipeline(model):
        model, own_tokenizer = of_pipeline(model)
    if tokenizer is None:
        tokenizer = own_tokenizer
    model = as_attention_model(model)
    if tokenizer is None:
        raise InputError(
            "Expected the model's tokenizer beside the model; give it, or a folder or Hub id that holds both."
        )
    if not callable(tokenizer) or not hasattr(tokenizer, "get_vocab"):
        raise InputError(
            f"Expected a tokenizer of transformers, but got {type(tokenizer).__name__}; the order is model, tokenizer, "
            "data."
        )
    return model, tokenizer, origin
