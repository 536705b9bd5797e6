"""Tokens and words as they are shown: slices of the text; case numbers are those of the list of users' cases."""

import datasets
import pytest

from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.rows import Rows
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.experiments.shown_items import ShownItems
from tests.data.pieces import KINDS, Slow, bytes_of, wordpiece

TEXTS = [
    "unbelievably good, movies!",
    "a \U0001f600 b",
    "我喜欢 电影",
    "مرحبا نوعا\u064b",
    "",
    "a  b ",
    "don't\n\nstop <s>",
    " \n ",
    "[SEP]",
    "cafe\u0301 \u2764\ufe0f",
]


def finders(tokenizer, texts, queries=None, words=True, **settings):
    """Rows, tokens and items of texts, or of joined pairs."""
    table = {"text": texts}
    if queries is not None:
        table["query"] = queries
    data = encode_texts(tokenizer, datasets.Dataset.from_dict(table), joined=queries is not None, **settings)
    if not words:
        data = data.remove_columns(["word_ids"])
    rows = Rows.of(data)
    shown = ShownItems(tokenizer, texts, rows, queries)
    return rows, shown.tokens, shown.at


def bare(text):
    return "".join(text.split())


def sliced(text, offsets):
    return [text[start:end] for start, end in zip(offsets[::2], offsets[1::2], strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_put_together_they_are_the_text_c25(kind):
    rows, tokens, items = finders(KINDS[kind](), TEXTS)
    for i, text in enumerate(TEXTS):
        shown, offsets = tokens(i)
        assert bare("".join(shown)) == bare(text)
        assert [token.strip() for token in shown] == shown == sliced(text, offsets)
        numbers = rows["word_ids"][i]
        assert len(shown) == int((numbers >= 0).sum())
        words, offsets = items("layer.0", i)
        assert len(words) == max([-1, *numbers]) + 1
        assert bare("".join(words)) == bare(text)
        assert words == sliced(text, offsets)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_show_the_text_and_then_the_query(kind):
    queries = ["a \U0001f600?", ""] * (len(TEXTS) // 2)
    rows, tokens, items = finders(KINDS[kind](), TEXTS, queries)
    for i, (text, query) in enumerate(zip(TEXTS, queries, strict=True)):
        for shown, offsets in (tokens(i), items("layer.0", i)):
            assert offsets is None
            assert bare("".join(shown)) == bare(text + query)
        assert len(tokens(i)[0]) == int((rows["word_ids"][i] >= 0).sum())
        assert len(items("layer.0", i)[0]) == max([-1, *rows["word_ids"][i]]) + 1


def test_pieces_and_words_c25():
    _, tokens, items = finders(wordpiece(), TEXTS)
    assert tokens(0)[0] == ["un", "believ", "ably", "good", ",", "movie", "s", "!"]
    words, offsets = items("layer.0", 0)
    assert words == ["unbelievably", "good", ",", "movies", "!"]
    assert offsets == [0, 12, 13, 17, 17, 18, 19, 25, 25, 26]
    assert tokens(8)[0] == ["[", "S", "E", "P", "]"]
    _, tokens, items = finders(bytes_of(), TEXTS)
    assert tokens(1) == (["a", "", "", "", "", "\U0001f600", "", "b"], [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 4, 4, 4, 5])
    assert items("layer.0", 1) == (["a", "\U0001f600", "b"], [0, 1, 2, 3, 4, 5])
    assert items("layer.0", 2)[0] == ["我", "喜欢", "电影"]
    assert finders(bytes_of(), TEXTS, words=False)[2]("layer.0", 1) == tokens(1)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", KINDS)
def test_truncated_texts_show_what_is_left_c24(kind, side):
    tokenizer = KINDS[kind](truncation_side=side)
    text = "good movies are good, unbelievably bad"
    whole = finders(tokenizer, [text])[1](0)[0]
    rows, tokens, _ = finders(tokenizer, [text, "x"], max_length=6)
    n = 6 - tokenizer.num_special_tokens_to_add()
    assert rows["truncated"] == [True, False]
    assert tokens(0)[0] == (whole[-n:] if side == "left" else whole[:n])
    assert "".join(tokens(1)[0]) == "x"


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncated_pairs_show_what_is_left_of_both(side):
    """Three tokens of the text and two of the query."""
    whole = train_tokenizer(["good bad 1"])
    whole.truncation_side = side
    text, query = "good 2,000 bad bad", ["bad", "good", "bad"]
    for tokenizer, limit, own in (
        (wordpiece(truncation_side=side), 8, ["good", *"2,000", "bad", "bad"]),
        (whole, 5, ["good", "2,000", "bad", "bad"]),
    ):
        rows, tokens, _ = finders(tokenizer, [text], [" ".join(query)], max_length=limit)
        assert rows["truncated"] == [True]
        assert tokens(0) == (own[-3:] + query[-2:] if side == "left" else own[:3] + query[:2], None)


def test_tokenizers_of_whole_words_are_as_they_were():
    text = "Won 1,000 Euros!"
    tokenizer = train_tokenizer([text])
    _, tokens, items = finders(tokenizer, [text, ""])
    assert tokens(0) == (["Won", "1,000", "Euros", "!"], [0, 3, 4, 9, 10, 15, 15, 16])
    assert items("pool", 0) == tokens(0)
    assert items("pool", 1) == ([], [])
    _, tokens, items = finders(tokenizer, [text], ["Euros 7?"])
    assert tokens(0) == (["Won", "1,000", "Euros", "!", "Euros", "7", "?"], None)


def test_sentences_are_found_with_any_tokenizer():
    for tokenizer in (train_tokenizer(["good bad . !"]), wordpiece(), bytes_of(trim=True)):
        texts = ["good bad.  bad!", ""]
        rows = Rows.of(encode_texts(tokenizer, datasets.Dataset.from_dict({"text": texts}), sentences=True))
        items = ShownItems(tokenizer, texts, rows).at
        assert items("sentence", 0) == (["good bad.", "bad!"], [0, 9, 11, 15])
        assert items("sentence", 1) == ([], [])


def test_slow_tokenizers_show_their_own_strings_c25():
    _, tokens, items = finders(Slow(), ["good bad", "", "good other"])
    assert [tokens(i) for i in range(3)] == [(["good", "bad"], None), ([], None), (["good", "[UNK]"], None)]
    assert items("layer.0", 0) == tokens(0)
    assert finders(Slow(), ["good bad"], ["bad"])[1](0) == (["good", "bad", "bad"], None)
