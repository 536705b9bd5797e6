"""Which models are supported, which are not, and what to do about it: the one list that every message is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from attn_faithful._checks import InputError
from attn_faithful.models.stock.interface import SOFTMAX, SPARSE, configs_of, projection_of

FAMILIES = (
    "BERT",
    "RoBERTa",
    "DistilBERT",
    "ELECTRA",
    "ALBERT",
    "ModernBERT",
    "GPT-2",
    "Llama",
    "Gemma 2",
    "BART",
    "T5",
)
_NAMED = f"{', '.join(FAMILIES[:-1])} and {FAMILIES[-1]}"
LIKE = f"models such as {_NAMED}"
WORKING = f"{LIKE} do."
SUPPORTED = (
    "Supported are classifiers of whole texts or pairs (...ForSequenceClassification) of families that use "
    f"transformers' attention interface, such as {_NAMED}; classifiers trained by attn-faithful train; and models of "
    "your own, by af.wrap(encode=...)"
)
# how the name of a class ends -> what such a model is, and what would be next
TASKS = {
    ("ForCausalLM", "LMHeadModel", "DoubleHeadsModel"): (
        "a causal language model, which answers with a next token and not with a class",
        "fine-tune a classifier with a trained head on labelled texts, or give af.wrap an encode whose logits are "
        "those of the answers' tokens",
    ),
    ("ForConditionalGeneration", "ForSeq2SeqLM", "MTModel"): (
        "a model that generates text, and not a class",
        "fine-tune a classifier with a trained head on labelled texts, or give af.wrap an encode whose logits are "
        "those of the answers' tokens",
    ),
    ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel"): (
        "a masked language model, which has no head for classes yet",
        "fine-tune a classifier from it on labelled texts (attn-faithful train --model) and test that",
    ),
    ("ForTokenClassification",): (
        "a token classifier, which gives a class a token and not one a text",
        "give af.wrap an encode whose logits are those of the one token that you ask about",
    ),
    ("ForQuestionAnswering",): (
        "a model for question answering, which gives the two ends of a span and no class",
        "test a classifier of pairs (question and passage), or give af.wrap an encode with a class an answer",
    ),
    ("ForMultipleChoice",): (
        "a model for multiple choice, which reads each choice as a text of its own",
        "test a classifier of pairs (question and choice), or give af.wrap an encode with a class a choice",
    ),
    ("ForImageClassification", "ForImageClassificationWithTeacher", "ForObjectDetection", "ForSemanticSegmentation"): (
        "a model of images, which have no words to rank",
        "test a classifier of texts",
    ),
    ("ForAudioClassification", "ForSpeechClassification", "ForCTC", "ForVideoClassification"): (
        "a model of sound or video, which have no words to rank",
        "test a classifier of texts",
    ),
    ("Model",): (
        "a model without a head for classes",
        "fine-tune a classifier from it on labelled texts (attn-faithful train --model) and test that",
    ),
}


def refusal(name: str) -> str | None:
    """Why a model of this class is not tested, and what is; None where the name says nothing against it.

    Example:
        >>> refusal("GPT2LMHeadModel")[:40]
        'GPT2LMHeadModel is a causal language mod'
        >>> refusal("BertForSequenceClassification") is None
        True
    """
    for ends, (what, following) in TASKS.items():
        if name.endswith(ends):
            return f"{name} is {what}. {SUPPORTED}. What would be next: {following}."
    return None


def unwrapped(model: Any) -> tuple[Any, Any]:
    """A model without the wrappers that change none of its numbers, and the transformers model inside.

    The two differ only for adapters of peft, whose wrapper is what the inner model is compared with.

    Raises:
        InputError: adapters that work outside of the model's own layers.
    """
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):  # torch.compile
            model = model._orig_mod
        else:
            break
    if not hasattr(model, "peft_config") or not hasattr(model, "get_base_model"):
        return model, model
    outside = [adapter for adapter in _adapters(model) if adapter.is_prompt_learning or adapter.is_adaption_prompt]
    if outside:
        raise InputError(
            f"{type(model).__name__} puts virtual tokens ({outside[0].peft_type.value}) before each text, which no "
            "attention over the text's own tokens can replace; adapters inside of the layers, such as LoRA, are taken."
        )
    return model, model.get_base_model()


def _adapters(model: Any) -> Iterator[Any]:
    """The configurations of the adapters that act."""
    names = model.active_adapters if hasattr(model, "active_adapters") else list(model.peft_config)
    for name in names:
        yield model.peft_config[name]


def check_model(model: Any) -> None:
    """Raise for what cannot be wrapped, with what would work."""
    name = type(model).__name__
    if not hasattr(model, "config") or not hasattr(type(model), "_can_set_attn_implementation"):
        raise InputError(f"Expected a transformers model, but got {name}; for one of your own pass encode= to wrap.")
    reason = refusal(name)
    if reason is not None:
        raise InputError(reason)
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise InputError(f"{name} reads {model.main_input_name} and no texts. {SUPPORTED}.")
    if not type(model)._can_set_attn_implementation():
        raise InputError(
            f"{name} computes its attention past transformers' attention interface, so it cannot be read and "
            f"replaced; {LIKE} use it. What would be next: one of these, fine-tuned on the same "
            "texts, or an encode of your own around this one, by af.wrap(encode=...)."
        )
    _check_classes(model, name)
    _check_names(model, name)
    _check_implementation(model, name)
    _check_weights(model, name)
    _check_padding(model, name)


def _check_classes(model: Any, name: str) -> None:
    config = model.config
    if config.problem_type == "regression":
        raise InputError(
            f"Expected a classifier of two classes or more, but {name} is a regression (its config's problem_type). "
            f"{SUPPORTED}."
        )
    if config.num_labels is None or config.num_labels < 2:
        raise InputError(
            f"Expected a classifier of two classes or more, but {name} has num_labels={config.num_labels}: one logit, "
            "which transformers reads as a regression. If it is a yes-or-no classifier (a sigmoid of its logit), give "
            "its head a first row of zeros and set num_labels to 2, which says the same."
        )


def _check_names(model: Any, name: str) -> None:
    named = model.config.id2label
    if sorted(named) != list(range(len(named))):
        raise InputError(
            f"Expected the config of {name} to name its classes 0 to {len(named) - 1}, but its id2label is {named}; "
            "set model.config.id2label."
        )


def _check_implementation(model: Any, name: str) -> None:
    names = sorted({str(config._attn_implementation) for config in configs_of(model)})
    unknown = [each for each in names if each not in SPARSE and not each.startswith(SOFTMAX)]
    projections = {projection_of(each) for each in names}
    if unknown or len(projections) > 1:
        named = " and ".join(repr(each) for each in unknown or names)
        raise InputError(
            f"Expected one known projection in all of {name}, but its attention implementation is "
            f"{named}; call its set_attn_implementation('sdpa') first."
        )


def _check_weights(model: Any, name: str) -> None:
    """Raise unless all weights are floats of single precision or double, on one device."""
    if getattr(model.config, "quantization_config", None) is not None or getattr(model, "is_quantized", False):
        raise InputError(f"{name} is quantised, and {_ROUNDING}; load it without a quantization_config.")
    quantised = []
    for module in model.modules():
        if "quantized" in type(module).__module__:
            quantised.append(type(module).__name__)
    for weight in model.parameters():
        if not weight.is_floating_point():
            quantised.append(str(weight.dtype).removeprefix("torch."))
    if quantised:
        raise InputError(f"{name} is quantised ({quantised[0]}), and {_ROUNDING}; wrap the model as it was before.")
    dtypes = {weight.dtype for weight in model.parameters()}
    if dtypes - {torch.float32, torch.float64}:
        type_names = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InputError(
            f"{name} is in {', '.join(type_names)}, in which small changes drown in rounding; wrap model.float(), or "
            "load it with dtype=torch.float32. af.load(path, dtype='bfloat16') computes the transformer alone in half "
            "precision, within stated bounds."
        )
    tensors = (*model.parameters(), *model.buffers())
    devices = sorted({str(tensor.device) for tensor in tensors})
    if "meta" in devices:
        raise InputError(
            f"{name} has weights that are not in memory (offloaded, or never loaded); load it without device_map, "
            "onto one device."
        )
    if len(devices) > 1:
        raise InputError(f"{name} lies on several devices ({', '.join(devices)}); move it to one, by model.to().")


_ROUNDING = "small changes drown in its rounding"


def _check_padding(model: Any, name: str) -> None:
    config = model.config.get_text_config()
    padding = config.pad_token_id
    table = model.get_input_embeddings()
    rows = getattr(table, "num_embeddings", config.vocab_size)
    if padding is not None and not 0 <= padding < rows:
        raise InputError(
            f"Expected the padding id of {name} to be one of its {rows} tokens, but config.pad_token_id is {padding}; "
            "set it to the tokenizer's, or to None where no text needs padding."
        )


def check_logits(model: nn.Module, output: Any, texts: int) -> Tensor:
    """The logits (B, C) of a model's output; raises where it is no classifier of texts."""
    logits = getattr(output, "logits", None)
    classes = model.config.num_labels
    if not isinstance(logits, Tensor) or logits.shape != (texts, classes):
        result = "none"
        if isinstance(logits, Tensor):
            result = f"some of shape {tuple(logits.shape)}"
        raise InputError(
            f"Expected a classifier of texts, whose logits have the shape ({texts}, {classes}), but "
            f"{type(model).__name__} gave {result}. {SUPPORTED}."
        )
    return logits


def check_ids(model: nn.Module, ids: Tensor) -> None:
    """Raise for token ids that the model has no embedding of."""
    rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    if rows is None or not ids.numel():
        return
    unknown = ids[(ids < 0) | (ids >= rows)]
    if len(unknown):
        raise InputError(unknown_id(rows, int(unknown[0])))


def unknown_id(rows: int, number: int) -> str:
    """What to do about a token id that a model has no embedding of."""
    return (
        f"The model embeds {rows} tokens, but the text has the id {number}; if tokens were added to the tokenizer, "
        "call model.resize_token_embeddings(len(tokenizer)) and train them, else take the tokenizer that was saved "
        "with the model."
    )
