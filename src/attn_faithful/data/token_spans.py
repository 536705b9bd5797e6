"""Where each token stands in the raw text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attn_faithful.data.normalization import Aligned, Span
from attn_faithful.data.tokenized import tokenize

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Step = Callable[[Aligned], Aligned]

_PLAIN_STEPS = ("Replace", "NFC", "Lowercase")


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str) -> list[Span] | None:
    """The (start, end) of every token of ``tokenizer(text)`` in the raw text, in characters; special tokens are (0, 0).

    The digit rule of ``train_tokenizer`` makes the backend's own offsets wrong; here they are right. For other fast
    tokenizers these are its offsets, and a tokenizer without offsets gives None.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> text = "Won 1,000 Euros!"
        >>> tokenizer = train_tokenizer([text])
        >>> [text[start:end] for start, end in token_spans(tokenizer, text)]
        ['Won', '1,000', 'Euros', '!']
    """
    return span_finder(tokenizer)(text)


def span_finder(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], list[Span] | None]:
    """``token_spans`` of one tokenizer as a function of a text, for use in loops: what is fixed is worked out once."""
    if not tokenizer.is_fast:
        return lambda text: None
    description = _word_level(tokenizer)
    if description is None:
        return lambda text: list(tokenize(tokenizer, [text], offsets=True)["offset_mapping"][0])
    pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    steps = _span_steps(description)

    def spans(text: str) -> list[Span]:
        # the text as the pre-tokenizer sees it, but for case
        aligned = Aligned.of(text)
        for step in steps:
            aligned = step(aligned)
        pieces = pre_tokenizer.pre_tokenize_str(aligned.text)
        return [(aligned.starts[start], aligned.ends[end - 1]) for _, (start, end) in pieces]

    return spans


def in_pieces(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens may be pieces of words, and the tokenizer tells of which: any fast one but ``train_tokenizer``'s.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> in_pieces(train_tokenizer(["a b"]))
        False
    """
    return bool(tokenizer.is_fast) and _word_level(tokenizer) is None


def _word_level(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any] | None:
    """The description of a tokenizer such as ``train_tokenizer`` makes, one token a word; None for any other."""
    from tokenizers import models

    if not tokenizer.is_fast or not isinstance(tokenizer.backend_tokenizer.model, models.WordLevel):
        return None
    if tokenizer.num_special_tokens_to_add():
        return None
    description: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    steps = (description["normalizer"] or {}).get("normalizers", [])
    is_plain = steps and all(step["type"] in _PLAIN_STEPS for step in steps)
    if not is_plain or not description["pre_tokenizer"]:
        return None
    return description


def _span_steps(description: dict[str, Any]) -> list[Step]:
    """The steps of our tokenizers' normalizers that move characters, keeping the places of each."""
    steps = [_span_step(step) for step in description["normalizer"]["normalizers"]]
    return [step for step in steps if step is not None]


def _span_step(description: dict[str, Any]) -> Step | None:
    """A step of a normalizer that keeps the places of characters; None for one that moves none."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if description["type"] == "NFC":
        compose = normalizers.NFC().normalize_str
        return lambda aligned: aligned.composed(compose)
    pattern = description.get("pattern", {}).get("Regex")
    if pattern is None:  # of case, or of single characters for others
        return None
    finder = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    content = description["content"]

    def replace(aligned: Aligned) -> Aligned:
        spans = [span for _, span in finder.pre_tokenize_str(aligned.text)]
        return aligned.replaced(spans, content)

    return replace
