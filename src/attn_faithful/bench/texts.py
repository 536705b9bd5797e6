"""The made-up texts of the set: strong words decide a text's label, and it is known which ones they are."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attn_faithful._seeds import generator_for

LABEL_NAMES = ("negative", "positive")
LENGTHS = (8, 16, 32)
TEXTS_OF_A_LENGTH = 20

_WORDS_OF_A_GROUP = 12
_NEUTRAL_WORDS = 36
_LETTERS = string.ascii_lowercase
_ONLY_WEAK = 0.3  # share of the training texts without a strong word, which teach what weak words say
_SHORTEST, _LONGEST = 6, 34  # training texts, in words

# stems of the words: of each class the strong and the weak ones, of each topic, and of neither
STRONG = ("awful", "superb")
WEAK = ("poor", "fair")
TOPICS = ("music", "sport")
NEUTRAL = "thing"


@dataclass(frozen=True)
class BenchData:
    """One data set of the bench.

    Attributes:
        name: of its file, in columns and tables.
        strong: how many strong words a text has, from the first to the second number.
    """

    name: str
    strong: tuple[int, int]


SINGLE = BenchData("single", (1, 1))
SEVERAL = BenchData("several", (2, 3))
DATA = {data.name: data for data in (SINGLE, SEVERAL)}


@dataclass(frozen=True)
class BenchText:
    """One text, its white-space words being the tokens.

    Attributes:
        example: its id, unique over all data sets.
        text: the words, a space between them.
        label: the class of its strong words, or of its weak ones where it has no strong one.
        topic: the topic of its topic word, which says nothing of the label.
        decisive: 1 for each word that decides the label, else 0.
    """

    example: str
    text: str
    label: int
    topic: int
    decisive: Sequence[int]

    @property
    def length(self) -> int:
        """In words."""
        return len(self.decisive)


def words(stem: str) -> list[str]:
    """The words of a group.

    Example:
        >>> words("superb")[:2], len(words("thing"))
        (['superba', 'superbb'], 36)
    """
    if stem != NEUTRAL:
        return [stem + letter for letter in _LETTERS[:_WORDS_OF_A_GROUP]]
    endings = [first + second for first in "ab" for second in _LETTERS]
    return [stem + ending for ending in endings[:_NEUTRAL_WORDS]]


def vocabulary() -> list[str]:
    """All words of the texts, group after group."""
    listed = []
    for stem in (*STRONG, *WEAK, *TOPICS, NEUTRAL):
        listed += words(stem)
    return listed


def frozen_texts(data: BenchData, seed: int = 0, of_a_length: int = TEXTS_OF_A_LENGTH) -> list[BenchText]:
    """The texts that a set is measured on: equally many of each length and label.

    The weak words of each speak for the other class. So deleting the strong words flips the decision, and deleting the
    other words does not.

    Example:
        >>> text = frozen_texts(SINGLE)[1]
        >>> text.example, text.length, sum(text.decisive), text.label
        ('single-8-1', 8, 1, 1)
    """
    texts = []
    for length in LENGTHS:
        for number in range(of_a_length):
            example = f"{data.name}-{length}-{number}"
            generator = generator_for(seed, "bench", example)
            label = number % 2
            n_strong = int(generator.integers(data.strong[0], data.strong[1] + 1))
            against = [1 - label] * n_weak(length)
            texts.append(_drawn(example, generator, length, label, n_strong, against))
    return texts


def training_texts(data: BenchData, n: int, seed: int) -> list[BenchText]:
    """Texts to train on: strong words decide whatever the weak ones say, which decide where there is no strong one.

    Beside strong words the weak ones are all against them in half of the texts, and of any class in the others.
    """
    texts = []
    for number in range(n):
        example = f"{data.name}-train-{seed}-{number}"
        generator = generator_for(seed, "bench", example)
        length = int(generator.integers(_SHORTEST, _LONGEST + 1))
        label = number % 2
        n_strong = int(generator.integers(data.strong[0], data.strong[1] + 1))
        weak = [1 - label] * n_weak(length)
        case = generator.random()
        if case < _ONLY_WEAK:
            n_strong = 0
            weak = [label] * n_weak(length)
        elif case < (1 + _ONLY_WEAK) / 2:
            weak = generator.integers(0, 2, size=n_weak(length)).tolist()
        texts.append(_drawn(example, generator, length, label, n_strong, weak))
    return texts


def n_weak(length: int) -> int:
    """How many weak words a text of so many words has."""
    return max(1, length // 16)


def _drawn(
    example: str, generator: np.random.Generator, length: int, label: int, n_strong: int, weak: Sequence[int]
) -> BenchText:
    """A text of so many words in random order.

    Args:
        example: its id.
        generator: of all its choices.
        length: in words.
        label: of the text.
        n_strong: words of the label's class that decide.
        weak: the class of each weak word.
    """
    topic = int(generator.integers(2))
    stems = [STRONG[label]] * n_strong
    stems += [WEAK[one] for one in weak]
    stems.append(TOPICS[topic])
    stems += [NEUTRAL] * (length - len(stems))
    decides = [int(place < n_strong) for place in range(length)]
    if not n_strong:
        decides = [int(stem == WEAK[label]) for stem in stems]
    drawn = []
    for stem in stems:
        group = words(stem)
        drawn.append(group[int(generator.integers(len(group)))])
    order = generator.permutation(length)
    text = " ".join(drawn[place] for place in order)
    return BenchText(example, text, label, topic, [decides[place] for place in order])
