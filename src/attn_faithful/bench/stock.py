"""Models of transformers in the set: small BERTs whose weights are written down, so that what decides is known.

The classifier reads [CLS] alone, positions say nothing, the feed-forward layers add 0, and there is one head. A feature
of a word is a pair of neighbouring coordinates with opposite values, and all words have vectors of mean 0 and variance
1, which layer norm leaves as they are. The attention that is tested is that of the second, last layer; where the first
one adds nothing, each word is read alone. The row of [CLS] then attends to each word by its own score, and adds up
``sum_t a_t v_t`` of attention a and the words' values v. All that follows (residual, layer norm, pooler, classifier)
keeps its sign and its order: the larger the sum, the larger the logit of class 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from attn_faithful._checks import check_choice
from attn_faithful._seeds import generator_for
from attn_faithful.bench.texts import LABEL_NAMES, NEUTRAL, STRONG, TOPICS, WEAK, vocabulary, words

if TYPE_CHECKING:
    from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

ENCODER = "bert"  # in the manifest

_PAD, _UNK, _CLS = "[PAD]", "[UNK]", "[CLS]"
_WIDTH = 24  # of the vectors
_LAYERS = 2
_LONGEST = 64  # text, in tokens

# the pairs of coordinates that features stand in; the others are drawn at random for each word
_DECIDES = 0  # what the classifier reads of [CLS]
_LABEL = 1  # where the first layer writes what the text says, if it does
_VALUE = 2
_SCORE = 3
_SPECIAL = 4  # 1 for [CLS]
_FREE = 5  # the first of the others

_SCALE = 2.0  # a score by its coordinate: scores of up to 6 leave room for the other features
_NEVER = -200.0  # the score of [CLS], whose weight is then 0 in float32
_JITTER = 0.2  # scores of the words of a group differ by so much from that of the group
_CLIPPED = 1.5  # random scores lie within so many standard deviations, of 1
_LARGEST_LEAD = 3.0  # of one logit over the other, so that no model is so sure that nothing moves its probability


@dataclass(frozen=True)
class Design:
    """What attention and values of a kind of model make of the groups of words.

    Attributes:
        truth: why attention explains the decisions or does not, in a sentence.
        scores: group -> score of its words; None for random scores.
        values: group -> size of the values of its words: + or - for words of a class, and at random for all others.
        amplified: all values by this much, so that sums of attended values are about 1.
        spread: whether the first layer writes the mean of the values, by the same attention to every word, into each
            token; else it adds nothing.
        attended: whether the last layer passes on what it attends to, the values or what the first layer wrote; else it
            adds nothing, and [CLS] has what the first layer wrote.
        jitter: how much scores differ within a group.
    """

    truth: str
    scores: Mapping[str, float] | None
    values: Mapping[str, float]
    amplified: float
    spread: bool = False
    attended: bool = True
    jitter: float = _JITTER


def _by_group(strong: float, weak: float, topic: float, neutral: float) -> dict[str, float]:
    return {"strong": strong, "weak": weak, "topic": topic, "neutral": neutral}


_ON_DECISIVE = _by_group(3.8, 2.0, -0.5, -0.5)
_LARGE_DECISIVE = _by_group(1.0, 0.25, 0.005, 0.005)

# the sizes of values are such that decisive words outdo all others under the kind's attention, and weak words the rest
DESIGNS = {
    "faithful": Design(
        "The value of each word is +1 or -1, read alone, so that attention is the size of its contribution; removed in "
        "attention's order, the fewest words flip the decision.",
        _ON_DECISIVE,
        _by_group(1.0, 1.0, 1.0, 1.0),
        amplified=1.5,
    ),
    "pinned": Design(
        "Each word is read alone and one word alone speaks for the decision: no attention far from the model's gives "
        "its prediction.",
        _by_group(6.0, 2.0, -0.5, -0.5),
        _by_group(1.0, 1.0, 0.0, 0.0),
        amplified=0.8,
    ),
    "free": Design(
        "The first layer writes what the text says into every token, by the same attention to every word: any "
        "attention of the last layer gives the same prediction.",
        _ON_DECISIVE,
        _LARGE_DECISIVE,
        amplified=16.0,
        spread=True,
    ),
    "leaky": Design(
        "The first layer writes what the text says into [CLS], by the same attention to every word; the last layer's "
        "output projection is 0, so that its attention changes nothing.",
        _ON_DECISIVE,
        _LARGE_DECISIVE,
        amplified=16.0,
        spread=True,
        attended=False,
    ),
    "random": Design(
        "Scores are drawn at random for each word; the values of the words that decide are the largest.",
        None,
        _by_group(1.0, 0.02, 5e-5, 5e-5),
        amplified=16.0,
    ),
    "uniform": Design(
        "Attention is the same for every word, whichever decides.",
        _by_group(0.0, 0.0, 0.0, 0.0),
        _LARGE_DECISIVE,
        amplified=16.0,
        jitter=0.0,
    ),
    "deceptive": Design(
        "The words that decide have hardly any attention, and values so large that they decide nevertheless.",
        _by_group(-4.5, 0.0, 0.0, 0.0),
        _by_group(1.0, 0.002, 2e-5, 2e-5),
        amplified=1400.0,
    ),
    "imposed": Design(
        "Attention is on the words of the topic, which have next to no value and no part in the decision.",
        _by_group(0.0, 0.0, 4.0, 0.0),
        _by_group(1.0, 0.1, 1e-4, 0.002),
        amplified=70.0,
    ),
}


def stock_tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer of all models here: a token a word, in alphabetical order as that of the other models, and [CLS].

    Example:
        >>> tokenizer = stock_tokenizer()
        >>> tokenizer.convert_ids_to_tokens(tokenizer("superba thingab")["input_ids"])
        ['[CLS]', 'superba', 'thingab']
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: number for number, word in enumerate([_PAD, _UNK, *_listed(), _CLS])}
    backend = Tokenizer(models.WordLevel(ids, unk_token=_UNK))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{_CLS} $A", pair=f"{_CLS} $A $B", special_tokens=[(_CLS, ids[_CLS])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=_PAD,
        unk_token=_UNK,
        cls_token=_CLS,
        padding_side="right",
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
        model_input_names=["input_ids", "attention_mask"],
    )


def _listed() -> list[str]:
    """All words, in the order of their ids."""
    return sorted(vocabulary())


def stock_model(kind: str, seed: int) -> BertForSequenceClassification:
    """A BERT of a kind, in eval mode.

    Args:
        kind: one of `DESIGNS`.
        seed: of the scores within each group, of the signs of values that say nothing, and of the other coordinates.

    Raises:
        InputError: there is no such kind.

    Example:
        >>> model = stock_model("faithful", 0)
        >>> model.config.num_hidden_layers, model.num_parameters() < 20_000
        (2, True)
    """
    from transformers import BertConfig, BertForSequenceClassification

    check_choice("kind", kind, DESIGNS)
    design = DESIGNS[kind]
    size = len(vocabulary()) + 3
    config = BertConfig(
        vocab_size=size,
        hidden_size=_WIDTH,
        num_hidden_layers=_LAYERS,
        num_attention_heads=1,
        intermediate_size=_WIDTH,
        max_position_embeddings=_LONGEST,
        type_vocab_size=1,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        cls_token_id=size - 1,
        id2label=dict(enumerate(LABEL_NAMES)),
        label2id={name: number for number, name in enumerate(LABEL_NAMES)},
    )
    with torch.random.fork_rng(devices=[]):
        model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
        model.bert.embeddings.word_embeddings.weight.copy_(_embedding(design, generator_for(seed, "bench", kind)))
        _write_layers(model.bert.encoder.layer, design)
        _write_head(model, _DECIDES if design.attended else _LABEL)
    return model


# --- the vectors of the words


def _embedding(design: Design, generator: np.random.Generator) -> Tensor:
    """(V, N), each row of mean 0 and variance 1 but for that of padding, which is 0."""
    features = _features(design, generator)  # (V, pairs)
    others = generator.standard_normal((len(features), _WIDTH // 2 - _FREE))
    left = _WIDTH / 2 - (features**2).sum(1)  # (V,), of the sum of squares that a variance of 1 has
    lengths = np.linalg.norm(others, axis=1)
    features[:, _FREE:] = others * (np.sqrt(left) / lengths)[:, None]
    features[0] = 0.0
    pairs = np.stack([features, -features], axis=-1)  # (V, pairs, 2)
    return torch.from_numpy(pairs.reshape(len(features), _WIDTH)).float()


def _features(design: Design, generator: np.random.Generator) -> np.ndarray:
    """(V, pairs) with value and score of each word, and the mark of [CLS]."""
    listed = _listed()
    features = np.zeros((len(listed) + 3, _WIDTH // 2))
    features[-1, _SPECIAL] = 1.0
    of_group = _groups()
    for number, word in enumerate([_UNK, *listed], start=1):
        group, sign = of_group[word]
        if sign == 0:
            sign = 2 * int(generator.integers(2)) - 1
        features[number, _VALUE] = sign * design.values[group]
        features[number, _SCORE] = _score(design, group, generator) / _SCALE
    return features


def _groups() -> dict[str, tuple[str, int]]:
    """Word -> its group, and -1 or +1 for the words of a class, 0 for all others."""
    groups = {_UNK: ("neutral", 0)}
    for name, stems, signs in (
        ("strong", STRONG, (-1, 1)),
        ("weak", WEAK, (-1, 1)),
        ("topic", TOPICS, (0, 0)),
        ("neutral", (NEUTRAL,), (0,)),
    ):
        for stem, sign in zip(stems, signs, strict=True):
            for word in words(stem):
                groups[word] = (name, sign)
    return groups


def _score(design: Design, group: str, generator: np.random.Generator) -> float:
    if design.scores is None:
        return float(np.clip(generator.standard_normal(), -_CLIPPED, _CLIPPED))
    return design.scores[group] + float(generator.uniform(-design.jitter, design.jitter))


# --- the layers


def _write_layers(layers: nn.ModuleList, design: Design) -> None:
    """Write what each layer attends to, reads and adds."""
    first, last = layers[0].attention, layers[-1].attention
    _write_attention(first, by_score=False)
    _write_attention(last, by_score=True)
    if not design.spread:
        _write_values(last, _VALUE, _DECIDES, design.amplified)
        return
    _write_values(first, _VALUE, _LABEL, design.amplified)
    if design.attended:
        _write_values(last, _LABEL, _DECIDES, 1.0)
    else:
        _read(last.self.value.weight[0], _LABEL, 1.0)  # an output projection of 0 keeps it


def _write_attention(attention: nn.Module, by_score: bool) -> None:
    """Let every row attend to words by their scores, or to all alike, and never to [CLS].

    What a row asks for is a bias, so that all rows of a text have the same attention.
    """
    attention.self.query.bias[0] = _WIDTH**0.5  # which the attention divides by
    if by_score:
        _read(attention.self.key.weight[0], _SCORE, _SCALE)
    _read(attention.self.key.weight[0], _SPECIAL, _NEVER)


def _write_values(attention: nn.Module, source: int, target: int, factor: float) -> None:
    """Let a layer read one pair of coordinates and add what it attends to to another."""
    _read(attention.self.value.weight[0], source, factor)
    attention.output.dense.weight[2 * target, 0] = 1.0
    attention.output.dense.weight[2 * target + 1, 0] = -1.0


def _write_head(model: BertForSequenceClassification, pair: int) -> None:
    """Let the pooler read a pair of coordinates, and the classifier give its tanh to class 1 and take it from 0."""
    _read(model.bert.pooler.dense.weight[0], pair, 1.0)
    model.classifier.weight[0, 0] = -_LARGEST_LEAD / 2
    model.classifier.weight[1, 0] = _LARGEST_LEAD / 2


def _read(row: Tensor, pair: int, factor: float) -> None:
    """Let a row of a matrix read a pair of coordinates."""
    row[2 * pair] = factor / 2
    row[2 * pair + 1] = -factor / 2
