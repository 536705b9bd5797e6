"""Word-level fast tokenizers, spans of tokens in the raw text and encoded data sets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.files.mapped_tables import Spill
from attn_faithful.data.normalization import Aligned, clean_steps
from attn_faithful.data.patterns import DIGIT_WORD, WORDS
from attn_faithful.data.rationales import RATIONALE
from attn_faithful.data.sentences import sentence_ids, sentence_spans
from attn_faithful.data.tokenized import encoded_batch, tokenize
from attn_faithful.data.words import aligned, filled

if TYPE_CHECKING:
    import datasets
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD, UNK, DIGITS = "[PAD]", "[UNK]", "qqq"
PRE_TOKENIZERS = ("words", "whitespace")
_BLANKS = "\u2581\u0120# "  # what marks where words begin or go on, in the entries of a vocabulary
SANE_LENGTH = 1_000_000  # a tokenizer without a limit reports 1e30
PLAIN = ("example", "label", "candidates")  # columns that encoding leaves as they are


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
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    check_choice("pre-tokenizer", pre_tokenizer, PRE_TOKENIZERS)
    if min_df < 1 or (max_vocabulary is not None and max_vocabulary < 2):
        raise InputError(
            f"Expected min_df >= 1 and max_vocabulary >= 2 (two are special), but got {min_df} and {max_vocabulary}."
        )
    if isinstance(texts, str):
        raise InputError("Expected a list of texts, but got one text; put it into a list.")
    texts = list(texts)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"Expected texts, but row {row} is {text!r}; drop or fill it.")
    steps = [*clean_steps(), normalizers.Replace("\u2019", "'")]
    if not lowercase:
        steps.append(normalizers.Replace(PAD, PAD.lower()))
    if digits is not None:
        if not digits or digits.split() != [digits] or any(c.isdigit() for c in digits):
            raise InputError(f"Expected `digits` to be one word without digits or None, but got {digits!r}.")
        steps.append(normalizers.Replace(Regex(DIGIT_WORD[pre_tokenizer]), digits))
    if lowercase:
        digits = digits and digits.lower()
        steps.append(normalizers.Lowercase())
    backend = Tokenizer(models.WordLevel({PAD: 0, UNK: 1}, unk_token=UNK))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = (
        pre_tokenizers.Split(Regex(WORDS), "removed", invert=True)
        if pre_tokenizer == "words"
        else pre_tokenizers.WhitespaceSplit()
    )
    counts: Counter[str] = Counter()
    normalize, split = backend.normalizer.normalize_str, backend.pre_tokenizer.pre_tokenize_str
    for text in texts:
        counts.update({word for word, _ in split(normalize(text))})
    words = sorted((-count, word) for word, count in counts.items() if word not in (PAD, UNK))
    kept = [word for count, word in words if -count >= min_df or word == digits]
    if max_vocabulary is not None:
        kept = kept[: max_vocabulary - 2]
    backend.model = models.WordLevel({w: i for i, w in enumerate([PAD, UNK, *kept])}, unk_token=UNK)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNK,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )


def _word_level(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any] | None:
    """The description of a tokenizer such as ``train_tokenizer`` makes, one token a word; None for any other."""
    from tokenizers import models

    if not tokenizer.is_fast or not isinstance(tokenizer.backend_tokenizer.model, models.WordLevel):
        return None
    described: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    steps = (described["normalizer"] or {}).get("normalizers", [])
    known = all(step["type"] in ("Replace", "NFC", "Lowercase") for step in steps)
    plain = bool(steps) and known and bool(described["pre_tokenizer"]) and not tokenizer.num_special_tokens_to_add()
    return described if plain else None


def in_pieces(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether tokens may be pieces of words, and the tokenizer tells of which: any fast one but ``train_tokenizer``'s.

    Example:
        >>> in_pieces(train_tokenizer(["a b"]))
        False
    """
    return bool(tokenizer.is_fast) and _word_level(tokenizer) is None


def span_finder(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], list[tuple[int, int]] | None]:
    """``token_spans`` of one tokenizer as a function of a text, for use in loops: what is fixed is worked out once."""
    if not tokenizer.is_fast:
        return lambda text: None
    described = _word_level(tokenizer)
    if described is None:
        return lambda text: list(tokenize(tokenizer, [text], offsets=True)["offset_mapping"][0])
    backend = tokenizer.backend_tokenizer
    steps = [step for step in map(_span_step, described["normalizer"]["normalizers"]) if step is not None]

    def spans(text: str) -> list[tuple[int, int]]:
        # the text as the pre-tokenizer sees it, but for case
        seen = Aligned.of(text)
        for step in steps:
            seen = step(seen)
        found = backend.pre_tokenizer.pre_tokenize_str(seen.text)
        return [(seen.starts[start], seen.ends[end - 1]) for _, (start, end) in found]

    return spans


def _span_step(described: dict[str, Any]) -> Callable[[Aligned], Aligned] | None:
    """A step of our tokenizers' normalizers that keeps the places of characters; None for one that moves none."""
    from tokenizers import Regex, normalizers, pre_tokenizers

    if described["type"] == "NFC":
        compose = normalizers.NFC().normalize_str
        return lambda seen: seen.composed(compose)
    pattern = described.get("pattern", {}).get("Regex")
    if pattern is None:  # of case, or of single characters for others
        return None
    finder, content = pre_tokenizers.Split(Regex(pattern), "removed", invert=True), described["content"]
    return lambda seen: seen.replaced([span for _, span in finder.pre_tokenize_str(seen.text)], content)


def token_spans(tokenizer: PreTrainedTokenizerBase, text: str) -> list[tuple[int, int]] | None:
    """The (start, end) of every token of ``tokenizer(text)`` in the raw text, in characters; special tokens are (0, 0).

    The digit rule of ``train_tokenizer`` makes the backend's own offsets wrong; here they are right. For other fast
    tokenizers these are its offsets, and a tokenizer without offsets gives None.

    Example:
        >>> text = "Won 1,000 Euros!"
        >>> tokenizer = train_tokenizer([text])
        >>> [text[start:end] for start, end in token_spans(tokenizer, text)]
        ['Won', '1,000', 'Euros', '!']
    """
    return span_finder(tokenizer)(text)


def length_limit(tokenizer: PreTrainedTokenizerBase, max_length: int | None = None) -> int | None:
    """The smaller of the tokenizer's own limit, where it is a sane number, and ``max_length``; None without either."""
    own = tokenizer.model_max_length
    limits = [own] if isinstance(own, int) and 0 < own < SANE_LENGTH else []
    if max_length is not None:
        if max_length < 1:
            raise InputError(f"Expected max_length of at least 1, but got {max_length}.")
        limits.append(max_length)
    return min(limits) if limits else None


def encode_texts(
    tokenizer: PreTrainedTokenizerBase,
    dataset: datasets.Dataset,
    max_length: int | None = None,
    sentences: bool = False,
    joined: bool = False,
) -> datasets.Dataset:
    """Encode the ``text`` column of a data set for a model; any tokenizer will do.

    The result holds ``input_ids``, ``length`` (tokens kept), ``n_tokens`` (tokens before truncation), ``truncated``,
    ``labels`` (from ``label``), ``example``, ``special_tokens_mask`` where the tokenizer adds special tokens, and each
    list column that has one value a white-space word, given to tokens: a token takes the value of its word, a special
    token 0. A list column that cannot be aligned in every row is left out. Lengths count special tokens. An empty text
    has length 0 unless special tokens are added. Fast tokenizers of pieces of words add ``word_ids`` (see
    ``words.word_ids``). Pairs add ``query_input_ids``, ``n_query_tokens`` (before truncation) and ``query_truncated``,
    with the same limit, and their ``candidates`` as they are.

    Args:
        max_length: for example the number of positions of the model; the tokenizer's own limit counts too.
        sentences: add ``sentence_ids``, for each token the place of its sentence among those that hold a token (see
            ``sentences.sentence_ids``), and ``n_sentences``, how many those are.
        joined: encode a text and its query as one sequence, of which the longer one is cut first, with
            ``token_type_ids`` where the tokenizer gives them. Lengths are of both; lists are of the text's words, and
            the query's tokens have 0.

    Raises:
        InputError: without a ``text`` column, or for a text that is no string, with its row; sentences are asked for
            and the tokenizer does not say where its tokens stand, or texts are joined; a limit below the number of
            special tokens.

    Example:
        >>> import datasets
        >>> data = datasets.Dataset.from_dict({"text": ["a b c", ""], "label": [1, 0], "informative": [[0, 1, 0], []]})
        >>> rows = encode_texts(train_tokenizer(data["text"]), data, max_length=2)
        >>> rows["length"][:], rows["n_tokens"][:], rows["truncated"][:], rows["informative"][:]
        ([2, 0], [3, 0], [True, False], [[0, 1], []])
    """
    import datasets
    import pyarrow as pa

    if "text" not in dataset.column_names:
        raise InputError(f"Expected a column 'text', but the columns are {', '.join(dataset.column_names)}.")
    limit = length_limit(tokenizer, max_length)
    joined = joined and "query" in dataset.column_names
    if sentences and joined:
        raise InputError("Sentences are those of one text, but texts and queries are joined; set joined to False.")
    spans = span_finder(tokenizer)
    pieces = in_pieces(tokenizer)
    if sentences and spans("") is None:
        raise InputError(
            f"Expected a tokenizer that says where its tokens stand in the text, which sentences need, but got a "
            f"{type(tokenizer).__name__} without offsets; use a fast tokenizer, such as train_tokenizer makes."
        )
    per_word = [
        name
        for name, feature in dataset.features.items()
        if name not in ("text", "query", *PLAIN) and isinstance(feature, (datasets.List, datasets.LargeList))
    ]
    plain = [name for name in PLAIN if name in dataset.column_names]
    asked = [name for name in ("query",) if name in dataset.column_names]
    dataset = dataset.with_format(None).select_columns(["text", *asked, *plain, *per_word])
    types = {name: pa.list_(pa.int32()) for name in ("input_ids", "query_input_ids", "sentence_ids", "word_ids")}
    types |= {name: pa.list_(pa.int8()) for name in ("special_tokens_mask", "token_type_ids", "candidates")}
    names = ["example", "input_ids", "labels", "length", "n_tokens", "truncated", "sentence_ids", "n_sentences"]
    names += ["query_input_ids", "n_query_tokens", "query_truncated", "candidates", "token_type_ids", "word_ids"]
    found, first = Spill(), []
    specials = False
    for start in range(0, max(len(dataset), 1), 1000):
        batch = dataset[start : start + 1000]
        rows = encoded_batch(
            tokenizer,
            batch["text"],
            start,
            limit,
            queries=batch["query"] if joined else None,
            offsets=pieces or sentences,
            words=pieces,
        )
        specials = specials or any(any(mask) for mask in rows["special_tokens_mask"])
        for name in list(per_word):
            columns = (batch[name], batch["text"], rows["n_own"], rows["own_spans"])
            values = [
                aligned(value, text, n, lambda own=own, text=text: own if pieces else spans(text))
                for value, text, n, own in zip(*columns, strict=True)
            ]
            if any(value is None for value in values):
                if name == RATIONALE:
                    row = start + next(i for i, value in enumerate(values) if value is None)
                    raise InputError(
                        f"The rationale of row {row} cannot be laid on the tokenizer's tokens: expected one value a "
                        "white-space word, and a fast tokenizer that says where its tokens stand."
                    )
                per_word.remove(name)
            else:
                left = tokenizer.truncation_side == "left"
                rows[name] = [filled(v, other, left) for v, other in zip(values, rows["other"], strict=True)]
        if sentences:
            # The backend's own offsets: the digit rule makes their starts wrong, but a token's end decides.
            rows["sentence_ids"] = [
                sentence_ids(sentence_spans(text), own)
                for text, own in zip(batch["text"], rows["offset_mapping"], strict=True)
            ]
            rows["n_sentences"] = [
                0 if all(mask) else int(ids[-1]) + 1
                for ids, mask in zip(rows["sentence_ids"], rows["special_tokens_mask"], strict=True)
            ]
        if asked and not joined:
            query = encoded_batch(tokenizer, batch["query"], start, limit)
            rows["query_input_ids"], rows["n_query_tokens"] = query["input_ids"], query["n_tokens"]
            rows["query_truncated"] = query["truncated"]
        for name in plain:
            rows["labels" if name == "label" else name] = batch[name]
        held = [name for name in (*names, *per_word, "special_tokens_mask") if name in rows]
        found.add(pa.table({name: pa.array(rows[name], type=types.get(name)) for name in held}))
        first = first or held
    names = [name for name in (*names, *per_word) if name in first]
    names += ["special_tokens_mask"] if specials else []
    return datasets.Dataset(found.table().select(names))


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
        >>> check_tokenizer_fits(train_tokenizer(["a b"]), vocab_size=4, pad_token_id=0)
    """
    vocabulary = tokenizer.get_vocab()
    special = {*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()}
    ordinary = sum(bool(entry.strip(_BLANKS)) for entry in vocabulary if entry not in special)
    how = "load the tokenizer that was saved with the model"
    if not ordinary and vocab_size > len(special):
        raise InputError(
            f"Expected the model's tokenizer, but this {type(tokenizer).__name__} knows no word, only special tokens, "
            f"as where a folder lacks the tokenizer's files; save the one that the model was trained with beside it: "
            f"tokenizer.save_pretrained(folder)."
        )
    largest = max([*vocabulary.values(), len(tokenizer) - 1])
    if largest >= vocab_size:
        raise InputError(
            f"Expected a tokenizer with ids below the model's vocab_size {vocab_size}, but its largest id is "
            f"{largest}; {how}."
        )
    if 2 * len(tokenizer) < vocab_size:
        raise InputError(
            f"Expected a tokenizer with about as many entries as the model's vocab_size {vocab_size}, but it has "
            f"{len(tokenizer)}, so most of the model's embeddings could never be used; {how}."
        )
    own = tokenizer.pad_token_id
    if pad_token_id is not None and own is not None and own != pad_token_id:
        raise InputError(
            f"Expected the tokenizer's padding id to be the model's {pad_token_id}, but it is {own}; {how}."
        )
    around = tokenizer("")["input_ids"]
    for kind in ("bos", "eos", "cls", "sep"):
        own, models = getattr(tokenizer, f"{kind}_token_id", None), getattr(config, f"{kind}_token_id", None)
        allowed = models if isinstance(models, list) else [models]
        if own in around and models is not None and own not in allowed:
            raise InputError(
                f"Expected the tokenizer's {kind}_token_id to be the model's {models}, but it is {own}, and stands in "
                f"every text; {how}."
            )
