"""Tokens in texts: by the tokenizer and by search, for every common kind of tokenizer and any text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_faithful._checks import InputError
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.explanations.alignment import find_spans
from attn_faithful.explanations.base import ScoredText
from attn_faithful.explanations.readings import bare
from tests.data.pieces import Slow, bytes_of, sentencepiece, wordpiece
from tests.properties.made import checked

TEXTS = [
    "Good movies are good, unbelievably bad. He isn't HAPPY",
    "good good  good\tgood \n",
    "caf\u00e9 cafe\u0301 Caf\u00c9 na\u00efve",
    "\u6211\u559c\u6b22\u7535\u5f71 good \u6211",
    "ok \U0001f642\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467 fine \u2764\ufe0f",
    "\ufb01n \u2122 \u00bd \uff27\uff4f\uff4f\uff44",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0645\u0631\u062d\u0628\u0627",
    "[SEP] is text, <s> too ## and _ \u2581",
    "a b a b a bb a",
    "",
]
KINDS = {
    "wordpiece": wordpiece,
    "bytes": bytes_of,
    "bytes trimmed": lambda: bytes_of(trim=True),
    "sentencepiece": lambda: sentencepiece(True),
    "uncut": lambda: sentencepiece(False),
}


@pytest.fixture(scope="module")
def tokenizers():
    return {name: make() for name, make in KINDS.items()}


def shown(text, spans):
    return ["".join(text[start:end].split()) for start, end in spans]


def true_spans(tokenizer, text):
    """By the tokenizer's own offsets; special tokens are (0, 0)."""
    encoding = tokenizer(text, return_offsets_mapping=True)
    return tokenizer.convert_ids_to_tokens(encoding["input_ids"]), encoding["offset_mapping"]


# "[SEP]" in a text becomes the separator of a tokenizer that has one: see the test of special tokens
MADE = [(kind, text) for kind in KINDS for text in TEXTS if "[SEP]" not in text or kind != "wordpiece"]


@pytest.mark.parametrize(("kind", "text"), MADE)
def test_the_tokenizer_that_made_them_says_where(tokenizers, kind, text):
    tokens, spans = true_spans(tokenizers[kind], text)
    assert shown(text, find_spans(text, tokens, tokenizers[kind])) == shown(text, spans)


KNOWN = [TEXTS[0], "good good  good", "a b a b a bb a", ""]  # to every kind; tokenizers of bytes know all texts
SEARCHED = [(kind, text) for kind in KINDS for text in (TEXTS if "bytes" in kind else KNOWN)]


@pytest.mark.parametrize(("kind", "text"), SEARCHED)
def test_a_search_finds_the_same(tokenizers, kind, text):
    """The characters of each token but blanks are those of the tokenizer's offsets."""
    tokenizer = tokenizers[kind]
    lower = text.lower() if "piece" in kind or kind == "uncut" else text
    tokens, spans = true_spans(tokenizer, lower)
    assert tokenizer.unk_token is None or tokenizer.unk_token not in tokens
    found = find_spans(text, tokens)
    pairs = zip(tokens, shown(text, found), shown(text, spans), strict=True)
    assert all(one == other for token, one, other in pairs if bare(token))


def test_case_accents_and_other_forms_of_letters_are_found_by_search():
    text = "Caf\u00e9 cafe\u0301 \ufb01n \uff27ood"
    spans = find_spans(text, ["cafe", "ca", "##fe", "fin", "good"])
    assert [text[start:end] for start, end in spans] == ["Caf\u00e9", "ca", "fe", "\ufb01n", "\uff27ood"]
    spans = find_spans("\ufb01n", ["f", "##in"])  # a ligature that two tokens share
    assert spans == [(0, 1), (0, 2)]


def test_repeated_words_have_a_place_each():
    text = "bad, not bad but bad"
    assert find_spans(text, ["bad", "bad", "bad"]) == [(0, 3), (9, 12), (17, 20)]
    assert find_spans(text, text.split()) == [(0, 4), (5, 8), (9, 12), (13, 16), (17, 20)]


def test_an_unknown_token_is_what_stands_between_its_neighbours():
    text = "a banana a \u6211\u6211 b"
    spans = find_spans(text, ["[CLS]", "a", "[UNK]", "a", "[UNK]", "b", "[SEP]"])
    assert [text[start:end] for start, end in spans] == ["", "a", "banana", "a", "\u6211\u6211", "b", ""]
    spans = find_spans("x y a", ["[UNK]", "[UNK]", "a"])
    assert spans == [(0, 1), (2, 3), (4, 5)]
    assert find_spans("a x y z", ["a", "[UNK]"]) == [(0, 1), (2, 3)]  # cut off behind it
    assert find_spans("xyz w a", ["[UNK]", "[UNK]", "[UNK]", "a"])[:3] == [(0, 5)] * 3  # which is which is not known


def test_an_unknown_token_may_be_a_blank_and_no_token_begins_inside_a_character():
    assert find_spans("a\nb", ["a", "<unk>", "b"])[2] == (2, 3)
    spans = find_spans("A \ufb01s is", ["a", "[UNK]", "i", "##s"])  # folded, the ligature holds an "i"
    assert spans == [(0, 1), (2, 4), (5, 6), (6, 7)]


def test_lower_case_tokens_do_not_land_inside_other_words():
    text = "Mother, the other The"
    assert find_spans(text, ["the", "other"]) == [(8, 11), (12, 17)]
    spans = find_spans("\u6211 The other", ["[UNK]", "the", "other"])
    assert spans == [(0, 1), (2, 5), (6, 11)]


def test_cut_texts_and_padding(tokenizers):
    tokenizer, text = tokenizers["wordpiece"], "good bad good movies"
    for side, cut in (("right", "good bad good"), ("left", "bad good movies")):
        tokenizer.truncation_side = side
        ids = tokenizer(text, truncation=True, max_length=5 if side == "right" else 6, padding="max_length")[
            "input_ids"
        ]
        tokens = tokenizer.convert_ids_to_tokens(ids)
        for known in (tokenizer, None):
            spans = find_spans(text, [*tokens, "[PAD]", "[PAD]"], known)
            assert " ".join(filter(None, shown(text, spans))).replace(" s", "s") == cut, (side, known)
        twice = find_spans("good bad good bad", ["good", "bad"], tokenizer)  # which two is known by the side
        assert twice == ([(0, 4), (5, 8)] if side == "right" else [(9, 13), (14, 17)])
    tokenizer.truncation_side = "right"


def test_special_tokens_have_no_place_but_as_text():
    text = "[SEP] good"
    assert find_spans(text, ["[CLS]", "[SEP]", "good", "[SEP]"]) == [(0, 0), (0, 5), (6, 10), (0, 0)]
    assert find_spans("good", ["<s>", "\u0120good", "</s>", "<pad>"]) == [(0, 0), (0, 4), (0, 0), (0, 0)]


def test_blank_tokens_stand_between_their_neighbours():
    assert find_spans("a  b", ["a", "\u0120", "\u0120b"]) == [(0, 1), (1, 3), (3, 4)]
    assert find_spans("a b", ["\u2581", "a", "\u2581b"]) == [(0, 1), (0, 1), (2, 3)]  # no blank is there


def test_tokens_of_another_text_are_refused_by_name():
    with pytest.raises(InputError, match="in the text 'good film', but token 2, 'movie', is not found there"):
        find_spans("good film", ["[CLS]", "good", "movie", "[SEP]"])
    with pytest.raises(InputError, match="give the tokenizer that made them"):
        find_spans("good film", ["film", "good"])
    with pytest.raises(InputError, match="token 0, 'ood'"):
        find_spans("good film", ["ood"], wordpiece())


def test_our_own_tokenizer_and_a_slow_one():
    text = "Won 1,000 Euros!"
    tokenizer = train_tokenizer([text])
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"])
    assert find_spans(text, tokens, tokenizer) == [(0, 3), (4, 9), (10, 15), (15, 16)]
    assert find_spans("good bad", ["[CLS]", "good", "bad", "[SEP]"], Slow()) == [(0, 0), (0, 4), (5, 8), (0, 0)]


@pytest.fixture(scope="module")
def made():
    """A tokenizer of each kind that nobody changes."""
    return {name: make() for name, make in KINDS.items()}


@checked(2)
@given(text=st.text(st.sampled_from("ab\u00e9\u6211\u0e31e\u0301\U0001f642 ,'\u200d\ufb01A#\u2581[]"), max_size=14))
def test_any_text_any_kind(made, text):
    """A token stands where its characters are: by the tokenizer at its offsets, and by search at its own letters."""
    for kind, tokenizer in made.items():
        tokens, spans = true_spans(tokenizer, text)
        found = find_spans(text, tokens, tokenizer)
        ScoredText(text, tuple(tokens), tuple(found), (0.0,) * len(tokens))
        assert all(0 <= start <= end <= len(text) for start, end in found)
        assert shown(text, found) == shown(text, spans), (kind, tokens)
        for token, (start, end) in zip(tokens, found, strict=True):
            word = "".join(text[start:end].split())
            if token.isascii() and word.isascii() and "[" not in token and "<" not in token and word:
                assert bare(token) == word.lower() or bare(token) == word
