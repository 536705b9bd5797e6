"""Word vectors from GloVe, word2vec and fastText text files, read line by line."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful.data.files.paths import user_path

_LINE = 2**20  # bytes: a word and 100,000 numbers
_LEAST, _TIMES = 2**30, 100  # bytes that a packed file may hold, or how many times its own size; numbers pack 3 to 10


@dataclass(frozen=True)
class Vectors:
    """Rows for a vocabulary.

    Attributes:
        matrix: float32 (V, E), row i for id i; the padding row is zero.
        found: bool (V,), whether the file holds the word.
        coverage: share of the words (``[PAD]`` and ``[UNK]`` apart) that were found, 0 to 1.
        path: the file.
    """

    matrix: np.ndarray
    found: np.ndarray
    coverage: float
    path: str


def _lines(path: Path) -> Iterator[bytes]:
    """Lines, one in memory at a time; a file that a few packed bytes make endless is cut short by an error."""
    with open(path, "rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    most, read = max(_LEAST, _TIMES * path.stat().st_size), 0
    with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
        while line := file.readline(_LINE + 1):
            read += len(line)
            if len(line) > _LINE:
                raise InputError(f"Expected lines of at most {_LINE} bytes in {path}, but one is longer.")
            if zipped and read > most:
                raise InputError(f"Expected word vectors, but {path} unpacks to more than {most} bytes; unpack it.")
            yield line


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_header(fields: list[bytes]) -> bool:
    return len(fields) == 2 and all(field.isdigit() and len(field) < 10 for field in fields)


def _dimension(fields: list[bytes], where: str) -> int:
    """Numbers at the end of a first line; one field at least is the word."""
    numbers = 0
    for field in reversed(fields[1:]):
        if not _is_number(field):
            break
        numbers += 1
    if not numbers:
        raise InputError(f"Expected a word and its numbers, but {where} is {b' '.join(fields)[:60]!r}.")
    return numbers


def _rows(path: Path, wanted: Mapping[bytes, int]) -> tuple[dict[int, np.ndarray], int]:
    rows: dict[int, np.ndarray] = {}
    dimension = 0
    number = 0
    try:
        for number, raw in enumerate(_lines(path), start=1):
            line = raw.rstrip(b" \r\n")
            if not dimension:
                line = line.replace(b"\t", b" ")
                fields = line.split(b" ")
                if number == 1 and _is_header(fields):
                    dimension = int(fields[1])
                    continue
                if not line:
                    continue
                dimension = _dimension(fields, f"line {number} of {path}")
            if not line:
                continue
            spaces = line.count(b" ")
            if spaces < dimension:
                line = line.replace(b"\t", b" ")
                spaces = line.count(b" ")
            if spaces == dimension:
                word, _, values = line.partition(b" ")
            elif spaces > dimension:  # a word that holds spaces
                word = line.rsplit(b" ", dimension)[0]
                values = line[len(word) + 1 :]
            else:
                raise InputError(
                    f"Expected a word and {dimension} numbers on line {number} of {path}, but got {spaces} numbers; "
                    f"the file is cut off or damaged."
                )
            index = wanted.get(word)
            if index is None or index in rows:
                continue
            try:
                row = np.array(values.split(b" "), dtype=np.float64).astype(np.float32)
            except ValueError:
                row = np.full(1, np.nan, dtype=np.float32)
            if row.shape != (dimension,) or not np.isfinite(row).all():
                raise InputError(
                    f"Expected {dimension} finite numbers after the word on line {number} of {path}, "
                    f"but got {values[:60]!r}."
                )
            rows[index] = row
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Expected a readable vector file, but {path} fails after line {number}: {error}.") from error
    return rows, dimension


def load_vectors(path: str | Path, tokenizer_or_vocab: Any, *, missing: str = "normal", seed: int = 0) -> Vectors:
    """Rows of a vector file for the words of a tokenizer or of a ``{word: id}`` vocabulary.

    Reads GloVe, word2vec and fastText text files, plain or gzipped, with or without a first line ``N dim``, and keeps
    the wanted rows only. A word that holds spaces is read from the right; the first of two lines for one word counts.
    Padding is zero. A missing word is zero (``missing="zeros"``) or normal with the mean and standard deviation of
    the found rows in each dimension (``"normal"``), drawn by (seed, word): it does not depend on the other words.

    Raises:
        InputError: for a missing file, a damaged line (with its number), or a file with none of the words.

    Example:
        >>> import tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "two.txt")
        >>> _ = open(path, "w").write("good 1 2\\nbad 3 4\\n")
        >>> vectors = load_vectors(path, {"[PAD]": 0, "[UNK]": 1, "bad": 2, "odd": 3}, missing="zeros")
        >>> vectors.matrix.tolist(), vectors.coverage
        ([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], 0.5)
    """
    check_choice("way to fill missing words", missing, ("normal", "zeros"))
    path = user_path(path)
    if not path.is_file():
        raise InputError(f"Expected a file of word vectors, but there is no file {str(path)!r}.")
    if isinstance(tokenizer_or_vocab, Mapping):
        vocabulary, special = dict(tokenizer_or_vocab), {"[PAD]", "[UNK]"}
        padding = vocabulary.get("[PAD]")
    else:
        vocabulary = tokenizer_or_vocab.get_vocab()
        special = set(tokenizer_or_vocab.all_special_tokens)
        padding = tokenizer_or_vocab.pad_token_id
    if not vocabulary:
        raise InputError("Expected a vocabulary with at least one word, but it is empty.")
    rows, dimension = _rows(path, {word.encode(): i for word, i in vocabulary.items() if word not in special})
    if not rows:
        raise InputError(
            f"Expected {path} to hold some of the {len(vocabulary)} words of the vocabulary, but it holds none; "
            f"check the language and the lower-casing."
        )
    size = max(vocabulary.values()) + 1
    matrix, found = np.zeros((size, dimension), dtype=np.float32), np.zeros(size, dtype=bool)
    for index, row in rows.items():
        matrix[index], found[index] = row, True
    if missing == "normal":
        mean, std = matrix[found].mean(0, dtype=np.float64), matrix[found].std(0, dtype=np.float64)
        for word, index in vocabulary.items():
            if not found[index] and index != padding:
                digest = hashlib.sha256(f"{seed}\x1f{word}".encode()).digest()
                generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
                matrix[index] = mean + std * generator.standard_normal(dimension)
    if padding is not None:
        matrix[padding] = 0
    n_words = sum(word not in special for word in vocabulary)
    return Vectors(matrix, found, len(rows) / n_words if n_words else 0.0, str(path))
