"""Tokenizer, spans, encoded data sets and the collator; case numbers are those of the list of users' cases."""

import doctest
import itertools
import pickle
from importlib import import_module

import datasets
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from attn_faithful._checks import InputError
from attn_faithful.data.collate import Collator
from attn_faithful.data.encoding import encode_texts, length_limit
from attn_faithful.data.rows import Rows
from attn_faithful.data.sentences import sentence_ids, sentence_spans
from attn_faithful.data.token_spans import token_spans
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
from attn_faithful.models.blocks import content_keys

FAMILY, HEART, THUMB = "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f44d\U0001f3fd"
MIXED = [
    "I don't think it's o'clock, can't we? Mr. Smith's U.S. e.g. well-known 2-year mp3 10/10 3.14 $5 50%... -- ``x''",
    "我喜欢电影3年 カレー ไทย مرحبا بِكُم नमस्ते हिन्दी " + FAMILY + " " + HEART + THUMB,
    "a<br /><br />b rock'n'roll http://a.com/x1?. me@x.org \u0130stanbul 5 you\u2019re \u2019\u2019",
    "",
    " \u00a0\u200b\r\n ",
    "[PAD] [UNK] [pad] <unk>",
]


def pieces(tokenizer, text):
    return [text[start:end] for start, end in token_spans(tokenizer, text)]


def bert_like(max_length=None):
    """A word-level tokenizer that adds [CLS] and [SEP]."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    limits = {"model_max_length": max_length} if max_length else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", **limits
    )


@pytest.mark.parametrize("name", ["encoding", "token_spans", "tokenizer", "tokenizer_fit"])
def test_examples_in_docstrings(name):
    assert doctest.testmod(import_module(f"attn_faithful.data.{name}")).failed == 0


def test_words():
    tokenizer = train_tokenizer(MIXED)
    expected = (
        "i do n't think it 's o'clock , ca n't we ? mr. smith 's u.s. e.g. well - known qqq - year qqq qqq qqq $ qqq "
        "qqq % ... -- `` x ''"
    )
    assert " ".join(tokenizer.tokenize(MIXED[0])) == expected
    assert tokenizer.tokenize(MIXED[1]) == [
        *"我喜欢电影",
        "qqq",
        "年",
        *"カレー",
        *"ไทย",
        *["مرحبا", "بِكُم", "नमस्ते", "हिन्दी", FAMILY, HEART, THUMB],
    ]
    assert tokenizer.tokenize("I can't")[1:] == ["ca", "n't"]
    assert tokenizer.tokenize("a \U0001f600 b")[::2] == ["a", "b"]
    assert tokenizer.tokenize("you're") == tokenizer.tokenize("you\u2019re") == ["you", "'re"]


def test_digits_may_stay():
    tokenizer = train_tokenizer(["10/10 for 3.14 mp3"], digits=None)
    assert tokenizer.tokenize("mp3 10/10 3.14") == ["mp3", "10/10", "3.14"]
    assert "qqq" not in tokenizer.get_vocab()
    assert "qqq" not in train_tokenizer(["no number"]).get_vocab()
    assert train_tokenizer(["one 1", "one"], min_df=2).get_vocab() == {"[PAD]": 0, "[UNK]": 1, "one": 2, "qqq": 3}


def test_ids_by_document_frequency_then_spelling():
    texts = ["b b b c", "a c", "a d"]
    ids = {"[PAD]": 0, "[UNK]": 1, "a": 2, "c": 3, "b": 4, "d": 5}
    assert train_tokenizer(texts).get_vocab() == train_tokenizer(texts[::-1]).get_vocab() == ids
    assert set(train_tokenizer(texts, min_df=2).get_vocab()) == {"[PAD]", "[UNK]", "a", "c"}
    assert set(train_tokenizer(texts, max_vocabulary=3).get_vocab()) == {"[PAD]", "[UNK]", "a"}


@pytest.mark.parametrize("pre_tokenizer", ["words", "whitespace"])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("digits", ["qqq", None])
def test_spans_and_reload(tmp_path, pre_tokenizer, lowercase, digits):
    tokenizer = train_tokenizer(MIXED, pre_tokenizer=pre_tokenizer, lowercase=lowercase, digits=digits)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert list(loaded(MIXED, padding=True)) == ["input_ids", "attention_mask"]
    for text in MIXED:
        assert tokenizer(text)["input_ids"] == loaded(text)["input_ids"]
        spans, tokens = token_spans(loaded, text), tokenizer.tokenize(text)
        assert len(spans) == len(tokens) == len(tokenizer(text)["input_ids"])
        assert all(a < b for a, b in spans)
        assert all(left[1] <= right[0] for left, right in itertools.pairwise(spans))
        for token, piece in zip(tokens, pieces(loaded, text), strict=True):
            if "qqq" in token:
                assert any(c.isdigit() for c in piece)
            else:
                assert token.lower() == piece.lower().replace("\u2019", "'")
        assert 0 not in tokenizer(text)["input_ids"]


def test_real_texts_slice_right(shared):
    for name, pre_tokenizer in [
        ("sst2", "whitespace"),
        ("hotels_zh", "words"),
        ("reviews_ar", "words"),
        ("reviews_hi", "words"),
    ]:
        texts = pq.read_table(shared / "data" / name / "test.parquet")["text"].to_pylist()[:150]
        tokenizer = train_tokenizer(texts, pre_tokenizer=pre_tokenizer)
        for text in texts:
            tokens, own = tokenizer.tokenize(text), pieces(tokenizer, text)
            assert len(tokens) == len(own)
            for token, piece in zip(tokens, own, strict=True):
                assert token == piece.lower().replace("\u2019", "'") or any(c.isdigit() for c in piece)
            if name == "sst2":
                assert own == text.split()
            covered = "".join(own)
            assert [c for c in text if c.isalnum()] == [c for c in covered if c.isalnum()]


def test_token_sentiment_of_sst_aligns(shared):
    table = pq.read_table(shared / "data/sst2/test.parquet")
    data = datasets.Dataset(table).select(range(100), keep_in_memory=True)
    rows = encode_texts(train_tokenizer(data["text"], pre_tokenizer="whitespace"), data, max_length=10)
    assert [len(v) for v in rows["token_sentiment"]] == rows["length"][:]
    assert max(rows["length"]) == 10


def test_other_tokenizers_have_spans_or_none():
    text = "good, bad"
    assert token_spans(bert_like(), text) == [(0, 0), (0, 4), (4, 5), (6, 9), (0, 0)]

    class Slow:
        is_fast = False

    assert token_spans(Slow(), text) is None


def test_empty_and_missing_texts_c23():
    tokenizer = train_tokenizer(["ok"])
    rows = encode_texts(tokenizer, datasets.Dataset.from_dict({"text": ["", "   ", "ok"]}))
    assert rows["length"][:] == [0, 0, 1]
    batch = Collator()([rows[0], rows[1]])
    assert batch["input_ids"].tolist() == [[0], [0]]
    assert batch["attention_mask"].tolist() == [[0], [0]]
    with pytest.raises(InputError, match="row 1"):
        encode_texts(tokenizer, datasets.Dataset.from_dict({"text": ["a", None]}))
    with pytest.raises(InputError, match="row 1"):
        train_tokenizer(["a", None])
    with pytest.raises(InputError, match="columns are body"):
        encode_texts(tokenizer, datasets.Dataset.from_dict({"body": ["a"]}))
    assert len(encode_texts(tokenizer, datasets.Dataset.from_dict({"text": ["", ""]}))) == 2


def test_long_texts_c24():
    tokenizer = train_tokenizer(["word"])
    assert tokenizer.model_max_length > 1e29
    data = datasets.Dataset.from_dict({"text": ["word " * 600, "word"], "label": [1, 0]})
    assert length_limit(tokenizer) is None
    assert encode_texts(tokenizer, data)["length"][:] == [600, 1]
    rows = encode_texts(tokenizer, data, max_length=512)
    assert rows["length"][:] == [512, 1]
    assert rows["n_tokens"][:] == [600, 1]
    assert rows["truncated"][:] == [True, False]
    assert length_limit(bert_like(max_length=5), 512) == 5


def test_special_tokens_are_marked_c05():
    data = datasets.Dataset.from_dict({"text": ["good bad good bad", ""], "informative": [[1, 0, 0, 1], []]})
    rows = encode_texts(bert_like(max_length=5), data)
    assert rows["input_ids"][:] == [[2, 4, 5, 4, 3], [2, 3]]
    assert rows["special_tokens_mask"][:] == [[1, 0, 0, 0, 1], [1, 1]]
    assert rows["n_tokens"][:] == [6, 2]
    assert "special_tokens_mask" not in encode_texts(train_tokenizer(["good"]), data).column_names
    batch = Collator(columns=("special_tokens_mask",))(list(rows))
    assert batch["special_tokens_mask"].tolist() == [[1, 0, 0, 0, 1], [1, 1, 1, 1, 1]]


def test_word_columns_follow_split_words_c25():
    data = datasets.Dataset.from_dict({"text": ["don't stop, please"], "informative": [[5, 7, 9]], "other": [[1, 2]]})
    rows = encode_texts(train_tokenizer(data["text"]), data)
    assert rows["informative"][:] == [[5, 5, 7, 7, 9]]
    assert "other" not in rows.column_names
    bert = encode_texts(bert_like(), datasets.Dataset.from_dict({"text": ["good, bad"], "informative": [[3, 4]]}))
    assert bert["informative"][:] == [[0, 3, 3, 4, 0]]


def test_truncation_cuts_word_columns_at_the_same_place():
    data = datasets.Dataset.from_dict({"text": ["good bad good bad"], "informative": [[1, 2, 3, 4]]})
    assert encode_texts(train_tokenizer(["good"]), data, max_length=2)["informative"][:] == [[1, 2]]
    assert encode_texts(bert_like(), data, max_length=4)["informative"][:] == [[0, 1, 2, 0]]


def test_repeated_words_keep_their_places_c26():
    tokenizer = train_tokenizer(["good bad good"])
    assert pieces(tokenizer, "good bad good") == ["good", "bad", "good"]
    rows = encode_texts(tokenizer, datasets.Dataset.from_dict({"text": ["good bad good"] * 2, "example": ["a", "b"]}))
    assert rows["example"][:] == ["a", "b"]
    assert len(rows["input_ids"][0]) == 3


def test_collator():
    collator = pickle.loads(pickle.dumps(Collator(pad_token_id=7, columns=("weight", "probabilities", "example"))))
    rows = [
        {"input_ids": [1, 2, 3], "labels": 1, "weight": [0.2, 0.3, 0.5], "probabilities": [0.1, 0.9], "example": "a"},
        {"input_ids": [4], "labels": 0, "weight": [1.0], "probabilities": [0.6, 0.4], "example": "b"},
    ]
    batch = collator(rows)
    assert batch["input_ids"].tolist() == [[1, 2, 3], [4, 7, 7]]
    assert batch["labels"].dtype == batch["attention_mask"].dtype == torch.int64
    assert batch["weight"].shape == (2, 3)
    assert batch["probabilities"].tolist() == [pytest.approx([0.1, 0.9]), pytest.approx([0.6, 0.4])]
    assert batch["example"] == ["a", "b"]
    assert "labels" not in Collator()([{**rows[0], "labels": -1}, rows[1]])
    assert Collator()([{"input_ids": [1], "labels": [1, 0]}])["labels"].dtype == torch.float32
    with pytest.raises(InputError, match=r"'weight' .* example 'b'"):
        collator([rows[0], {**rows[1], "weight": [1.0, 2.0]}])
    with pytest.raises(InputError, match="example 'b' has none"):
        collator([rows[0], {**rows[1], "weight": None}])


def test_tokenizer_that_does_not_fit_c32():
    tokenizer = train_tokenizer(["a b c"])
    check_tokenizer_fits(tokenizer, 5, 0)
    with pytest.raises(InputError, match="vocab_size 4, but its largest id is 4"):
        check_tokenizer_fits(tokenizer, 4)
    with pytest.raises(InputError, match="padding id to be the model's 3, but it is 0"):
        check_tokenizer_fits(tokenizer, 5, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pre_tokenizer": "word"}, "Did you mean 'words'"),
        ({"min_df": 0}, "min_df >= 1"),
        ({"digits": "a1"}, "without digits"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        train_tokenizer(["a"], **settings)
    with pytest.raises(InputError, match="got one text"):
        train_tokenizer("a text")


@pytest.mark.parametrize("run", ["a", "+", "1.", "'", "a.", "<a", "\u0301", "a1", "1a'", "http://"])
def test_long_runs_stay_linear(run):
    """A quadratic pattern would take hours here."""
    text = run * 100_000
    tokenizer = train_tokenizer([text])
    assert sum(end - start for start, end in token_spans(tokenizer, text)) == len(text)


def test_byte_level_blanks_go_with_their_word():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    backend.train_from_iterator(["good bad"] * 3, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="!")
    data = datasets.Dataset.from_dict({"text": ["good bad \U0001f600"], "informative": [[1, 2, 3]]})
    row = encode_texts(tokenizer, data)[0]
    assert row["informative"][:2] == [1, 2]
    assert set(row["informative"][2:]) <= {2, 3}
    assert row["informative"][-4:] == [3, 3, 3, 3]


# --- sentences

THREE = "good bad good. Bad end!\nOk"


def in_sentences(tokenizer, texts, **settings):
    return encode_texts(tokenizer, datasets.Dataset.from_dict({"text": texts}), sentences=True, **settings)


def test_tokens_know_their_sentence():
    tokenizer = train_tokenizer([THREE])
    rows = in_sentences(tokenizer, [THREE, "", " \n ", "good"])
    assert rows["sentence_ids"][:] == [[0, 0, 0, 0, 1, 1, 1, 2], [], [], [0]]
    assert rows["n_sentences"][:] == [3, 0, 0, 1]
    assert rows.features["sentence_ids"].feature.dtype == "int32"
    plain = encode_texts(tokenizer, datasets.Dataset.from_dict({"text": [THREE]}))
    assert {"sentence_ids", "n_sentences"} & set(plain.column_names) == set()
    assert plain["input_ids"][0] == rows["input_ids"][0]


@pytest.mark.parametrize(
    ("side", "flat", "marked"),
    [("right", [0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1, 1]), ("left", [0, 1, 1, 1, 2], [0, 0, 1, 1, 1, 2, 2])],
)
def test_truncation_leaves_each_token_its_sentence(side, flat, marked):
    """Left are "good bad good . Bad" and ". Bad end ! Ok", the second time between [CLS] and [SEP]."""
    for tokenizer, limit, expected in [(train_tokenizer([THREE]), 5, flat), (bert_like(), 7, marked)]:
        tokenizer.truncation_side = side
        rows = in_sentences(tokenizer, [THREE, "good"], max_length=limit)
        assert rows["truncated"][:] == [True, False]
        assert rows["sentence_ids"][0] == expected
        assert rows["n_sentences"][:] == [expected[-1] + 1, 1]


def test_what_truncation_leaves_of_the_last_sentences_begins_at_0():
    tokenizer = bert_like()
    tokenizer.truncation_side = "left"
    rows = in_sentences(tokenizer, [THREE], max_length=4)
    assert rows["sentence_ids"][:] == [[0, 0, 1, 1]]


def test_special_tokens_alone_are_no_sentence():
    rows = in_sentences(bert_like(), ["", "good. bad", "\u200b."])
    assert rows["special_tokens_mask"][0] == [1, 1]
    assert rows["sentence_ids"][:2] == [[0, 0], [0, 0, 0, 1, 1]]
    assert rows["n_sentences"][:2] == [0, 2]


def test_sentences_need_offsets():
    class Slow:
        is_fast = False
        model_max_length = 10

    with pytest.raises(InputError, match="got a Slow without offsets; use a fast tokenizer"):
        in_sentences(Slow(), ["a. b"])


HARD = [
    *MIXED,
    THREE,
    "rated 3.5. Rooms at 1,000 a night. 5 stars! No.1",
    "\u0130 5. \u0130x 7. a5.B6.\nc7<br />8",
    "a\u20195. b",
]


@pytest.mark.parametrize("pre_tokenizer", ["words", "whitespace"])
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("digits", ["qqq", "number", None])
def test_sentences_by_the_true_spans_of_the_tokens(pre_tokenizer, lowercase, digits):
    """The backend's own offsets are wrong at digits, but not where a token ends."""
    tokenizer = train_tokenizer(HARD, pre_tokenizer=pre_tokenizer, lowercase=lowercase, digits=digits)
    rows = in_sentences(tokenizer, HARD)
    for text, found in zip(HARD, rows["sentence_ids"], strict=True):
        assert found == sentence_ids(sentence_spans(text), token_spans(tokenizer, text)).tolist()


@pytest.mark.parametrize("name", ["yelp5", "imdb", "hotels_zh", "reviews_hi", "reviews_ar"])
def test_sentences_of_real_texts(shared, name):
    texts = pq.read_table(shared / "data" / name / "test.parquet")["text"].to_pylist()[:150]
    tokenizer = train_tokenizer(texts)
    rows = in_sentences(tokenizer, texts)
    for text, found, n in zip(texts, rows["sentence_ids"], rows["n_sentences"], strict=True):
        expected = sentence_ids(sentence_spans(text), token_spans(tokenizer, text)).tolist()
        assert found == expected
        assert sorted(set(found)) == list(range(n))


def test_sentences_are_collated_and_kept_as_integers():
    rows = Rows.of(in_sentences(train_tokenizer([THREE]), [THREE, "", "good"]))
    assert rows["sentence_ids"][0].dtype.kind == "i"
    batch = Collator(columns=("sentence_ids", "n_sentences"))([rows[1], rows[0], rows[2]])
    assert batch["sentence_ids"].dtype == torch.int64
    assert batch["sentence_ids"].tolist() == [[0] * 8, [0, 0, 0, 0, 1, 1, 1, 2], [0] * 8]
    assert batch["n_sentences"].tolist() == [0, 3, 1]
    empty = Collator(columns=("sentence_ids",))([rows[1]])["sentence_ids"]
    assert empty.dtype == torch.int64
    assert empty.tolist() == [[0]]


def test_texts_that_break_elsewhere_are_different():
    tokenizer = train_tokenizer(["good bad"])
    texts = ["good\nbad good", "good bad\ngood", "good\nbad good"]
    first, other, same = content_keys(in_sentences(tokenizer, texts))
    assert first == same != other
    plain = content_keys(encode_texts(tokenizer, datasets.Dataset.from_dict({"text": texts})))
    assert len(set(plain)) == 1
    assert plain[0] not in (first, other)


# --- a tokenizer that is not the model's


def test_a_tokenizer_of_special_tokens_alone_is_refused():
    """What transformers makes where a folder holds no tokenizer files."""
    from transformers import BertTokenizerFast

    bare = BertTokenizerFast(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4})
    with pytest.raises(InputError, match=r"knows no word.*tokenizer\.save_pretrained"):
        check_tokenizer_fits(bare, vocab_size=30, pad_token_id=0)


def test_a_tokenizer_of_another_size_or_other_special_tokens_is_refused():
    from types import SimpleNamespace

    from tests.data.pieces import bytes_of

    tokenizer = bytes_of(trim=True)  # <s> 0, <pad> 1, </s> 2 around each text
    size = len(tokenizer)
    fitting = SimpleNamespace(bos_token_id=0, eos_token_id=[7, 2], cls_token_id=None, sep_token_id=None)
    check_tokenizer_fits(tokenizer, size, 1, fitting)
    check_tokenizer_fits(tokenizer, 2 * size, 1, fitting)
    with pytest.raises(InputError, match=f"but it has {size}"):
        check_tokenizer_fits(tokenizer, 2 * size + 1, 1, fitting)
    fitting.eos_token_id = 3
    with pytest.raises(InputError, match="eos_token_id to be the model's 3, but it is 2"):
        check_tokenizer_fits(tokenizer, size, 1, fitting)
    check_tokenizer_fits(bytes_of(), size, 1, fitting)  # which puts nothing around a text


def test_unknown_tokens_are_told_and_nearly_all_of_them_refused():
    from attn_faithful.data.unknown_tokens import unknown_notes

    tokenizer = train_tokenizer(["good film"])

    def notes(*texts):
        return unknown_notes(tokenizer, encode_texts(tokenizer, datasets.Dataset.from_dict({"text": texts})), "d")

    assert notes("good film", "good") == notes("", "") == []
    assert notes("good film good strange") == [
        "25% of the 4 tokens are unknown to the tokenizer: the model cannot tell them apart."
    ]
    assert "100% of the 2" in notes("strange words")[0]  # one text may be so
    with pytest.raises(InputError, match="20 of the 20 tokens of d are unknown"):
        notes(*["strange words"] * 10)


# --- what looks the same is the same word

NOTHING = [
    "",
    "\u200b",
    "\0",
    "\ufeff",
    "\u00ad",
    "\u200d",
    "\u200c",
    "\ufe0f",
    "\u2060",
    "\u200e\u202b",
    "\u3164",
    "\x1f\x7f",
]
SAME = [
    ("cafe\u0301", "caf\u00e9"),
    ("n\u0303o", "\u00f1o"),
    ("\u1112\u1161\u11ab", "\ud55c"),
    ("go\u00adod", "good"),
    ("\ufeffgood", "good"),
    ("go\0od\u200d", "good"),
    ("go\u034fod\u200e", "good"),
    ("\u597d\u200c", "\u597d"),
]
APART = [  # joiners that their script, or an emoji, needs
    ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645"),
    ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u0937"),
    ("\U0001f468\u200d\U0001f467", "\U0001f468\U0001f467"),
]


@pytest.mark.parametrize("pre_tokenizer", ["words", "whitespace"])
def test_invisible_texts_have_no_token(pre_tokenizer):
    tokenizer = train_tokenizer(["good film"], pre_tokenizer=pre_tokenizer)
    for text in NOTHING:
        assert tokenizer(text)["input_ids"] == []
        assert token_spans(tokenizer, text) == []
        assert tokenizer.tokenize(f"good {text} film") == ["good", "film"]


@pytest.mark.parametrize("pre_tokenizer", ["words", "whitespace"])
def test_what_looks_the_same_is_the_same_word(pre_tokenizer):
    tokenizer = train_tokenizer([plain for _, plain in SAME], pre_tokenizer=pre_tokenizer)
    for written, plain in SAME:
        text = f"a {written} b"
        assert tokenizer(text)["input_ids"] == tokenizer(f"a {plain} b")["input_ids"]
        assert 1 not in tokenizer(written)["input_ids"]
        spans = token_spans(tokenizer, text)
        shown = text[spans[1][0] : spans[-2][1]]
        assert shown.strip("\ufeff\u200d\u200c\u200e") == written.strip("\ufeff\u200d\u200c\u200e")
    assert tokenizer.tokenize("go\u200bod") == ["[UNK]", "[UNK]"]  # a zero-width space parts words
    for joined, bare in APART:
        both = train_tokenizer([joined, bare], pre_tokenizer=pre_tokenizer)
        assert both(joined)["input_ids"] != both(bare)["input_ids"]
        assert both.tokenize(joined) == [joined]


def test_spans_stay_in_the_text_as_written():
    text = "\ufeffCafe\u0301 co\u00adop 1\u00ad000\u200b\u0e09\u0e31\u0e19 e\u0323\u0301!"
    tokenizer = train_tokenizer([text])
    assert tokenizer.tokenize(text) == ["caf\u00e9", "coop", "qqq", "\u0e09\u0e31", "\u0e19", "\u1eb9\u0301", "!"]
    pieces = [text[start:end] for start, end in token_spans(tokenizer, text)]
    assert pieces == ["Cafe\u0301", "co\u00adop", "1\u00ad000", "\u0e09\u0e31", "\u0e19", "e\u0323\u0301", "!"]


def test_marks_of_words_lie_on_the_tokens_of_their_word():
    """The word of a zero-width joiner is no token; its mark goes to none, and the others stay where they are."""
    data = datasets.Dataset.from_dict(
        {"text": ["good \u200d film", "fine\u200bfilm \u00ad"], "informative": [[1, 0, 2], [3, 4]]}
    )
    rows = encode_texts(train_tokenizer(["good film fine"], pre_tokenizer="whitespace"), data)
    assert rows["informative"][:] == [[1, 2], [3, 3]]


def test_tokenizers_that_were_saved_before_stay_as_they_are(tmp_path):
    from tokenizers import Regex, normalizers

    tokenizer = train_tokenizer(["cafe\u0301 good 3"])
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("\u2019", "'"), normalizers.Replace(Regex(r"\p{Nd}+"), "qqq"), normalizers.Lowercase()]
    )
    tokenizer.save_pretrained(tmp_path)
    old = AutoTokenizer.from_pretrained(tmp_path)
    text = "cafe\u0301 Good 12 \u200dx"
    assert old.tokenize(text) == ["[UNK]", "good", "qqq", "[UNK]"]
    assert [text[start:end] for start, end in token_spans(old, text)] == ["cafe\u0301", "Good", "12", "\u200dx"]


def test_places_in_composed_texts():
    import random
    import unicodedata

    from tokenizers import normalizers

    from attn_faithful.data import normalization as normalised

    assert doctest.testmod(normalised).failed == 0
    compose = normalizers.NFC().normalize_str
    generator = random.Random(0)
    for _ in range(500):
        text = "".join(generator.choices("ae\u0301\u0323o\u0308 \u1112\u1161\u11ab\uac00q\u094d", k=8))
        seen = normalised.Aligned.of(text).composed(compose)
        assert seen.text == unicodedata.normalize("NFC", text)
        for character, start, end in zip(seen.text, seen.starts, seen.ends, strict=True):
            assert character in unicodedata.normalize("NFC", text[start:end])
        assert seen.starts == sorted(seen.starts)
