"""Words that tokens are pieces of, and pairs as one sequence; case numbers are those of the list of users' cases."""

import doctest
from types import SimpleNamespace

import datasets
import numpy as np
import pytest
import torch

from attn_faithful._checks import InputError
from attn_faithful.data import words
from attn_faithful.data.collate import Collator
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.rows import Rows
from attn_faithful.data.token_spans import in_pieces, token_spans
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.data.words import aligned, filled, shown_spans
from attn_faithful.experiments.prepare import collator
from tests.data.pieces import KINDS, Slow, bytes_of, sentencepiece, wordpiece

TEXTS = ["unbelievably good, movies!", "a \U0001f600 b", "我喜欢电影", "مرحبا", "", "a  b ", "don't\n\nstop", " \n "]
every_kind = pytest.mark.parametrize("kind", KINDS)


def encoded(tokenizer, texts, queries=None, joined=False, max_length=None, **columns):
    table = {"text": texts, **({} if queries is None else {"query": queries}), **columns}
    return encode_texts(tokenizer, datasets.Dataset.from_dict(table), max_length, joined=joined)


def numbered_again(ids):
    """Numbers from 0 in order of appearance, -1 for None."""
    seen = {}
    return [-1 if i is None else seen.setdefault(i, len(seen)) for i in ids]


def test_examples_in_docstrings():
    assert doctest.testmod(words).failed == 0


# --- words


@every_kind
def test_words_are_those_of_the_tokenizer_c25(kind):
    tokenizer = KINDS[kind]()
    rows = encoded(tokenizer, TEXTS)
    assert rows.features["word_ids"].feature.dtype == "int32"
    own = tokenizer(TEXTS)
    for i, ids in enumerate(rows["word_ids"]):
        assert len(ids) == rows["length"][i]
        if kind != "sentencepiece uncut" and TEXTS[i] != "我喜欢电影":  # which tokenizers of bytes leave whole
            assert ids == numbered_again(own.word_ids(i))
        content = [w for w in ids if w >= 0]
        assert content == sorted(content)
        assert set(content) == set(range(len(set(content))))
        if "special_tokens_mask" in rows.column_names:
            assert [w < 0 for w in ids] == [bool(s) for s in rows["special_tokens_mask"][i]]


def test_words_of_pieces_c25():
    rows = encoded(wordpiece(), TEXTS)
    assert rows["word_ids"][0] == [-1, 0, 0, 0, 1, 2, 3, 3, 4, -1]
    assert rows["word_ids"][1] == [-1, 0, 1, 2, -1]
    assert rows["word_ids"][2] == [-1, 0, 1, 2, 3, 4, -1]
    assert rows["word_ids"][3] == [-1, 0, 0, 0, 0, 0, -1]
    assert rows["word_ids"][4] == [-1, -1]


def test_bytes_of_a_phrase_without_blanks_are_the_words_of_a_segmenter_c25():
    """I, like, films: three bytes a character; Arabic has blanks between its words."""
    rows = encoded(bytes_of(), TEXTS)
    assert rows["word_ids"][2] == [0] * 3 + [1] * 6 + [2] * 6
    assert rows["word_ids"][3] == [0] * 10
    assert rows["word_ids"][1] == [0, *[1] * 5, 2, 2]


def test_uncut_texts_are_cut_at_white_space():
    """The tokenizer itself takes the whole text for one word; a blank alone goes with the word behind it."""
    tokenizer = sentencepiece(split=False)
    assert set(tokenizer(["good  bad movies"]).word_ids(0)) == {0}
    assert tokenizer.tokenize("good  bad movies ") == ["▁good", "▁", "▁bad", "▁mo", "vies", "▁"]
    rows = encoded(tokenizer, ["good  bad movies ", "x y", " \n "])
    assert rows["word_ids"][0] == [0, 1, 1, 2, 2, 2]
    assert tokenizer.tokenize("x y") == ["▁", "<unk>", "▁", "y"]
    assert rows["word_ids"][1] == [0, 0, 1, 1]
    assert set(rows["word_ids"][2]) == {0}


def test_tokenizers_of_whole_words_and_slow_ones_have_no_such_column():
    assert not in_pieces(train_tokenizer(["a b"]))
    assert not in_pieces(Slow())
    for tokenizer in (train_tokenizer(["good bad"]), Slow()):
        assert "word_ids" not in encoded(tokenizer, ["good bad", ""]).column_names


def test_truncation_leaves_each_token_its_word():
    text = "unbelievably good unbelievably"
    assert encoded(wordpiece(), [text], max_length=6)["word_ids"][:] == [[-1, 0, 0, 0, 1, -1]]
    left = wordpiece(truncation_side="left")
    assert encoded(left, [text], max_length=6)["word_ids"][:] == [[-1, 0, 1, 1, 1, -1]]
    assert encoded(left, [text], max_length=4)["word_ids"][:] == [[-1, 0, 0, -1]]


def test_many_rows_and_none():
    tokenizer = wordpiece()
    many = encoded(tokenizer, ["good movies", ""] * 700)
    assert many["word_ids"][1398:] == [[-1, 0, 1, 1, -1], [-1, -1]]
    assert len(encoded(tokenizer, [])) == 0


PHRASES = {  # words by ICU's dictionaries, with the bars that people would draw
    "Chinese": "我|喜欢|电影|，|非常|好看|。",  # noqa: RUF001
    "Japanese": "私|は|映画|が|大好き|です|。|東京タワー|は|23|年",
    "Thai": "ฉัน|รัก|ภาษา|ไทย|มาก",
    "Lao": "ຂ້ອຍ|ຮັກ|ພາສາ|ລາວ",
    "Khmer": "ខ្ញុំ|ស្រឡាញ់|ភាសាខ្មែរ",
    "Burmese": "ကျွန်တော်|မြန်မာ|စာ|ကို|ချစ်|တယ်",
    "mixed": "I |love |我|喜欢|GPT|电影",
    "Hindi": "हिन्दी |फ़िल्म |अच्छी |है",
    "composed late": "cafe\u0301 |nai\u0308ve |good",
}


def llama_3():
    """A tokenizer of bytes that cuts as Llama 3's does: marks go with the letters behind them."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, whole])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def words_of(tokenizer, text):
    """The words of a text as they stand in it."""
    rows = encoded(tokenizer, [text])
    spans, ids = token_spans(tokenizer, text), rows["word_ids"][0]
    found = {}
    for (start, end), word in zip(spans, ids, strict=True):
        if word >= 0:
            first, last = found.get(word, (start, end))
            found[word] = (min(first, start), max(last, end))
    return [text[start:end].strip() for start, end in found.values()]


@pytest.mark.parametrize("name", PHRASES)
@pytest.mark.parametrize("kind", ["GPT-2", "RoBERTa", "Llama 3"])
def test_scripts_without_blanks_have_words(name, kind):
    tokenizer = {"GPT-2": bytes_of, "RoBERTa": lambda: bytes_of(trim=True), "Llama 3": llama_3}[kind]()
    parts = PHRASES[name].split("|")
    expected = [part.strip() for part in parts]
    assert words_of(tokenizer, "".join(parts)) == expected


def test_a_token_over_a_border_belongs_to_the_word_it_begins_in():
    from attn_faithful.data.words import word_ids

    none = {"special_tokens_mask": [0] * 3, "sequence_ids": [0] * 3, "word_ids": [0] * 3}
    for offsets, expected in (([(0, 2), (2, 4), (4, 5)], [0, 1, 2]), ([(0, 4), (4, 5), (4, 5)], [0, 1, 1])):
        assert word_ids(SimpleNamespace(**none, offsets=offsets), ["我喜欢电影"]) == expected  # 我 喜欢 电影


def test_words_of_characters_stay_and_pairs_are_cut_apart():
    """BERT's own cut of Han into characters stands; both texts of a pair are segmented."""
    assert encoded(wordpiece(), ["我喜欢"])["word_ids"][0] == [-1, 0, 1, 2, -1]
    rows = encoded(bytes_of(trim=True), ["我喜欢"], ["电影好"], joined=True)
    content = [word for word in rows["word_ids"][0] if word >= 0]
    assert content == [0] * 3 + [1] * 6 + [2] * 6 + [3] * 3


# --- special tokens


@pytest.mark.parametrize(
    ("tokenizer", "literal"), [(wordpiece(), "[SEP]"), (bytes_of(), "</s>"), (bytes_of(trim=True), "</s>")]
)
def test_a_special_token_that_a_text_spells_is_text_c05(tokenizer, literal):
    rows = encoded(tokenizer, [f"good {literal} bad"])
    own = tokenizer.convert_tokens_to_ids(literal)
    masked = rows["special_tokens_mask"][0] if "special_tokens_mask" in rows.column_names else [0] * rows["length"][0]
    content = [t for t, s in zip(rows["input_ids"][0], masked, strict=True) if not s]
    assert own in tokenizer(f"good {literal} bad")["input_ids"][1:-1]  # what the tokenizer would do by itself
    assert own not in content
    assert sum(masked) == tokenizer.num_special_tokens_to_add()
    spelled = token_spans(tokenizer, f"good {literal} bad")
    assert len(spelled) == rows["length"][0]
    assert tokenizer(literal)["input_ids"].count(own) >= 1  # and still does


def test_tokenizers_with_marks_of_their_own_keep_them():
    tokenizer = wordpiece(extra_special_tokens=["<e1>"])
    rows = encoded(tokenizer, ["good <e1> bad"])
    assert tokenizer.convert_ids_to_tokens(rows["input_ids"][0]) == ["[CLS]", "good", "<e1>", "bad", "[SEP]"]
    assert rows["word_ids"][0] == [-1, 0, 1, 2, -1]
    assert rows["special_tokens_mask"][0] == [1, 0, 0, 0, 1]


def test_special_tokens_at_the_end_c05():
    """[CLS] last: the mask says so, and no position does."""
    from tokenizers import processors

    tokenizer = wordpiece()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP] [CLS]", pair="$A [SEP] $B [SEP] [CLS]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    rows = encoded(tokenizer, ["good bad", ""])
    assert rows["special_tokens_mask"][:] == [[0, 0, 1, 1], [1, 1]]
    assert rows["word_ids"][:] == [[0, 1, -1, -1], [-1, -1]]


# --- pairs as one sequence


def test_pairs_as_one_sequence():
    tokenizer = wordpiece()
    rows = encoded(tokenizer, ["unbelievably bad", ""], ["good?", "bad"], joined=True, label=[1, 0])
    assert not {"query_input_ids", "n_query_tokens", "query_truncated"} & set(rows.column_names)
    assert [tokenizer.convert_ids_to_tokens(ids) for ids in rows["input_ids"]] == [
        ["[CLS]", "un", "##believ", "##ably", "bad", "[SEP]", "good", "?", "[SEP]"],
        ["[CLS]", "[SEP]", "bad", "[SEP]"],
    ]
    assert rows["word_ids"][:] == [[-1, 0, 0, 0, 1, -1, 2, 3, -1], [-1, -1, 0, -1]]
    assert rows["token_type_ids"][:] == [[0, 0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1]]
    assert rows["special_tokens_mask"][:] == [[1, 0, 0, 0, 0, 1, 0, 0, 1], [1, 1, 0, 1]]
    assert rows["n_tokens"][:] == rows["length"][:] == [9, 4]
    assert rows["labels"][:] == [1, 0]
    apart = encoded(tokenizer, ["unbelievably bad"], ["good?"])
    assert len(apart["input_ids"][0]) == 6
    assert len(apart["query_input_ids"][0]) == 4
    assert "token_type_ids" not in apart.column_names
    assert encoded(tokenizer, ["good"], joined=True)["length"][:] == [3]


@every_kind
def test_pairs_of_any_tokenizer(kind):
    """An empty query makes a pair still."""
    tokenizer = KINDS[kind]()
    for query in ("good, bad", "", "\U0001f600"):
        rows = encoded(tokenizer, ["unbelievably bad"], [query], joined=True)
        whole = tokenizer(["unbelievably bad"], [query])
        assert rows["input_ids"][0] == whole["input_ids"][0]
        own = zip(whole.sequence_ids(0), whole.word_ids(0), strict=True)
        if kind != "sentencepiece uncut":
            assert rows["word_ids"][0] == numbered_again([None if word is None else (text, word) for text, word in own])
        assert max(rows["word_ids"][0]) + 1 == len({w for w in rows["word_ids"][0] if w >= 0})
        assert ("token_type_ids" in rows.column_names) == (kind == "wordpiece")


def test_truncated_pairs_say_so_c24():
    """The longer of the two is cut first."""
    tokenizer = wordpiece()
    assert tokenizer.model_max_length > 1e29
    rows = encoded(tokenizer, ["good " * 6, "good"], ["bad bad", "bad " * 6], joined=True, max_length=9)
    assert rows["n_tokens"][:] == [11, 10]
    assert rows["length"][:] == [9, 9]
    assert rows["truncated"][:] == [True, True]
    assert rows["token_type_ids"][:] == [[0] * 6 + [1] * 3, [0] * 3 + [1] * 6]
    assert encoded(tokenizer, ["good"] * 2, ["bad", ""], joined=True, max_length=5)["truncated"][:] == [False] * 2
    whole = encoded(tokenizer, ["good " * 600], ["bad"], joined=True)
    assert whole["length"][:] == whole["n_tokens"][:] == [604]


def test_lists_are_of_the_text_and_not_of_the_query_c25():
    values = {"informative": [[1, 2], [3, 4, 5, 6]]}
    texts, queries = ["unbelievably bad", "good bad good bad"], ["good bad", "good"]
    rows = encoded(wordpiece(), texts, queries, joined=True, **values)
    assert rows["informative"][:] == [[0, 1, 1, 1, 2, 0, 0, 0, 0], [0, 3, 4, 5, 6, 0, 0, 0]]
    cut = encoded(wordpiece(), texts, queries, joined=True, max_length=6, **values)
    assert cut["informative"][:] == [[0, 1, 1, 0, 0, 0], [0, 3, 4, 0, 0, 0]]
    cut = encoded(wordpiece(truncation_side="left"), texts, queries, joined=True, max_length=6, **values)
    assert cut["informative"][1] == [0, 5, 6, 0, 0, 0]
    flat = encoded(train_tokenizer(["good bad unbelievably"]), texts, queries, joined=True, **values)
    assert flat["informative"][:] == [[1, 2, 0, 0], [3, 4, 5, 6, 0]]
    split = encoded(train_tokenizer(["good , bad"]), ["good, bad"], ["bad"], joined=True, informative=[[1, 2]])
    assert split["informative"][:] == [[1, 1, 2, 0]]
    bytewise = encoded(bytes_of(), ["good \U0001f600"], ["bad"], joined=True, informative=[[1, 2]])
    assert bytewise["informative"][0][0] == 1
    assert bytewise["informative"][0][-2:] == [2, 0]


def test_slow_tokenizers_still_work():
    rows = encoded(Slow(), ["good bad", ""], informative=[[1, 2], []])
    assert rows["input_ids"][:] == [[2, 4, 5, 3], [2, 3]]
    assert rows["informative"][:] == [[0, 1, 2, 0], [0, 0]]
    pair = encoded(Slow(), ["good bad"], ["bad"], joined=True, informative=[[1, 2]])
    assert pair["input_ids"][:] == [[2, 4, 5, 3, 5, 3]]
    assert pair["special_tokens_mask"][:] == [[1, 0, 0, 1, 0, 1]]
    assert "informative" not in pair.column_names  # it does not say which tokens are the text's
    with pytest.raises(InputError, match="rationale marks of row 0"):
        encoded(Slow(), ["good bad"], ["bad"], joined=True, rationale=[[1, 2]])


def test_what_is_refused():
    with pytest.raises(InputError, match="row 1 is None"):
        encoded(wordpiece(), ["a", "b"], ["a", None], joined=True)
    with pytest.raises(InputError, match="special tokens"):
        encoded(wordpiece(), ["good"], max_length=1)
    table = datasets.Dataset.from_dict({"text": ["a"], "query": ["b"]})
    with pytest.raises(InputError, match="joined"):
        encode_texts(wordpiece(), table, sentences=True, joined=True)


# --- parts


def test_values_of_words_for_their_tokens():
    spans = [(0, 3), (3, 5), (5, 10)]
    assert aligned([5, 7], "don't stop", 3, lambda: spans) == [5, 5, 7]
    assert aligned([5, 7], "don't stop", 2, lambda: pytest.fail("not needed")) == [5, 7]
    assert aligned([5], "don't stop", 3, lambda: spans) is None
    assert aligned(None, "don't stop", 3, lambda: spans) is None
    assert aligned([5, 7], "don't stop", 3, lambda: None) is None
    assert aligned([5, 7], "don't stop", None, lambda: None) is None
    assert filled([5, 6, 7], [1, 0, 0, 1], from_left=False) == [0, 5, 6, 0]
    assert filled([5, 6, 7], [1, 0, 0, 1], from_left=True) == [0, 6, 7, 0]


def test_shown_spans():
    def shown(text, spans):
        return [text[start:end] for start, end in shown_spans(text, spans)]

    assert shown("a \U0001f600 b", [(0, 1), (1, 2), (2, 3), (2, 3), (3, 4), (4, 5)]) == [
        "a",
        "",
        "",
        "\U0001f600",
        "",
        "b",
    ]
    assert shown("我们", [(0, 2), (1, 2)]) == ["我", "们"]  # one token of the first character and half the second
    assert shown("ab", [(0, 1), (0, 1), (1, 2)]) == ["", "a", "b"]
    assert shown("cafe\u0301 no", [(0, 4), (6, 8)]) == ["cafe\u0301", "no"]
    assert shown("cafe\u0301", [(0, 4), (4, 5)]) == ["cafe", "\u0301"]
    assert shown("a\n\n", [(0, 1), (1, 3)]) == ["a", ""]
    assert shown("", []) == []
    assert all(0 <= start <= end <= 3 for start, end in shown_spans("a\n\n", [(0, 1), (1, 3)]))


# --- batches


def test_batches_of_words_and_types():
    rows = encoded(wordpiece(), ["unbelievably bad", ""], ["good?", "bad"], joined=True)
    batch = Collator(0, ("word_ids", "token_type_ids", "special_tokens_mask"))(list(rows))
    assert batch["word_ids"].dtype == batch["token_type_ids"].dtype == torch.int64
    assert batch["word_ids"].tolist()[1] == [-1, -1, 0, -1] + [-1] * 5
    assert batch["token_type_ids"].tolist()[1] == [0, 0, 1, 1] + [0] * 5
    assert batch["special_tokens_mask"].tolist()[1] == [1, 1, 0, 1] + [1] * 5
    lone = encoded(bytes_of(), [""])
    assert Collator(0, ("word_ids",))(list(lone))["word_ids"].tolist() == [[-1]]


def test_the_padding_of_a_model():
    tokenizer = bytes_of(trim=True)
    rows = Rows.of(encoded(tokenizer, ["good bad", ""]))
    batch = collator(rows, pad_token_id=tokenizer.pad_token_id)([rows[0], rows[1]])
    assert batch["input_ids"][1].tolist() == [0, 2, 1, 1]
    assert {"word_ids", "special_tokens_mask"} <= set(batch)
    assert collator(rows)([rows[0], rows[1]])["input_ids"][1].tolist() == [0, 2, 0, 0]


def test_real_texts(shared):
    """Chinese and Arabic, and what each kind of tokenizer makes of them."""
    import pyarrow.parquet as pq

    for name in ("hotels_zh", "reviews_ar"):
        texts = pq.read_table(shared / "data" / name / "test.parquet")["text"].to_pylist()[:40]
        for kind in KINDS:
            rows = encoded(KINDS[kind](), texts, max_length=200)
            for ids in rows["word_ids"]:
                content = np.asarray([w for w in ids if w >= 0])
                assert len(content)
                assert content[0] == 0
                assert set(np.diff(content)) <= {0, 1}


def test_examples_of_segments():
    from attn_faithful.data import segments

    assert doctest.testmod(segments).failed == 0
