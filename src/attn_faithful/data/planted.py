"""Planted-token data sets: texts of one filler word in which a known number of sentiment words is planted.

Amini and Kosseim, "How unfaithful is attention?", section 4.1; placement and strength follow
their section 7.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from attn_faithful._checks import InputError, check_choice, did_you_mean
from attn_faithful._seeds import generator_for
from attn_faithful.data.files.paths import user_path

PLACEMENTS = ("random", "start", "middle", "end", "spread")
STRENGTHS = ("any", "strong", "weak")
STRONG_VALENCE = 2.0  # on the VADER scale, which runs from -4 to 4
_LARGEST_LIST = 2**26  # bytes; VADER's has 4e5
LABEL_NAMES = ["negative", "positive"]
PAPER_SETS: dict[str, int | float] = {
    "mock-1": 1,
    "mock-2": 2,
    "mock-5": 5,
    "mock-10": 10,
    "mock-1q": 0.25,
    "mock-2q": 0.5,
    "mock-3q": 0.75,
    "mock-4q": 1.0,
}
_WORD = re.compile(r"(?=.*[a-z]{2})[a-z]+(?:['-][a-z]+)*")


# the least value of the whole numbers of a specification
_LEAST = {
    "n_train": 0,
    "n_test": 0,
    "n_validation": 0,
    "min_length": 1,
    "max_length": 1,
    "seed": 0,
    "max_words": 1,
}


@dataclass(frozen=True)
class MockSpec:
    """What a planted-token set is made of; the defaults are the paper's.

    Args:
        informative: planted words a text: a whole number, or a share of its tokens as a float in (0, 1]
            (``1`` is one word, ``1.0`` all of them). A share is rounded to whole tokens, at least one.
        n_train, n_test, n_validation: texts in each split; a split of 0 texts is left out.
        min_length, max_length: lengths in tokens, drawn uniformly, both ends included.
        placement: where the planted words stand: ``random``, ``start``, ``middle``, ``end`` (one run), or
            ``spread`` (evenly over the text).
        strength: ``strong`` takes the words whose absolute VADER valence is at least 2.0, ``weak`` those below,
            ``any`` both.
        positive, negative: word-list files (one word a line, ``;`` starts a comment) or VADER lexicons; both or
            neither. Without them the lexicon of the vaderSentiment package is used.
        max_words: at most this many words a class, chosen by the seed.
        seed: the same seed gives the same texts on every machine and in any order of drawing.
        filler: the word of all other tokens.
    """

    informative: int | float = 1
    n_train: int = 8000
    n_test: int = 1000
    n_validation: int = 0
    min_length: int = 50
    max_length: int = 100
    placement: str = "random"
    strength: str = "any"
    positive: str | None = None
    negative: str | None = None
    max_words: int | None = None
    seed: int = 0
    filler: str = "something"

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if name == "max_words" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"Expected `{name}` to be a whole number of at least {least}, but got {value!r}.")
        check_choice("placement", self.placement, PLACEMENTS)
        check_choice("strength", self.strength, STRENGTHS)
        if self.min_length > self.max_length:
            raise InputError(f"Expected min_length <= max_length, but got {self.min_length} and {self.max_length}.")
        self._check_informative()
        if not isinstance(self.filler, str) or len(self.filler.split()) != 1 or self.filler != self.filler.strip():
            raise InputError(f"Expected `filler` to be one word without white space, but got {self.filler!r}.")
        if (self.positive is None) != (self.negative is None):
            raise InputError("Expected both `positive` and `negative` word lists or neither, but got one of them.")

    def _check_informative(self) -> None:
        share = self.informative
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise InputError(f"Expected `informative` to be a number of words or a share in (0, 1], but got {share!r}.")
        if isinstance(share, float) and share > 1:
            raise InputError(
                f"Expected `informative` as a share in (0, 1], but got {share!r}; "
                f"write {share:.0f} for a number of words."
            )
        if isinstance(share, int) and share > self.min_length:
            raise InputError(
                f"Expected at most as many informative words as the shortest text has tokens, but got "
                f"informative={share} and min_length={self.min_length}; raise min_length or plant fewer."
            )

    def n_planted(self, length: int) -> int:
        """How many words are planted in a text of so many tokens."""
        if isinstance(self.informative, int):
            return self.informative
        return max(1, round(self.informative * length))


def mock_spec(name: str, **settings: Any) -> MockSpec:
    """The specification that a name stands for, with ``settings`` in place of its defaults.

    ``mock-<n>`` plants n words; ``mock-1q`` to ``mock-4q`` plant 25, 50, 75 and 100% of the tokens.

    Raises:
        InputError: for an unknown name or setting.

    Example:
        >>> mock_spec("mock-2q", n_train=100).informative
        0.5
        >>> mock_spec("mock-3", placement="start").placement
        'start'
    """
    informative = _informative(name)
    known = [field.name for field in fields(MockSpec)]
    for setting in settings:
        check_choice("setting of a planted-token set", setting, known)
    return MockSpec(**{"informative": informative, **settings})


def _informative(name: str) -> int | float:
    """What the name of a set says of `MockSpec.informative`."""
    key = name.lower()
    if key in PAPER_SETS:
        return PAPER_SETS[key]
    number = re.fullmatch(r"mock-([1-9][0-9]*)", key)
    if number is None:
        raise InputError(f"Unknown planted-token set {name!r}.{did_you_mean(key, PAPER_SETS)}")
    return int(number[1])


# the words to plant


def _read_words(path: Path) -> dict[str, float | None]:
    """Words of a list file, with their valence where the file is a VADER lexicon (split on tabs) and None where not."""
    if not path.is_file():
        raise InputError(f"Expected a word-list file, but there is no file {str(path)!r}.")
    if path.stat().st_size > _LARGEST_LIST:
        raise InputError(f"Expected a word list of at most {_LARGEST_LIST} bytes, but {str(path)!r} has more.")
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    words: dict[str, float | None] = {}
    for line in text.splitlines():
        word, *columns = line.split("\t")
        word = word.strip().lower()
        is_comment = word.startswith(";") and not columns
        if word and not is_comment:
            words[word] = _valence(columns)
    return words


def _valence(columns: list[str]) -> float | None:
    """The number behind a word; None where there is none."""
    try:
        return float(columns[0]) if columns else None
    except ValueError:
        return None


def _vader_path() -> Path:
    spec = importlib.util.find_spec("vaderSentiment")
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            "Expected the vaderSentiment package for the words to plant, but it is not installed; run "
            "`pip install vaderSentiment` or give `positive` and `negative` word-list files."
        )
    return Path(next(iter(spec.submodule_search_locations))) / "vader_lexicon.txt"


def _class_words(path: Path, sign: int, spec: MockSpec) -> set[str]:
    """The words of a list, or those of a lexicon whose valence has the sign and the strength."""
    words = _read_words(path)
    n_graded = sum(valence is not None for valence in words.values())
    if not words or n_graded <= 0.9 * len(words):
        if spec.strength != "any":
            raise InputError(
                f"Expected a lexicon with valences for strength={spec.strength!r}, but the word list {str(path)!r} has "
                f"none; use strength='any' or a VADER lexicon."
            )
        return {word for word in words if _WORD.fullmatch(word)}
    chosen = set()
    for word, valence in words.items():
        if valence is None or valence * sign <= 0 or not _WORD.fullmatch(word):
            continue
        strength = "strong" if abs(valence) >= STRONG_VALENCE else "weak"
        if spec.strength in ("any", strength):
            chosen.add(word)
    return chosen


def mock_words(spec: MockSpec) -> tuple[list[str], list[str]]:
    """The (negative, positive) words that a specification plants, sorted.

    Only alphabetic words (hyphen and apostrophe inside allowed) count: emoticons and phrases are left out, as are the
    filler and words that stand in both lists.

    Raises:
        InputError: for a missing file, a strength that a list cannot tell, or a list with no usable word.

    Example:
        >>> negative, positive = mock_words(MockSpec(strength="strong", max_words=3))
        >>> len(negative), len(positive)
        (3, 3)
    """
    negative_path = user_path(spec.negative) if spec.negative else _vader_path()
    positive_path = user_path(spec.positive) if spec.positive else _vader_path()
    negative = _class_words(negative_path, -1, spec)
    positive = _class_words(positive_path, 1, spec)
    unusable = (negative & positive) | {spec.filler}
    return (
        _chosen_words("negative", negative - unusable, spec, negative_path),
        _chosen_words("positive", positive - unusable, spec, positive_path),
    )


def _chosen_words(label: str, words: set[str], spec: MockSpec, path: Path) -> list[str]:
    """At most `max_words` of the words, sorted."""
    if not words:
        raise InputError(f"Expected words to plant, but no {label} word is left of {str(path)!r}.")
    words_in_order = sorted(words)
    if spec.max_words is None or spec.max_words >= len(words):
        return words_in_order
    order = generator_for(spec.seed, "words", label).permutation(len(words))
    return sorted(words_in_order[i] for i in order[: spec.max_words])


# the texts


def _positions(placement: str, length: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """(count,) the places of the planted words."""
    if placement == "random":
        return np.sort(generator.choice(length, size=count, replace=False))
    if placement == "spread":
        return ((2 * np.arange(count) + 1) * length) // (2 * count)
    first = {"start": 0, "middle": (length - count) // 2, "end": length - count}[placement]
    return np.arange(first, first + count)


def make_mock(spec: MockSpec) -> dict[str, dict[str, list[Any]]]:
    """Draw a planted-token set: for each split the columns ``example``, ``text``, ``label`` and ``informative``.

    Labels (0 negative, 1 positive) are balanced exactly, or to one where the number is odd, and shuffled; lengths are
    uniform; planted words are drawn with replacement from the words of the text's label. ``informative`` holds 1 for
    each planted and 0 for each other white-space token. Two specifications that differ in placement only give texts
    of the same lengths, labels and words.

    Example:
        >>> data = make_mock(mock_spec("mock-1", n_train=4, n_test=2, min_length=5, max_length=5))
        >>> list(data), sorted(data["train"]["label"]), data["train"]["example"][3]
        (['train', 'test'], [0, 0, 1, 1], 'train-3')
        >>> [sum(mask) for mask in data["test"]["informative"]]
        [1, 1]
    """
    words = mock_words(spec)
    sizes = {"train": spec.n_train, "validation": spec.n_validation, "test": spec.n_test}
    columns_of = {}
    for split, n in sizes.items():
        if n:
            columns_of[split] = _split(spec, split, n, words)
    return columns_of


def _split(spec: MockSpec, split: str, n: int, words: tuple[list[str], list[str]]) -> dict[str, list[Any]]:
    labels = np.arange(n) % 2
    generator_for(spec.seed, split, "labels").shuffle(labels)
    texts, masks = [], []
    for i, label in enumerate(labels):
        generator = generator_for(spec.seed, split, i)
        length = int(generator.integers(spec.min_length, spec.max_length + 1))
        count = spec.n_planted(length)
        drawn = generator.integers(len(words[label]), size=count)
        positions = _positions(spec.placement, length, count, generator)
        tokens = [spec.filler] * length
        mask = [0] * length
        for position, word in zip(positions, drawn, strict=True):
            tokens[position] = words[label][word]
            mask[position] = 1
        texts.append(" ".join(tokens))
        masks.append(mask)
    examples = [f"{split}-{i}" for i in range(n)]
    return {"example": examples, "text": texts, "label": labels.tolist(), "informative": masks}
