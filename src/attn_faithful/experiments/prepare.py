"""From a cell's settings to what a model reads: texts, tokenizer, encoded rows, word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attn_faithful._checks import InputError
from attn_faithful.data.collate import MODEL_COLUMNS, Collator
from attn_faithful.data.encoding import encode_texts
from attn_faithful.data.mask_token import with_mask_token
from attn_faithful.data.rows import Rows
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.tokenizer import train_tokenizer
from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
from attn_faithful.data.word_vectors import Vectors, load_vectors
from attn_faithful.experiments.recipe import Recipe, TokenizerSettings
from attn_faithful.models.architectures import FLAT, config_class, model_class
from attn_faithful.training.metrics import balanced_weights


@dataclass
class Prepared:
    """What a cell trains on.

    Attributes:
        texts: the data set; `rows` are its splits, encoded.
        tokenizer: fitted on the training split.
        config: of the model.
        vectors: (V, E) that the embeddings begin with; None for random ones.
        coverage: share of the vocabulary that the vector file holds; None without one.
    """

    texts: TextData
    rows: dict[str, Rows]
    tokenizer: Any
    config: Any
    vectors: torch.Tensor | None
    coverage: float | None


def prepare(recipe: Recipe, tokenizer: Any = None) -> Prepared:
    """Read, encode and check everything a cell needs, before any training.

    Args:
        recipe: of one cell.
        tokenizer: that of a model trained earlier; None fits one on the training split.

    Raises:
        InputError: what is wrong with the data, the vectors or the model's settings.
    """
    texts = load_texts(recipe.data)
    if tokenizer is None:
        tokenizer = _new_tokenizer(recipe.tokenizer, texts)
    if recipe.train.masking is not None:
        tokenizer = with_mask_token(tokenizer)
    settings = dict(recipe.model)
    kind = config_class(settings.pop("architecture", FLAT))
    max_length = _max_length(recipe, kind)
    sentences = model_class(kind).reads_sentences
    rows = {}
    for split, data in texts.splits.items():
        rows[split] = Rows.of(encode_texts(tokenizer, data, max_length, sentences))
    vectors = _vectors(recipe, tokenizer)
    if vectors is not None:
        size = vectors.matrix.shape[1]
        if settings.setdefault("embedding_size", size) != size:
            raise InputError(
                f"model.embedding_size is {settings['embedding_size']}, but the vectors of {recipe.vectors.path} have "
                f"{size} numbers; leave embedding_size out."
            )
    if recipe.data.multi_label:
        settings.setdefault("output", "multi_label")
    config = kind(
        vocab_size=len(tokenizer),
        id2label=dict(enumerate(texts.label_names)),
        label2id={name: i for i, name in enumerate(texts.label_names)},
        class_weights=_class_weights(recipe, rows["train"], texts),
        masking=recipe.train.masking,
        query="query" in texts.splits["train"].column_names,
        **settings,
    )
    check_tokenizer_fits(tokenizer, config.vocab_size, config.pad_token_id)
    if vectors is None:
        return Prepared(texts, rows, tokenizer, config, None, None)
    return Prepared(texts, rows, tokenizer, config, torch.from_numpy(vectors.matrix), vectors.coverage)


def _new_tokenizer(settings: TokenizerSettings, texts: TextData) -> Any:
    """A tokenizer of the words of the training split, of pairs of both texts."""
    train = texts.splits["train"]
    words = list(train["text"])
    if "query" in train.column_names:
        words += train["query"]
    return train_tokenizer(
        words,
        pre_tokenizer=settings.pre_tokenizer or texts.pre_tokenizer,
        min_df=settings.min_df,
        lowercase=settings.lowercase,
        digits=settings.digits,
        max_vocabulary=settings.max_vocabulary,
    )


def _max_length(recipe: Recipe, kind: Any) -> int | None:
    """Tokens that a text is cut after: those of the recipe, and at most the positions that the model learns."""
    max_length = recipe.tokenizer.max_length
    model = recipe.model
    if model.get("encoder") != "transformer" or model.get("positions") != "learned":
        return max_length
    positions: int = model.get("max_positions", kind.max_positions)
    return min(max_length or positions, positions)


def _vectors(recipe: Recipe, tokenizer: Any) -> Vectors | None:
    if recipe.vectors.path is None:
        return None
    return load_vectors(recipe.vectors.path, tokenizer, missing=recipe.vectors.missing)


def _class_weights(recipe: Recipe, train: Rows, texts: TextData) -> list[float] | None:
    weights = recipe.train.class_weights
    if weights is None:
        return None
    if weights != "balanced":
        return list(weights)
    labels = np.asarray(train.labels)
    if recipe.data.multi_label:
        return [_positive_weight(positive, len(labels)) for positive in labels.sum(0)]
    return balanced_weights(labels.tolist(), len(texts.label_names))


def _positive_weight(positive: int, texts: int) -> float:
    """The weight of a label's positive term: #negative / #positive; 1 where no text has the label."""
    return float((texts - positive) / positive) if positive else 1.0


def collator(rows: Rows, columns: tuple[str, ...] = (), pad_token_id: int = 0) -> Collator:
    """Makes batches of all that a model reads of the rows, with further columns."""
    read = [name for name in MODEL_COLUMNS if name in rows.column_names]
    return Collator(pad_token_id, (*read, *columns))
