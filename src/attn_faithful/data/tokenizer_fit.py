"""Whether a tokenizer can belong to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BLANKS = "\u2581\u0120# "  # what marks where words begin or go on, in the entries of a vocabulary
_HOW = "load the tokenizer that was saved with the model"


def check_tokenizer_fits(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, pad_token_id: int | None = None, config: Any = None
) -> None:
    """Raise where a tokenizer cannot belong to a model.

    It has no words but special tokens, as transformers makes one where a folder holds no tokenizer; more ids than the
    model has embeddings, or less than half as many; another padding id, or other ids of the special tokens that it
    puts around a text.

    Args:
        tokenizer: to be checked.
        vocab_size: rows of the model's embedding.
        pad_token_id: the model's, None where it has none.
        config: the model's, for its other special tokens.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> check_tokenizer_fits(train_tokenizer(["a b"]), vocab_size=4, pad_token_id=0)
    """
    _check_words(tokenizer, vocab_size)
    _check_size(tokenizer, vocab_size)
    tokenizer_pad = tokenizer.pad_token_id
    if pad_token_id is not None and tokenizer_pad is not None and tokenizer_pad != pad_token_id:
        raise InputError(
            f"Expected the tokenizer's padding id to be the model's {pad_token_id}, but it is {tokenizer_pad}; {_HOW}."
        )
    _check_special_tokens(tokenizer, config)


def _check_words(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
    """Raise where the vocabulary holds special tokens alone."""
    special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    words = [entry for entry in tokenizer.get_vocab() if entry not in special and entry.strip(_BLANKS)]
    if not words and vocab_size > len(special):
        raise InputError(
            f"Expected the model's tokenizer, but this {type(tokenizer).__name__} knows no word, only special tokens, "
            f"as where a folder lacks the tokenizer's files; save the one that the model was trained with beside it: "
            f"tokenizer.save_pretrained(folder)."
        )


def _check_size(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> None:
    largest = max([*tokenizer.get_vocab().values(), len(tokenizer) - 1])
    if largest >= vocab_size:
        raise InputError(
            f"Expected a tokenizer with ids below the model's vocab_size {vocab_size}, but its largest id is "
            f"{largest}; {_HOW}."
        )
    if 2 * len(tokenizer) < vocab_size:
        raise InputError(
            f"Expected a tokenizer with about as many entries as the model's vocab_size {vocab_size}, but it has "
            f"{len(tokenizer)}, so most of the model's embeddings could never be used; {_HOW}."
        )


def _check_special_tokens(tokenizer: PreTrainedTokenizerBase, config: Any) -> None:
    """Raise where the tokenizer puts other special tokens around a text than the model knows."""
    around = tokenizer("")["input_ids"]
    for kind in ("bos", "eos", "cls", "sep"):
        name = f"{kind}_token_id"
        token_id = getattr(tokenizer, name, None)
        of_model = getattr(config, name, None)
        allowed = of_model if isinstance(of_model, list) else [of_model]
        if token_id in around and of_model is not None and token_id not in allowed:
            raise InputError(
                f"Expected the tokenizer's {name} to be the model's {of_model}, but it is {token_id}, and stands in "
                f"every text; {_HOW}."
            )
