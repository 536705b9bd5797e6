"""Word-level fast tokenizers, fitted on the training texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.normalization import clean_steps
from attn_faithful.data.patterns import DIGIT_WORD, WORDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNK, DIGITS = "[PAD]", "[UNK]", "qqq"
PRE_TOKENIZERS = ("words", "whitespace")


def train_tokenizer(
    texts: Iterable[str],
    *,
    pre_tokenizer: str = "words",
    min_df: int = 1,
    lowercase: bool = True,
    digits: str | None = DIGITS,
    max_vocabulary: int | None = None,
) -> PreTrainedTokenizerFast:
    """A word-level fast tokenizer whose vocabulary is the words of ``texts``, saved and loaded like any other.

    Ids: 0 ``[PAD]``, 1 ``[UNK]``, then words by falling document frequency, equal ones by spelling. Nothing is added
    around a text, and a literal ``[PAD]`` in a text is never the padding. What looks the same is the same word: texts
    are brought to NFC, and invisible characters (controls, byte order marks, soft hyphens, marks of direction, and
    joiners but where a script or an emoji needs them) are no part of any token; a zero-width space parts words.

    Args:
        texts: the training texts.
        pre_tokenizer: ``words`` splits off punctuation, English clitics (``do n't``) and hyphens, keeps abbreviations,
            numbers, addresses and mark-up tags whole, and takes Han, kana, Thai and emoji one by one; ``whitespace``
            is for texts that are tokens joined by spaces.
        min_df: a word must stand in at least this many texts.
        lowercase: fold case.
        digits: what every word with a digit becomes; None keeps such words.
        max_vocabulary: at most this many entries, the two special ones included.

    Raises:
        InputError: for an unknown pre-tokenizer, a text that is no string, or a number out of range.

    Example:
        >>> tokenizer = train_tokenizer(["It isn't good, it's 20% bad.", "bad bad"])
        >>> tokenizer.tokenize("Isn't it 300 bad?")
        ['is', "n't", 'it', 'qqq', 'bad', '[UNK]']
        >>> tokenizer("bad [PAD]")["input_ids"]
        [2, 1, 1, 1]
    """
    from tokenizers import Tokenizer, models, normalizers
    from transformers import PreTrainedTokenizerFast

    check_choice("pre-tokenizer", pre_tokenizer, PRE_TOKENIZERS)
    if min_df < 1 or (max_vocabulary is not None and max_vocabulary < 2):
        raise InputError(
            f"Expected min_df >= 1 and max_vocabulary >= 2 (two are special), but got {min_df} and {max_vocabulary}."
        )
    texts = _checked(texts)
    backend = Tokenizer(models.WordLevel({PAD: 0, UNK: 1}, unk_token=UNK))
    backend.normalizer = normalizers.Sequence(_normalizers(pre_tokenizer, lowercase, digits))
    backend.pre_tokenizer = _pre_tokenizer(pre_tokenizer)
    always = digits
    if digits is not None and lowercase:
        always = digits.lower()
    words = _words(backend, texts, min_df, always)
    if max_vocabulary is not None:
        words = words[: max_vocabulary - 2]
    vocabulary = {word: i for i, word in enumerate([PAD, UNK, *words])}
    backend.model = models.WordLevel(vocabulary, unk_token=UNK)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )


def _checked(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise InputError("Expected a list of texts, but got one text; put it into a list.")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Expected texts, but row {row} is {text!r}; drop or fill it.")
    return texts


def _normalizers(pre_tokenizer: str, lowercase: bool, digits: str | None) -> list[Any]:
    """What is done to a text before it is cut into words."""
    from tokenizers import Regex, normalizers

    steps = [*clean_steps(), normalizers.Replace("\u2019", "'")]
    if not lowercase:  # a literal [PAD] in a text is not the padding
        steps.append(normalizers.Replace(PAD, PAD.lower()))
    if digits is not None:
        if not digits or digits.split() != [digits] or any(character.isdigit() for character in digits):
            raise InputError(f"Expected `digits` to be one word without digits or None, but got {digits!r}.")
        steps.append(normalizers.Replace(Regex(DIGIT_WORD[pre_tokenizer]), digits))
    if lowercase:
        steps.append(normalizers.Lowercase())
    return steps


def _pre_tokenizer(name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if name == "words":
        return pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
    return pre_tokenizers.WhitespaceSplit()


def _words(backend: Any, texts: Iterable[str], min_df: int, always: str | None) -> list[str]:
    """Words by falling document frequency, equal ones by spelling.

    Args:
        backend: normalizes and cuts the texts.
        texts: of the training split.
        min_df: the least number of texts that a word stands in.
        always: a word for which any number will do.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        normalized = backend.normalizer.normalize_str(text)
        pieces = backend.pre_tokenizer.pre_tokenize_str(normalized)
        counts.update({word for word, _ in pieces})
    frequent = [word for word, count in counts.items() if count >= min_df or word == always]
    words = [word for word in frequent if word not in (PAD, UNK)]
    return sorted(words, key=lambda word: (-counts[word], word))
