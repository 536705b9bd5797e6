"""Word vectors: formats, missing words, damaged files."""

import doctest
import gzip

import numpy as np
import pytest

from attn_faithful._checks import InputError
from attn_faithful.data import word_vectors as vectors
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.data.word_vectors import load_vectors

VOCAB = {"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3, "odd": 4, ". .": 5}
GLOVE = "good 1 2\nbad 3 -4e-1\n. . 5 6\ngood 9 9\n"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_examples_in_docstrings():
    assert doctest.testmod(vectors).failed == 0


@pytest.mark.parametrize("text", [GLOVE, "4 2\n" + GLOVE, GLOVE.replace("\n", " \n"), GLOVE.replace("\n", "\r\n")])
def test_formats(tmp_path, text):
    result = load_vectors(write(tmp_path / "v.txt", text), VOCAB, missing="zeros")
    expected = [[0, 0], [0, 0], [1, 2], [3, -0.4], [0, 0], [5, 6]]
    np.testing.assert_allclose(result.matrix, expected, atol=1e-7)
    assert result.matrix.dtype == np.float32
    assert result.found.tolist() == [False, False, True, True, False, True]
    assert result.coverage == 3 / 4


def test_gzip_equals_plain(tmp_path):
    plain = load_vectors(write(tmp_path / "v.txt", GLOVE), VOCAB)
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    zipped = load_vectors(tmp_path / "v.txt.gz", VOCAB)
    assert np.array_equal(plain.matrix, zipped.matrix)


def test_missing_rows_are_normal_and_keyed_by_word(tmp_path):
    path = write(tmp_path / "v.txt", "".join(f"w{i} {i} {100 + (i % 2)}\n" for i in range(100)))
    words = [f"w{i}" for i in range(100)] + [f"m{i}" for i in range(400)]
    first = load_vectors(path, {w: i for i, w in enumerate(["[PAD]", "[UNK]", *words])})
    other = load_vectors(path, {w: i for i, w in enumerate(["[PAD]", "[UNK]", *reversed(words)])})
    assert np.array_equal(first.matrix[2:], other.matrix[2:][::-1])
    assert not first.matrix[0].any()
    drawn, found = first.matrix[102:], first.matrix[2:102]
    assert np.abs(drawn.mean(0) - found.mean(0)).max() < 0.15 * found.std(0).max()
    np.testing.assert_allclose(drawn.std(0), found.std(0), rtol=0.1)
    assert not np.array_equal(first.matrix, load_vectors(path, {w: i for i, w in enumerate(words)}, seed=1).matrix)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("good 1 2\nbad 3\n", "line 2 of .*cut off"),
        ("good 1 2\nbad 3 x\n", "line 2 of .*v.txt"),
        ("good 1 2\nbad 3 nan\n", "line 2 of .*v.txt"),
        ("only 1 2\n", "holds none"),
        ("", "holds none"),
        ("good\n", "line 1"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_vectors(write(tmp_path / "v.txt", text), VOCAB)


def test_missing_and_cut_files(tmp_path):
    with pytest.raises(InputError, match="no file"):
        load_vectors(tmp_path / "none.txt", VOCAB)
    (tmp_path / "cut.gz").write_bytes(gzip.compress((GLOVE * 5000).encode())[:-20])
    with pytest.raises(InputError, match=r"cut.gz fails after line"):
        load_vectors(tmp_path / "cut.gz", VOCAB)
    with pytest.raises(InputError, match="Did you mean 'zeros'"):
        load_vectors(write(tmp_path / "v.txt", GLOVE), VOCAB, missing="zero")


def test_real_glove(shared):
    tokenizer = train_tokenizer(["good bad awful nonexistingword"])
    result = load_vectors(shared / "data/vectors/glove.6B.50d.top50k.txt.gz", tokenizer)
    assert result.matrix.shape == (6, 50)
    assert result.coverage == 3 / 4
    assert not result.matrix[tokenizer.pad_token_id].any()
