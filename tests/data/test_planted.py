"""Planted-token sets: sizes, balance, placement, words, determinism."""

import doctest
import itertools
import subprocess
import sys
from collections import Counter

import pytest

from attn_faithful._checks import InputError
from attn_faithful.data import planted as mock
from attn_faithful.data.planted import MockSpec, make_mock, mock_spec, mock_words

SMALL = {"n_train": 60, "n_test": 21, "n_validation": 10}


def test_examples_in_docstrings():
    assert doctest.testmod(mock).failed == 0


def test_defaults_are_those_of_the_paper():
    spec = mock_spec("Mock-1")
    assert (spec.n_train, spec.n_test, spec.min_length, spec.max_length) == (8000, 1000, 50, 100)
    names = ["mock-1", "mock-2", "mock-5", "mock-10", "mock-1q", "mock-2q", "mock-3q", "mock-4q"]
    assert [mock_spec(name).informative for name in names] == [1, 2, 5, 10, 0.25, 0.5, 0.75, 1.0]


def test_labels_are_balanced_and_shuffled():
    data = make_mock(mock_spec("mock-2", **SMALL))
    assert {split: len(columns["text"]) for split, columns in data.items()} == {
        "train": 60,
        "validation": 10,
        "test": 21,
    }
    assert sum(data["train"]["label"]) == 30
    assert sum(data["test"]["label"]) in (10, 11)
    assert data["train"]["label"] != sorted(data["train"]["label"])


@pytest.mark.parametrize("name", ["mock-1", "mock-10", "mock-1q", "mock-4q"])
def test_informative_marks_exactly_the_planted_words(name):
    spec = mock_spec(name, **SMALL)
    words = [set(side) for side in mock_words(spec)]
    for text, label, mask in zip(*(make_mock(spec)["train"][c] for c in ("text", "label", "informative")), strict=True):
        tokens = text.split()
        assert 50 <= len(tokens) == len(mask) <= 100
        wanted = spec.informative if isinstance(spec.informative, int) else round(spec.informative * len(tokens))
        assert sum(mask) == wanted
        assert all((t in words[label]) if m else (t == "something") for t, m in zip(tokens, mask, strict=True))


def test_lengths_are_uniform_with_both_ends():
    data = make_mock(mock_spec("mock-1", n_train=600, n_test=0, min_length=3, max_length=5))
    counts = Counter(len(mask) for mask in data["train"]["informative"])
    assert set(counts) == {3, 4, 5}
    assert min(counts.values()) > 150


@pytest.mark.parametrize(
    ("placement", "positions"),
    [("start", [0, 1, 2]), ("middle", [3, 4, 5]), ("end", [7, 8, 9]), ("spread", [1, 5, 8])],
)
def test_placement(placement, positions):
    spec = MockSpec(informative=3, n_train=4, n_test=0, min_length=10, max_length=10, placement=placement)
    for mask in make_mock(spec)["train"]["informative"]:
        assert [i for i, m in enumerate(mask) if m] == positions


def test_placement_alone_keeps_labels_and_words():
    a, b = (make_mock(mock_spec("mock-5", placement=p, **SMALL))["train"] for p in ("random", "end"))
    assert a["label"] == b["label"]
    for x, y in zip(a["text"], b["text"], strict=True):
        assert Counter(x.split()) == Counter(y.split())


def test_random_placement_uses_the_whole_text():
    masks = make_mock(MockSpec(n_train=300, n_test=0, min_length=6, max_length=6))["train"]["informative"]
    assert {mask.index(1) for mask in masks} == set(range(6))


def test_strength_splits_the_lexicon():
    sides = {s: [set(side) for side in mock_words(MockSpec(strength=s))] for s in ("any", "strong", "weak")}
    for side in (0, 1):
        assert sides["strong"][side] | sides["weak"][side] == sides["any"][side]
        assert not sides["strong"][side] & sides["weak"][side]
        assert all(word.replace("-", "").replace("'", "").isalpha() for word in sides["any"][side])
    assert "abhor" in sides["strong"][0]
    assert "yes" in sides["weak"][1]


def test_seed_order_and_process():
    spec = mock_spec("mock-2", max_words=20, **SMALL)
    again, other = make_mock(spec), make_mock(mock_spec("mock-2", max_words=20, seed=1, **SMALL))
    assert make_mock(spec) == again
    assert again["train"]["text"] != other["train"]["text"]
    shorter = make_mock(mock_spec("mock-2", max_words=20, n_train=60, n_test=5))
    assert shorter["train"] == again["train"]
    code = (
        "from attn_faithful.data.planted import *\n"
        "print(make_mock(mock_spec('mock-2', max_words=20, n_train=60, n_test=1))['train']['text'][7])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == again["train"]["text"][7]


def test_word_list_files(tmp_path):
    (tmp_path / "pos.txt").write_bytes("; caf\u00e9\n\nGood\na+\nenvious\nfine\n".encode("latin-1"))
    (tmp_path / "neg.txt").write_text(";;\nbad\nenvious\ntwo words\n")
    lists = {"positive": str(tmp_path / "pos.txt"), "negative": str(tmp_path / "neg.txt")}
    assert mock_words(MockSpec(**lists)) == (["bad"], ["fine", "good"])
    with pytest.raises(InputError, match="strength='strong'"):
        mock_words(MockSpec(strength="strong", **lists))
    with pytest.raises(InputError, match=r"no file '.*none.txt'"):
        mock_words(MockSpec(positive=str(tmp_path / "none.txt"), negative=lists["negative"]))


def test_real_word_lists(shared):
    lexicons = shared / "data" / "lexicons"
    lists = {s: str(lexicons / f"{s}-words.txt") for s in ("positive", "negative")}
    negative, positive = mock_words(MockSpec(**lists))
    assert (len(negative), len(positive)) == (4771, 2002)
    assert not set(negative) & set(positive)
    vader = str(lexicons / "vader_lexicon.txt")
    strong = mock_words(MockSpec(strength="strong", positive=vader, negative=vader))
    assert strong == mock_words(MockSpec(strength="strong"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"informative": 51}, "informative=51 and min_length=50"),
        ({"informative": 5.0}, "write 5 for a number of words"),
        ({"informative": 0}, "share in"),
        ({"informative": True}, "share in"),
        ({"min_length": 9, "max_length": 8}, "min_length <= max_length"),
        ({"placement": "begin"}, "Unknown placement 'begin'"),
        ({"strength": "stron"}, "Did you mean 'strong'"),
        ({"n_train": -1}, "n_train"),
        ({"filler": "two words"}, "one word"),
        ({"positive": "a"}, "both"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        MockSpec(**settings)


def test_bad_names():
    with pytest.raises(InputError, match="Did you mean 'mock-5'"):
        mock_spec("mock-5q")
    with pytest.raises(InputError, match="Did you mean 'n_train'"):
        mock_spec("mock-1", n_trian=3)


def test_no_split_is_drawn_with_anothers_numbers():
    """A leak: texts of one split would come again in the other, place by place."""
    spec = mock_spec("mock-3", n_train=60, n_validation=60, n_test=60, min_length=8, max_length=40)
    data = make_mock(spec)
    assert list(data) == ["train", "validation", "test"]
    for one, other in itertools.combinations(data.values(), 2):
        same_length = sum(len(a.split()) == len(b.split()) for a, b in zip(one["text"], other["text"], strict=True))
        assert same_length < 12  # one of 33 lengths: two of 60 by chance
        assert len({*one["text"]} & {*other["text"]}) <= 2
        same_label = sum(a == b for a, b in zip(one["label"], other["label"], strict=True))
        assert 15 < same_label < 45  # half of them by chance
