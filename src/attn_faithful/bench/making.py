"""Makes the models of the set, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attn_faithful._seeds import seed_for
from attn_faithful.bench import stock
from attn_faithful.bench.channels import Channels, copy_channel, fix_values, parted, scored_units, settings
from attn_faithful.bench.fitting import Batch, Fit, any_attention_loss, batch_of, fit, hiding_loss, label_loss
from attn_faithful.bench.kinds import KINDS
from attn_faithful.bench.texts import (
    NEUTRAL,
    STRONG,
    TOPICS,
    WEAK,
    BenchData,
    BenchText,
    training_texts,
    vocabulary,
    words,
)
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.models.bypass import BypassClassifier, BypassConfig
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.pooled import AttentionClassifier

N_TRAINING = 4000
VALUE = 4.0  # of every word of a faithful model, in the logit
SMALL_VALUE = 3.2  # of words of a pinned model: labels are sure only where attention is nearly 1
LARGE_VALUE = 6.0  # of words of a guide: about half of the attention is enough for sure labels, and others have some
_SCORES_SPREAD = 0.8  # standard deviation of random scores
_FIRST_WORD = 2  # id of the first word, after padding and the unknown word

_ALONE = ("none", "mlp")  # encoders that read each word alone, whatever is trained

# what reads each word alone is quick to train, and may need large values
_LONG = Fit(label_loss, steps=1500, learning_rate=0.05)
_USUAL = Fit(label_loss, steps=1000, learning_rate=0.03)
_FIXED = Fit(label_loss, steps=500, learning_rate=0.05)  # of scores alone, beside values that are fixed


@dataclass(frozen=True)
class Family:
    """The models of one encoder, data set and seed.

    Attributes:
        encoder: name of the encoder.
        data: the data set.
        seed: of weights, texts and batches.
    """

    encoder: str
    data: BenchData
    seed: int

    def make(self, kind: str, attempt: int = 0) -> Any:
        """A model of a kind, in eval mode; each attempt begins with other weights."""
        if self.is_stock:
            return stock.stock_model(kind, seed_for(self.seed, "bench", self.data.name, attempt))
        return _MAKERS[kind](self, attempt)

    @property
    def is_stock(self) -> bool:
        """Whether its models are those of transformers, whose weights are written down."""
        return self.encoder == stock.ENCODER

    def truth(self, kind: str) -> str:
        """Why attention of a kind explains the decisions or does not, in a sentence."""
        if self.is_stock:
            return stock.DESIGNS[kind].truth
        return KINDS[kind].truth

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of its models."""
        return stock.stock_tokenizer() if self.is_stock else tokenizer()

    @property
    def reads_alone(self) -> bool:
        """Whether the values read each word alone, where the kind does not ask for it."""
        return self.encoder in _ALONE

    @property
    def how(self) -> Fit:
        """How the values are trained."""
        return _LONG if self.reads_alone else _USUAL

    @cached_property
    def texts(self) -> list[BenchText]:
        """What the models are trained on."""
        return training_texts(self.data, N_TRAINING, self.seed)

    @cached_property
    def batch(self) -> Batch:
        """The texts, with their labels."""
        return batch_of(self.texts, word_ids())

    @cached_property
    def faithful(self) -> AttentionClassifier:
        """The model of fixed values, whose attention others take over."""
        return self.of_fixed_values("faithful", 0, self.batch, label_signs())

    def of_fixed_values(
        self, purpose: str, attempt: int, batch: Batch, signs: Tensor, size: float = VALUE
    ) -> AttentionClassifier:
        """A model with a value of one size for each word, whose attention is trained for a batch's labels."""
        model, channels = self.new(purpose, attempt, reads_alone=True)
        fix_values(model, channels, signs, size)
        fit(model, [channels.scores], batch, _FIXED, self.seed)
        return model

    def new(
        self, purpose: str, attempt: int, *, reads_alone: bool, attention: str = "additive", bypass: bool = False
    ) -> tuple[AttentionClassifier, Channels]:
        """A model with random weights, and its channels."""
        chosen = {**settings(self.encoder, _FIRST_WORD + len(vocabulary())), "attention": attention}
        seed = seed_for(self.seed, "bench", self.encoder, self.data.name, purpose, attempt)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = BypassClassifier(BypassConfig(**chosen)) if bypass else AttentionClassifier(_config(chosen))
        return model, parted(model, reads_alone)


def word_ids() -> dict[str, int]:
    """Word -> its id in the tokenizer of the models, see `tokenizer`."""
    return {word: place for place, word in enumerate(sorted(vocabulary()), start=_FIRST_WORD)}


def tokenizer() -> Any:
    """The tokenizer of all models: a token a word, in alphabetical order."""
    return train_tokenizer([" ".join(vocabulary())], pre_tokenizer="whitespace", digits=None)


def _config(chosen: dict[str, object]) -> AttentionClassifierConfig:
    return AttentionClassifierConfig(**chosen)


def label_signs() -> Tensor:
    """(V,) +1 for words of the positive class, -1 for those of the negative one, and at random for all others."""
    return _signs([STRONG, WEAK])


def topic_signs() -> Tensor:
    """(V,) +1 and -1 for the words of the topics, and at random for all others."""
    return _signs([TOPICS])


def _signs(stems: Sequence[tuple[str, str]]) -> Tensor:
    generator = torch.Generator().manual_seed(seed_for("bench", "signs"))
    ids = word_ids()
    signs = torch.randint(2, (_FIRST_WORD + len(ids),), generator=generator) * 2.0 - 1.0  # (V,)
    for negative, positive in stems:
        for word in words(negative):
            signs[ids[word]] = -1.0
        for word in words(positive):
            signs[ids[word]] = 1.0
    return signs


# one function a kind


def _faithful(family: Family, attempt: int) -> AttentionClassifier:
    """The same at every attempt, since others have its attention."""
    return family.faithful


def _pinned(family: Family, attempt: int) -> AttentionClassifier:
    """As the faithful one, but words that say nothing have no value, and attention has to be larger."""
    signs = label_signs()
    ids = word_ids()
    for stem in (*TOPICS, NEUTRAL):
        for word in words(stem):
            signs[ids[word]] = 0.0
    return family.of_fixed_values("pinned", attempt, family.batch, signs, SMALL_VALUE)


def _free(family: Family, attempt: int) -> AttentionClassifier:
    model, channels = family.new("free", attempt, reads_alone=False)
    copy_channel(channels.scores, family.faithful, model)
    any_attention = Fit(any_attention_loss(model.reach), _USUAL.steps, _USUAL.learning_rate)
    fit(model, [channels.values], family.batch, any_attention, family.seed)
    return model


def _deceptive(family: Family, attempt: int) -> AttentionClassifier:
    model, channels = family.new("deceptive", attempt, reads_alone=family.reads_alone)
    hiding = Fit(hiding_loss, family.how.steps, family.how.learning_rate)
    fit(model, [channels.scores, channels.values], family.batch, hiding, family.seed)
    return model


def _random(family: Family, attempt: int) -> AttentionClassifier:
    model, channels = family.new("random", attempt, reads_alone=family.reads_alone)
    _spread_scores(model, seed_for(family.seed, "bench", "scores", attempt))
    fit(model, [channels.values], family.batch, family.how, family.seed)
    return model


def _spread_scores(model: AttentionClassifier, seed: int) -> None:
    """Random scores of words with mean 0 and a standard deviation of `_SCORES_SPREAD`."""
    scorer = model.attention.scorer
    generator = torch.Generator().manual_seed(seed)
    unscored = ~scored_units(model)
    with torch.no_grad():
        for weight in (scorer.token.weight, scorer.score.weight):
            weight.copy_(torch.randn(weight.shape, generator=generator))
        scorer.token.weight[:, unscored] = 0.0
        every_word = torch.arange(_FIRST_WORD, model.config.vocab_size)[None]  # (1, V)
        spread = model.encode({"input_ids": every_word}).scores.std()
        scorer.score.weight *= _SCORES_SPREAD / spread


def _uniform(family: Family, attempt: int) -> AttentionClassifier:
    model, channels = family.new("uniform", attempt, reads_alone=family.reads_alone, attention="uniform")
    fit(model, [channels.values], family.batch, family.how, family.seed)
    return model


def _imposed(family: Family, attempt: int) -> AttentionClassifier:
    """The attention of a model of fixed values that was trained to tell topics, and then left as it is."""
    of_topics = family.batch.of_topics(family.texts)
    guide = family.of_fixed_values("guide", attempt, of_topics, topic_signs(), LARGE_VALUE)
    model, channels = family.new("imposed", attempt, reads_alone=family.reads_alone)
    copy_channel(channels.scores, guide, model)
    fit(model, [channels.values], family.batch, family.how, family.seed)
    return model


def _leaky(family: Family, attempt: int) -> AttentionClassifier:
    """The attention of the faithful model with a read-out of 0; the path around it is trained."""
    model, channels = family.new("leaky", attempt, reads_alone=True, bypass=True)
    copy_channel(channels.scores, family.faithful, model)
    with torch.no_grad():
        model.readout.weight.zero_()
    values = {name: mask for name, mask in channels.values.items() if not name.startswith("readout")}
    fit(model, [values], family.batch, _LONG, family.seed)
    return model


_MAKERS: dict[str, Callable[[Family, int], AttentionClassifier]] = {
    "faithful": _faithful,
    "pinned": _pinned,
    "free": _free,
    "deceptive": _deceptive,
    "random": _random,
    "uniform": _uniform,
    "imposed": _imposed,
    "leaky": _leaky,
}


def kinds_of(family: Family) -> list[str]:
    """The kinds that can be made in a family."""
    names = []
    for kind in KINDS.values():
        if family.encoder in kind.encoders and family.data.name in kind.data:
            names.append(kind.name)
    return names
