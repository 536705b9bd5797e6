"""A tokenizer that also says which sentence each token belongs to, so that hierarchical models run in a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast

from attn_faithful._checks import InputError
from attn_faithful.data.sentences import Span, sentence_ids, sentence_spans

_IDS = "sentence_ids"


class SentenceTokenizer(PreTrainedTokenizerFast):
    """A fast tokenizer whose output holds ``sentence_ids``, the same that ``encode_texts(..., sentences=True)`` makes.

    It is saved and loaded as any other, and where this package is not imported `AutoTokenizer` takes the plain class.
    See `with_sentences`.
    """

    def __call__(
        self,
        text: Any = None,
        text_pair: Any = None,
        *,
        return_tensors: Any = None,
        return_offsets_mapping: bool = False,
        **kwargs: Any,
    ) -> BatchEncoding:
        """As of any tokenizer; see the class.

        Raises:
            InputError: pairs, texts as lists of words, or long texts as several rows, which have no sentences here.
        """
        for name in ("is_split_into_words", "return_overflowing_tokens"):
            if kwargs.get(name):
                raise InputError(f"Expected whole texts, whose sentences can be told, but got {name}; leave it out.")
        if text_pair is not None or text is None:
            raise InputError("Expected texts without pairs: a hierarchical model reads the sentences of one text.")
        encoded = super().__call__(text, return_offsets_mapping=True, **kwargs)
        spans = encoded["offset_mapping"]
        if not return_offsets_mapping:
            del encoded["offset_mapping"]
        single = isinstance(text, str)
        if single:
            encoded[_IDS] = _sentence_ids(text, spans)
        else:
            encoded[_IDS] = list(map(_sentence_ids, text, spans))
        return encoded.convert_to_tensors(return_tensors, prepend_batch_axis=single)

    def _pad(self, encoded_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """What collators of transformers call for each row."""
        main_input = self.model_input_names[0]
        length = len(encoded_inputs[main_input])
        padded = super()._pad(encoded_inputs, *args, **kwargs)
        if _IDS not in padded:
            return padded
        padding = [0] * (len(padded[main_input]) - length)
        if (kwargs.get("padding_side") or self.padding_side) == "left":
            padded[_IDS] = [*padding, *padded[_IDS]]
        else:
            padded[_IDS] = [*padded[_IDS], *padding]
        return padded


def _sentence_ids(text: str, token_spans: Sequence[Span]) -> list[int]:
    return sentence_ids(sentence_spans(text), token_spans).tolist()


def with_sentences(tokenizer: PreTrainedTokenizerFast) -> SentenceTokenizer:
    """The same tokenizer, saying the sentence of each token too; what to save beside a hierarchical model.

    Raises:
        InputError: a tokenizer that does not say where its tokens stand.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> with_sentences(train_tokenizer(["a film"]))("A film. A bad film!")["sentence_ids"]
        [0, 0, 0, 1, 1, 1, 1]
    """
    if not tokenizer.is_fast:
        raise InputError(
            f"Expected a fast tokenizer, which says where its tokens stand in the text, but got a "
            f"{type(tokenizer).__name__}."
        )
    options = dict(tokenizer.init_kwargs)
    for name in ("tokenizer_class", "backend"):
        options.pop(name, None)
    options |= tokenizer.special_tokens_map  # those that were added later are not among the options
    options["tokenizer_object"] = tokenizer.backend_tokenizer
    return SentenceTokenizer(**options)
