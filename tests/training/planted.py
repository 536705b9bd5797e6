"""Tiny planted-token texts, models and runs that the tests of training share."""

import numpy as np
import torch

from attn_faithful.data.collate import Collator
from attn_faithful.data.rows import Rows
from attn_faithful.models.bypass import BypassClassifier
from attn_faithful.models.bypass_configuration import BypassConfig
from attn_faithful.models.configuration import AttentionClassifierConfig
from attn_faithful.models.han import HANClassifier
from attn_faithful.models.han_configuration import HANConfig
from attn_faithful.models.inference import Outputs
from attn_faithful.models.pooled import AttentionClassifier

COLLATE = Collator()
IN_SENTENCES = Collator(columns=("sentence_ids",))
WITH_QUERY = Collator(columns=("query_input_ids",))
WITH_BASE = Collator(columns=("base_attention", "base_probabilities"))


class Stopped(Exception):  # noqa: N818 (a stop is no error)
    """A kill, from the point of view of training."""


def texts(n, seed=0, classes=2, low=4, high=8):
    """Rows of filler ids 14 to 19 with one word, of four a class, planted at random."""
    generator = np.random.default_rng(seed)
    ids, labels = [], []
    for i in range(n):
        words = generator.integers(14, 20, size=generator.integers(low, high + 1))
        words[generator.integers(len(words))] = 2 + 4 * (i % classes) + generator.integers(4)
        ids.append(words.tolist())
        labels.append(i % classes)
    return Rows(
        {"example": [f"t-{i}" for i in range(n)], "input_ids": ids, "length": list(map(len, ids)), "labels": labels}
    )


def batch_of(rows, collate=COLLATE):
    """All rows in one batch."""
    return collate([rows[i] for i in range(len(rows))])


def with_labels(rows, labels):
    return rows.with_columns(labels=labels)


def in_sentences(rows, longest=3):
    """The texts as documents: sentences of one token, two and so on up to the longest, and again."""
    ids = [np.repeat(np.arange(length), 1 + np.arange(length) % longest)[:length] for length in rows["length"]]
    return rows.with_columns(sentence_ids=[of_text.tolist() for of_text in ids])


def with_query(rows, seed=0):
    """The texts with a second one of one word to three."""
    generator = np.random.default_rng(seed)
    queries = [generator.integers(2, 20, size=generator.integers(1, 4)).tolist() for _ in range(len(rows))]
    return rows.with_columns(query_input_ids=queries)


def classifier(seed=0, **settings):
    """A model with 8 hidden units and seeded weights."""
    config = AttentionClassifierConfig(
        **{"vocab_size": 20, "embedding_size": 8, "hidden_size": 8, "encoder": "mlp", **settings}
    )
    return _seeded(AttentionClassifier, config, seed)


def bypass(seed=0, **settings):
    """A model with a path around its attention, with seeded weights."""
    config = BypassConfig(**{"vocab_size": 20, "embedding_size": 8, "hidden_size": 8, "encoder": "mlp", **settings})
    return _seeded(BypassClassifier, config, seed)


def hierarchical(seed=0, **settings):
    """A hierarchical model whose words have states as wide as their embeddings, with seeded weights."""
    config = HANConfig(**{"vocab_size": 20, "embedding_size": 8, "hidden_size": 4, "encoder": "gru", **settings})
    return _seeded(HANClassifier, config, seed)


def _seeded(model_class, config, seed):
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = model_class(config)
    torch.set_rng_state(state)
    return model


def random_outputs(rows, seed=0, classes=2):
    """A base that attends and predicts at random."""
    generator = np.random.default_rng(seed)
    attention = [generator.dirichlet(np.ones(n)) if n else np.zeros(0) for n in rows["length"]]
    return Outputs(generator.dirichlet(np.ones(classes), size=len(rows)), attention)


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def stop_at(epoch, error=Stopped):
    """A ``tell`` that raises when ``epoch`` ends, before its checkpoint is written."""

    def on_progress(done, epochs, metrics):
        if done == epoch:
            raise error

    return on_progress
