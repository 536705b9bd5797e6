"""What configurations of different makers say of the same thing: ours, those of transformers and of wrapped models."""

from __future__ import annotations

from typing import Any


def is_multi_label(config: Any) -> bool:
    """Whether a model gives one yes-or-no a label and not one class a text."""
    if getattr(config, "problem_type", None) == "multi_label_classification":
        return True
    return bool(getattr(config, "multi_label", False))


def note_masking(config: Any, masking: str | None) -> None:
    """Let a configuration say whether its model is trained on masked texts too, as "half"; of others it says nothing.

    Example:
        >>> from transformers import BertConfig
        >>> config = BertConfig()
        >>> note_masking(config, "half")
        >>> config.masking
        'half'
        >>> note_masking(config, None)
        >>> hasattr(config, "masking")
        False
    """
    if masking is not None:
        config.masking = masking
    elif getattr(config, "masking", None) is not None:
        del config.masking


def longest_text(config: Any) -> int | None:
    """The longest text that a model reads, in tokens; None for any."""
    if getattr(config, "encoder", None) is None:
        return getattr(config, "max_position_embeddings", None)
    learned = config.encoder == "transformer" and config.positions == "learned"
    if learned:
        return config.max_positions
    return None


def text_config(config: Any) -> Any:
    """The part of a configuration that is about texts."""
    if hasattr(config, "get_text_config"):
        return config.get_text_config()
    return config


def vocabulary_size(config: Any) -> int | None:
    """The rows of the embedding; None where it is not said."""
    return getattr(config, "vocab_size", None)


def padding_id(config: Any) -> int | None:
    """The id of padding; None where it is not said."""
    return getattr(config, "pad_token_id", None)


def kind_of(config: Any) -> str | None:
    """What kind of model it is: its encoder, or its type; None where neither is said."""
    kind = getattr(config, "encoder", None) or getattr(config, "model_type", None)
    if kind:
        return str(kind)
    return None


def origin_of(config: Any) -> str | None:
    """The folder or Hub id that transformers noted when the model was loaded."""
    place = getattr(config, "_name_or_path", None)
    if place:
        return str(place)
    return None


def attention_implementations(config: Any) -> list[str]:
    """The attention implementation of a configuration and of those inside it."""
    names = sorted(getattr(config, "sub_configs", None) or {})
    inner = [getattr(config, name) for name in names]
    return [str(getattr(part, "_attn_implementation", None)) for part in (config, *inner)]
