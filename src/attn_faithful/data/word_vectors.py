"""Word vectors from GloVe, word2vec and fastText text files, read line by line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice
from attn_faithful._seeds import generator_for
from attn_faithful.data.files.paths import user_path

_LINE = 2**20  # bytes: a word and 100,000 numbers
# bytes that a packed file may hold: so many, or so many times its own size; numbers pack 3 to 10 times
_LEAST = 2**30
_TIMES = 100


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


@dataclass(frozen=True)
class _Vocabulary:
    """Words and their ids; special tokens have no vector."""

    ids: dict[str, int]
    special: set[str]
    padding: int | None

    @classmethod
    def of(cls, tokenizer_or_vocab: Any) -> _Vocabulary:
        if isinstance(tokenizer_or_vocab, Mapping):
            ids = dict(tokenizer_or_vocab)
            return cls(ids, {"[PAD]", "[UNK]"}, ids.get("[PAD]"))
        special = set(tokenizer_or_vocab.all_special_tokens)
        return cls(tokenizer_or_vocab.get_vocab(), special, tokenizer_or_vocab.pad_token_id)

    @property
    def words(self) -> dict[str, int]:
        """The words that may have a vector."""
        return {word: i for word, i in self.ids.items() if word not in self.special}


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
    vocabulary = _Vocabulary.of(tokenizer_or_vocab)
    if not vocabulary.ids:
        raise InputError("Expected a vocabulary with at least one word, but it is empty.")
    words = vocabulary.words
    file = _VectorFile(path)
    id_of_bytes = {word.encode(): i for word, i in words.items()}
    rows = file.read(id_of_bytes)
    if not rows:
        raise InputError(
            f"Expected {path} to hold some of the {len(vocabulary.ids)} words of the vocabulary, but it holds none; "
            f"check the language and the lower-casing."
        )
    size = max(vocabulary.ids.values()) + 1
    matrix = np.zeros((size, file.dimension), dtype=np.float32)  # (V, E)
    found = np.zeros(size, dtype=bool)
    for i, row in rows.items():
        matrix[i] = row
        found[i] = True
    if missing == "normal":
        _draw_missing(matrix, found, vocabulary, seed)
    if vocabulary.padding is not None:
        matrix[vocabulary.padding] = 0
    coverage = len(rows) / len(words) if words else 0.0
    return Vectors(matrix, found, coverage, str(path))


def _draw_missing(matrix: np.ndarray, found: np.ndarray, vocabulary: _Vocabulary, seed: int) -> None:
    mean = matrix[found].mean(0, dtype=np.float64)  # (E,)
    std = matrix[found].std(0, dtype=np.float64)
    for word, i in vocabulary.ids.items():
        if not found[i] and i != vocabulary.padding:
            matrix[i] = mean + std * generator_for(seed, word).standard_normal(len(mean))


@dataclass
class _VectorFile:
    """A file of vectors as it is read.

    Attributes:
        path: of the file.
        dimension: of the vectors; 0 until the first line says it.
        number: of the line that is read.
    """

    path: Path
    dimension: int = 0
    number: int = 0

    @property
    def where(self) -> str:
        return f"line {self.number} of {self.path}"

    def read(self, wanted: Mapping[bytes, int]) -> dict[int, np.ndarray]:
        """Id -> vector of the wanted words."""
        rows: dict[int, np.ndarray] = {}
        try:
            for raw in _lines(self.path):
                self.number += 1
                line = raw.rstrip(b" \r\n")
                if not line:
                    continue
                if not self.dimension:
                    line = line.replace(b"\t", b" ")
                    if self._is_header(line.split(b" ")):
                        continue
                word, values = self._parts(line)
                i = wanted.get(word)
                if i is not None and i not in rows:
                    rows[i] = self._vector(values)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"Expected a readable vector file, but {self.path} fails after line {self.number}: {error}."
            ) from error
        return rows

    def _is_header(self, fields: list[bytes]) -> bool:
        """Whether a first line is ``N dim``; finds the dimension, also of a word (one field at least) and numbers."""
        are_counts = all(field.isdigit() and len(field) < 10 for field in fields)
        if self.number == 1 and len(fields) == 2 and are_counts:
            self.dimension = int(fields[1])
            return True
        for field in reversed(fields[1:]):
            if not _is_number(field):
                break
            self.dimension += 1
        if not self.dimension:
            raise InputError(f"Expected a word and its numbers, but {self.where} is {b' '.join(fields)[:60]!r}.")
        return False

    def _parts(self, line: bytes) -> tuple[bytes, bytes]:
        """The word of a line and its numbers, with spaces between."""
        n_spaces = line.count(b" ")
        if n_spaces < self.dimension:
            line = line.replace(b"\t", b" ")
            n_spaces = line.count(b" ")
        if n_spaces < self.dimension:
            raise InputError(
                f"Expected a word and {self.dimension} numbers on {self.where}, but got {n_spaces} numbers; "
                f"the file is cut off or damaged."
            )
        if n_spaces == self.dimension:
            word, _, values = line.partition(b" ")
            return word, values
        word = line.rsplit(b" ", self.dimension)[0]  # it holds spaces
        return word, line[len(word) + 1 :]

    def _vector(self, values: bytes) -> np.ndarray:
        """(E,) float32, of finite numbers."""
        try:
            vector = np.array(values.split(b" "), dtype=np.float64).astype(np.float32)
        except ValueError:
            vector = np.full(1, np.nan, dtype=np.float32)
        if vector.shape != (self.dimension,) or not np.isfinite(vector).all():
            raise InputError(
                f"Expected {self.dimension} finite numbers after the word on {self.where}, but got {values[:60]!r}."
            )
        return vector


def _lines(path: Path) -> Iterator[bytes]:
    """Lines, one in memory at a time; a file that a few packed bytes make endless is cut short by an error."""
    with open(path, "rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    limit = max(_LEAST, _TIMES * path.stat().st_size)
    n_bytes = 0
    with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
        while line := file.readline(_LINE + 1):
            n_bytes += len(line)
            if len(line) > _LINE:
                raise InputError(f"Expected lines of at most {_LINE} bytes in {path}, but one is longer.")
            if zipped and n_bytes > limit:
                raise InputError(f"Expected word vectors, but {path} unpacks to more than {limit} bytes; unpack it.")
            yield line


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
